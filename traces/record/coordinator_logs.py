"""Records of coordinators: reading their topics, and the partition of a name."""

import struct
import time
from collections.abc import Iterator
from typing import Any

from refimpl.java_hash import string_hash
from traces.record.process import now
from traces.record.scan import Library, next_messages

MARGIN_MS = 1_000
PATIENCE_S = 30
SHORT = struct.Struct(">h")


def since_ms(began_ns: int | None) -> int | None:
    """The time of day when a run began, with some margin; None: nobody knows."""
    if began_ns is None:
        return None
    return int(time.time() * 1000 - (now() - began_ns) / 1e6) - MARGIN_MS


def messages(
    reader: Any, used: Library, topic: str, number: int, since: int | None
) -> Iterator[Any]:
    """The records of one partition up to its end, since this time."""
    first, end = reader.get_watermark_offsets(used.partition(topic, number), timeout=PATIENCE_S)
    if since is not None:
        asked = used.partition(topic, number, since)
        (answer,) = reader.offsets_for_times([asked], timeout=PATIENCE_S)
        first = answer.offset if answer.offset >= 0 else end
    reader.assign([used.partition(topic, number, first)])
    quiet = now()
    while _position(reader, used, topic, number, first) < end:
        for message in next_messages(reader):
            quiet = now()
            if message.error() is None and message.offset() < end:
                yield message
        if now() - quiet > PATIENCE_S * 1e9:
            raise TimeoutError(f"{topic}:{number} ends at {end}, and could not be read so far")


def _position(reader: Any, used: Library, topic: str, number: int, first: int) -> int:
    (at,) = reader.position([used.partition(topic, number)])
    return max(at.offset, first)


def string(data: bytes, at: int) -> tuple[str, int]:
    """A string there, and where it ends."""
    (size,) = SHORT.unpack_from(data, at)
    at += SHORT.size
    return data[at : at + size].decode(), at + size


def partition_of(name: str, partitions: int) -> int:
    """The partition of a group or a transactional id: the absolute value of Java's hash of it.

    As in Kafka, the one number whose absolute value does not fit counts as zero.
    """
    return abs(string_hash(name)) % 2**31 % partitions
