"""The group coordinator: who is a member, who owns what, and what is committed.

It does not fail here; what it answers travels like everything else.
"""

from typing import Any

from attrs import define, field

from chaos.sim.addresses import COORDINATOR, FIRST_CLIENT, TICK, Tick
from chaos.sim.group_messages import (
    CommitReceived,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinAnswered,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    Rebalanced,
)
from chaos.sim.simulation import Simulation
from refimpl.broker.messages import Request, Response
from refimpl.errors import Refusal
from refimpl.machines.group import Coordinator
from refimpl.machines.group_errors import OvertakenCommit


@define(eq=False)
class CoordinatorNode:
    """One group; a `Coordinator` for each partition, all in the same generation."""

    simulation: Simulation
    groups: list[Coordinator]
    paused_until: int = 0
    answers: int = 0
    boots: dict[int, int] = field(factory=dict[int, int])
    heard: dict[int, int] = field(factory=dict[int, int])
    answered: set[tuple[int, int, int, int]] = field(factory=set[tuple[int, int, int, int]])

    def handle(self, message: Any) -> None:
        """Whatever comes."""
        if type(message) is Tick:
            self._tick()
            return
        body: Any = message.body
        if type(body) is OffsetCommitRequest:
            self._commit(message, body)
        elif type(body) is HeartbeatRequest:
            self._heartbeat(message, body)
        elif type(body) is JoinGroupRequest:
            self._join(message, body)
        elif type(body) is LeaveGroupRequest:
            self._leave(message, body)

    @property
    def generation(self) -> int:
        """The group's generation."""
        return self.groups[0].generation

    def _respond(self, request: Request, body: Any) -> None:
        source, target, correlation_id, _ = request
        self.simulation.network.send(Response(target, source, correlation_id, body))

    def _tick(self) -> None:
        timeline, session = self.simulation.timeline, self.simulation.settings.member_session_ms
        timeline.at(timeline.now + 50, COORDINATOR, TICK)
        gone = [c for c, heard in self.heard.items() if timeline.now - heard > session]
        for consumer in gone:
            self.simulation.counts["members expelled"] += 1
            self._remove(consumer)

    def _join(self, request: Request, body: JoinGroupRequest) -> None:
        """A member asks for its part; one that is new, or has restarted, changes the others'."""
        consumer = request.source
        if self.boots.get(consumer, 0) > body.boot:
            return
        self.heard[consumer] = self.simulation.timeline.now
        if self.boots.get(consumer) != body.boot or body.joined == self.generation:
            self.boots[consumer] = body.boot
            self._rebalance()
        self._assign(request, body.boot)

    def _leave(self, request: Request, body: LeaveGroupRequest) -> None:
        if self.boots.get(request.source) == body.boot:
            self._remove(request.source)

    def _heartbeat(self, request: Request, body: HeartbeatRequest) -> None:
        consumer = request.source
        if self.boots.get(consumer) != body.boot or body.generation != self.generation:
            self._respond(request, HeartbeatResponse(body.boot, "ILLEGAL_GENERATION"))
        if self.boots.get(consumer) == body.boot:
            self.heard[consumer] = self.simulation.timeline.now

    def _remove(self, consumer: int) -> None:
        del self.boots[consumer], self.heard[consumer]
        if self.boots:
            self._rebalance()

    def _rebalance(self) -> None:
        """A new generation, in which the partitions move on by one member."""
        members = sorted(self.boots)
        for partition, group in enumerate(self.groups):
            consumer = members[(partition + group.generation) % len(members)]
            owner = consumer - FIRST_CLIENT + 1
            group.rebalance(owner)
            self.simulation.observe(COORDINATOR, Rebalanced(partition, group.generation, owner))

    def _assign(self, request: Request, boot: int) -> None:
        self.answers += 1
        member, number = request.source - FIRST_CLIENT + 1, self.answers
        assigned: dict[int, int] = {}
        for partition, group in enumerate(self.groups):
            try:
                _, committed = group.join(member)
            except Refusal:
                continue
            assigned[partition] = committed
            self.simulation.observe(COORDINATOR, JoinAnswered(partition, member, number))
        self._respond(request, JoinGroupResponse(boot, number, self.generation, assigned))

    def _commit(self, request: Request, body: OffsetCommitRequest) -> None:
        partition, commit = body.partition, body.commit
        group = self.groups[partition]
        before, error = group.committed, None
        try:
            group.receive_commit(commit)
        except OvertakenCommit:
            self.simulation.counts["commits overtaken"] += 1
            return
        except Refusal as refusal:
            self.simulation.counts["commits of an old generation"] += 1
            error = refusal.kafka_error
        else:
            step = partition, commit.member, commit.generation, commit.offset
            again = step in self.answered
            self.answered.add(step)
            self.simulation.observe(COORDINATOR, CommitReceived(partition, commit, before, again))
        self._respond(request, OffsetCommitResponse(partition, commit, error))
