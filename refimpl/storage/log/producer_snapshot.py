"""`.snapshot`: producer state up to the offset that names the file, in Kafka's version 1.

One is written at each roll and at a clean shutdown, so that a start replays one segment and not the
whole log.
"""

from struct import Struct

from crc32c import crc32c

from refimpl.errors import CorruptFile, UnsupportedFormat
from refimpl.machines.producer import NONE, Producer, SeenBatch
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.disk.interface import Disk, read_file, replace_file

_VERSION = 1
_HEADER = Struct(">hI")
_COUNT = Struct(">i")
#: producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch,
#: first offset of the open transaction
_ENTRY = Struct(">qhiqiqiq")


def write_snapshot(disk: Disk, path: str, state: ProducerState) -> None:
    """Write all producers, so that a crash leaves the whole file or none."""
    replace_file(disk, path, snapshot_of(state))


def snapshot_of(state: ProducerState) -> bytes:
    """The content of a snapshot."""
    entries = b"".join(_pack(number, producer) for number, producer in state.producers.items())
    body = _COUNT.pack(len(state.producers)) + entries
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def read_snapshot(disk: Disk, path: str, now_ms: int | None = None) -> ProducerState:
    """The producer state of a snapshot; the time until each producer expires begins now."""
    data = read_file(disk, path)
    start = _HEADER.size + _COUNT.size
    if len(data) < start:
        raise CorruptFile(path, len(data), f"the end, within a header of {start} bytes")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise UnsupportedFormat(path, 0, f"a snapshot of version {version}, not {_VERSION}")
    if crc32c(memoryview(data)[_HEADER.size :]) != crc:
        raise CorruptFile(path, 2, "a CRC that the rest does not have")
    (count,) = _COUNT.unpack_from(data, _HEADER.size)
    if len(data) - start != count * _ENTRY.size:
        raise CorruptFile(path, start, f"not the {count} producers that are promised")
    return ProducerState(
        dict(_unpack(data, start + number * _ENTRY.size, now_ms) for number in range(count))
    )


def _pack(producer_id: int, producer: Producer) -> bytes:
    last = producer.seen[-1] if producer.seen else None
    return _ENTRY.pack(
        producer_id,
        producer.epoch,
        producer.last_sequence,
        last.last_offset if last else -1,
        last.last_offset - last.first_offset if last else 0,
        producer.timestamp_ms,
        producer.coordinator_epoch,
        producer.first_offset,
    )


def _unpack(data: bytes, position: int, now_ms: int | None) -> tuple[int, Producer]:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator, first = _ENTRY.unpack_from(
        data, position
    )
    producer = Producer(epoch, coordinator, max(first, NONE), now_ms, timestamp)
    if offset >= 0:
        first_sequence = (sequence - delta) % (1 << 31) if sequence >= 0 else sequence
        seen = SeenBatch(first_sequence, sequence, offset - delta, offset, timestamp)
        producer.seen.append(seen)
    return producer_id, producer
