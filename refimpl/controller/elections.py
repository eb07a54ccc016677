"""The choice of a partition's leader: pure functions of the current state.

The guards are those of the machine (`PartitionState`). This module chooses among candidates, and
decides whether an election is called for, as Kafka 4.x does (PartitionChangeBuilder).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from refimpl.controller.errors import ApiError
from refimpl.machines.controller import PartitionState, first_live
from refimpl.messages.controller import PREFERRED, UNCLEAN

How: TypeAlias = Literal["clean", "last known", "unclean"]


class Choice(NamedTuple):
    """The new leader, and the kind of election: clean, unclean or last known."""

    broker: int
    how: How = "clean"


def online(
    assignment: Sequence[int], state: PartitionState, *, unclean: bool = False
) -> Choice | None:
    """The leader for a partition without one: of the ISR, else of the ELR, else the last known
    leader, else, if unclean election is allowed, any replica.
    """
    active = state.active
    for candidates in (state.isr, state.elr):
        broker = first_live(tuple(assignment), candidates, active)
        if broker is not None:
            return Choice(broker)
    last = state.last_known
    if last in active and not state.isr | state.elr:
        return Choice(last, "last known")
    broker = first_live(tuple(assignment), frozenset(assignment), active)
    return Choice(broker, "unclean") if unclean and broker is not None else None


def asked(election_type: int, assignment: Sequence[int], state: PartitionState) -> Choice:
    """The leader after an operator has asked for an election (KIP-183, KIP-460).

    Raises ApiError if no election is needed, or no replica may lead.
    """
    if election_type == PREFERRED:
        return _preferred(assignment, state)
    if election_type != UNCLEAN:
        raise ApiError("INVALID_REQUEST", f"Unknown election type {election_type}")
    if state.leader is not None:
        raise not_needed()
    choice = online(assignment, state, unclean=True)
    if choice is None:
        raise ApiError(
            "ELIGIBLE_LEADERS_NOT_AVAILABLE",
            "Eligible topic partition leaders are not available.",
        )
    return choice


def not_needed() -> ApiError:
    """The error for a partition whose leader is right already."""
    return ApiError("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition.")


def _preferred(assignment: Sequence[int], state: PartitionState) -> Choice:
    preferred = assignment[0]
    if state.leader == preferred:
        raise not_needed()
    choice = online(assignment, state) if state.leader is None else None
    if choice is None and preferred in state.isr & state.active:
        choice = Choice(preferred)
    if choice is None:
        raise ApiError("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")
    return choice


def imbalanced(assignment: Sequence[int], state: PartitionState) -> bool:
    """True if the preferred leader could lead, and another broker does."""
    preferred = assignment[0]
    return state.leader not in (None, preferred) and preferred in state.isr & state.active
