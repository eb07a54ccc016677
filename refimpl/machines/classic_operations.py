"""The operations on a classic group: requests of its members, and timers.

Each takes the group as a value and returns a `Step`. A refusal is raised, and has changed nothing.
Spec: ClassicGroup.
"""

from collections.abc import Mapping, Sequence

from attrs import define, evolve

from refimpl.errors import Refusal
from refimpl.machines import classic_group_errors as errors
from refimpl.machines.classic_group import (
    JOIN,
    SYNC,
    ClassicGroup,
    Config,
    InitialDelay,
    Step,
    session,
)
from refimpl.machines.classic_member import (
    ClassicGroupMember,
    HeartbeatResponse,
    JoinRequest,
    JoinResponse,
    LeaveResponse,
    SyncRequest,
    SyncResponse,
    Token,
    select_protocol,
)
from refimpl.machines.classic_rebalance import Rebalance


def join(group: ClassicGroup, request: JoinRequest, config: Config) -> Step:
    """A JoinGroup request: answered at once, or parked until all members have joined."""
    turn = Turn(group, config)
    turn.join(request)
    return turn.step()


def sync(group: ClassicGroup, request: SyncRequest) -> Step:
    """A SyncGroup request: parked until the leader's arrives, whose assignment answers all."""
    turn = Turn(group)
    turn.sync(request)
    return turn.step()


def heartbeat(
    group: ClassicGroup, token: Token, member: str, generation: int, instance: str | None = None
) -> Step:
    """A Heartbeat request; while the next generation is being prepared, the answer is to join
    again.

    While its assignment is awaited the answer has no error: a member that joined must not be driven
    out of the generation (KAFKA-10134).
    """
    known = group.current(member, generation, instance)
    error = "REBALANCE_IN_PROGRESS" if group.state == "PreparingRebalance" else None
    answers = ((token, HeartbeatResponse(error)),)
    return Step(group, answers, {session(member): known.session_ms})


def leave(group: ClassicGroup, token: Token, leaving: Sequence[tuple[str, str | None]]) -> Step:
    """Members leave: pairs of member id and instance id, answered one by one (KIP-345)."""
    turn = Turn(group)
    turn.leave(token, leaving)
    return turn.step()


def session_expired(group: ClassicGroup, member: str) -> Step:
    """No heartbeat of a member, or no join of a pending id, came within its session timeout."""
    turn = Turn(group)
    turn.expire(member)
    return turn.step()


def join_expired(group: ClassicGroup, config: Config) -> Step:
    """The time to join is over: the members that have joined are the next generation."""
    turn = Turn(group, config)
    turn.join_expired()
    return turn.step()


def sync_expired(group: ClassicGroup) -> Step:
    """Members that have not asked for their assignment are removed (KAFKA-12890)."""
    turn = Turn(group)
    turn.sync_expired()
    return turn.step()


def downgraded(
    group: ClassicGroup, config: Config, successor: JoinRequest | None, *, stale: bool
) -> Step:
    """A group that was a consumer group until now (`group_migration`).

    The successor of a static member takes it over, and makes the group no larger. If the assignment
    is `stale`, all members join again.
    """
    turn = Turn(group, config)
    turn.loaded()
    if stale:
        turn.prepare()
    if successor is not None:
        turn.succeed(successor)
    return turn.step()


def loaded(group: ClassicGroup, config: Config) -> Step:
    """A group as loaded from the log: all sessions begin afresh."""
    turn = Turn(group, config)
    turn.loaded()
    return turn.step()


@define
class Turn(Rebalance):
    """One operation in progress."""

    # Joining

    def join(self, request: JoinRequest) -> None:
        """Let a new member in, replace a static one, or update a known one."""
        if not self._has_room(request.member):
            self._turn_away(request)
            return
        self.group.check_protocols(request)
        if request.member:
            self._join_known(request)
        elif request.instance is not None:
            self._join_static(request, request.instance)
        elif request.knows:
            self._give_id(request)
        else:
            self._add(request, request.new_id)

    def succeed(self, request: JoinRequest) -> None:
        """Let the next process of a static member in, however full the group is."""
        self.group.check_protocols(request)
        assert request.instance is not None
        self._join_static(request, request.instance)

    def _has_room(self, id: str) -> bool:
        """True if the group has room. During a join phase only the members that have joined count,
        so the last ones are turned away.
        """
        group, known = self.group, self.group.members.get(id)
        if group.state == "Empty":
            return True
        if group.state == "PreparingRebalance":
            there = sum(one.join is not None for one in group.members.values())
            return there < self.config.max_size or (known is not None and known.join is not None)
        return known is not None or len(group.members) < self.config.max_size

    def _turn_away(self, request: JoinRequest) -> None:
        """Refuse a client because the group is full; if it is a member, remove it."""
        if request.member not in {*self.group.members, *self.group.pending}:
            raise errors.ClassicGroupFull(len(self.group.members), self.config.max_size)
        self.remove([request.member])
        refused = JoinResponse(errors.ClassicGroupFull.kafka_error)
        self.answers.append((request.token, refused))
        self.complete_if_all_joined()

    def _give_id(self, request: JoinRequest) -> None:
        self.group = evolve(self.group, pending=self.group.pending | {request.new_id})
        self.timers[session(request.new_id)] = request.session_ms
        response = JoinResponse("MEMBER_ID_REQUIRED", request.new_id)
        self.answers.append((request.token, response))

    def _add(self, request: JoinRequest, id: str) -> None:
        """Add a new member; its parked join proves only for a while that it lives (KAFKA-9232)."""
        group = self.group
        member = ClassicGroupMember(
            id=id,
            protocols=request.protocols,
            instance=request.instance,
            session_ms=request.session_ms,
            rebalance_ms=request.rebalance_ms,
            client_id=request.client_id,
            client_host=request.client_host,
            join=request.token,
            is_new=True,
        )
        self.group = evolve(
            group,
            members={**group.members, id: member},
            pending=group.pending - {id},
            leader=group.leader or id,
            protocol_type=group.protocol_type if group.members else request.protocol_type,
            initial=group.initial and evolve(group.initial, joined=True),
        )
        self.timers[session(id)] = self.config.new_member_ms
        self.rebalance()

    def _join_known(self, request: JoinRequest) -> None:
        """Let a known member join again. If nothing is new it has missed an answer, and the
        generation stays.

        A member that was absent when the generation began is excepted: its owned partitions are not
        known, and another member may be given them. (Kafka answers it with the generation all the
        same.)
        """
        if request.member in self.group.pending:
            if request.instance is not None:
                raise errors.PendingMemberIsStatic(request.member, request.instance)
            self._add(request, request.member)
            return
        member = self.group.member(request.member, request.instance)
        leads, stable = self.group.leader == member.id, self.group.state == "Stable"
        same = request.protocols == member.protocols and not (leads and stable)
        if same and not member.absent and self.group.state != "PreparingRebalance":
            self.answers.append((request.token, self.joined(member)))
            return
        self.supersede(member.join, JoinResponse("NOT_COORDINATOR", member.id))
        self.put(_rejoining(member, request))
        self.rebalance()

    def _join_static(self, request: JoinRequest, instance: str) -> None:
        """Let a process take an instance id over, always under a new member id (KAFKA-8500).

        Where the assignment is known it goes on with its predecessor's, and no rebalance is needed.
        While the leader is still assigning, a rebalance is needed: the assignment would name the
        old id.
        """
        old = self.group.of_instance(instance)
        if old is None:
            self._add(request, request.new_id)
            return
        led_by = self.group.leader
        new = self._replace(self.group.members[old], request)
        if self.group.state == "Stable" and self._keeps_protocol():
            self.put(evolve(new, join=None))
            self.answers.append((request.token, self._took_over(new, request, led_by)))
            self.writes = True
        else:
            self.rebalance()

    def _replace(self, old: ClassicGroupMember, request: JoinRequest) -> ClassicGroupMember:
        self.supersede(old.join, JoinResponse("FENCED_INSTANCE_ID", old.id))
        self.supersede(old.sync, SyncResponse("FENCED_INSTANCE_ID"))
        new = evolve(_rejoining(old, request), id=request.new_id, sync=None, absent=False)
        group, there = self.group, self.group.members.values()
        self.group = evolve(
            group,
            members={(new if one is old else one).id: new if one is old else one for one in there},
            leader=new.id if group.leader == old.id else group.leader,
            unsynced=frozenset(new.id if id == old.id else id for id in group.unsynced),
        )
        self.timers |= {session(old.id): None, session(new.id): new.session_ms}
        return new

    def _keeps_protocol(self) -> bool:
        return select_protocol(self.group.members.values()) == self.group.protocol

    def _took_over(
        self, new: ClassicGroupMember, request: JoinRequest, led_by: str | None
    ) -> JoinResponse:
        """The answer to a process that took over: its predecessor's generation.

        For a client that cannot skip the assignment the answer names the old id as leader.
        Otherwise it would assign again, although nobody would ask for that (KIP-814).
        """
        joined = self.joined(new)
        if not request.can_skip:
            return evolve(joined, leader=led_by or "", members=())
        return evolve(joined, skip_assignment=self.group.leader == new.id)

    # The assignment

    def sync(self, request: SyncRequest) -> None:
        """Give a member its assignment, or let it wait for the leader's."""
        group = self.group
        member = group.current(request.member, request.generation, request.instance)
        for asked, here in (
            (request.protocol_type, group.protocol_type),
            (request.protocol, group.protocol),
        ):
            if asked is not None and asked != here:
                raise errors.InconsistentGroupProtocol(asked, here or "none")
        if group.state == "PreparingRebalance":
            raise errors.RebalanceInProgress(group.generation, group.state)
        self.group = evolve(group, unsynced=group.unsynced - {member.id})
        if not self.group.unsynced:
            self.timers[SYNC] = None
        if group.state == "Stable":
            self.answers.append((request.token, self._assigned(member)))
            return
        self.supersede(member.sync, SyncResponse("NOT_COORDINATOR"))
        self.put(evolve(member, sync=request.token))
        if group.leader == member.id:
            self._assign(dict(request.assignments))

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """Take the leader's assignment. Members that it does not name are assigned nothing."""
        self.group = evolve(self.group, state="Stable")
        for member in self.group.members.values():
            assigned = evolve(member, sync=None, assignment=assignments.get(member.id, b""))
            if member.sync is not None:
                self.answers.append((member.sync, self._assigned(assigned)))
                self.timers[session(member.id)] = member.session_ms
            self.put(assigned)
        self.writes = True

    def _assigned(self, member: ClassicGroupMember) -> SyncResponse:
        group = self.group
        return SyncResponse(None, member.assignment, group.protocol_type, group.protocol)

    # Leaving

    def leave(self, token: Token, leaving: Sequence[tuple[str, str | None]]) -> None:
        """Remove these members, if each may go. An operator names a static member by its instance
        id alone.
        """
        left: list[tuple[str, str | None, str | None]] = []
        removed = False
        for id, instance in leaving:
            try:
                removed |= self.remove([self._leaver(id, instance)])
                left.append((id, instance, None))
            except Refusal as refusal:
                left.append((id, instance, refusal.kafka_error))
        self.answers.append((token, LeaveResponse(tuple(left))))
        self.after_removing(removed)

    def _leaver(self, id: str, instance: str | None) -> str:
        if id in self.group.pending:
            return id
        if not id and instance is not None:
            id = self.group.of_instance(instance) or id
        return self.group.member(id, instance).id

    def expire(self, id: str) -> None:
        """Remove a member whose session has expired; one with a parked request lives."""
        if id not in self.group.pending and self.group.member(id).is_waiting:
            raise errors.NotDueYet(id, self.group.state)
        self.after_removing(self.remove([id]))

    def join_expired(self) -> None:
        """Go on without the members that have not joined.

        The first members of a group wait again if more of them came since the timer was set.
        """
        group = self.group
        if group.state != "PreparingRebalance":
            raise errors.NotDueYet("members that join", group.state)
        delay = group.initial
        if delay is None or not delay.joined or not delay.left_ms:
            self.complete()
            return
        step = min(self.config.initial_delay_ms, delay.left_ms)
        left = max(delay.left_ms - delay.step_ms, 0)
        self.group = evolve(group, initial=InitialDelay(step, left))
        self.timers[JOIN] = step

    def sync_expired(self) -> None:
        """Remove members that have not asked for their assignment, even if they send heartbeats:
        nobody else may have the partitions assigned to them.
        """
        group = self.group
        if group.state not in ("CompletingRebalance", "Stable") or not group.unsynced:
            raise errors.NotDueYet("members that sync", group.state)
        self.remove(group.unsynced)
        self.prepare()

    # Loading

    def loaded(self) -> None:
        """Begin all sessions afresh, and rebalance if the group is too large by now.

        A group without a leader is rebalanced as well: its members have yet to join
        (`group_migration`).
        """
        for member in self.group.members.values():
            self.timers[session(member.id)] = member.session_ms
        led = self.group.leader is not None or not self.group.members
        if not led or len(self.group.members) > self.config.max_size:
            self.prepare()


def _rejoining(member: ClassicGroupMember, request: JoinRequest) -> ClassicGroupMember:
    return evolve(
        member,
        protocols=request.protocols,
        session_ms=request.session_ms,
        rebalance_ms=request.rebalance_ms,
        join=request.token,
    )
