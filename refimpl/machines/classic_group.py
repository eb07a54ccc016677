"""The classic group protocol: members join, one of them assigns, and all go on in a generation.

Spec: ClassicGroup. A group is a value. An operation (`classic_operations`) answers the group as it
is from then on, with the responses that may go, the timers to set or cancel, and whether the group
is to be written down first. Requests that wait are part of the value.
KIP-62, KIP-134, KIP-345, KIP-389, KIP-394, KIP-814.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

from refimpl.machines import classic_group_errors as errors
from refimpl.machines.classic_member import (
    JoinRequest,
    Member,
    Response,
    Token,
    common_protocols,
)

State: TypeAlias = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]

Timer: TypeAlias = tuple[str, str]
"""What a timer is for: `("session", member)`, JOIN or SYNC."""
JOIN, SYNC = ("join", ""), ("sync", "")


def session(member: str) -> Timer:
    """The timer of a member that must be heard of again."""
    return "session", member


@frozen
class Config:
    """Settings of a coordinator, in milliseconds: group.initial.rebalance.delay.ms, group.max.size,
    and how long a join of a new member is parked."""

    initial_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    new_member_ms: int = 300_000


@frozen
class InitialDelay:
    """The first members wait for more: `left_ms` at most, as long as somebody `joined` since the
    timer was set, which was for `step_ms`."""

    step_ms: int
    left_ms: int
    joined: bool = False


@frozen
class ClassicGroup:
    """A group as its coordinator knows it.

    `pending` are ids that were given out and have not joined (KIP-394), `unsynced` the members that
    were answered a join of this generation and have not asked for their assignment. `since` is when
    the state was entered, in ms; whoever keeps the group sets it.
    """

    state: State = "Empty"
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, Member] = {}
    pending: frozenset[str] = frozenset()
    unsynced: frozenset[str] = frozenset()
    initial: InitialDelay | None = None
    since: int = -1

    @property
    def all_joined(self) -> bool:
        """Whether nobody is waited for: neither a member nor a pending id (KAFKA-7909)."""
        return not self.pending and all(one.join is not None for one in self.members.values())

    @property
    def rebalance_ms(self) -> int:
        """How long members may take to join, and to ask for their assignment."""
        return max((one.rebalance_ms for one in self.members.values()), default=0)

    def of_instance(self, instance: str) -> str | None:
        """The id of the static member of this instance id."""
        return next((one.id for one in self.members.values() if one.instance == instance), None)

    def member(self, id: str, instance: str | None = None) -> Member:
        """A member, refused if another process has taken its instance id over."""
        if instance is not None:
            owner = self.of_instance(instance)
            if owner is None:
                raise errors.UnknownInstanceId(id, instance)
            if owner != id:
                raise errors.FencedInstanceId(id, instance, owner)
        if id not in self.members:
            raise errors.UnknownMemberId(id, len(self.members))
        return self.members[id]

    def current(self, id: str, generation: int, instance: str | None = None) -> Member:
        """A member that is in this generation."""
        member = self.member(id, instance)
        if generation != self.generation:
            raise errors.NotInGeneration(generation, self.generation)
        return member

    def check_protocols(self, request: JoinRequest) -> None:
        """Refuse a member of another type, or that shares no protocol with all the others."""
        names = [name for name, _ in request.protocols]
        if self.members:
            fits = request.protocol_type == self.protocol_type
            common = common_protocols(self.members.values())
            fits = fits and any(name in common for name in names)
        else:
            fits = bool(request.protocol_type and names)
        if not fits:
            asked = f"{request.protocol_type or 'no type'} with {', '.join(names) or 'no protocol'}"
            raise errors.InconsistentGroupProtocol(asked, self.protocol_type or "no members")

    def check_commit(
        self, id: str, generation: int, instance: str | None, transactional: bool = False
    ) -> None:
        """Refuse a commit of whoever is not a member in this generation.

        Without a generation offsets are committed by hand, of groups without members, and by
        transactions of clients that do not say who they are.
        """
        if generation < 0 and self.state == "Empty":
            return
        if generation >= 0 or id or instance is not None:
            self.current(id, generation, instance)
        elif not transactional:
            raise errors.UnknownMemberId(id, len(self.members))
        if self.state == "CompletingRebalance" and not transactional:
            raise errors.RebalanceInProgress(self.generation, self.state)


@frozen
class Step:
    """What an operation decides.

    The answers may go, and the timers are to be set to so many ms or cancelled by None, once the
    group `writes` its metadata, if it does: generation, members and assignment are to survive.
    """

    group: ClassicGroup
    answers: tuple[tuple[Token, Response], ...] = ()
    timers: Mapping[Timer, int | None] = {}
    writes: bool = False
