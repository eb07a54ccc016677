"""ClassicGroup: one group at its coordinator, and the consumers that are its members.

Members are the ids "1" to "M". A request and its immediate answer are one step. A later answer of
the coordinator reaches its client in the step that gives it.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

from properties.conformance.binding import Binding, Bound, Environment, OtherAction, each, of
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.errors import Refusal
from refimpl.machines import classic_operations as operations
from refimpl.machines.classic_consumer import ClassicConsumer, check_assignment
from refimpl.machines.classic_group import ClassicGroup as Group
from refimpl.machines.classic_group import Config, InitialDelay, Step
from refimpl.machines.classic_member import (
    ClassicGroupMember,
    HeartbeatResponse,
    JoinRequest,
    JoinResponse,
    LeaveResponse,
    SyncRequest,
    SyncResponse,
)
from refimpl.projection import CLASSIC_CONSUMER, CLASSIC_GROUP, classic_phase

CONFIG = Config(initial_delay_ms=1)
NO_COMMIT = Rec.of(member=0, partition=0, generation=0)
INSTANCE = "instance"


class ClassicMembers(Binding):
    """A coordinator's group and consumers 1..M: how they come, are assigned something, and go."""

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["M"] + 1))
        self.partitions = tuple(range(1, constants["P"] + 1))
        self.max_generation: int = constants["MaxGeneration"]
        self.statics: frozenset[int] = constants["Statics"]
        self.cooperative: bool = constants["Cooperative"]
        self.group = Group()
        self.given: frozenset[int] = frozenset()  # ids that were ever given out
        self.consumers = tuple([ClassicConsumer(self.cooperative) for _ in self.ids])

    # Results of an operation

    def _take(self, step: Step) -> None:
        """The group advances, and clients receive their answers.

        A token is its client's id, negative for a sync.
        """
        self.group = step.group
        for token, response in step.answers:
            match response:
                case JoinResponse(error=None):
                    self._consumer(token).joined(response.generation)
                case SyncResponse(error=None):
                    self._assigned(-token, response.assignment)
                case JoinResponse() | SyncResponse() | HeartbeatResponse() | LeaveResponse():
                    pass

    def _assigned(self, m: int, assignment: bytes) -> None:
        self._consumer(m).assigned(assignment)

    def _consumer(self, m: int) -> ClassicConsumer:
        return self.consumers[m - 1]

    def _instance(self, m: int) -> str | None:
        return INSTANCE if m in self.statics else None

    def _request(self, m: int, known: bool, news: bool = False) -> JoinRequest:
        id = str(m)
        member = self.group.members.get(id)
        said = member.protocols if member else (("range", b""),)
        return JoinRequest(
            token=m,
            member=id if known else "",
            new_id=id,
            instance=self._instance(m),
            protocols=((said[0][0], said[0][1] + b"."),) if news else said,
            session_ms=1,
            rebalance_ms=1,
        )

    # Members come

    def _new(self, m: int) -> None:
        if m in self.given:
            raise Environment  # an id is given out once

    def ask_id(self, m: int) -> None:
        if m in self.statics:
            raise Environment
        self._new(m)
        self._take(operations.join(self.group, self._request(m, known=False), CONFIG))
        self.given |= {m}

    def join_pending(self, m: int) -> None:
        if str(m) in self.group.members:
            raise OtherAction
        self._take(operations.join(self.group, self._request(m, known=True), CONFIG))

    def join_static(self, m: int) -> None:
        self._static(m, there=False)

    def replace_static(self, m: int) -> None:
        self._static(m, there=True)

    def _static(self, m: int, there: bool) -> None:
        if m not in self.statics:
            raise Environment
        self._new(m)
        if (self.group.of_instance(INSTANCE) is not None) != there:
            raise OtherAction
        self._take(operations.join(self.group, self._request(m, known=False), CONFIG))
        self.given |= {m}

    def join(self, m: int, news: bool) -> None:
        if str(m) in self.group.pending:
            raise OtherAction
        request = self._request(m, known=True, news=news)
        step = operations.join(self.group, request, CONFIG)
        rebalances = self.group.state != "PreparingRebalance" and (
            step.group.state == "PreparingRebalance"
            or step.group.generation != self.group.generation
        )
        if rebalances and self.group.generation >= self.max_generation:
            raise Bound
        self._consumer(m).prepare_join()
        self._take(step)

    # The assignment

    def sync_leader(self, m: int, to: tuple[int, ...]) -> None:
        step = self._synced(m, to)
        if self.group.state != "CompletingRebalance" or self.group.leader != str(m):
            raise OtherAction
        said: dict[Hashable, Hashable] = {
            p: n for p, n in zip(self.partitions, to, strict=True) if n
        }
        claims = [(n, self._claims(consumer)) for n, consumer in self._claimants()]
        owners = frozenset(p for _, claimed in claims for p in claimed)
        for p in self.partitions:
            if p not in said and not (self.cooperative and p in owners):
                raise Environment
        if any(str(n) not in self.group.members for n in said.values()):
            raise Environment
        for n, claimed in claims:
            check_assignment(said, dict.fromkeys(claimed, n))
        self._take(step)

    def sync(self, m: int) -> None:
        step = self._synced(m, ())
        if self.group.state == "CompletingRebalance" and self.group.leader == str(m):
            raise OtherAction
        self._take(step)

    def _synced(self, m: int, to: tuple[int, ...]) -> Step:
        assignments = {
            str(n): bytes([p for p, one in zip(self.partitions, to, strict=True) if one == n])
            for n in self.ids
            if to
        }
        request = SyncRequest(
            token=-m,
            member=str(m),
            generation=self._consumer(m).generation,
            instance=self._instance(m),
            assignments=tuple(assignments.items()),
        )
        return operations.sync(self.group, request)

    def _claimants(self) -> list[tuple[int, ClassicConsumer]]:
        """The members whose owned partitions the leader has received: they have joined."""
        there = self.group.members
        return [
            (n, self._consumer(n))
            for n in self.ids
            if str(n) in there
            and not there[str(n)].absent
            and self._consumer(n).generation == self.group.generation
        ]

    def _claims(self, consumer: ClassicConsumer) -> frozenset[Hashable]:
        """The partitions that a leader takes for a member's, as far as that member knows."""
        return consumer.owned

    # Members go, and time passes

    def leave(self, m: int) -> None:
        id, instance = str(m), self._instance(m)
        if id not in self.group.pending:
            self.group.member(id, instance)  # the error that refuses it
        self._consumer(m).leave()
        self._take(operations.leave(self.group, 0, [(id, instance)]))

    def expire(self, m: int) -> None:
        self._take(operations.session_expired(self.group, str(m)))

    def join_timer(self) -> None:
        self._take(operations.join_expired(self.group, CONFIG))

    def sync_timer(self) -> None:
        self._take(operations.sync_expired(self.group))

    def lose(self, m: int) -> None:
        consumer = self._consumer(m)
        if not consumer.generation:
            raise OtherAction
        try:
            operations.heartbeat(self.group, m, str(m), consumer.generation, self._instance(m))
        except Refusal:
            consumer.lost()
        else:
            raise OtherAction

    def load(self, state: Mapping[str, Value]) -> None:
        phases = dict(zip(self.ids, state["phase"], strict=True))
        self.given = frozenset(m for m, phase in phases.items() if phase != "none")
        members = {
            str(m): self._loaded(m, phase, state)
            for m, phase in phases.items()
            if phase not in ("none", "pending", "gone")
        }
        self.group = Group(
            state=state["state"],
            generation=state["generation"],
            protocol_type="consumer",
            protocol="range",
            leader=str(state["leader"]) if state["leader"] else None,
            members=members,
            pending=frozenset(str(m) for m in self.ids if phases[m] == "pending"),
            unsynced=frozenset(str(m) for m in self.ids if phases[m] in ("unsynced", "absent")),
            initial=InitialDelay(1, 0) if state["initial"] else None,
        )
        self.consumers = tuple(
            [
                ClassicConsumer(self.cooperative, generation, owned)
                for generation, owned in zip(state["believes"], state["owned"], strict=True)
            ]
        )

    def _loaded(self, m: int, phase: str, state: Mapping[str, Value]) -> ClassicGroupMember:
        given = [p for p in self.partitions if state["assignment"][p - 1] == m]
        return ClassicGroupMember(
            id=str(m),
            protocols=(("range", b""),),
            instance=self._instance(m),
            session_ms=1,
            rebalance_ms=1,
            assignment=bytes(given),
            join=m if phase in ("new", "joining") else None,
            sync=-m if phase == "syncing" else None,
            is_new=phase == "new",
            absent=phase == "absent",
        )


class ClassicGroup(ClassicMembers):
    """Them, and one commit under way."""

    module = "ClassicGroup"
    knobs: ClassVar = {"Dropped": "none"}

    def __init__(self, constants: Mapping[str, Value]) -> None:
        super().__init__(constants)
        self.commits: bool = constants["Commits"]
        self.commit: tuple[int, int, int] | None = None  # member, partition, generation

    def send_commit(self, m: int, p: int) -> None:
        if not self.commits or self.commit is not None:
            raise Environment
        self.commit = (m, p, self._consumer(m).commit(p))

    def take_commit(self) -> None:
        if self.commit is None:
            raise OtherAction
        m, _, generation = self.commit
        self.group.check_commit(str(m), generation, self._instance(m))
        self.commit = None

    def lose_commit(self) -> None:
        if self.commit is None:
            raise OtherAction
        self.commit = None

    def load(self, state: Mapping[str, Value]) -> None:
        super().load(state)
        c = state["commit"]
        self.commit = (c["member"], c["partition"], c["generation"]) if c["member"] else None


def _phase(c: ClassicMembers, m: int) -> str:
    phase = classic_phase(c.group, str(m))
    return "gone" if phase == "none" and m in c.given else phase


def _assignment(c: ClassicMembers) -> tuple[int, ...]:
    """Each partition's owner while the group is stable. Before that no member has an assignment."""
    stable = c.group.state == "Stable"
    there = [(int(id), one.assignment) for id, one in c.group.members.items()] if stable else []
    return tuple([next((m for m, given in there if p in given), 0) for p in c.partitions])


def _commit(c: ClassicGroup) -> Rec:
    if c.commit is None:
        return NO_COMMIT
    member, partition, generation = c.commit
    return Rec.of(member=member, partition=partition, generation=generation)


MEMBERS: Mapping[str, Callable[[Any], Value]] = {
    **of(CLASSIC_GROUP, lambda c: c.group),
    **each(CLASSIC_CONSUMER, lambda c: c.consumers),
    "leader": lambda c: int(c.group.leader or 0),
    "phase": lambda c: tuple([_phase(c, m) for m in c.ids]),
    "assignment": _assignment,
}
ClassicGroup.projection = {**MEMBERS, "commit": _commit}

MODULE = Module(
    binding=ClassicGroup,
    machines=(
        *("classic_group", "classic_member", "classic_rebalance"),
        *("classic_operations", "classic_consumer"),
    ),
    recorded="ClassicCoordinator",
)
