"""How a classic group goes from one generation to the next: what all of its operations share.

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
    JoinResponse,
    Member,
    Response,
    SyncResponse,
    Token,
    select_protocol,
)


@define
class Rebalance:
    """One operation while it is being worked out: the group so far, and what comes of it."""

    group: ClassicGroup
    config: Config = field(factory=Config)
    answers: list[tuple[Token, Response]] = field(factory=list[tuple[Token, Response]])
    timers: dict[Timer, int | None] = field(factory=dict[Timer, int | None])
    writes: bool = False

    def step(self) -> Step:
        """What was decided."""
        return Step(self.group, tuple(self.answers), self.timers, self.writes)

    def rebalance(self) -> None:
        if self.group.state == "PreparingRebalance":
            self.complete_if_all_joined()
        else:
            self.prepare()

    def prepare(self) -> None:
        """All members are to join anew. The first ones of a group wait for more to come."""
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
        """Begin the next generation with all who have joined, and static members that have not."""
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
        """Take members and pending ids out; whether a member was among them.

        What a member has parked is answered: the process may be there still, and try again.
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
        """Without a member there is another generation; a pending id was waited for at most."""
        if removed and self.group.state in ("Stable", "CompletingRebalance"):
            self.prepare()
        else:
            self.complete_if_all_joined()

    def joined(self, member: Member) -> JoinResponse:
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

    # Small words

    def put(self, member: Member) -> None:
        self.group = evolve(self.group, members={**self.group.members, member.id: member})

    def supersede(self, parked: Token | None, response: Response) -> None:
        """Answer what is parked before it is forgotten: its sender waits (KAFKA-20938)."""
        if parked is not None:
            self.answers.append((parked, response))
