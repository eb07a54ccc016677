"""A broker's part in the election of a controller, alone and guard by guard.

The store is a few lines here, with ZooKeeper's contract, so that what the machine may do follows
from the definition: one live session owns /controller, and /controller_epoch counts elections.
"""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import FencedLeaderEpoch, Refusal
from refimpl.machines import election_errors as errors
from refimpl.machines.election import (
    Claim,
    ControllerElection,
    ControllerFence,
    Controllership,
    FencedWrite,
    check_news,
)
from refimpl.machines.messages import LeaderAndIsr


def nothing_read() -> ControllerElection:
    return ControllerElection(1)


def candidate(epoch: int = 3, version: int = 7) -> ControllerElection:
    """Broker 1 in session 10, which saw that nobody is controller."""
    election = ControllerElection(1)
    election.connect(10)
    election.look(None, epoch, version)
    return election


def claiming() -> ControllerElection:
    election = candidate()
    election.claim()
    return election


def controller() -> ControllerElection:
    election = claiming()
    election.elected(8)
    return election


# ------------------------------------------------------------------------------ sessions


def test_a_broker_begins_as_follower_that_has_read_nothing() -> None:
    election = ControllerElection(1)
    assert (election.session, election.role, election.watch) == (0, "follower", "unread")
    assert (election.seen, election.controllership, election.must_look) == ((0, 0), None, True)


def test_a_new_session_has_no_watch_and_no_claim_and_leaves_the_role() -> None:
    election = controller()
    election.connect(11)
    assert (election.session, election.watch, election.must_look) == (11, "unread", True)
    assert election.role == "controller"
    assert election.controllership is not None
    waiting = claiming()
    waiting.connect(11)
    assert not waiting.claiming
    waiting.look(None, 4, 8)
    assert waiting.role == "candidate"


def test_a_lost_connection_forgets_the_watch_and_the_claim_and_not_the_session() -> None:
    election = claiming()
    election.suspend()
    assert (election.session, election.role, election.watch) == (10, "unsure", "unread")
    assert election.must_look
    for answer in (lambda: election.elected(8), election.beaten):
        with pytest.raises(errors.NoClaim, match="broker 1"):
            answer()
    assert election.role == "unsure"


def test_whoever_resigns_is_follower_and_keeps_its_watch() -> None:
    election = controller()
    election.resign()
    assert (election.role, election.controllership, election.watch) == ("follower", None, "armed")
    assert election.session == 10


def test_a_process_that_starts_knows_nothing() -> None:
    election = controller()
    election.restart(11)
    assert election == ControllerElection(1, session=11)


# ------------------------------------------------------------------------------ looking


def test_a_broker_looks_once_until_its_watch_fires() -> None:
    election = candidate()
    assert not election.must_look
    election.fire()
    assert (election.watch, election.must_look) == ("fired", True)
    election.look(20, 4, 8)
    assert (election.watch, election.must_look, election.seen) == ("armed", False, (4, 8))


def test_a_claim_under_way_is_answered_before_the_next_look() -> None:
    election = claiming()
    election.fire()
    assert not election.must_look
    election.beaten()
    assert election.must_look


def test_who_sees_no_controller_is_candidate_even_if_it_was_controller() -> None:
    election = controller()
    election.fire()
    election.look(None, 4, 8)
    assert (election.role, election.controllership) == ("candidate", None)


def test_who_sees_another_controller_follows_it() -> None:
    for election in (candidate(), controller()):
        election.fire()
        election.look(20, 4, 8)
        assert (election.role, election.controllership) == ("follower", None)


def test_a_node_of_its_own_session_is_the_claim_whose_answer_was_lost() -> None:
    election = claiming()
    election.suspend()
    election.look(10, 4, 8)
    assert (election.role, election.controllership) == ("controller", Controllership(4, 8))


def test_a_controller_that_sees_its_own_node_again_keeps_what_it_has_read() -> None:
    election = controller()
    held = election.controllership
    assert held is not None
    held.read("partition", 2)
    election.suspend()
    election.look(10, 4, 8)
    assert election.controllership is held
    assert held.write("partition") == FencedWrite(8, 2)


def test_a_node_of_an_earlier_session_of_its_own_is_somebody_elses() -> None:
    election = controller()
    election.connect(11)
    election.look(10, 4, 8)
    assert (election.role, election.controllership) == ("follower", None)


# ------------------------------------------------------------------------------ claims and writes


def test_a_claim_is_the_next_epoch_on_the_version_that_was_seen() -> None:
    election = candidate(3, 7)
    assert election.claim() == Claim(session=10, controller_epoch=4, version=7)
    assert (election.role, election.claiming) == ("unsure", True)
    election.elected(8)
    assert (election.role, election.claiming) == ("controller", False)
    assert election.controllership == Controllership(controller_epoch=4, fence=8)


def test_who_is_beaten_or_fenced_is_follower() -> None:
    beaten, fenced = claiming(), controller()
    beaten.beaten()
    fenced.fenced()
    for election in (beaten, fenced):
        assert (election.role, election.claiming) == ("follower", False)
        assert election.controllership is None


def test_a_write_is_conditional_on_the_fence_and_on_what_was_read_last() -> None:
    held = Controllership(4, 8)
    with pytest.raises(errors.NotRead, match="partition"):
        held.write("partition")
    held.read("partition", 2)
    assert held.write("partition") == FencedWrite(fence=8, version=2)
    held.written("partition", 3)
    assert held.write("partition") == FencedWrite(fence=8, version=3)
    held.read("another", 5)
    held.conflict("partition")
    held.conflict("never read")
    with pytest.raises(errors.NotRead):
        held.write("partition")
    assert held.write("another") == FencedWrite(8, 5)


REFUSED: list[tuple[Callable[[], ControllerElection], tuple[Any, ...], type[Refusal]]] = [
    (candidate, ("connect", 10), errors.SameSession),
    (candidate, ("restart", 10), errors.SameSession),
    (nothing_read, ("fire",), errors.NotArmed),
    (candidate, ("look", None, 4, 8), errors.NothingNew),
    (claiming, ("look", None, 4, 8), errors.ClaimUnderWay),
    (claiming, ("claim",), errors.NotCandidate),
    (controller, ("claim",), errors.NotCandidate),
    (nothing_read, ("claim",), errors.NotCandidate),
    (candidate, ("elected", 8), errors.NoClaim),
    (controller, ("beaten",), errors.NoClaim),
    (candidate, ("fenced",), errors.NotController),
    (claiming, ("fenced",), errors.NotController),
]


@pytest.mark.parametrize(("start", "act", "refusal"), REFUSED)
def test_each_guard_refuses_by_its_own_name_and_changes_nothing(
    start: Callable[[], ControllerElection], act: tuple[Any, ...], refusal: type[Refusal]
) -> None:
    election, (name, *arguments) = start(), act
    before = repr(election)
    with pytest.raises(refusal) as refused:
        getattr(election, name)(*arguments)
    assert type(refused.value) is refusal
    assert repr(election) == before


def test_a_watch_that_fired_does_not_fire_again() -> None:
    election = candidate()
    election.fire()
    with pytest.raises(errors.NotArmed, match="fired"):
        election.fire()


# ------------------------------------------------------------------------------ obeying


def test_no_older_controller_is_obeyed() -> None:
    fence = ControllerFence()
    fence.hear(0)
    for epoch in (2, 2, 5):
        fence.hear(epoch)
    with pytest.raises(errors.StaleControllerEpoch, match="epoch 4, and 5"):
        fence.hear(4)
    assert fence.controller_epoch == 5


def test_no_older_decision_is_obeyed() -> None:
    known = LeaderAndIsr(3, 1, frozenset({1}), 9)
    for epoch in (3, 4):
        check_news(2, known, LeaderAndIsr(epoch, 2, frozenset({2}), 1))
    with pytest.raises(FencedLeaderEpoch, match="leader epoch 2, and here it is 3"):
        check_news(2, known, LeaderAndIsr(2, 1, frozenset({1}), 10))


# ------------------------------------------------------------------------------ several brokers


@define
class Store:
    """/controller, owned by a session; /controller_epoch, whose version is its value here."""

    owner: int | None = None
    epoch: int = 0
    sessions: int = 0
    writes: list[int] = field(factory=list[int])

    def take(self, claim: Claim) -> bool:
        fits = self.owner is None and claim.version == self.epoch
        if fits:
            self.owner, self.epoch = claim.session, claim.controller_epoch
        return fits

    def write(self, held: Controllership) -> bool:
        held.read("a", 0)
        fits = held.write("a").fence == self.epoch
        if fits:
            self.writes.append(held.controller_epoch)
        return fits

    def connect(self, broker: ControllerElection) -> None:
        if self.owner == broker.session:
            self.owner = None
        self.sessions += 1
        broker.connect(self.sessions)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["look", "claim", "lost", "write", "expire", "fire"])
    ),
    max_size=40,
)


@given(STEPS)
def test_whoever_believes_to_be_controller_only_the_last_elected_one_writes(
    steps: list[tuple[int, str]],
) -> None:
    store = Store()
    brokers = [ControllerElection(number) for number in range(3)]
    for broker in brokers:
        store.connect(broker)
    for number, step in steps:
        broker = brokers[number]
        match step:
            case "look" if broker.must_look:
                broker.look(store.owner, store.epoch, store.epoch)
            case "claim" | "lost" if broker.role == "candidate":
                claim = broker.claim()
                applied = store.take(claim)
                if step == "lost":
                    broker.suspend()
                elif applied:
                    broker.elected(store.epoch)
                else:
                    broker.beaten()
            case "write" if broker.controllership is not None:
                if not store.write(broker.controllership):
                    broker.fenced()
            case "expire":
                store.connect(broker)
            case "fire" if broker.watch == "armed":
                broker.fire()
            case _:
                pass
        held = [one for one in brokers if one.controllership is not None]
        assert (broker in held) == (broker.role == "controller")
        epochs = [one.controllership.controller_epoch for one in held if one.controllership]
        assert len(set(epochs)) == len(epochs), "an epoch has one controller"
        assert all(epoch <= store.epoch for epoch in epochs)
    assert store.writes == sorted(store.writes), "no controller writes after its successor"
