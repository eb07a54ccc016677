"""The position of one partition, guard by guard."""

import pytest
from attrs import define

from refimpl.clients.consumer import errors
from refimpl.clients.consumer.position import (
    FETCHING,
    INITIALIZING,
    NONE,
    RESETTING,
    VALIDATING,
    OffsetAndEpoch,
    Position,
)


@define(eq=False)
class Numbers:
    """Offsets that were fetched, all of one epoch."""

    left: list[int]
    epoch: int
    end: int

    @property
    def position(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.left[0] if self.left else self.end, self.epoch)

    @property
    def is_empty(self) -> bool:
        return not self.left

    def take(self, most: int) -> list[int]:
        taken, self.left = self.left[:most], self.left[most:]
        return taken


def fetched(offset: int, count: int, epoch: int = 1) -> Numbers:
    return Numbers([*range(offset, offset + count)], epoch, offset + count)


def at(offset: int = 3, epoch: int = 1, leader: int = 1) -> Position:
    """A position that the leader has validated."""
    position = Position(leader_epoch=leader)
    position.begin(OffsetAndEpoch(offset, epoch))
    position.complete_validation(
        OffsetAndEpoch(offset, epoch), leader, OffsetAndEpoch(99, epoch), resets=True
    )
    assert position.state == FETCHING
    return position


def test_a_committed_offset_is_validated_and_only_where_there_is_no_position() -> None:
    position = Position(leader_epoch=4)
    position.begin(OffsetAndEpoch(7, 3))
    assert (position.state, position.offset, position.epoch) == (VALIDATING, 7, 3)
    with pytest.raises(errors.HasPosition):
        position.begin(OffsetAndEpoch(1, 1))


@pytest.mark.parametrize(("epoch", "leader"), [(NONE, 4), (3, NONE)])
def test_without_epochs_there_is_nothing_to_validate(epoch: int, leader: int) -> None:
    position = Position(leader_epoch=leader)
    position.begin(OffsetAndEpoch(7, epoch))
    assert position.state == FETCHING


def test_a_seek_drops_what_was_fetched_and_beats_a_reset() -> None:
    position = at()
    position.fetched(3, 1, fetched(3, 2))
    position.seek(OffsetAndEpoch(9))
    assert (position.buffer, position.offset, position.epoch) == (None, 9, NONE)
    position.reset("latest")
    position.seek(OffsetAndEpoch(5))
    with pytest.raises(errors.NotResetting, match="a reset to latest"):
        position.complete_reset("latest", OffsetAndEpoch(100))
    assert position.offset == 5


def test_a_reset_is_completed_by_its_own_strategy() -> None:
    position = at()
    position.not_before = 50
    position.fetched(3, 1, fetched(3, 2))
    position.reset("earliest")
    assert (position.state, position.offset, position.epoch) == (RESETTING, NONE, NONE)
    assert (position.buffer, position.not_before, position.consumed) == (None, 0, None)
    with pytest.raises(errors.NotResetting):
        position.complete_reset("latest", OffsetAndEpoch(1))
    position.complete_reset("earliest", OffsetAndEpoch(2, 1))
    assert (position.state, position.offset, position.strategy) == (VALIDATING, 2, None)


def test_another_leader_validates_and_what_the_old_one_has_sent_is_dropped() -> None:
    position = at()
    position.replica = 5
    position.fetched(3, 1, fetched(3, 2))
    position.learn(1)
    assert position.buffer is not None
    position.learn(2)
    assert (position.state, position.buffer, position.replica) == (VALIDATING, None, NONE)
    with pytest.raises(errors.LeaderMoved, match="an answer of leader epoch 1"):
        position.fetched(3, 1, fetched(3, 2))


def test_a_new_leader_leaves_a_reset_and_a_beginning_alone() -> None:
    position = Position()
    position.learn(2)
    assert position.state == INITIALIZING
    position.reset("latest")
    position.learn(3)
    assert (position.state, position.leader_epoch) == (RESETTING, 3)


def test_kafkas_client_keeps_what_the_old_leader_has_sent() -> None:
    position = at()
    position.keeps_buffer = True
    position.fetched(3, 1, fetched(3, 2))
    position.learn(2)
    assert position.buffer is not None
    position.fetched(3, 1, fetched(3, 1))


@pytest.mark.parametrize(
    ("end", "result", "stands"),
    [
        (OffsetAndEpoch(3, 1), "valid", (FETCHING, 3, 1)),
        (OffsetAndEpoch(2, 1), "truncated", (FETCHING, 2, 1)),
        (OffsetAndEpoch(NONE, NONE), "unknown", (VALIDATING, 3, 1)),
        (OffsetAndEpoch(5, NONE), "unknown", (VALIDATING, 3, 1)),
        (OffsetAndEpoch(NONE, 1), "unknown", (VALIDATING, 3, 1)),
    ],
)
def test_a_validation_has_three_results(
    end: OffsetAndEpoch, result: str, stands: tuple[str, int, int]
) -> None:
    position = at()
    position.learn(2)
    position.buffer = fetched(3, 1)
    assert position.complete_validation(OffsetAndEpoch(3, 1), 2, end, resets=True) == result
    assert (position.state, position.offset, position.epoch) == stands
    assert (position.buffer is None) == (result == "truncated")


def test_without_a_reset_a_truncation_moves_nothing() -> None:
    position = at()
    position.learn(2)
    found = position.complete_validation(
        OffsetAndEpoch(3, 1), 2, OffsetAndEpoch(1, 1), resets=False
    )
    assert (found, position.state, position.offset) == ("truncated", VALIDATING, 3)


def test_a_validation_of_something_else_says_nothing() -> None:
    position = at()
    with pytest.raises(errors.NotValidating):
        position.complete_validation(OffsetAndEpoch(3, 1), 1, OffsetAndEpoch(3, 1), resets=True)
    position.learn(2)
    with pytest.raises(errors.PositionMoved, match="offset 4, and the position is 3"):
        position.complete_validation(OffsetAndEpoch(4, 1), 2, OffsetAndEpoch(3, 1), resets=True)
    with pytest.raises(errors.LeaderMoved):
        position.complete_validation(OffsetAndEpoch(3, 1), 1, OffsetAndEpoch(3, 1), resets=True)


def test_records_are_returned_in_parts_and_the_position_is_behind_them() -> None:
    position = at()
    position.fetched(3, 1, fetched(3, 3))
    assert position.hand_out(2) == [3, 4]
    assert position.consumed == OffsetAndEpoch(5, 1)
    assert position.hand_out(2) == [5]
    assert (position.buffer, position.consumed) == (None, OffsetAndEpoch(6, 1))
    with pytest.raises(errors.NothingFetched):
        position.hand_out(1)


def test_records_of_another_place_or_without_a_position_are_not_taken() -> None:
    position = at()
    with pytest.raises(errors.PositionMoved):
        position.fetched(2, 1, fetched(2, 1))
    position.reset("latest")
    with pytest.raises(errors.NoPosition, match="resetting"):
        position.fetched(NONE, 1, fetched(3, 1))


def test_nothing_is_returned_or_asked_for_while_it_may_not_be() -> None:
    position = at()
    position.fetched(3, 1, fetched(3, 1))
    with pytest.raises(errors.AlreadyFetched):
        position.ask()
    position.paused = True
    with pytest.raises(errors.Paused):
        position.hand_out(1)
    position.paused, position.unannounced = False, True
    assert not position.is_fetchable
    with pytest.raises(errors.Paused):
        position.hand_out(1)
    position.unannounced = False
    position.learn(2)
    with pytest.raises(errors.NoPosition, match="validating"):
        position.hand_out(1)


def test_it_asks_what_is_missing() -> None:
    position = Position(leader_epoch=1)
    with pytest.raises(errors.NoPosition, match="initializing"):
        position.ask()
    position.reset("earliest")
    assert position.ask() == (RESETTING, "earliest", NONE, NONE, 1)
    position.complete_reset("earliest", OffsetAndEpoch(0))
    assert position.ask() == (FETCHING, None, 0, NONE, 1)
    position.revoke()
    with pytest.raises(errors.BeingRevoked):
        position.ask()


def test_behind_the_end_a_follower_is_left_first_and_then_it_resets() -> None:
    position = at()
    position.replica = 7
    assert not position.out_of_range(3, 1)
    assert position.replica == NONE
    assert position.out_of_range(3, 1)
    with pytest.raises(errors.PositionMoved):
        position.out_of_range(2, 1)
    position.learn(2)
    with pytest.raises(errors.NoPosition):
        position.out_of_range(3, 2)


def test_only_a_validated_position_is_committed_and_a_revoked_one_once() -> None:
    position = at()
    assert position.auto_commit() == OffsetAndEpoch(3, 1)
    position.learn(2)
    assert position.consumed is None
    with pytest.raises(errors.NoPosition):
        position.auto_commit()
    position = at()
    assert position.revoke() == OffsetAndEpoch(3, 1)
    with pytest.raises(errors.BeingRevoked):
        position.revoke()
    with pytest.raises(errors.BeingRevoked):
        position.auto_commit()
    with pytest.raises(errors.BeingRevoked):
        position.hand_out(1)
