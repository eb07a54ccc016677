"""The share coordinator's shard: what it writes, and what a replay of that comes to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.coordinator.operation import Outcome
from refimpl.errors import Refusal
from refimpl.messages import share as m
from refimpl.records.coordinators import (
    SHARE_RECORDS,
    CoordinatorRecord,
    read_record,
    write_record,
)
from refimpl.records.schema import Uuid
from refimpl.shares.config import ShareConfig
from refimpl.shares.shard import COLD, SNAPSHOT, ShareShard, name_of

KEY = m.ShareKey("g", Uuid(b"topic".ljust(16, b"-")), 3)


class Written:
    """A shard, and the records that its operations wrote, as bytes."""

    def __init__(self, updates: int = 2) -> None:
        self.shard = ShareShard(ShareConfig(snapshot_updates=updates))
        self.records = list[tuple[bytes, bytes | None]]()

    def ask(self, body: Any) -> m.ShareStateResponse:
        outcome = self.shard.handlers[type(body)](5, 1, body)
        self.carried_out(outcome)
        ((_, answer),) = outcome.answers
        return answer

    def carried_out(self, outcome: Outcome) -> None:
        for record in outcome.changes:
            assert isinstance(record, CoordinatorRecord)
            self.records.append(write_record(record))
        self.shard.apply(outcome.changes, len(self.records) - 1 if outcome.changes else None)

    def again(self, start: int = 0, end: int | None = None) -> ShareShard:
        """The shard of a coordinator that loads these records."""
        shard = ShareShard(ShareConfig())
        for offset, (key, value) in enumerate(self.records[start:end], start):
            shard.replay(read_record(SHARE_RECORDS, key, value), None, offset)
        return shard


def write(start: int, first: int, last: int, state: int = 2, count: int = 1, **of: int) -> Any:
    batch = m.StoredBatch(first, last, state, count)
    return m.WriteShareStateRequest(
        *(KEY, of.get("state_epoch", 1), of.get("leader_epoch", 0), start, of.get("complete", 0)),
        (batch,),
    )


def begun(updates: int = 2) -> Written:
    written = Written(updates)
    assert written.ask(m.InitializeShareStateRequest(KEY, 1, -1)).error is None
    return written


def test_the_name_is_that_of_find_coordinator() -> None:
    assert name_of(KEY) == "g:dG9waWMtLS0tLS0tLS0tLQ:3"


def test_a_leader_reads_what_was_written_and_earlier_ones_are_refused() -> None:
    written = begun()
    assert written.ask(m.ReadShareStateRequest(KEY, 4)).start_offset == -1
    written.ask(write(10, 12, 14, leader_epoch=4))
    read = written.ask(m.ReadShareStateRequest(KEY, 5))
    assert (read.state_epoch, read.start_offset, read.batches) == (1, 10, ((12, 14, 2, 1),))
    with pytest.raises(Refusal, match="FENCED_LEADER_EPOCH"):
        written.ask(write(10, 15, 15, leader_epoch=4))


def test_an_initialisation_that_comes_twice_writes_nothing() -> None:
    written = begun()
    written.ask(write(10, 12, 14))
    records = len(written.records)
    assert written.ask(m.InitializeShareStateRequest(KEY, 1, -1)).error is None
    assert len(written.records) == records
    assert written.ask(m.ReadShareStateSummaryRequest(KEY)).start_offset == 10


def test_a_deleted_state_is_gone_and_its_next_life_begins_anew() -> None:
    written = begun()
    written.ask(write(10, 12, 14))
    written.ask(m.DeleteShareStateRequest(KEY))
    assert written.ask(m.DeleteShareStateRequest(KEY)).error is None
    assert written.ask(m.ReadShareStateSummaryRequest(KEY)).start_offset == -1
    with pytest.raises(Refusal, match="INVALID_REQUEST"):
        written.ask(m.ReadShareStateRequest(KEY, 1))
    written.ask(m.InitializeShareStateRequest(KEY, 7, 3))
    assert written.again().states.current == written.shard.states.current


def test_every_so_many_updates_there_is_a_snapshot_of_the_whole() -> None:
    written = begun(updates=2)
    for offset in range(5):
        written.ask(write(0, offset + 1, offset + 1))
    kinds = [read_record(SHARE_RECORDS, *one).kind for one in written.records]
    assert [kind is SNAPSHOT for kind in kinds] == [True, False, False, True, False, False]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3), st.sampled_from((0, 2))),
        max_size=12,
    )
)
def test_a_replay_comes_to_the_state_that_was_answered(
    writes: list[tuple[int, int, int, int]],
) -> None:
    written = begun(updates=3)
    for start, first, more, state in writes:
        written.ask(write(start, first, first + more, state, complete=more))
    assert written.again().states.current == written.shard.states.current


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(("begin", "write", "write", "cold", "delete")),
            st.booleans(),
        ),
        max_size=25,
    )
)
def test_what_is_pruned_no_load_needs(steps: list[tuple[int, str, bool]]) -> None:
    """However many records are lost at the end, what was committed when it was pruned is there."""
    written, pruned, committed = Written(updates=1), 0, 0
    shard = written.shard
    for number, (of, what, commits) in enumerate(steps):
        key = KEY._replace(partition=of)
        is_there = key in shard.states.current
        if what == "begin":
            written.ask(m.InitializeShareStateRequest(key, number, number))
        elif what == "delete":
            written.ask(m.DeleteShareStateRequest(key))
        elif what == "cold":
            written.carried_out(shard.due(1_000_000 * number, COLD))
        elif is_there:
            epoch = shard.states.current[key].state.state_epoch
            written.ask(write(number, number, number, state_epoch=epoch)._replace(key=key))
        if commits:
            committed = len(written.records)
            shard.commit(committed)
        pruned = max(pruned, shard.needed_from())
        for end in {committed, len(written.records)}:
            whole, rest = written.again(0, end), written.again(pruned, end)
            assert rest.states.current == whole.states.current


@pytest.mark.parametrize("state", [-128, -1, 3, 127])
def test_a_delivery_state_that_does_not_exist_is_refused(state: int) -> None:
    written = begun()
    with pytest.raises(Refusal, match=f"INVALID_REQUEST: delivery state {state} is none of"):
        written.ask(write(0, 1, 2, state))
    assert len(written.records) == 1
