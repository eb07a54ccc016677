"""Records a group of the classic protocol as steps of ClassicCoordinator."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from chaos.recorders.group import GroupRecorder, by_partition
from refimpl.clients.assignors import read_assignment
from refimpl.coordinator.operation import Performed, TimerKey
from refimpl.events import Json, as_set
from refimpl.machines.classic_group import ClassicGroup
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.projection import CLASSIC_GROUP, classic_phase

NOT_CURRENT = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"
NOT_TAKEN = *NOT_CURRENT, "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND"
TIMERS = {"session": "Expire", "join": "JoinTimer", "sync": "SyncTimer"}


@define(eq=False)
class ClassicGroupRecorder(GroupRecorder):
    """The steps of one group; static members of more than one instance end the recording."""

    partitions: Sequence[TopicPartition] = field(kw_only=True)
    instances: dict[str, set[str]] = field(factory=dict[str, set[str]])
    #: Whom the coordinators have known, so far as the steps are written down
    _known: set[str] = field(factory=set[str])

    @property
    def spec(self) -> str:
        """The spec that the steps are of."""
        return "ClassicCoordinator"

    def constants(self, beyond: int) -> Mapping[str, Json]:
        """Kafka's rules; a member that was absent from a generation does not learn of it."""
        numbers = {id: at for at, id in enumerate(sorted(self.ids), start=1)}
        static = next(iter(self.instances.values()), set[str]())
        return {
            "M": self.size,
            "P": len(self.partitions),
            **dict.fromkeys(("MaxGeneration", "MaxOffset", "MaxLog"), beyond),
            "Statics": as_set([numbers[id] for id in static]),
            "Dropped": "none",
            "WriteReplaced": True,
        }

    # Operations

    def request(self, body: Any, done: Performed) -> None:
        """Record a member's request."""
        match body:
            case m.JoinGroupRequest():
                self._join(body, done)
            case m.SyncGroupRequest():
                self._sync(body, done)
            case m.HeartbeatRequest():
                self._heartbeat(body, done)
            case m.LeaveGroupRequest():
                self._leave(body, done)
            case _:
                pass

    def _join(self, body: m.JoinGroupRequest, done: Performed) -> None:
        id, before = body.member_id, done.before or ClassicGroup()
        if done.error is not None:
            if done.error == "UNKNOWN_MEMBER_ID":
                self.add("RefuseJoin", {"m": self.member(id)})
        elif id in before.pending:
            self._step("JoinPending", {"m": self.member(id)}, done)
        elif id:
            news = tuple(body.protocols) != before.members[id].protocols
            self._step("Join", {"m": self.member(id), "news": news}, done)
        elif body.group_instance_id is not None:
            self._static(body.group_instance_id, before, done)
        else:
            self._new(before, done)

    def _new(self, before: ClassicGroup, done: Performed) -> None:
        """It is given an id, and is a member at once if it does not know how to come back."""
        after: ClassicGroup = done.after
        known = {*before.members, *before.pending}
        (id,) = {*after.members, *after.pending} - known
        who = self.member(id)
        if id in after.pending:
            self._step("AskId", {"m": who}, done)
        else:
            self.add("AskId", {"m": who})
            self._step("JoinPending", {"m": who}, done)

    def _static(self, instance: str, before: ClassicGroup, done: Performed) -> None:
        id = done.after.of_instance(instance)
        self.instances.setdefault(instance, set()).add(id)
        if len(self.instances) > 1:
            self.ended = "static members of several instances"
            return
        new = before.of_instance(instance) is None
        self._step("JoinStatic" if new else "ReplaceStatic", {"m": self.member(id)}, done)

    def _sync(self, body: m.SyncGroupRequest, done: Performed) -> None:
        id, before = body.member_id, done.before or ClassicGroup()
        params = {"m": self.member(id), "g": body.generation_id}
        if done.error is not None:
            if done.error in NOT_TAKEN:
                self.add("RefuseSync", params)
        elif before.state == "CompletingRebalance" and before.leader == id:
            said = {one: given for one, given in body.assignments if one in before.members}
            self._step("SyncLeader", {**params, "to": _Given(said)}, done)
        else:
            self._step("Sync", params, done)

    def _heartbeat(self, body: m.HeartbeatRequest, done: Performed) -> None:
        params = {"m": self.member(body.member_id), "g": body.generation_id}
        if done.error is None:
            ((_, answer),) = done.answers
            told = "rebalance" if answer.error == "REBALANCE_IN_PROGRESS" else "ok"
            self.add("Heartbeat", {**params, "answer": told})
        elif done.error in NOT_CURRENT:
            self.add("Heartbeat", {**params, "answer": "refused"})

    def _leave(self, body: m.LeaveGroupRequest, done: Performed) -> None:
        if done.error is not None:
            return
        bodies = (body for _, body in done.answers if isinstance(body, m.LeaveGroupResponse))
        left = [one for one in next(bodies).members if one.error is None]
        if len(left) > 1:
            self.ended = "several members leave by one request"
        for one in left:
            id = one.member_id or done.before.of_instance(one.group_instance_id)
            self._step("Leave", {"m": self.member(id)}, done)

    def timer(self, key: TimerKey, done: Performed) -> None:
        """Time has done something, or only been given more."""
        if _seen(done.before) != _seen(done.after):
            action = TIMERS[key.kind]
            params = {"m": self.member(key.member_id)} if action == "Expire" else {}
            self._step(action, params, done)

    def _step(self, action: str, params: dict[str, Any], done: Performed) -> None:
        before, after = done.before or ClassicGroup(), done.after
        stable = after.state == "Stable"
        assigned = stable and (
            before.state != "Stable" or before.members.keys() != after.members.keys()
        )
        emptied = after.state == "Empty" and after.generation != before.generation
        if assigned or emptied:
            self.changed(done)
        self.add(action, params, after)

    # Commits

    def take_commit(self, body: m.OffsetCommitRequest, one: m.CommittedPartition) -> None:
        """A partition's offset is committed."""
        who, p = self.member(body.member_id), self.partitions.index(one.partition) + 1
        params = {"m": who, "g": body.generation_id, "p": p, "offset": one.offset}
        self.add("TakeCommit", params)

    def refuse_commit(self, body: m.OffsetCommitRequest, error: str) -> None:
        """A commit was refused, as that of no member, or in no generation."""
        if error in NOT_TAKEN:
            params = {"m": self.member(body.member_id), "g": body.generation_id}
            self.add("RefuseCommit", params)

    # Variables

    def value(self, value: Any, numbers: Mapping[str, int]) -> Any:
        """An assignment in the spec's words."""
        return value.of(self.partitions, numbers) if isinstance(value, _Given) else value

    def project(self, group: Any, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The group, and the known state of each member."""
        one: ClassicGroup = group or ClassicGroup()
        phases = ["none"] * self.size
        for id, at in numbers.items():
            phase = classic_phase(one, id)
            if phase != "none":
                self._known.add(id)
            phases[at - 1] = "gone" if phase == "none" and id in self._known else phase
        stable = one.members.values() if one.state == "Stable" else ()
        return {
            **{name: of(one) for name, of in CLASSIC_GROUP.items()},
            "leader": numbers[one.leader] if one.leader else 0,
            "phase": phases,
            "assignment": _Given({member.id: member.assignment for member in stable}).of(
                self.partitions, numbers
            ),
        }

    def offsets(self, committed: Mapping[TopicPartition, int]) -> Sequence[int]:
        """The offset that is committed of each partition."""
        return [committed.get(one, 0) for one in self.partitions]


@define(eq=False)
class _Given:
    """Assignments of members, as an argument."""

    assignments: Mapping[str, bytes]

    def of(self, partitions: Sequence[TopicPartition], numbers: Mapping[str, int]) -> list[int]:
        """The owner's number of each partition."""
        owners: dict[tuple[str, int], str] = {}
        for id, given in self.assignments.items():
            owners |= dict.fromkeys(read_assignment(given), id)
        return by_partition([(one.topic, one.partition) for one in partitions], owners, numbers)


def _seen(group: ClassicGroup | None) -> tuple[Any, ...]:
    """The part of a group that a step of the spec can change."""
    one = group or ClassicGroup()
    members = [(id, classic_phase(one, id)) for id in (*one.members, *one.pending)]
    return one.state, one.generation, one.leader, one.initial is not None, members
