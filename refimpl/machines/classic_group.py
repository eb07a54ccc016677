"""The classic group protocol: members join, one of them assigns, and all share a generation.

Spec: ClassicGroup. A group is a value. An operation (`classic_operations`) returns the new group,
the responses to send, the timers to set or cancel, and whether the group is to be written first.
Requests that wait are part of the value. KIP-62, KIP-134, KIP-345, KIP-389, KIP-394, KIP-814.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

from refimpl.machines import classic_group_errors as errors
from refimpl.machines.classic_member import (
    ClassicGroupMember,
    JoinRequest,
    Response,
    Token,
    common_protocols,
)

State: TypeAlias = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]

Timer: TypeAlias = tuple[str, str]
"""The purpose of a timer: `("session", member)`, JOIN or SYNC."""
JOIN, SYNC = ("join", ""), ("sync", "")


def session(member: str) -> Timer:
    """The session timer of a member."""
    return "session", member


@frozen
class Config:
    """Settings of a coordinator, in milliseconds: group.initial.rebalance.delay.ms, group.max.size,
    and the time for which a new member's join is parked.
    """

    initial_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    new_member_ms: int = 300_000


@frozen
class InitialDelay:
    """The time that the first members wait for more.

    The wait is `left_ms` at most, and goes on while somebody `joined` since the timer was set for
    `step_ms`.
    """

    step_ms: int
    left_ms: int
    joined: bool = False


@frozen
class ClassicGroup:
    """A group as its coordinator knows it.

    `pending` are ids that were given out and have not joined (KIP-394). `unsynced` are the members
    that were answered a join of this generation and have not asked for their assignment. `since` is
    when the state was entered, in ms; the caller sets it.
    """

    state: State = "Empty"
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, ClassicGroupMember] = {}
    pending: frozenset[str] = frozenset()
    unsynced: frozenset[str] = frozenset()
    initial: InitialDelay | None = None
    since: int = -1

    @property
    def all_joined(self) -> bool:
        """True if no member and no pending id is waited for (KAFKA-7909)."""
        return not self.pending and all(one.join is not None for one in self.members.values())

    @property
    def rebalance_ms(self) -> int:
        """The time that members have to join, and to ask for their assignment."""
        return max((one.rebalance_ms for one in self.members.values()), default=0)

    def of_instance(self, instance: str) -> str | None:
        """The id of the static member of this instance id."""
        return next((one.id for one in self.members.values() if one.instance == instance), None)

    def member(self, id: str, instance: str | None = None) -> ClassicGroupMember:
        """A member, refused if another process has taken its instance id over."""
        if instance is not None:
            owner = self.of_instance(instance)
            if owner is None:
                raise errors.UnknownInstanceId(id, instance)
            if owner != id:
                raise errors.InstanceIdTakenOver(id, instance, owner)
        if id not in self.members:
            raise errors.UnknownMemberId(id, len(self.members))
        return self.members[id]

    def current(self, id: str, generation: int, instance: str | None = None) -> ClassicGroupMember:
        """A member that is in this generation; others are refused."""
        member = self.member(id, instance)
        if generation != self.generation:
            raise errors.WrongGeneration(generation, self.generation)
        return member

    def check_protocols(self, request: JoinRequest) -> None:
        """Refuse a member of another protocol type, or one that shares no protocol with all the
        others.
        """
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
        """Refuse a commit of a client that is not a member in this generation.

        Commits without a generation come from operators, from groups without members, and from
        transactional clients that do not name their member id.
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
    """The result of an operation.

    If `writes` is set, the group's metadata must be written first: generation, members and
    assignment must survive. Then the answers may go, and each timer is set to its ms, or cancelled
    by None.
    """

    group: ClassicGroup
    answers: tuple[tuple[Token, Response], ...] = ()
    timers: Mapping[Timer, int | None] = {}
    writes: bool = False
