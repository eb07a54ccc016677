"""The files beside a log as DumpLogSegments prints them, each held against its log."""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from crc32c import crc32c

from refimpl.dump.batches import optional_long
from refimpl.dump.findings import Findings
from refimpl.errors import CorruptFile, UnsupportedFormat
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import BatchHeader
from refimpl.storage.format.legacy import records_at
from refimpl.storage.format.logfile import base_offset_of, batches_of, mapped, placed_at

_OFFSET_ENTRY, _TIME_ENTRY, _ABORTED = Struct(">ii"), Struct(">qi"), Struct(">hqqqq")
_SNAPSHOT, _PRODUCER = Struct(">hIi"), Struct(">qhiqiqiq")
_CRC_FROM, _SEQUENCES = 6, 1 << 31


def offset_index_lines(
    path: Path, findings: Findings, *, sanity: bool, silent: bool
) -> Iterator[str]:
    """The entries of an offset index; each must name the last offset of the batch it points to."""
    base, entries = base_offset_of(path), _entries(path, _OFFSET_ENTRY)
    log = mapped(path.with_suffix(".log"))
    if not entries:
        yield f"{path} is empty."
        return
    if sanity:
        _sane(path, _OFFSET_ENTRY, base + entries[-1][0], base)
        yield f"{path} passed sanity check."
        return
    for number, (relative, position) in enumerate(entries):
        if relative == 0 and number > 0:
            return  # the zeros of a preallocated file that a crash left behind
        found = _batch_at(path, log, position, number)
        if found.last_offset != base + relative:
            findings.wrong_offsets[path.absolute()].append((base + relative, found.last_offset))
        if not silent:
            yield f"offset: {base + relative} position: {position}"


def _batch_at(path: Path, log: Buffer, position: int, number: int) -> BatchHeader:
    at = number * _OFFSET_ENTRY.size
    if not 0 <= position < len(log):
        where = f"position {position}, and the log has {len(log)} bytes"
        raise CorruptFile(str(path), at, where)
    try:
        return next(batches_of(path.with_suffix(".log"), log, position))[1]
    except StopIteration:
        raise CorruptFile(str(path), at, f"no batch at byte {position} of the log") from None


def time_index_lines(
    path: Path, findings: Findings, *, sanity: bool, silent: bool
) -> Iterator[str]:
    """The entries of a time index; each must name the largest timestamp of the batch it names."""
    base, entries = base_offset_of(path), _entries(path, _TIME_ENTRY)
    if sanity:
        if entries and entries[-1][0] < entries[0][0]:
            raise CorruptFile(str(path), 0, "the last timestamp is below the first")
        _sane(path, _TIME_ENTRY, base + entries[-1][1] if entries else base, base)
        yield f"{path} passed sanity check."
        return
    positions = [(base, 0)]
    positions += [(base + o, p) for o, p in _entries(path.with_suffix(".index"), _OFFSET_ENTRY)]
    log = mapped(path.with_suffix(".log"))
    previous = -1
    for number, (timestamp, relative) in enumerate(entries):
        if relative == 0 and number > 0:
            return
        offset = base + relative
        start = max((entry for entry in positions if entry[0] <= offset), default=(0, 0))[1]
        if not 0 <= start <= len(log):
            index = str(path.with_suffix(".index"))
            raise CorruptFile(index, 0, f"position {start}, and the log has {len(log)} bytes")
        _hold_against(path, findings, log, start, (timestamp, offset), previous)
        if not silent:
            yield f"timestamp: {timestamp} offset: {offset}"
        previous = timestamp


def _hold_against(
    path: Path,
    findings: Findings,
    log: Buffer,
    start: int,
    entry: tuple[int, int],
    previous: int,
) -> None:
    timestamp, offset = entry
    log_path, whole = path.with_suffix(".log"), path.absolute()
    found = (b for b in batches_of(log_path, log, start) if b[1].last_offset >= offset)
    position, header = next(found, (0, None))
    if header is None or header.last_offset != offset:
        last = -1 if header is None else header.last_offset
        findings.lost_offsets[whole].append((offset, last))
        return
    with placed_at(log_path, position):
        records = records_at(log, position, header)
        largest = max((record.timestamp for record in records), default=-1)
    if largest != timestamp:
        findings.wrong_timestamps[whole].append((timestamp, largest))
    if previous >= timestamp:
        findings.late_timestamps[whole].append((timestamp, previous))


def transaction_index_lines(path: Path) -> Iterator[str]:
    """The aborted transactions that a segment knows of."""
    data = path.read_bytes()
    for at in range(0, len(data), _ABORTED.size):
        if len(data) - at < _ABORTED.size:
            raise CorruptFile(str(path), at, f"{len(data) - at} bytes, not {_ABORTED.size}")
        version, producer, first, last, stable = _ABORTED.unpack_from(data, at)
        if version > 0:
            raise UnsupportedFormat(str(path), at, f"version {version}, only 0 is known")
        yield (
            f"version: {version} producerId: {producer} firstOffset: {first}"
            f" lastOffset: {last} lastStableOffset: {stable}"
        )


def snapshot_lines(path: Path) -> Iterator[str]:
    """A producer's entry in a snapshot."""
    data = path.read_bytes()
    if len(data) < _SNAPSHOT.size:
        raise CorruptFile(str(path), 0, f"{len(data)} bytes, less than a snapshot's header")
    version, crc, count = _SNAPSHOT.unpack_from(data)
    if version != 1:
        raise UnsupportedFormat(str(path), 0, f"version {version}, only 1 is known")
    if crc32c(data[_CRC_FROM:]) != crc:
        raise CorruptFile(str(path), 2, "the snapshot's CRC does not match")
    if len(data) != _SNAPSHOT.size + count * _PRODUCER.size:
        raise CorruptFile(str(path), 6, f"{count} producers do not fit into {len(data)} bytes")
    for entry in _PRODUCER.iter_unpack(data[_SNAPSHOT.size :]):
        yield _producer_line(*entry)


def _producer_line(
    producer: int,
    epoch: int,
    sequence: int,
    offset: int,
    delta: int,
    timestamp: int,
    coordinator: int,
    first: int,
) -> str:
    line = (
        f"producerId: {producer} producerEpoch: {epoch} coordinatorEpoch: {coordinator}"
        f" currentTxnFirstOffset: {optional_long(first if first >= 0 else None)}"
        f" lastTimestamp: {timestamp}"
    )
    if offset < 0:
        return line
    return (
        f"{line} firstSequence: {(sequence - delta) % _SEQUENCES} lastSequence: {sequence}"
        f" lastOffset: {offset} offsetDelta: {delta} timestamp: {timestamp}"
    )


def _entries(path: Path, entry: Struct) -> list[tuple[int, ...]]:
    data = path.read_bytes()
    return list(entry.iter_unpack(data[: len(data) // entry.size * entry.size]))


def _sane(path: Path, entry: Struct, last: int, base: int) -> None:
    size = path.stat().st_size
    if last < base:
        raise CorruptFile(str(path), size, f"the last offset, {last}, is below the base, {base}")
    if size % entry.size:
        raise CorruptFile(str(path), size, f"entries have {entry.size} bytes, and some are left")
