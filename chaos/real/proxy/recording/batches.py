"""The records of a batch as lines of a trace, with ids that are the same where it is read.

A proxy adds no header. The id of a record is made of what stays with it from the producer to each
reader: its place in the session of an idempotent producer, or else its content, its creation time
and its place in the batch. Records of formats v0 and v1 get none: brokers convert them.
"""

from collections.abc import Iterator
from hashlib import blake2b

from refimpl.storage.format.batch import (
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    TimestampType,
    decode_records,
    read_header,
)
from refimpl.storage.format.legacy import records_at
from traces.record.digest import digest
from traces.record.entries import Line
from traces.record.ids import text

_SEQUENCES = 1 << 31
_POSITIVE = (1 << 63) - 1


def is_numbered(header: BatchHeader) -> bool:
    """True if an idempotent producer has numbered the records."""
    return header.producer_id != NO_PRODUCER and header.base_sequence != NO_SEQUENCE


def is_stamped(header: BatchHeader) -> bool:
    """True if a broker has replaced the times of the records (LogAppendTime)."""
    return header.timestamp_type is TimestampType.LOG_APPEND_TIME


def batches_in(data: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; a fetch may end in the middle of one."""
    position = 0
    while len(data) - position > MAGIC:
        if len(data) - position < 12 + int.from_bytes(data[position + 8 : position + 12]):
            return
        header = read_header(data, position)
        yield position, header
        position += header.size


def sent(topic: str, partition: int, data: memoryview, *, stamped: bool | None) -> list[Line]:
    """The records of a Produce request's batch.

    `stamped` says whether the broker will replace their times. While that is not known, records
    that nobody has numbered have no id.
    """
    return [
        line
        for position, header in batches_in(data)
        for _, line in _lines(topic, partition, data, position, header, stamped)
    ]


def fetched(
    topic: str, partition: int, data: memoryview, position: int, header: BatchHeader, since: int
) -> list[Line]:
    """The records of a fetched batch from an offset on, as a reader is given them."""
    epoch = {} if header.leader_epoch == NO_EPOCH else {"epoch": header.leader_epoch}
    return [
        line | {"offset": offset} | epoch
        for offset, line in _lines(topic, partition, data, position, header, is_stamped(header))
        if offset >= since
    ]


def _lines(
    topic: str,
    partition: int,
    data: memoryview,
    position: int,
    header: BatchHeader,
    stamped: bool | None,
) -> Iterator[tuple[int, Line]]:
    """Each record of a batch with its offset; this is paid for with every record."""
    if header.magic == MAGIC:
        records = decode_records(data, position)
    else:
        records = iter(records_at(data, position, header))
    numbered = is_numbered(header)
    named = header.magic == MAGIC and (numbered or stamped is not None)
    place = b"%s\0%d" % (topic.encode(), partition)
    base = _session(place, header) if numbered else 0
    first, offset_0 = header.base_sequence, header.base_offset
    for one in records:
        offset, key, stamp = one.offset, one.key, one.timestamp
        line: Line = {
            "topic": topic,
            "partition": partition,
            "tombstone": one.value is None,
            "hash": digest(one.value, key, one.headers),
        }
        if numbered:
            sequence = (first + offset - offset_0) % _SEQUENCES
            line["id"], line["sequence"] = base + sequence & _POSITIVE, sequence
        elif named:
            line["id"] = _content(place, offset - offset_0, -1 if stamped else stamp, one)
        if key is not None:
            line["key"] = text(key)
        if stamp >= 0:
            line["timestamp"] = stamp
        yield offset, line


def _session(place: bytes, header: BatchHeader) -> int:
    """The number from which the ids of a producer's records in a partition are counted."""
    named = b"%s %d %d" % (place, header.producer_id, header.producer_epoch)
    return int.from_bytes(blake2b(named, digest_size=8).digest()) & _POSITIVE


def _content(place: bytes, delta: int, stamp: int, one: Record) -> int:
    """The number that stands for a record by what it holds."""
    parts = [b"%s %d %d " % (place, delta, stamp)]
    for part in (one.key, one.value):
        parts += (b"-",) if part is None else (b"%d " % len(part), part)
    for name, value in one.headers:
        parts.append(b"%d %s" % (len(name), name.encode()))
        parts += (b"-",) if value is None else (b"%d " % len(value), value)
    found = blake2b(b"".join(parts), digest_size=8).digest()
    return int.from_bytes(found) & _POSITIVE
