"""A classic group's step from one generation to the next, shared by all of its operations.

Spec: ClassicGroup, `Prepare`, `Complete` and `Remove`.
"""

from collections.abc import Iterable

from attrs import define, evolve, field

from refimpl.machines.classic_group import (
    JOIN,
    SYNC,
    ClassicGroup,
    Config,
    InitialDelay,
    Step,
    Timer,
    session,
)
from refimpl.machines.classic_member import (
    ClassicGroupMember,
    JoinResponse,
    Response,
    SyncResponse,
    Token,
    select_protocol,
)


@define
class Rebalance:
    """One operation in progress: the group so far, its answers, and its timers."""

    group: ClassicGroup
    config: Config = field(factory=Config)
    answers: list[tuple[Token, Response]] = field(factory=list[tuple[Token, Response]])
    timers: dict[Timer, int | None] = field(factory=dict[Timer, int | None])
    writes: bool = False

    def step(self) -> Step:
        """The result of the operation."""
        return Step(self.group, tuple(self.answers), self.timers, self.writes)

    def rebalance(self) -> None:
        if self.group.state == "PreparingRebalance":
            self.complete_if_all_joined()
        else:
            self.prepare()

    def prepare(self) -> None:
        """Begin a rebalance: all members are to join again. The first ones of a group wait for
        more.
        """
        group = self.group
        initial = None
        if group.state == "CompletingRebalance":
            self._cancel_syncs()
        if group.state == "Empty":
            delay = self.config.initial_delay_ms
            initial = InitialDelay(delay, max(group.rebalance_ms - delay, 0))
        self.timers[SYNC] = None
        self.timers[JOIN] = initial.step_ms if initial else group.rebalance_ms
        self.group = evolve(
            self.group, state="PreparingRebalance", initial=initial, unsynced=frozenset[str]()
        )
        self.complete_if_all_joined()

    def _cancel_syncs(self) -> None:
        for member in self.group.members.values():
            self.supersede(member.sync, SyncResponse("REBALANCE_IN_PROGRESS"))
            self.put(evolve(member, sync=None, assignment=b""))

    def complete_if_all_joined(self) -> None:
        group = self.group
        if group.state == "PreparingRebalance" and group.initial is None and group.all_joined:
            self.complete()

    def complete(self) -> None:
        """Begin the next generation with all that have joined, and static members that have not."""
        there = self.group.members.values()
        self.remove([one.id for one in there if one.join is None and one.instance is None])
        group = self.group
        joined = [one.id for one in group.members.values() if one.join is not None]
        if group.members and not joined:  # static ones only: their sessions will end
            self.timers[JOIN] = group.rebalance_ms
            return
        self.timers[JOIN] = None
        self.group = evolve(group, generation=group.generation + 1, initial=None)
        if joined:
            leader = group.leader if group.leader in joined else min(joined)
            self._await_assignment(leader)
        else:
            self.group = evolve(self.group, state="Empty", protocol=None, leader=None)
            self.writes = True

    def _await_assignment(self, leader: str) -> None:
        members = self.group.members
        self.group = evolve(
            self.group,
            state="CompletingRebalance",
            protocol=select_protocol(members.values()),
            leader=leader,
            unsynced=frozenset(members),
        )
        for member in members.values():
            self.supersede(member.join, self.joined(member))
            self.put(evolve(member, join=None, is_new=False, absent=member.join is None))
            self.timers[session(member.id)] = member.session_ms
        self.timers[SYNC] = self.group.rebalance_ms

    def remove(self, ids: Iterable[str]) -> bool:
        """Remove members and pending ids; True if a member was among them.

        A member's parked requests are answered: the process may still be there, and try again.
        """
        gone, group = frozenset(ids), self.group
        for id in group.members.keys() & gone:
            self.supersede(group.members[id].join, JoinResponse("UNKNOWN_MEMBER_ID"))
            self.supersede(group.members[id].sync, SyncResponse("UNKNOWN_MEMBER_ID"))
        members = {id: one for id, one in group.members.items() if id not in gone}
        self.timers |= {session(id): None for id in gone}
        self.group = evolve(
            group,
            members=members,
            pending=group.pending - gone,
            unsynced=group.unsynced - gone,
            leader=min(members, default=None) if group.leader in gone else group.leader,
        )
        return len(members) < len(group.members)

    def after_removing(self, removed: bool) -> None:
        """Rebalance if a member is gone; a pending id can only have been waited for."""
        if removed and self.group.state in ("Stable", "CompletingRebalance"):
            self.prepare()
        else:
            self.complete_if_all_joined()

    def joined(self, member: ClassicGroupMember) -> JoinResponse:
        group = self.group
        leads = group.leader == member.id
        return JoinResponse(
            error=None,
            member=member.id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=tuple(group.members.values()) if leads else (),
        )

    # Helpers

    def put(self, member: ClassicGroupMember) -> None:
        self.group = evolve(self.group, members={**self.group.members, member.id: member})

    def supersede(self, parked: Token | None, response: Response) -> None:
        """Answer a parked request before it is forgotten, because its sender waits
        (KAFKA-20938).
        """
        if parked is not None:
            self.answers.append((parked, response))
