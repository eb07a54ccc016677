"""Records a group in the specs' words: its coordinators' operations as steps.

Coordinators follow one another, and a step counts when it is done. The step `Load` drops the writes
that the next coordinator does not have. A deposed coordinator that does not know it yet is ignored.
Member ids become numbers in their order, at the end.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from attrs import define, field, frozen

from chaos.recorders.protocol_events import SubjectTrace
from refimpl.coordinator.observations import CoordinatorLoaded, CoordinatorOperation
from refimpl.coordinator.operation import Performed, TimerKey
from refimpl.events import Json
from refimpl.machines.replica import Replica
from refimpl.messages import group as m
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import OFFSETS_TOPIC

Params = Mapping[str, Any]
Watch = Callable[[type, Callable[[int, Any], None]], None]
ELSEWHERE = "ElectUnclean", "ElectLastKnown"
"""Decisions after which the log may be another one than it was."""


@frozen
class MemberArgument:
    """A member id, as an argument of a step."""

    id: str


@frozen
class GroupStep:
    """A step, before members have numbers; `after` is None if the group's state is not recorded."""

    at_ms: int
    action: str
    params: Params
    after: Any = None
    committed: Mapping[TopicPartition, int] | None = None


class GroupChange(NamedTuple):
    """A change of the group: its step, where its records end, and their leader epoch."""

    step: int
    end: int
    epoch: int


@define(eq=False)
class GroupRecorder:
    """The steps of one group.

    `leads` is who leads the partition that the group is on, and in which epoch. `changes` are those
    that are not known to be replicated, and `others` what later coordinators did not have of them:
    it may be in the log of one that is elected still later.
    """

    group_id: str
    clock: Callable[[], int]
    #: A broker's replica of the partition that the group is on
    replica_of: Callable[[int], Replica]
    number: int = 0
    steps: list[GroupStep] = field(factory=list[GroupStep])
    ids: set[str] = field(factory=set[str])
    #: Why the recording ends before the run, if it does
    ended: str = ""
    leads: tuple[int, int] = (0, 0)
    active: bool = False
    changes: list[GroupChange] = field(factory=list[GroupChange])
    others: list[list[GroupChange]] = field(factory=list[list[GroupChange]])
    #: Changes by deposed coordinators, which no step reports
    unheard: list[GroupChange] = field(factory=list[GroupChange])
    #: The end of each coordinator's records
    wrote: dict[int, int] = field(factory=dict[int, int])
    replicated: int = 0
    committed: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])

    def attach(self, watch: Watch) -> None:
        """Observe everything that is recorded."""
        watch(o.BecameLeader, self._became_leader)
        watch(CoordinatorLoaded, self._loaded)
        watch(CoordinatorOperation, self._performed)
        watch(o.HighWatermarkAdvanced, self._advanced)
        watch(o.Decided, self._decided)

    def _is_here(self, seen: Any) -> bool:
        name: TopicPartition = seen.partition
        return name.topic == OFFSETS_TOPIC and name.partition == self.number and not self.ended

    # The log

    def _became_leader(self, who: int, seen: o.BecameLeader) -> None:
        if self._is_here(seen):
            epoch = self.replica_of(who).epoch
            if epoch > self.leads[1]:
                self.leads, self.active = (who, epoch), False

    def _loaded(self, who: int, seen: CoordinatorLoaded) -> None:
        if not self._is_here(seen):
            return
        self.wrote[who] = seen.end
        if who != self.leads[0]:
            return
        if seen.end < self.replicated:
            self.ended = "the log has lost what was replicated"
            return
        self.active = True
        if any(self._is_there(who, one) for one in self.unheard):
            self.ended = "what a coordinator wrote that was deposed has come back"
            return
        kept = max((self._kept(who, one) for one in (self.changes, *self.others)), key=len)
        self.others.append(self.changes)
        self.changes = kept
        self.committed = {
            name: value.offset for name, value in seen.shard.store.offsets_of(self.group_id)
        }
        self.add("Load", {"n": len(kept)}, seen.shard.store.groups.get(self.group_id))

    def _kept(self, who: int, changes: list[GroupChange]) -> list[GroupChange]:
        """Those of a log's changes that are in a broker's log as well."""
        return list(takewhile(lambda one: self._is_there(who, one), changes))

    def _is_there(self, who: int, one: GroupChange) -> bool:
        epoch, end = self.replica_of(who).log.end_of(one.epoch)
        return epoch == one.epoch and one.end <= end

    def _advanced(self, who: int, seen: o.HighWatermarkAdvanced) -> None:
        if self._is_here(seen) and self.active and who == self.leads[0]:
            done = [one for one in self.changes if one.end <= seen.new]
            if done:
                count, self.replicated = len(done), done[-1].end
                self.others = [one[count:] for one in self.others if one[:count] == done]
                del self.changes[:count]
                self.steps.append(GroupStep(self.clock(), "Replicate", {"n": count}))

    def _decided(self, who: int, seen: o.Decided) -> None:
        if self._is_here(seen) and seen.action in ELSEWHERE:
            self.ended = seen.action

    # Operations

    def _performed(self, who: int, seen: CoordinatorOperation) -> None:
        done = seen.performed
        if not self._is_here(seen):
            return
        wrote, self.wrote[who] = done.end > self.wrote.get(who, done.end), done.end
        if done.key == self.group_id:
            if not self.active or who != self.leads[0]:
                if wrote:
                    epoch = self.replica_of(who).epoch
                    self.unheard.append(GroupChange(len(self.steps), done.end, epoch))
            elif isinstance(done.about, m.OffsetCommitRequest):
                self.commit(done.about, done)
            elif isinstance(done.about, TimerKey):
                self.timer(done.about, done)
            else:
                self.request(done.about, done)

    def request(self, body: Any, done: Performed) -> None:
        """A request of a member is done, or refused."""
        raise NotImplementedError

    def timer(self, key: TimerKey, done: Performed) -> None:
        """A timer has done its work."""
        raise NotImplementedError

    def commit(self, body: m.OffsetCommitRequest, done: Performed) -> None:
        """Offsets were committed, or not."""
        if body.generation_id < 0:
            self.ended = "offsets are committed by who is no member"
        elif done.error is not None:
            self.refuse_commit(body, done.error)
        else:
            ((_, answer),) = done.answers
            taken = {name for name, error in answer.partitions if error is None}
            for one in body.partitions:
                if one.partition in taken:
                    self.committed[one.partition] = one.offset
                    self.changed(done)
                    self.take_commit(body, one)

    def take_commit(self, body: m.OffsetCommitRequest, one: m.CommittedPartition) -> None:
        """A partition's offset is committed."""
        raise NotImplementedError

    def refuse_commit(self, body: m.OffsetCommitRequest, error: str) -> None:
        """A commit was refused."""
        raise NotImplementedError

    # Writing down

    def changed(self, done: Performed) -> None:
        """A change that is in the log."""
        self.changes.append(GroupChange(len(self.steps), done.end, self.leads[1]))

    def member(self, id: str) -> MemberArgument:
        """A member, as an argument."""
        self.ids.add(id)
        return MemberArgument(id)

    def add(self, action: str, params: Params, after: Any = None) -> None:
        """A step; `after` is the group that it has left."""
        told = action in ("Load", "TakeCommit")
        committed = dict(self.committed) if told else None
        self.steps.append(GroupStep(self.clock(), action, params, after, committed))

    def trace(self) -> SubjectTrace:
        """The recording, in the numbers of the spec."""
        numbers = {id: at for at, id in enumerate(sorted(self.ids), start=1)}
        trace = SubjectTrace(self.spec, self.group_id, {})
        for one in self.steps:
            params = {
                name: numbers[value.id]
                if isinstance(value, MemberArgument)
                else self.value(value, numbers)
                for name, value in one.params.items()
            }
            changes: dict[str, Any] = {}
            if one.after is not None or one.action == "Load":
                changes |= self.project(one.after, numbers)
            if one.committed is not None:
                changes["committed"] = self.offsets(one.committed)
            trace.add(one.at_ms, one.action, params, **changes)
        return trace

    @property
    def size(self) -> int:
        """M: so many members, the same for many runs."""
        return max(8, -(-len(self.ids) // 8) * 8)

    # The differences of the protocols

    @property
    def spec(self) -> str:
        """The spec that the steps are of."""
        raise NotImplementedError

    def constants(self, beyond: int) -> Mapping[str, Json]:
        """The constants of the spec; none bounds the run."""
        raise NotImplementedError

    def project(self, group: Any, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The variables of a group."""
        raise NotImplementedError

    def value(self, value: Any, numbers: Mapping[str, int]) -> Any:
        """An argument that is no member; numbers and names are used as they are."""
        return value

    def offsets(self, committed: Mapping[TopicPartition, int]) -> Sequence[int]:
        """The variable `committed`."""
        raise NotImplementedError


def by_partition(
    partitions: Iterable[Any], owners: Mapping[Any, str], numbers: Mapping[str, int]
) -> list[int]:
    """The owner's number of each partition, 0 if it has no owner."""
    return [numbers[owners[one]] if one in owners else 0 for one in partitions]
