"""The stored state of one share partition, at its share coordinator (KIP-932).

Spec: ShareState. Requests may come late, twice and in any order. So within a state epoch nothing
gets lower: not the start, not the leader epoch, and no record's delivery count or state.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from attrs import evolve, frozen

from refimpl.machines.share_errors import FencedShareLeader, FencedStateEpoch, UnknownShareState
from refimpl.machines.share_partition import PersisterStateBatch, ShareWrite

K = TypeVar("K")

UNKNOWN_START = -1
"""The start of a partition that nobody has read yet: its first leader decides it."""


@frozen
class ShareState:
    """The state after the requests so far; values are replaced, never changed."""

    state_epoch: int
    leader_epoch: int = -1
    start: int = UNKNOWN_START
    complete: int = 0
    #: Sorted, and apart from each other
    batches: tuple[PersisterStateBatch, ...] = ()


def initialised(current: ShareState | None, state_epoch: int, start: int) -> ShareState:
    """The state after an initialisation; one that comes twice changes nothing."""
    if current is None or state_epoch > current.state_epoch:
        leader_epoch = -1 if current is None else current.leader_epoch
        return ShareState(state_epoch, leader_epoch, start)
    if state_epoch < current.state_epoch:
        raise FencedStateEpoch(state_epoch, current.state_epoch)
    return current


def read(current: ShareState | None, leader_epoch: int) -> ShareState:
    """The state after a new leader has read it: writes of earlier leaders are refused."""
    known = _known(current)
    if leader_epoch < known.leader_epoch:
        raise FencedShareLeader(leader_epoch, known.leader_epoch)
    return evolve(known, leader_epoch=leader_epoch)


def written(
    current: ShareState | None, state_epoch: int, leader_epoch: int, write: ShareWrite
) -> ShareState:
    """The state after a leader's write."""
    known = _known(current)
    if state_epoch < known.state_epoch:
        raise FencedStateEpoch(state_epoch, known.state_epoch)
    if leader_epoch < known.leader_epoch:
        raise FencedShareLeader(leader_epoch, known.leader_epoch)
    start = max(known.start, write.start)
    # Writes may come in any order, and no record that is done with is open again.
    _, complete = max((known.start, known.complete), (write.start, write.complete))
    batches = merged(known.batches, write.batches, start)
    return evolve(known, start=start, complete=complete, batches=batches)


def needed_from(snapshots: Iterable[int], end: int) -> int:
    """The first offset of the state log that a load needs.

    That is the oldest of the last snapshots of all share partitions, or the end if there are none.
    Both are of committed records: a snapshot that is lost leaves its state to the one before.
    """
    return min(snapshots, default=end)


def cold(now: int, interval_ms: int, times: Mapping[K, tuple[int, int]]) -> list[K]:
    """The share partitions that get a snapshot for the sake of `needed_from`.

    Of each, the time of its state is known, and that of its last snapshot, which is later if it was
    cold. If all were cold, nothing is written, and no snapshot would help.
    """
    if all(created != snapshot for created, snapshot in times.values()):
        return []
    return [one for one, (_, snapshot) in times.items() if now - snapshot >= interval_ms]


def _known(current: ShareState | None) -> ShareState:
    if current is None:
        raise UnknownShareState()
    return current


def merged(
    stored: Sequence[PersisterStateBatch], new: Iterable[PersisterStateBatch], start: int
) -> tuple[PersisterStateBatch, ...]:
    """Batches from the start on; of two that cover an offset the higher count and state stays."""
    result = tuple(stored)
    for batch in new:
        result = tuple(_joined(_overlaid(result, batch)))
    return tuple(_above(result, start))


def _overlaid(
    stored: Sequence[PersisterStateBatch], new: PersisterStateBatch
) -> Iterator[PersisterStateBatch]:
    """Stored batches with a new one laid over them, in order; neighbours are not joined."""
    at = new.first_offset
    for one in stored:
        if one.last_offset < new.first_offset:
            yield one
            continue
        before, after = max(one.first_offset, at), min(one.last_offset, new.last_offset)
        if at <= new.last_offset and at < one.first_offset:
            yield new._replace(
                first_offset=at, last_offset=min(new.last_offset, one.first_offset - 1)
            )
            at = min(new.last_offset + 1, one.first_offset)
        if one.first_offset > new.last_offset:
            yield one
            continue
        if one.first_offset < new.first_offset:
            yield one._replace(last_offset=new.first_offset - 1)
        higher = max(one, new, key=lambda batch: (batch.delivery_count, batch.state))
        yield higher._replace(first_offset=before, last_offset=after)
        if one.last_offset > new.last_offset:
            yield one._replace(first_offset=new.last_offset + 1)
        at = after + 1
    if at <= new.last_offset:
        yield new._replace(first_offset=at)


def _joined(batches: Iterable[PersisterStateBatch]) -> Iterator[PersisterStateBatch]:
    last: PersisterStateBatch | None = None
    for one in batches:
        if last is None:
            last = one
        elif (last.last_offset + 1, last.state, last.delivery_count) == (
            *(one.first_offset, one.state),
            one.delivery_count,
        ):
            last = last._replace(last_offset=one.last_offset)
        else:
            yield last
            last = one
    if last is not None:
        yield last


def _above(batches: Iterable[PersisterStateBatch], start: int) -> Iterator[PersisterStateBatch]:
    for one in batches:
        if one.last_offset >= start:
            yield one._replace(first_offset=max(one.first_offset, start))
