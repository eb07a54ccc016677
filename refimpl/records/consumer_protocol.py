"""Messages between members of a classic group: subscriptions and assignments.

The broker keeps both as bytes. A newer version only adds fields at the end, so it is read as the
newest that we know.
"""

from typing import Annotated, TypeVar

from attrs import frozen

from refimpl.errors import CorruptBatch
from refimpl.records.schema import (
    BYTES,
    INT16,
    INT32,
    STRING,
    Numbers,
    RecordReader,
    Text,
    Texts,
    read,
    since,
    write,
)

T = TypeVar("T")


@frozen
class OwnedTopic:
    """Partitions of a topic."""

    topic: Text
    partitions: Numbers


@frozen(kw_only=True)
class Subscription:
    """A member's subscribed topics, and the partitions that it owns (KIP-429, KIP-792, KIP-881)."""

    topics: Texts
    user_data: Annotated[bytes | None, BYTES] = None
    owned_partitions: Annotated[tuple[OwnedTopic, ...], since(1)] = ()
    generation_id: Annotated[int, INT32, since(2)] = -1
    rack_id: Annotated[str | None, STRING, since(3)] = None


@frozen(kw_only=True)
class ConsumerProtocolAssignment:
    """The partitions assigned to a member."""

    assigned_partitions: tuple[OwnedTopic, ...]
    user_data: Annotated[bytes | None, BYTES] = None


def read_versioned(schema: type[T], data: bytes) -> tuple[T, int]:
    """The message that follows a version number, and that number."""
    reader = RecordReader(data)
    version = reader.number(INT16)
    if version < 0:
        raise CorruptBatch(f"version {version} of {schema.__name__}")
    return read(schema, reader, version), version


def write_versioned(message: Subscription | ConsumerProtocolAssignment, version: int) -> bytes:
    """The message in a version, after the version number."""
    return INT16.packing.pack(version) + write(message, version)
