"""Kafka's own log files as a run: one process for each broker, one `dump` line for each batch.

It shows facts that a client cannot see: the records of each replica, epochs, sequences and markers.
A segment is mapped and read batch by batch, so a log of any size takes little memory.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from attrs import define, field, frozen

from refimpl.errors import CorruptBatch, CorruptFile, UnsupportedFormat
from refimpl.storage.format.batch import (
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    BatchHeader,
    crc_matches,
)
from refimpl.storage.format.control import read_marker
from refimpl.storage.format.legacy import records_at
from refimpl.storage.format.logfile import batches_of, mapped
from traces.importers.identify import Identify, identify
from traces.importers.replicas import Replica, replicas
from traces.importers.writer import Imported, add_to_run, write_run
from traces.model.problems import Problem, Problems
from traces.record.digest import digest
from traces.record.entries import Line
from traces.record.ids import text

LOST = (
    "what clients were told: acknowledgements, reads, commits",
    "when anything happened, beyond the records' timestamps",
    "the settings of topics, but for those given by --set",
)
_SEQUENCES = 1 << 31
DAMAGED = 1 << 32  # of a hash of damaged bytes; those of records have 32 bits


@frozen
class SegmentSettings:
    """Settings that the files do not contain; a user who knows them can give them."""

    id: str | None = None
    topics: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(factory=dict[str, Any])


def import_segments(
    folders: Iterable[Path], out: Path, known: SegmentSettings | None = None, *, into: bool = False
) -> Imported:
    """Make a run of these log directories, or add them to the run that is there."""
    known = known or SegmentSettings()
    imported, problems = Imported(lost=LOST), Problems()
    of: dict[tuple[int, str], Replica] = {}
    for found in replicas(folders, known.topics, problems):
        if isinstance(found, str):
            imported.skip(found)
        elif (key := (found.node, found.name)) in of:
            problems.add(found.name, None, "", f"broker {found.node} has two logs of it here")
        else:
            of[key] = found
    problems.raise_any()
    identified = identify(known.id)
    processes = {
        f"broker-{node}": _lines([r for r in of.values() if r.node == node], identified, imported)
        for node in sorted({replica.node for replica in of.values()})
    }
    topics = _topics(of.values(), known.settings)
    meta = {
        "source": "log directories of Kafka brokers",
        "senders": "some",  # none of them is here
        "topics": topics,
        "processes": list(processes),
    }
    try:
        if into:
            add_to_run(out, processes, topics, imported)
        else:
            write_run(out, processes, meta, imported)
    except UnsupportedFormat as newer:
        problems.add(newer.path, None, f"byte {newer.position}", newer.found)
    problems.raise_any()
    return imported


def _topics(found: Iterable[Replica], settings: Mapping[str, Any]) -> dict[str, Any]:
    copies: dict[str, dict[int, int]] = {}
    for replica in found:
        of = copies.setdefault(replica.topic, {})
        of[replica.partition] = of.get(replica.partition, 0) + 1
    return {
        topic: {
            "partitions": max(of) + 1,
            "replication_factor": max(of.values()),
            **settings,
        }
        for topic, of in sorted(copies.items())
    }


def _lines(found: Iterable[Replica], identified: Identify, imported: Imported) -> Iterator[Line]:
    for replica in found:
        yield from _Dump(replica, identified, imported).lines()
    yield {"op": "close", "outcome": "ok"}


@define
class _Dump:
    """One log on its way into the trace."""

    replica: Replica
    identified: Identify
    imported: Imported
    end: int = 0
    epoch: int = NO_EPOCH

    def lines(self) -> Iterator[Line]:
        """A line for each batch, and at last one for the log."""
        self.end = self.replica.log_start
        segments = self.replica.segments
        for number, path in enumerate(segments):
            if not (yield from self._segment(path)):
                for unread in segments[number + 1 :]:
                    self._warn(str(unread), 0, "is not read: recovery would remove it")
                break
        name = self.replica.name
        fields: Line = {"offsets": {name: self.end}, "log_start": {name: self.replica.log_start}}
        if self.replica.high_watermark is None:
            of = f"{name} of broker {self.replica.node}"
            self._warn(of, None, "no checkpoint tells its high watermark")
        else:
            fields["high_watermark"] = {name: min(self.replica.high_watermark, self.end)}
        if self.epoch != NO_EPOCH:
            fields["leader_epochs"] = {name: self.epoch}
        yield self._line(fields)

    def _segment(self, path: Path) -> Generator[Line, None, bool]:
        """The batches of a segment; whether the log goes on behind it."""
        data, position = mapped(path), 0
        found = "what stands here is no whole batch"
        try:
            for position, header in batches_of(path, data):
                whole = crc_matches(data, header, position)
                if not whole and self._after_a_crash(header.base_offset):
                    found = "the checksum of a batch does not match its bytes"
                    break
                yield from self._batch(path, data, position, header, whole=whole)
                self.end, self.epoch = header.next_offset, header.leader_epoch
                position += header.size
        except CorruptFile as damage:
            position, found = damage.position, damage.found
        if position == len(data):
            return True
        torn = self._after_a_crash(self.end) or path == self.replica.segments[-1]
        fate = "recovery would cut off" if torn else "nobody can read"
        self._warn(str(path), position, f"{found}; {fate} {len(data) - position} bytes")
        return not self._after_a_crash(self.end)

    def _after_a_crash(self, offset: int) -> bool:
        """True if the broker crashed and its recovery point is not above this offset."""
        safe = self.replica.safe_until
        return safe is not None and offset >= safe

    def _batch(
        self, path: Path, data: memoryview, position: int, header: BatchHeader, *, whole: bool
    ) -> Iterator[Line]:
        fields: Line = {}
        if header.producer_id != NO_PRODUCER:
            fields |= {"producer_id": header.producer_id, "producer_epoch": header.producer_epoch}
        if header.is_transactional:
            fields["transactional"] = True
        try:
            if not whole:
                raise CorruptBatch("the checksum of a batch does not match its bytes")
            if header.is_control:
                marker = read_marker(data, position)
                if marker is None:
                    self.imported.skip("control batches that are no markers of transactions")
                    return
                fields["control"] = "commit" if marker.committed else "abort"
            yield self._line(fields | {"records": self._records(data, position, header)})
        except CorruptBatch as corrupt:
            self._warn(str(path), position, corrupt.why)
            raw = bytes(data[position : position + header.size])
            yield self._line({"error": "CORRUPT_MESSAGE", "records": self._damaged(header, raw)})

    def _records(self, data: memoryview, position: int, header: BatchHeader) -> list[Line]:
        return [
            self._record(header, one.offset, one.timestamp)
            | _known(
                hash=digest(one.value, one.key, one.headers),
                key=None if header.is_control else text(one.key),
                id=None if header.is_control else self.identified(one.key, one.value, one.headers),
                tombstone=None if header.is_control else one.value is None,
                sequence=_sequence(header, one.offset),
            )
            for one in records_at(data, position, header)
        ]

    def _damaged(self, header: BatchHeader, raw: bytes) -> list[Line]:
        """The records that a batch should hold, each with a hash that nothing else has."""
        if not 0 <= header.last_offset_delta <= len(raw):
            return []
        return [
            self._record(header, offset, header.max_timestamp)
            | {"hash": DAMAGED | crc32(raw, offset)}
            for offset in range(header.base_offset, header.next_offset)
        ]

    def _record(self, header: BatchHeader, offset: int, timestamp: int) -> Line:
        epoch = None if header.leader_epoch == NO_EPOCH else header.leader_epoch
        stamped = None if timestamp < 0 else timestamp
        located: Line = {"topic": self.replica.topic, "partition": self.replica.partition}
        return located | {"offset": offset} | _known(timestamp=stamped, epoch=epoch)

    def _line(self, fields: Line) -> Line:
        line: Line = {"op": "dump", "outcome": "ok", "replica": self.replica.node, **fields}
        if self.replica.topic_id is not None:
            line["topic_ids"] = {self.replica.topic: self.replica.topic_id}
        return line

    def _warn(self, file: str, position: int | None, found: str) -> None:
        where = "" if position is None else f"byte {position}"
        self.imported.warnings.append(Problem(file, None, where, found))


def _sequence(header: BatchHeader, offset: int) -> int | None:
    if header.base_sequence == NO_SEQUENCE:
        return None
    return (header.base_sequence + offset - header.base_offset) % _SEQUENCES


def _known(**values: Any) -> Line:
    return {name: value for name, value in values.items() if value is not None}
