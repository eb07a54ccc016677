"""Compaction, against a list of everything that was ever written."""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.compression import Codec
from refimpl.storage.log.recovery import open_log
from tests.refimpl.storage.cleaner.compacted import (
    CONFIG,
    FOLDER,
    RETENTION_MS,
    Compacted,
    Reader,
    check,
)

keys = st.sampled_from([b"a", b"b", b"c", b"d"])
values = st.none() | st.binary(min_size=1, max_size=30)
contents = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
producers = st.sampled_from([1, 2])


class Compaction(RuleBasedStateMachine):
    """Writers, a cleaner, readers and a clock, in any order."""

    @initialize(lag_ms=st.sampled_from([0, 0, 30]), segment_bytes=st.sampled_from([200, 400, 4000]))
    def start(self, lag_ms: int, segment_bytes: int) -> None:
        config = evolve(CONFIG, min_compaction_lag_ms=lag_ms, segment_bytes=segment_bytes)
        self.model = Compacted(config=config)
        self.readers: list[Reader] = []

    @rule(contents=contents, codec=st.sampled_from(Codec))
    def append(self, contents: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.model.append([*contents], codec)

    @rule(contents=contents, producer=st.sampled_from([7, 8]))
    def append_idempotent(self, contents: list[tuple[bytes, bytes | None]], producer: int) -> None:
        self.model.append([*contents], producer=producer)

    @rule(contents=contents, producer=producers)
    def append_in_transaction(
        self, contents: list[tuple[bytes, bytes | None]], producer: int
    ) -> None:
        self.model.append([*contents], producer=producer, transactional=True)

    @rule(contents=contents, producer=st.sampled_from([5, 6]), committed=st.booleans())
    def transact(
        self, contents: list[tuple[bytes, bytes | None]], producer: int, committed: bool
    ) -> None:
        self.model.append([*contents], producer=producer, transactional=True)
        self.model.end_transaction(producer, committed=committed)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data(), committed=st.booleans())
    def end_transaction(self, data: st.DataObject, committed: bool) -> None:
        producer = data.draw(st.sampled_from(sorted(self.model.open)))
        self.model.end_transaction(producer, committed=committed)

    @rule()
    def roll(self) -> None:
        self.model.roll()

    @rule(later_ms=st.sampled_from([1, 20, RETENTION_MS, 3 * RETENTION_MS]))
    def wait(self, later_ms: int) -> None:
        self.model.now_ms += later_ms

    @rule(room=st.sampled_from([4, 1_000]))
    def clean(self, room: int) -> None:
        before = self.model.clean_to
        self.model.clean(room)
        assert self.model.clean_to >= before

    @rule(later_ms=st.sampled_from([0, 40, 2 * RETENTION_MS]))
    def roll_and_clean(self, later_ms: int) -> None:
        self.model.roll()
        self.model.now_ms += later_ms
        self.model.clean()

    @rule()
    def begin_to_read(self) -> None:
        log = self.model.log
        self.readers.append(Reader(log.log_start_offset, self.model.now_ms))

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), max_bytes=st.sampled_from([1, 200, 10_000]))
    def read_on(self, data: st.DataObject, max_bytes: int) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        reader.poll(self.model.log, max_bytes)
        if reader.position < self.model.log.end_offset:
            return
        self.readers.remove(reader)
        if self.model.now_ms - reader.began_ms < RETENTION_MS:
            assert reader.state == self.model.state()

    @rule()
    def crash_and_recover(self) -> None:
        """Everything was flushed, so a start from nothing but the files finds the same."""
        model, old = self.model, self.model.log
        producers = {
            who: (one.epoch, one.last_sequence, one.first_offset)
            for who, one in old.producers.producers.items()
        }
        old.drop_snapshots(old.snapshots)
        model.log = open_log(
            model.disk,
            FOLDER,
            model.config,
            model.now_ms,
            clean=False,
            high_watermark=old.high_watermark,
        )
        assert model.log.end_offset == old.end_offset
        found = {
            who: (one.epoch, one.last_sequence, one.first_offset)
            for who, one in model.log.producers.producers.items()
        }
        assert found == producers

    @invariant()
    def everything_that_is_promised_holds(self) -> None:
        check(self.model, self.model.log)

    @invariant()
    def nothing_is_left_lying_about(self) -> None:
        assert isinstance(self.model.disk, MemoryDisk)
        assert not [name for name in self.model.disk.files if name.endswith((".cleaned", ".swap"))]


TestCompaction = Compaction.TestCase
