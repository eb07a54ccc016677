"""Who leads a partition: pure functions from what is in force to a choice.

The guards are those of the machine (`PartitionState`); which of several candidates it is, and
whether an election is called for, is decided here, as in Kafka 4.x (PartitionChangeBuilder).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from refimpl.controller.errors import ApiError
from refimpl.machines.controller import PartitionState, first_live
from refimpl.messages.controller import PREFERRED, UNCLEAN

How: TypeAlias = Literal["clean", "last known", "unclean"]


class Choice(NamedTuple):
    """Who shall lead, and what of it is not clean."""

    broker: int
    how: How = "clean"


def online(
    assignment: Sequence[int], state: PartitionState, *, unclean: bool = False
) -> Choice | None:
    """Who leads where nobody does: one of the ISR, else of the ELR, else who led last, else,
    if that is allowed, anyone."""
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
    """Who leads after an operator has asked for an election (KIP-183, KIP-460).

    Raises ApiError: not needed, or nobody is there who may.
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
    """Who should lead does."""
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
    """Whether another one leads than the first of the assignment, which could."""
    preferred = assignment[0]
    return state.leader not in (None, preferred) and preferred in state.isr & state.active
