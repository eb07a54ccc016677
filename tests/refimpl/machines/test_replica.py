"""A replica alone, guard by guard: what no scope of a spec can tell from the guard behind it."""

import pytest

from refimpl.errors import FencedLeaderEpoch, OutsideLog, Refusal, StaleBrokerEpoch
from refimpl.machines import replica_errors as errors
from refimpl.machines.log import Log, Record
from refimpl.machines.messages import (
    UNKNOWN_EPOCH,
    AlterPartitionResponse,
    FetchRequest,
    FetchResponse,
    LeaderAndIsr,
)
from refimpl.machines.replica import Replica
from refimpl.machines.replica_log import EpochEnd

EVERYBODY = frozenset({1, 2, 3})


def leader(epoch: int = 1, isr: frozenset[int] = EVERYBODY, *epochs: int) -> Replica:
    """Replica 1, leading, with records of these epochs."""
    replica = Replica(1, Log([Record(e, i) for i, e in enumerate(epochs)]))
    replica.told(LeaderAndIsr(epoch, 1, isr, epoch))
    return replica


def follower(id: int = 2, epoch: int = 1, *epochs: int) -> Replica:
    replica = Replica(id, Log([Record(e, i) for i, e in enumerate(epochs)]))
    replica.told(LeaderAndIsr(epoch, 1, EVERYBODY, epoch))
    return replica


def fetch(to: Replica, by: Replica, limit: int = 10) -> None:
    by.take_answer(to.answer_fetch(by.fetch_request(), limit))


def answer(
    error: str | None, isr: frozenset[int], partition_epoch: int, epoch: int = 1
) -> AlterPartitionResponse:
    return AlterPartitionResponse(error, 1, epoch, isr, partition_epoch)


# ------------------------------------------------------------------------------ fetches


def test_a_second_copy_of_an_answer_cuts_nothing_that_was_copied_again() -> None:
    first, second = leader(2, EVERYBODY, 2), follower(2, 2, 1)
    request = second.fetch_request()
    cut = first.answer_fetch(request, 10)
    second.take_answer(cut)
    assert second.log.end == 0
    with pytest.raises(errors.AnswerNotAwaited, match=r"waits .* for the answer to fetch 0"):
        second.take_answer(cut)
    fetch(first, second)
    fetch(first, second)
    assert first.ends[2] == second.log.end == cut.start == 1
    with pytest.raises(errors.AnswerNotAwaited, match=r"waits .* for the answer to fetch 0"):
        second.take_answer(cut)
    assert second.log.end == 1


def test_the_answer_to_a_fetch_that_was_given_up_is_void() -> None:
    first, second = leader(1, EVERYBODY, 1), follower()
    late = first.answer_fetch(second.fetch_request(), 10)
    newest = second.fetch_request()
    with pytest.raises(errors.AnswerNotAwaited, match=r"fetch 2 .* answers fetch 1"):
        second.take_answer(late)
    second.take_answer(first.answer_fetch(newest, 10))
    assert second.log.end == 1


def test_the_answer_to_an_earlier_incarnation_is_void_though_its_number_fits() -> None:
    first, second = leader(1, EVERYBODY, 1), follower()
    before = first.answer_fetch(second.fetch_request(), 10)
    second.restart(0, 0)
    second.told(LeaderAndIsr(1, 1, EVERYBODY, 1))
    assert second.fetch_request().number == before.number
    with pytest.raises(errors.AnswerNotAwaited, match=r"incarnation 1 .* incarnation 0"):
        second.take_answer(before)


def test_a_change_of_role_ends_the_wait() -> None:
    first, second = leader(1, EVERYBODY, 1), follower()
    late = first.answer_fetch(second.fetch_request(), 10)
    second.told(LeaderAndIsr(2, 3, EVERYBODY, 2))
    with pytest.raises(errors.AnswerNotAwaited):
        second.take_answer(late)


def test_a_fetch_counts_once_and_not_after_a_later_one() -> None:
    first, second = leader(1, EVERYBODY, 1), follower()
    old = second.fetch_request()
    second.take_answer(first.answer_fetch(old, 10))
    fetch(first, second)
    for copy in (old, second.next_fetch().__class__(2, 0, 2, 1, 1, 1)):
        with pytest.raises(errors.OvertakenFetch):
            first.answer_fetch(copy, 10)
    assert first.ends[2] == 1


def test_the_numbers_of_a_new_incarnation_begin_anew() -> None:
    first, second = leader(1, EVERYBODY, 1), follower()
    for _ in range(3):
        fetch(first, second)
    second.restart(0, 0)
    second.told(LeaderAndIsr(1, 1, EVERYBODY, 1))
    fetch(first, second)
    assert second.log.end == 1
    assert (first.seen[2], first.newest[2]) == (1, (1, 1))


def test_fetches_of_other_epochs_and_earlier_incarnations_are_told_apart() -> None:
    first = leader(2)
    first.seen[2] = 1
    with pytest.raises(FencedLeaderEpoch, match="of 2 is of leader epoch 1, and here it is 2"):
        first.check_fetch(FetchRequest(2, 1, 1, 1, 0, 0))
    with pytest.raises(errors.UnknownLeaderEpoch, match="leader epoch 3, and here it is still 2"):
        first.check_fetch(FetchRequest(2, 1, 1, 3, 0, 0))
    with pytest.raises(StaleBrokerEpoch, match="broker 2 is here in incarnation 1"):
        first.check_fetch(FetchRequest(2, 0, 1, 2, 0, 0))


# ------------------------------------------------------------------------------ the ISR


def test_a_leader_does_not_leave_its_isr_and_nobody_leaves_who_is_not_in_it() -> None:
    first = leader(1, frozenset({1, 2}))
    with pytest.raises(errors.LeaderStaysInIsr):
        first.isr_without(1)
    with pytest.raises(errors.NotInIsr, match=r"replica 3 is not in the ISR \{1, 2\}"):
        first.isr_without(3)
    with pytest.raises(errors.AlreadyInIsr):
        first.isr_with(2)


def test_nobody_joins_unheard() -> None:
    with pytest.raises(errors.NotCaughtUp, match="replica 3 ends at -1"):
        leader(1, frozenset({1, 2})).isr_with(3)


def test_nobody_joins_on_a_fetch_that_differs() -> None:
    first, third = leader(2, frozenset({1}), 2), follower(3, 2, 1)
    first.answer_fetch(third.fetch_request(), 10)
    with pytest.raises(errors.NotCaughtUp):
        first.isr_with(3)


def test_nobody_joins_below_the_high_watermark_or_the_start_of_the_epoch() -> None:
    first, third = leader(2, frozenset({1}), 1, 1), follower(3, 2)
    first.answer_fetch(third.fetch_request(), 10)
    with pytest.raises(errors.NotCaughtUp, match=r"the high watermark is 0, .* starts at 2"):
        first.isr_with(3)
    first = leader(1, frozenset({1}), 1)
    first.advance_high_watermark()
    first.answer_fetch(follower(3).fetch_request(), 10)
    with pytest.raises(errors.NotCaughtUp, match=r"the high watermark is 1, .* starts at 0"):
        first.isr_with(3)


def expanding() -> Replica:
    """A leader that has asked follower 3 in, and has one record more than it."""
    first, third = leader(1, frozenset({1})), follower(3)
    fetch(first, third)
    first.expand_isr(3)
    first.write("a")
    return first


def test_what_was_asked_in_an_earlier_epoch_is_not_waited_for_in_the_next() -> None:
    for becomes in (LeaderAndIsr(2, 1, frozenset({1}), 2), LeaderAndIsr(2, 2, frozenset({2}), 2)):
        first = expanding()
        first.told(becomes)
        assert (first.pending, first.maximal_isr) == (None, {1} if first.leads else set())


def test_a_follower_that_comes_back_with_less_has_less() -> None:
    first, second = leader(1, frozenset({1, 2})), follower()
    first.write("a")
    fetch(first, second)
    first.answer_fetch(second.fetch_request(), 10)
    assert first.ends[2] == 1
    second.restart(0, 0)
    second.told(LeaderAndIsr(1, 1, EVERYBODY, 1))
    first.answer_fetch(second.fetch_request(), 10)
    assert first.ends[2] == 0
    with pytest.raises(errors.NothingToCommit):
        first.advance_high_watermark()


def test_a_request_names_who_was_heard_in_which_incarnation() -> None:
    first = leader(1, frozenset({1, 2}))
    third = Replica(3, incarnation=4)
    third.told(LeaderAndIsr(1, 1, EVERYBODY, 1))
    fetch(first, third)
    assert first.expand_isr(3).new_isr == ((1, 0), (2, UNKNOWN_EPOCH), (3, 4))


def test_the_high_watermark_waits_for_whom_the_leader_asked_in() -> None:
    first = expanding()
    with pytest.raises(errors.NothingToCommit, match=r"in \{1, 3\} is 0"):
        first.advance_high_watermark()


def test_one_change_at_a_time() -> None:
    first = expanding()
    for ask in (first.shrink_isr, first.expand_isr):
        with pytest.raises(errors.ChangePending, match=r"\{1, 3\} is put to the controller"):
            ask(3)


def test_a_member_that_is_asked_out_counts_until_the_controller_agrees() -> None:
    first = leader(1, frozenset({1, 3}))
    first.write("a")
    request = first.shrink_isr(3)
    with pytest.raises(errors.NothingToCommit):
        first.advance_high_watermark()
    first.take_isr_answer(request, answer(None, frozenset({1}), 2))
    assert first.advance_high_watermark() == 1


def test_one_request_takes_out_all_that_lag_or_none() -> None:
    first = leader(1, frozenset({1, 2, 3}))
    with pytest.raises(errors.NotInIsr):
        first.shrink_isr_by_several(frozenset({3, 4}))
    with pytest.raises(errors.LeaderStaysInIsr):
        first.shrink_isr_by_several(frozenset({1, 3}))
    assert first.pending is None
    request = first.shrink_isr_by_several(frozenset({2, 3}))
    assert (request.isr, request) == ({1}, first.pending)


def test_an_accepted_change_is_ours_and_a_replica_that_is_refused_leaves_again() -> None:
    for error, isr in ((None, frozenset({1, 3})), ("INELIGIBLE_REPLICA", frozenset({1}))):
        first = expanding()
        assert first.pending is not None
        first.take_isr_answer(first.pending, answer(error, isr, 2))
        assert (first.isr, first.partition_epoch, first.pending) == (isr, 2, None)


@pytest.mark.parametrize(
    "error", ["FENCED_LEADER_EPOCH", "INVALID_UPDATE_VERSION", "NOT_CONTROLLER", "INVALID_REQUEST"]
)
def test_other_errors_settle_nothing(error: str) -> None:
    first = expanding()
    assert first.pending is not None
    with pytest.raises(errors.StaysPending, match=error):
        first.take_isr_answer(first.pending, answer(error, frozenset({1}), 2))
    assert first.maximal_isr == {1, 3}


def test_only_the_answer_to_what_is_pending_counts() -> None:
    first = expanding()
    request = first.pending
    assert request is not None
    first.take_isr_answer(request, answer("INELIGIBLE_REPLICA", frozenset({1}), 2))
    with pytest.raises(errors.NoChangePending, match="what is pending is nobody"):
        first.take_isr_answer(request, answer(None, frozenset({1, 3}), 3))
    again = first.expand_isr(3)
    with pytest.raises(errors.NoChangePending, match="partition epoch 1; what is pending is 2"):
        first.take_isr_answer(request, answer(None, frozenset({1, 3}), 3))
    assert first.pending == again


def test_an_answer_of_another_epoch_or_an_older_partition_epoch_is_void() -> None:
    for partition_epoch, epoch in ((0, 1), (2, 2)):
        first = expanding()
        assert first.pending is not None
        late = answer(None, frozenset({1, 3}), partition_epoch, epoch)
        with pytest.raises(errors.OldDecision):
            first.take_isr_answer(first.pending, late)


def test_only_a_newer_partition_epoch_settles_what_is_pending() -> None:
    first = expanding()
    with pytest.raises(errors.OldDecision, match=r"partition epoch 1, and knows .* epoch 1"):
        first.told(LeaderAndIsr(1, 1, frozenset({1}), 1))
    assert first.maximal_isr == {1, 3}
    first.told(LeaderAndIsr(1, 1, frozenset({1}), 2))
    assert (first.maximal_isr, first.partition_epoch) == ({1}, 2)


def test_below_min_isr_nothing_is_committed_or_promised() -> None:
    first = leader(1, frozenset({1}))
    first.min_isr = 2
    with pytest.raises(errors.NotEnoughReplicas, match=r"\{1\} are in sync"):
        first.write("a")
    first.write("a", acks_all=False)
    with pytest.raises(errors.NotEnoughReplicas):
        first.advance_high_watermark()


def test_whom_the_leader_has_asked_in_is_waited_for_and_does_not_count_towards_min_isr() -> None:
    first, third = leader(1, frozenset({1})), follower(3)
    first.min_isr = 2
    first.write("a", acks_all=False)
    fetch(first, third)
    first.answer_fetch(third.fetch_request(), 10)
    first.expand_isr(3)
    with pytest.raises(errors.NotEnoughReplicas):
        first.write("b")
    with pytest.raises(errors.NotEnoughReplicas):
        first.advance_high_watermark()
    first.told(LeaderAndIsr(1, 1, frozenset({1, 3}), 2))
    assert first.advance_high_watermark() == 1


# ------------------------------------------------------------------------------ being told


def test_a_role_is_taken_only_by_whom_the_decision_names() -> None:
    replica = Replica(1)
    with pytest.raises(errors.NotItsRole, match="told to lead in leader epoch 1, which 2 leads"):
        replica.become_leader(LeaderAndIsr(1, 2, EVERYBODY))
    for nobody in (1, None):
        with pytest.raises(errors.NotItsRole, match="told to follow"):
            replica.become_follower(LeaderAndIsr(1, nobody, EVERYBODY))
    with pytest.raises(errors.NotFollower):
        replica.fetch_request()


def test_what_a_leader_knew_of_followers_ends_with_an_epoch_that_it_missed() -> None:
    first, second = leader(1, EVERYBODY, 1), follower()
    fetch(first, second)
    fetch(first, second)
    first.told(LeaderAndIsr(3, 1, frozenset({1, 2}), 3))
    assert (first.ends, first.seen, first.newest) == ({}, {}, {})
    with pytest.raises(errors.NothingToCommit):
        first.advance_high_watermark()


def test_a_leader_that_restarted_does_not_lead_on_and_a_follower_follows_on() -> None:
    for replica, news in ((leader(1), 1), (follower(2), 1)):
        with pytest.raises(errors.OldDecision):
            replica.told(LeaderAndIsr(news, 1, EVERYBODY, 1))
        replica.restart(0, 0)
    first, second = leader(1), follower(2)
    first.restart(0, 0)
    second.restart(0, 0)
    with pytest.raises(errors.OldDecision):
        first.told(LeaderAndIsr(1, 1, EVERYBODY, 1))
    second.told(LeaderAndIsr(1, 1, EVERYBODY, 1))
    assert second.up


@pytest.mark.parametrize(("checkpoint", "kept"), [(-1, 0), (1, 1), (0, 2)])
def test_a_restart_keeps_a_prefix(checkpoint: int, kept: int) -> None:
    with pytest.raises(errors.ImpossibleRestart):
        leader(1, EVERYBODY, 1).restart(checkpoint, kept)


def test_a_refused_action_changes_nothing() -> None:
    first = expanding()
    before = repr(first)
    for refused in (
        lambda: first.shrink_isr(3),
        lambda: first.told(LeaderAndIsr(1, 2, EVERYBODY, 9)),
        lambda: first.fetch_request(),
        lambda: first.restart(5, 5),
    ):
        with pytest.raises(Refusal):
            refused()
    assert repr(first) == before


# ------------------------------------------------------------------------------ who leads


def crashed() -> Replica:
    """A leader whose process is down: it kept its epoch and its name."""
    first = leader()
    first.up = False
    return first


@pytest.mark.parametrize("who", [Replica(1), follower(), crashed()], ids=["new", "follows", "down"])
def test_only_a_leader_that_is_up_does_what_leaders_do(who: Replica) -> None:
    news = LeaderAndIsr(who.epoch, who.leader, EVERYBODY, who.partition_epoch + 1)
    assert not who.leads
    for act in (
        lambda: who.write("a"),
        who.advance_high_watermark,
        lambda: who.check_fetch(FetchRequest(3, 0, 1, who.epoch, 0, -1)),
        lambda: who.isr_without(3),
        lambda: who.isr_with(3),
        lambda: who.adopt_isr(news),
    ):
        with pytest.raises(errors.NotLeader):
            act()


def test_the_high_watermark_is_the_least_end_in_the_isr() -> None:
    for ends in ((1, 2), (2, 1)):
        first = leader(1, EVERYBODY, 1, 1, 1)
        first.ends = dict(zip((2, 3), ends, strict=True))
        assert first.advance_high_watermark() == 1


def test_whom_a_leader_asks_out_is_not_in_what_it_asks_for() -> None:
    assert leader().isr_without(3).isr == {1, 2}


def test_a_new_leaders_log_knows_of_its_epoch_before_the_first_record() -> None:
    first = leader(4, EVERYBODY, 1)
    assert (first.log.latest_epoch, first.epoch_start) == (4, 1)


def test_a_reign_without_a_record_leaves_no_epoch_in_a_followers_log() -> None:
    first = leader(4, EVERYBODY, 1)
    first.told(LeaderAndIsr(5, 2, EVERYBODY, 5))
    assert (first.log.latest_epoch, first.log.end) == (1, 1)
    empty = leader(4)
    empty.told(LeaderAndIsr(5, 2, EVERYBODY, 5))
    assert (empty.log.latest_epoch, empty.log.end) == (-1, 0)


def test_the_isr_of_another_leader_epoch_is_not_adopted() -> None:
    first = leader(2)
    for epoch in (1, 3):
        with pytest.raises(errors.OldDecision):
            first.adopt_isr(LeaderAndIsr(epoch, 1, frozenset({1}), 9))
    assert first.isr == EVERYBODY


def test_nobody_follows_in_an_older_epoch_even_after_a_restart() -> None:
    second = follower(2, 3)
    second.restart(0, 0)
    with pytest.raises(errors.OldDecision):
        second.told(LeaderAndIsr(2, 1, EVERYBODY, 9))
    assert not second.up


# ------------------------------------------------------------------------------ what answers do


def test_an_answer_that_tells_where_the_logs_part_brings_no_records() -> None:
    first, second = leader(2, EVERYBODY, 1, 2, 2), follower(2, 2, 1, 1)
    told = first.answer_fetch(second.fetch_request(), 10)
    assert (told.diverging, tuple(told.records)) == ((1, 1), ())


@pytest.mark.parametrize(
    ("ours", "told", "end"),
    [
        ((1, 1, 1), (2, 1), 1),  # of an epoch that it does not know: where the leader's ends
        ((1, 2, 2, 2), (1, 3), 1),  # our own records of that epoch end first
        ((1, 1, 1, 2), (1, 2), 2),  # the leader's do
    ],
)
def test_a_follower_cuts_to_the_end_that_both_have(
    ours: tuple[int, ...], told: tuple[int, int], end: int
) -> None:
    second = follower(2, 3, *ours)
    second.high_watermark = len(ours)
    asked = second.fetch_request()
    second.take_answer(FetchResponse(0, asked.number, 3, asked.end, (), 0, EpochEnd(*told)))
    assert (second.log.end, second.high_watermark) == (end, end)


def test_a_cut_above_the_high_watermark_leaves_it() -> None:
    second = follower(2, 2, 1, 1)
    second.high_watermark = 1
    asked = second.fetch_request()
    second.take_answer(FetchResponse(0, asked.number, 2, 2, (), 2, EpochEnd(1, 1)))
    assert (second.log.end, second.high_watermark) == (1, 1)


def test_a_followers_high_watermark_is_the_leaders_as_far_as_its_log_goes() -> None:
    first, second = leader(1, frozenset({1}), 1, 1), follower()
    first.advance_high_watermark()
    for end in (1, 2):
        fetch(first, second, limit=1)
        assert (second.log.end, second.high_watermark) == (end, end)


def test_where_the_epoch_asked_for_is_deleted_the_end_decides() -> None:
    log = Log([Record(epoch, at) for at, epoch in enumerate((1, 1, 1, 3))])
    log.advance_start(2)
    first = Replica(1, log)
    with pytest.raises(OutsideLog):
        first.diverging(1, 2)
    assert first.diverging(2, 2) == EpochEnd(1, 3)


def test_the_isr_of_a_refusal_is_nobodys_and_what_is_in_force_already_settles() -> None:
    refused, confirmed = expanding(), expanding()
    assert refused.pending is not None
    assert confirmed.pending is not None
    refused.take_isr_answer(refused.pending, answer("INELIGIBLE_REPLICA", EVERYBODY, 2))
    assert (refused.isr, refused.pending) == ({1}, None)
    confirmed.take_isr_answer(confirmed.pending, answer(None, frozenset({1, 3}), 1))
    assert (confirmed.isr, confirmed.pending) == ({1, 3}, None)


# ------------------------------------------------------------------------------ out of range


def began_anew_at(start: int, leader: int = 3) -> Replica:
    """Replica 2 has deleted all it had, up to here, and follows another leader now."""
    second = follower()
    second.restart_log(second.fetch_request(), start, start)
    second.told(LeaderAndIsr(2, leader, frozenset({leader}), 2))
    return second


@pytest.mark.parametrize("end", [1, 3, 4, 5])
def test_a_log_that_ends_outside_of_the_leaders_begins_anew_where_that_starts(end: int) -> None:
    second = follower(2, 1, *[1] * end)
    second.high_watermark = 1
    refused = second.fetch_request()
    if 3 <= end <= 4:
        with pytest.raises(errors.InsideLeadersLog):
            second.restart_log(refused, 3, 4)
        assert (second.log.start, second.log.end, second.high_watermark) == (0, end, 1)
        assert second.awaited == refused.number, "its answer may come"
        return
    second.restart_log(refused, 3, 4)
    assert (second.log.start, second.log.end, second.high_watermark) == (3, 3, 3)
    with pytest.raises(errors.AnswerNotAwaited):
        second.restart_log(refused, 7, 8)


def test_a_follower_whose_end_an_unclean_leader_does_not_have_copies_its_log() -> None:
    """Otherwise it would wait until the leader has so much, and lack what it wrote till then."""
    second = began_anew_at(40)
    third = Replica(3, Log([Record(1, number) for number in range(30)]))
    third.told(LeaderAndIsr(2, 3, frozenset({3}), 2))
    third.write("after the election")
    refused = second.fetch_request()
    with pytest.raises(errors.NothingToCompare):
        third.answer_fetch(refused, 10)
    assert 2 not in third.ends
    second.restart_log(refused, third.log.start, third.log.end)
    assert second.high_watermark == 0
    fetch(third, second, 40)
    assert second.log.records == third.log.records


def test_what_a_leader_said_of_its_log_before_another_fetch_restarts_nothing() -> None:
    """It ended below then; by now it may have what all of us have, and that is committed."""
    second = began_anew_at(40)
    refused = second.fetch_request()
    second.fetch_request()
    with pytest.raises(errors.AnswerNotAwaited):
        second.restart_log(refused, 0, 30)
    assert (second.log.start, second.log.end) == (40, 40)


def test_a_leader_that_follows_no_more_restarts_nothing() -> None:
    second = began_anew_at(40)
    refused = second.fetch_request()
    second.told(LeaderAndIsr(3, 2, frozenset({2}), 3))
    with pytest.raises(errors.AnswerNotAwaited):
        second.restart_log(refused, 0, 30)
    assert second.log.end == 40


def test_a_follower_that_has_deleted_all_it_had_is_compared_by_its_last_epoch() -> None:
    """Else it would be in sync without what the leader of an unclean election wrote before its
    end."""
    second = follower(2, 1, *[1] * 4)
    second.log.advance_start(4)
    third = Replica(3, Log([Record(1, 0), Record(1, 1)]))
    news = LeaderAndIsr(2, 3, frozenset({3}), 2)
    third.told(news)
    second.told(news)
    for number in range(3):
        third.write(number)
    fetch(third, second)
    assert (2 in third.ends, second.log.start, second.log.end) == (False, 2, 2)
    refused = second.fetch_request()
    with pytest.raises(errors.NothingToCompare):
        third.answer_fetch(refused, 10)
    second.restart_log(refused, third.log.start, third.log.end)
    fetch(third, second)
    assert second.log.records == third.log.records


def test_a_reign_without_a_record_of_who_has_deleted_all_it_had_costs_a_round() -> None:
    second = follower(2, 1, 1)
    second.log.advance_start(1)
    second.told(LeaderAndIsr(2, 2, EVERYBODY, 2))
    third = Replica(3, Log([Record(1, 0)]))
    news = LeaderAndIsr(3, 3, EVERYBODY, 3)
    third.told(news)
    second.told(news)
    assert second.log.latest_epoch == 2
    fetch(third, second)
    assert (second.log.start, second.log.end, second.log.latest_epoch) == (1, 1, -1)
    fetch(third, second)
    assert third.ends[2] == 1


# ------------------------------------------------------------------------------ restarts


def test_a_restart_keeps_the_disk_and_the_checkpoint_and_nothing_else() -> None:
    first = leader(2, frozenset({1, 2}), 2, 2, 2)
    first.ends, first.seen, first.newest = {2: 3}, {2: 0}, {2: (0, 4)}
    first.advance_high_watermark()
    first.asked = 7
    first.restart(1, 2)
    kept = Log([Record(2, 0), Record(2, 1)])
    assert first == Replica(1, kept, high_watermark=1, epoch=2, incarnation=1)


def after_an_unclean_election(records: int) -> tuple[Replica, Replica]:
    """Replica 3 leads with 2 older records and so many of its own; the log of replica 2 is empty,
    begins at 4, and was loaded since it was emptied."""
    third = Replica(3, Log([Record(1, 0), Record(1, 1)]))
    second = Replica(2, Log(start=4))
    news = LeaderAndIsr(2, 3, frozenset({3}), 2)
    third.told(news)
    second.told(news)
    for number in range(records):
        third.write(number)
    return third, second


def test_an_emptied_log_begins_anew_where_its_unclean_leader_does() -> None:
    """It would be in sync without what that leader has acknowledged before its end."""
    third, second = after_an_unclean_election(3)
    refused = second.fetch_request()
    with pytest.raises(errors.NothingToCompare):
        third.answer_fetch(refused, 10)
    assert 2 not in third.ends
    second.restart_log(refused, third.log.start, third.log.end)
    fetch(third, second, 10)
    assert second.log.records == third.log.records


def test_an_emptied_log_at_its_leaders_start_or_in_the_isr_has_nothing_to_compare() -> None:
    """Of a leader that was elected cleanly, members of the ISR have all committed records, or have
    deleted them; they must not go back, for they may be elected."""
    third, second = after_an_unclean_election(3)
    third.log.advance_start(4)
    fetch(third, second, 10)
    assert second.log.records == third.log.records
    third, second = after_an_unclean_election(3)
    third.isr = frozenset({2, 3})
    fetch(third, second, 10)
    assert (second.log.start, second.log.end) == (4, 5)


def test_a_log_with_epochs_does_not_begin_anew_inside_its_leaders() -> None:
    third, second = after_an_unclean_election(3)
    refused = second.fetch_request()
    second.log.restart_at(0)
    second.log.extend([Record(1, 0), Record(1, 1)])
    with pytest.raises(errors.InsideLeadersLog):
        second.restart_log(refused, third.log.start, third.log.end)
