"""A compacted log beside a plain list of everything that was ever written to it."""

from collections.abc import Iterator

from attrs import define, evolve, field, frozen

from refimpl.machines.replica_log import Origin
from refimpl.storage.cleaner.compaction import Cleaned, compact
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Disk, MemoryDisk
from refimpl.storage.format.batch import Record, batches, decode_records, encode_batch
from refimpl.storage.format.checkpoints import Partition
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.control import EndTxnMarker, encode_marker, read_marker
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.recovery import open_log
from tests.refimpl.storage.verified import append_verified

PARTITION: Partition = ("orders", 0)
FOLDER = "orders-0"
RETENTION_MS = 100
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=400,
    index_interval_bytes=100,
    delete_retention_ms=RETENTION_MS,
    file_delete_delay_ms=0,
    message_timestamp_after_max_ms=2**62,
)


@frozen
class Written:
    """A record that was appended, and what became of its transaction."""

    record: Record
    producer: int = -1
    committed: bool | None = True


@define
class Compacted:
    """The log, the list, and the clock that both go by."""

    disk: Disk = field(factory=MemoryDisk)
    config: LogConfig = CONFIG
    now_ms: int = 1_000
    clean_to: int = 0
    written: list[Written] = field(factory=list[Written])
    sequences: dict[int, int] = field(factory=dict[int, int])
    open: set[int] = field(factory=set[int])
    #: When the cleaner first met a tombstone that was the newest of its key.
    met_ms: dict[int, int] = field(factory=dict[int, int])
    log: PartitionLog = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.disk.make_folder(FOLDER)
        self.log = open_log(self.disk, FOLDER, self.config, self.now_ms, clean=False)

    def append(
        self,
        contents: list[tuple[bytes | None, bytes | None]],
        codec: Codec = Codec.NONE,
        producer: int = -1,
        transactional: bool = False,
    ) -> None:
        """A batch of keys and values; in a transaction, it is undecided for now.

        Records without a key were written before the topic was compacted.
        """
        end = self.log.end_offset
        records = [Record(n, self.now_ms, key, value) for n, (key, value) in enumerate(contents)]
        first = self.sequences.get(producer, 0)
        data = encode_batch(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            base_sequence=-1 if producer < 0 else first,
            transactional=transactional,
        )
        if any(record.key is None for record in records):
            before = evolve(self.config, cleanup_policy=frozenset({"delete"}))
            self.log.local.configure(before)
        append_verified(self.log, data, 0, self.now_ms)
        self.log.local.configure(self.config)
        self.log.advance_high_watermark(self.log.end_offset)
        if producer >= 0:
            self.sequences[producer] = first + len(records)
        if transactional:
            self.open.add(producer)
        undecided = None if transactional else True
        self.written += [
            Written(evolve(one, offset=end + one.offset), producer, undecided) for one in records
        ]

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        marker = encode_marker(
            EndTxnMarker(committed, 0),
            producer_id=producer,
            producer_epoch=0,
            timestamp=self.now_ms,
        )
        self.log.append_as_leader(marker, 0, self.now_ms, Origin.COORDINATOR)
        self.log.advance_high_watermark(self.log.end_offset)
        self.open.discard(producer)
        self.written = [
            evolve(one, committed=committed)
            if one.producer == producer and one.committed is None
            else one
            for one in self.written
        ]

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def clean(self, room: int = 1_000) -> Cleaned:
        """One round, as the cleaner does it."""
        before = self.clean_to
        done = compact(self.log, before, self.now_ms, room=room)
        self.clean_to = done.end_offset
        for one in self.newest().values():
            if one.record.value is None and one.record.offset < self.clean_to:
                self.met_ms.setdefault(one.record.offset, self.now_ms)
        return done

    def newest(self) -> dict[bytes, Written]:
        """The newest record of each key that counts."""
        counted = [one for one in self.written if one.committed and one.record.key is not None]
        return {one.record.key: one for one in counted if one.record.key is not None}

    def state(self) -> dict[bytes, bytes]:
        """The keys that have a value now."""
        return {
            k: one.record.value for k, one in self.newest().items() if one.record.value is not None
        }


@define
class Reader:
    """A consumer that reads committed records from the log's start, a fetch at a time."""

    position: int
    began_ms: int
    state: dict[bytes, bytes] = field(factory=dict[bytes, bytes])

    def poll(self, log: PartitionLog, max_bytes: int) -> None:
        """Fetch once and apply what was fetched; skips what is compacted away."""
        end = log.last_stable_offset
        for record, next_offset in committed_records(log, self.position, max_bytes):
            self.position = next_offset
            if record is None or record.key is None:
                continue
            if record.value is None:
                self.state.pop(record.key, None)
            else:
                self.state[record.key] = record.value
        if not log.read(self.position, 1, end):
            self.position = max(self.position, end)


def committed_records(
    log: PartitionLog, position: int, max_bytes: int = 1 << 30
) -> Iterator[tuple[Record | None, int]]:
    """Read as a consumer does by KIP-98: each record, or None, and the position to go on from."""
    end = log.last_stable_offset
    data = whole(log.read(position, max_bytes, end))
    aborted = sorted(log.aborted_transactions(position, end))
    dropped: set[int] = set()
    for at, header in batches(data):
        while aborted and aborted[0].first_offset <= header.last_offset:
            dropped.add(aborted.pop(0).producer_id)
        if header.is_control:
            marker = read_marker(data, at)
            if marker is not None and not marker.committed:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            for record in decode_records(data, at):
                if record.offset >= position:
                    yield record, record.offset + 1
        yield None, header.next_offset


def all_committed_records(log: PartitionLog) -> Iterator[tuple[Record | None, int]]:
    """Fetch after fetch, to the end."""
    position = log.log_start_offset
    while log.read(position, 1, log.last_stable_offset):
        for record, next_offset in committed_records(log, position):
            position = next_offset
            yield record, position


def whole(data: bytes) -> bytes:
    """A fetch may end within a batch."""
    position = 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12])
        if position + size > len(data):
            break
        position += size
    return data[:position]


def held(log: PartitionLog) -> list[Record]:
    """Every data record that is left, whatever became of its transaction."""
    found: list[Record] = []
    for segment in log.local.segments:
        data = segment.disk.read(segment.path, 0, segment.size)
        for at, header in batches(data):
            if not header.is_control:
                found += decode_records(data, at)
    return found


def check(model: Compacted, log: PartitionLog) -> None:
    """Assert everything that is true of a compacted log at any time."""
    records = {record.offset: record for record in held(log)}
    assert list(records) == sorted(records), "offsets stay in order"
    originals = {one.record.offset: one for one in model.written}
    for offset, record in records.items():
        assert record == originals[offset].record, "a record is never changed"
    for key, one in model.newest().items():
        if one.record.value is not None:
            assert one.record.offset in records, f"the newest value of {key!r} is lost"
    for one in model.written:
        if one.record.offset >= model.clean_to:
            assert one.record.offset in records, "what is not cleaned yet stays"
    check_tombstones(model, records)
    check_indexes(log)
    seen = [record for record, _ in all_committed_records(log) if record]
    undecided = log.last_stable_offset
    for record in seen:
        assert originals[record.offset].committed, "a reader of committed records sees an aborted"
    expected = {o for o in records if originals[o].committed and o < undecided}
    assert {record.offset for record in seen} == expected, "a reader misses committed records"
    state: dict[bytes, bytes] = {}
    for record in seen:
        if record.key is not None and record.value is not None:
            state[record.key] = record.value
        elif record.key is not None:
            state.pop(record.key, None)
    before = [one for one in model.written if one.record.offset < undecided]
    assert state == state_of(before), "whoever reads it all knows the newest values"


def state_of(written: list[Written]) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for one in written:
        key, value = one.record.key, one.record.value
        if not one.committed or key is None:
            continue
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


def check_indexes(log: PartitionLog) -> None:
    for segment in log.local.segments:
        batch_at = dict(segment.headers())
        index = segment.offset_index.file
        for relative, at in (index.get(number) for number in range(index.count)):
            assert batch_at[at].last_offset == segment.base_offset + relative, "a stale index"


def check_tombstones(model: Compacted, records: dict[int, Record]) -> None:
    for key, one in model.newest().items():
        offset = one.record.offset
        if one.record.value is None and offset not in records:
            met = model.met_ms.get(offset)
            assert met is not None, f"the tombstone of {key!r} went before it was seen"
            assert model.now_ms >= met + RETENTION_MS, f"the tombstone of {key!r} went too early"
            older = [o for o, r in records.items() if r.key == key and o < offset]
            aborted = [
                o
                for o in older
                if not next(w for w in model.written if w.record.offset == o).committed
            ]
            assert older == aborted, f"{key!r} came back to life"
