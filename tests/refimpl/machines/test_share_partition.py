"""A share partition by itself: batches of several records, holes, limits, and every refusal."""

import pytest
from attrs import asdict

from refimpl.errors import Refusal
from refimpl.machines.share_errors import InvalidAcknowledgement, InvalidRecordState
from refimpl.machines.share_partition import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acquired,
    PersisterStateBatch,
    Reading,
    SharePartition,
    ShareWrite,
)


def loaded(
    start: int = 0, *batches: PersisterStateBatch, locks: int = 10, limit: int = 2
) -> SharePartition:
    share = SharePartition(1, locks, limit)
    share.load(start, batches)
    return share


def given(share: SharePartition, member: str, *records: int, most: int = 100) -> list[Acquired]:
    """The records that a member gets of these; the log ends behind the last one."""
    return list(share.acquire(member, Reading(records, records[-1] + 1), most, 30))


def acknowledged(
    share: SharePartition, member: str, first: int, last: int, *types: int
) -> ShareWrite | None:
    return share.acknowledge(member, (Acknowledgement(first, last, types),), 60)


def test_records_go_to_one_member_each_and_count_how_often_they_were_given() -> None:
    share = loaded()
    assert given(share, "a", 0, 1, 2, 3, most=2) == [(0, 1, 1)]
    assert given(share, "b", 0, 1, 2, 3) == [(2, 3, 1)]
    write = acknowledged(share, "a", 0, 1, ACCEPT, RELEASE)
    assert write is not None
    assert write == (0, [(0, 0, ACKNOWLEDGED, 1), (1, 1, AVAILABLE, 1)], 1)
    share.written(write)
    assert share.start == 1
    assert given(share, "b", 1, 2, 3) == [(1, 1, 2)]


def test_a_write_says_nothing_of_a_later_write_of_the_same_record() -> None:
    share = loaded()
    given(share, "a", 0)
    over = share.expire(30)
    assert over is not None
    given(share, "b", 0)
    accepted = acknowledged(share, "b", 0, 0, ACCEPT)
    assert accepted is not None
    share.written(over)
    assert share.start == 0, "nobody has stored that it is accepted"
    share.failed(over)
    share.written(accepted)
    assert share.start == 1


def test_a_record_is_archived_when_it_was_given_as_often_as_may_be() -> None:
    share = loaded(5, PersisterStateBatch(5, 5, AVAILABLE, 1))
    assert given(share, "a", 5) == [(5, 5, 2)]
    assert share.expire(29) is None
    write = share.expire(30)
    assert write is not None
    assert write.batches == [(5, 5, ARCHIVED, 2)]
    assert share.start == 5, "below the start its member would be told that it is accepted"
    with pytest.raises(InvalidRecordState):
        share.acknowledge("a", (Acknowledgement(5, 5, (ACCEPT,)),))
    share.failed(write)
    again = share.expire(31)
    assert again is not None
    share.written(again)
    assert share.start == 6


def test_a_hole_as_wide_as_the_log_is_passed_at_once() -> None:
    share = loaded(3)
    assert given(share, "a", 10**12) == [(10**12, 10**12, 1)]
    assert share.start == 10**12


def test_aborted_records_beyond_all_locks_do_not_fill_them() -> None:
    share = loaded(0, locks=10)
    share.acquire("a", Reading((), 2500), 100, 30)
    assert share.start == 2500
    assert given(share, "a", 2500, 2501) == [(2500, 2501, 1)]


def test_a_hole_behind_a_held_record_is_kept_until_that_is_done_with() -> None:
    share = loaded(0, locks=4)
    assert given(share, "a", 0, 3, 4) == [(0, 0, 1), (3, 3, 1)]
    assert not share.has_room()
    write = acknowledged(share, "a", 0, 0, ACCEPT)
    assert write is not None
    share.written(write)
    assert share.start == 3
    assert given(share, "a", 3, 4) == [(4, 4, 1)]


def test_locks_are_renewed_and_nothing_is_written() -> None:
    share = loaded()
    given(share, "a", 0, 1)
    assert acknowledged(share, "a", 0, 0, RENEW) is None
    write = share.expire(30)
    assert write is not None
    assert write.batches == [(1, 1, AVAILABLE, 1)]
    assert share.next_deadline() == 60


def test_a_batch_with_one_record_of_another_member_is_refused_as_a_whole() -> None:
    share = loaded()
    given(share, "a", 0, 1, most=2)
    given(share, "b", 2)
    before = asdict(share)
    with pytest.raises(InvalidRecordState, match="offset 2 is acquired and held by b"):
        acknowledged(share, "a", 0, 2, ACCEPT)
    assert asdict(share) == before


def test_what_is_below_the_start_is_acknowledged_with_success() -> None:
    share = loaded(5)
    assert acknowledged(share, "a", 0, 4, ACCEPT) is None


def test_a_failed_write_leaves_the_record_with_its_member_until_the_lock_is_over() -> None:
    share = loaded()
    given(share, "a", 0)
    write = acknowledged(share, "a", 0, 0, REJECT)
    assert write is not None
    assert share.expire(31) is None
    share.failed(write)
    assert acknowledged(share, "a", 0, 0, GAP) is not None
    share.failed(write)
    again = share.expire(31)
    assert again is not None
    assert again.batches == [(0, 0, AVAILABLE, 1)]


def test_a_released_record_below_the_log_start_comes_back_to_nobody() -> None:
    share = loaded()
    given(share, "a", 0, 1)
    write = acknowledged(share, "a", 0, 1, RELEASE)
    assert write is not None
    share.log_starts(1)
    share.failed(write)
    assert share.start == 1
    assert list(share.deliveries) == [1]


def test_a_new_leader_epoch_forgets_everything() -> None:
    share = loaded()
    given(share, "a", 0)
    share.new_epoch(1)
    assert share.loaded
    share.new_epoch(2)
    assert not share.loaded
    for step in (
        lambda: acknowledged(share, "a", 0, 0, ACCEPT),
        lambda: given(share, "a", 0),
        lambda: share.close("a"),
        lambda: share.log_starts(1),
        lambda: share.written(ShareWrite(0, ())),
    ):
        with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
            step()


@pytest.mark.parametrize(
    ("first", "last", "types", "why"),
    [
        (3, 2, (ACCEPT,), "lower"),
        (-1, 2, (ACCEPT,), "lower"),
        (0, 2, (ACCEPT, ACCEPT), "one type"),
        (0, 2, (), "one type"),
        (0, 0, (5,), "0 to 4"),
    ],
)
def test_a_batch_that_is_no_acknowledgement_is_refused(
    first: int, last: int, types: tuple[int, ...], why: str
) -> None:
    share = loaded()
    with pytest.raises(InvalidAcknowledgement, match=why):
        acknowledged(share, "a", first, last, *types)


def test_offsets_far_beyond_the_locks_are_refused_without_being_counted() -> None:
    with pytest.raises(InvalidRecordState):
        acknowledged(loaded(), "a", 0, 2**60, ACCEPT)
