"""The choice of a leader where there is none, and answers to requests for an election."""

from typing import Any

import pytest

from refimpl.controller.elections import Choice, asked, imbalanced, online
from refimpl.controller.errors import ApiError
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.messages import controller as c

ASSIGNED = (1, 2, 3)


def partition(
    leader: int | None, isr: tuple[int, ...], *alive: int, elr: tuple[int, ...] = (), **of: Any
) -> PartitionState:
    registry = BrokerRegistry()
    for broker in ASSIGNED:
        registry.register(broker, 1)
        if broker in alive:
            registry.unfence(broker)
    return PartitionState(
        1, leader, frozenset(isr), frozenset(ASSIGNED), registry, 1, frozenset(elr), **of
    )


@pytest.mark.parametrize(
    ("state", "choice"),
    [
        (partition(None, (2, 3), 1, 2, 3), Choice(2)),
        (partition(None, (2, 3), 1, 3, elr=(1,)), Choice(3)),
        (partition(None, (2,), 1, 3, elr=(3,)), Choice(3)),
        (partition(None, (2,), 1, 3), None),
        (partition(None, (), 1, 3, last_known=3), Choice(3, "last known")),
        (partition(None, (), 1, last_known=3), None),
        (partition(None, (2,), 1, 3, last_known=3), None),
        (partition(None, (), 1, 3, elr=(2,), last_known=3), None),
    ],
)
def test_in_sync_comes_before_eligible_and_that_before_who_led_last(
    state: PartitionState, choice: Choice | None
) -> None:
    assert online(ASSIGNED, state) == choice


def test_only_where_a_loss_is_accepted_anybody_leads() -> None:
    lost = partition(None, (1,), 2, 3)
    assert online(ASSIGNED, lost) is None
    assert online(ASSIGNED, lost, unclean=True) == Choice(2, "unclean")
    assert online(ASSIGNED, partition(None, (1,)), unclean=True) is None
    assert online(ASSIGNED, partition(None, (1,), 1, 2), unclean=True) == Choice(1)


def error(kind: int, state: PartitionState) -> str:
    with pytest.raises(ApiError) as refused:
        asked(kind, ASSIGNED, state)
    return refused.value.error


def test_an_unclean_election_is_for_who_has_no_leader_and_needs_somebody() -> None:
    assert error(c.UNCLEAN, partition(2, (1,), 1, 2)) == "ELECTION_NOT_NEEDED"
    assert error(c.UNCLEAN, partition(None, (1,))) == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert asked(c.UNCLEAN, ASSIGNED, partition(None, (1,), 2)) == Choice(2, "unclean")
    assert error(7, partition(None, (1,), 2)) == "INVALID_REQUEST"


def test_the_preferred_leader_is_the_first_of_the_assignment() -> None:
    assert error(c.PREFERRED, partition(1, (1, 2), 1, 2)) == "ELECTION_NOT_NEEDED"
    assert asked(c.PREFERRED, ASSIGNED, partition(2, (1, 2), 1, 2)) == Choice(1)
    assert error(c.PREFERRED, partition(2, (1, 2), 2)) == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert error(c.PREFERRED, partition(2, (2,), 1, 2)) == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert asked(c.PREFERRED, ASSIGNED, partition(None, (2,), 2)) == Choice(2)
    assert error(c.PREFERRED, partition(None, (2,), 1, 3)) == "PREFERRED_LEADER_NOT_AVAILABLE"


def test_a_leader_that_is_not_the_preferred_one_is_out_of_balance_if_that_one_could_lead() -> None:
    assert imbalanced(ASSIGNED, partition(2, (1, 2), 1, 2))
    for state in (
        partition(1, (1, 2), 1, 2),
        partition(None, (1, 2), 1, 2),
        partition(2, (2,), 1, 2),
        partition(2, (1, 2), 2),
    ):
        assert not imbalanced(ASSIGNED, state)
