"""The records of a fetch: offsets, markers, aborted transactions, records that cannot be read."""

from collections.abc import Sequence
from typing import Any

from attrs import define, frozen

from refimpl.clients.consumer.position import OffsetAndEpoch
from refimpl.clients.consumer.records import Fetched, Read, Unreadable
from refimpl.clients.consumer.sessions import ConsumerFetchSession
from refimpl.messages.broker import FetchPartition, FetchResponse, TopicPartition
from refimpl.storage.format.txn_index import AbortedTxn


@frozen
class One:
    """A record."""

    offset: int


@define(eq=False)
class Batch:
    """A batch of some offsets."""

    base_offset: int
    next_offset: int
    producer_id: int = -1
    is_control: bool = False
    is_abort: bool = False
    gone: Sequence[int] = ()
    bad: int | None = None
    leader_epoch: int = 1

    @property
    def is_transactional(self) -> bool:
        return self.producer_id >= 0

    def read(self, offset: int) -> Read:
        there = [
            One(n)
            for n in range(max(offset, self.base_offset), self.next_offset)
            if n not in self.gone
        ]
        if self.bad is None:
            return Read(there)
        before = [one for one in there if one.offset < self.bad]
        return Read(before, Unreadable(self.bad, ValueError("no")))


def offsets(buffer: Fetched, most: int = 100) -> list[int]:
    return [one.offset for one in buffer.take(most)]


def of(*batches: Any, start: int = 0, aborted: list[AbortedTxn] | None = None) -> Fetched:
    return Fetched(OffsetAndEpoch(start), iter(batches), aborted)


def test_records_before_the_position_are_left_out_and_parts_follow_each_other() -> None:
    buffer = of(Batch(0, 2), Batch(2, 5), Batch(5, 7, leader_epoch=2), start=3)
    assert (offsets(buffer, 1), buffer.position) == ([3], OffsetAndEpoch(4, 1))
    assert (offsets(buffer, 2), buffer.position, buffer.is_empty) == (
        [4, 5],
        OffsetAndEpoch(6, 2),
        False,
    )
    assert (offsets(buffer), buffer.position, buffer.is_empty) == ([6], OffsetAndEpoch(7, 2), True)


def test_the_position_passes_what_is_compacted_away_and_markers() -> None:
    buffer = of(Batch(0, 4, gone=(2, 3)), Batch(4, 5, is_control=True), Batch(5, 7, gone=(5, 6)))
    assert offsets(buffer) == [0, 1]
    assert (buffer.position, buffer.is_empty) == (OffsetAndEpoch(7, 1), True)


def test_aborted_records_are_left_out_until_their_marker() -> None:
    batches = (
        Batch(0, 2, producer_id=1),
        Batch(2, 4, producer_id=2),
        Batch(4, 5, producer_id=1, is_control=True, is_abort=True),
        Batch(5, 7, producer_id=1),
        Batch(7, 8, producer_id=1, is_control=True),
        Batch(8, 9),
    )
    aborted = [AbortedTxn(0, 4, 1, -1)]
    assert offsets(of(*batches, aborted=aborted)) == [2, 3, 5, 6, 8]
    assert offsets(of(*batches)) == [0, 1, 2, 3, 5, 6, 8]


def test_what_comes_before_an_unreadable_record_is_returned() -> None:
    buffer = of(Batch(0, 2), Batch(2, 5, bad=3), Batch(5, 6))
    assert (offsets(buffer), buffer.position) == ([0, 1, 2], OffsetAndEpoch(3, 1))
    assert (offsets(buffer), buffer.is_empty) == ([], False)
    assert buffer.unreadable is not None
    assert buffer.unreadable.offset == 3


A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_session_names_changes_alone() -> None:
    session = ConsumerFetchSession()
    first = {A: FetchPartition(A, 0), B: FetchPartition(B, 0)}
    assert session.named(first) == ([*first.values()], ())
    session.answered(FetchResponse((), 7))
    assert (session.id, session.epoch) == (7, 1)
    later = {A: FetchPartition(A, 5)}
    assert session.named(later) == ([later[A]], [B])
    session.answered(FetchResponse((), 7))
    assert session.epoch == 2
    assert session.named(later) == ([], [])


def test_a_session_that_is_in_doubt_begins_again() -> None:
    session = ConsumerFetchSession(7, 3, {A: FetchPartition(A, 0)})
    session.failed()
    assert session.named({A: FetchPartition(A, 0)})[0] == [FetchPartition(A, 0)]
    assert (session.id, session.epoch) == (7, 0)
    session.answered(FetchResponse((), 0, "FETCH_SESSION_ID_NOT_FOUND"))
    assert (session.id, session.epoch) == (0, 0)
    session = ConsumerFetchSession(7, 2**31 - 1)
    session.answered(FetchResponse((), 7))
    assert session.epoch == 1
    full = ConsumerFetchSession()
    full.answered(FetchResponse((), 0))
    assert full.epoch == 0
