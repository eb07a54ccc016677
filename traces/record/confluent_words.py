"""confluent-kafka's forms of errors, partitions, offsets and members."""

import struct
from collections.abc import Iterable
from typing import Any

from traces.record.errors import NAMES
from traces.record.wrapper import Fields

# How librdkafka writes down a group's metadata: a magic word, the generation, then names.
_GROUP_METADATA = struct.Struct("=7si")


def error_of(error: Any) -> tuple[int | None, str]:
    """The code and the name of what librdkafka raised or reported."""
    inner: Any = error
    if isinstance(error, Exception) and error.args:
        inner = error.args[0]
    if callable(getattr(inner, "code", None)):
        code = inner.code()
        return code, NAMES.get(code) or inner.name()
    if isinstance(error, BufferError):
        return None, "_QUEUE_FULL"
    return None, type(error).__name__


def member(metadata: Any) -> Fields:
    """Group, member and generation, from what the client hands around as opaque."""
    if not isinstance(metadata, bytes) or len(metadata) < _GROUP_METADATA.size:
        return {}
    magic, generation = _GROUP_METADATA.unpack_from(metadata)
    if magic != b"CGMDv2:":
        return {}
    group, _, rest = metadata[_GROUP_METADATA.size :].partition(b"\0")
    member = rest.partition(b"\0")[0].decode("utf-8", "replace")
    fields: Fields = {"group": group.decode("utf-8", "replace")}
    if member:
        fields["member"] = member
    return fields | ({"generation": generation} if generation >= 0 else {})


def names(partitions: Iterable[Any]) -> list[str]:
    """Partitions as the trace names them."""
    return [f"{p.topic}:{p.partition}" for p in partitions]


def offsets_of(partitions: Iterable[Any]) -> dict[str, int]:
    """Those that name an offset; librdkafka's negative ones mean *none* or *wherever I am*."""
    return {f"{p.topic}:{p.partition}": p.offset for p in partitions if p.offset >= 0}
