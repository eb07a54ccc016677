"""The lines of all broker processes, put together as one trace of each partition.

Processes of one machine share a clock, and each writes before it sends anything, so in the order of
their times no effect comes before its cause. A process that is killed may have appended without
writing that line: its state at the next start shows the append.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attrs import define, field

from chaos.real.stored.observed_host import (
    Intended,
    ObservedInput,
    ReplicaState,
    StoreAnswered,
    lines,
)
from chaos.recorders.protocol_events import TracePlace
from chaos.recorders.replication import (
    Registrations,
    Replication,
    partition_trace,
    partition_watchers,
)
from refimpl.events import Header, Json
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition


@define(eq=False)
class Merge:
    """The traces of the partitions of a topic, from what all processes wrote."""

    partitions: dict[TopicPartition, Replication] = field(
        factory=dict[TopicPartition, Replication], init=False
    )
    #: What was appended by a process that was killed before it said so
    inferred: int = field(default=0, init=False)
    #: How often a process registered again that lived on when its session had ended
    registered_again: int = field(default=0, init=False)
    _now_ms: int = field(default=0, init=False)
    _replicas: dict[TopicPartition, dict[int, Any]] = field(
        factory=dict[TopicPartition, dict[int, Any]], init=False
    )
    #: What processes have that nobody has told anything yet
    _begun: dict[int, dict[TopicPartition, ReplicaState]] = field(
        factory=dict[int, dict[TopicPartition, ReplicaState]], init=False
    )
    #: By broker: which of its processes this is, and the broker epoch that it acts in
    _processes: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]], init=False)
    _registrations: Registrations = field(init=False)
    _watchers: Mapping[type, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Know what each observation is in the words of the spec."""
        at = self.partitions, self._replica
        self._registrations = Registrations(lambda: self._now_ms, *at)
        self._watchers = {
            **partition_watchers(lambda: self._now_ms, *at),
            **self._registrations.watchers(),
        }

    def _replica(self, broker: int, name: TopicPartition) -> Any:
        return self._replicas[name][broker]

    @classmethod
    def of(cls, files: Iterable[Path]) -> "Merge":
        """Everything that is in these files, one of each broker."""
        made = cls()
        written = sorted((one for path in files for one in lines(path)), key=lambda one: one.at_ns)
        applied = _applied(written)
        for at, line in enumerate(written):
            made._now_ms = (line.at_ns - written[0].at_ns) // 1_000_000
            made._take_states(line)
            for number, seen in enumerate(line.seen):
                if isinstance(seen, Intended):
                    for each in seen.decided if (at, number) in applied else ():
                        made._observe(line.broker, each)
                else:
                    made._observe(line.broker, seen)
        return made

    def events(self, run: str, constants: Mapping[str, Json]) -> Iterator[bytes]:
        """As NDJSON."""
        for one in self.partitions.values():
            one.trace.steps = [*without_repeated_fetches(one.trace.steps)]
            yield Header(run, one.trace.spec, one.trace.subject, constants).line()
            for event in one.trace.events(run):
                yield event.line()

    def _take_states(self, line: ObservedInput) -> None:
        """Take the state of a process. Until it has a broker epoch it does nothing; once it has
        one, the state that its last process left is seen."""
        broker = line.broker
        process, acting = self._processes.get(broker, (0, -1))
        if line.started:
            process, self._begun[broker] = process + 1, {}
        for name, state in line.states.items():
            if name not in self.partitions:
                self._replicas[name] = {one: _replica(NOTHING) for one in (1, 2, 3)}
                self.partitions[name] = Replication(partition_trace(name), self._replicas[name])
                self._registrations.join(self.partitions[name])
            if broker in self._begun:
                self._begun[broker][name] = state
            else:
                _have(self._replicas[name][broker], state)
        epoch = max((one.incarnation for one in line.states.values()), default=acting)
        if epoch > acting:
            self._acts(broker, process, epoch)
        self._processes[broker] = process, max(epoch, acting)

    def _acts(self, broker: int, process: int, epoch: int) -> None:
        """A process has a broker epoch that it did not have before."""
        for name, state in self._begun.pop(broker, {}).items():
            replica = self._replicas[name][broker]
            if self._processes.get(broker, (0, -1))[1] >= 0:  # there was one before it
                self._infer(self.partitions[name], broker, state.end - replica.log.end)
            _have(replica, state)
        last = self._registrations.taken.get(broker)
        self.registered_again += last is not None and last.incarnation_id == process
        self._observe(broker, o.BrokerEpochTaken(broker, process, epoch))

    def _observe(self, who: int, seen: Any) -> None:
        if (watcher := self._watchers.get(seen.__class__)) is not None:
            watcher(who, seen)

    def _infer(self, one: Replication, broker: int, more: int) -> None:
        """A process was killed behind an append: as leader it wrote, as follower it fetched."""
        if more <= 0:
            return
        self.inferred += more
        replica = one.replicas[broker]
        if replica.leads:
            for _ in range(more):
                one.trace.add(self._now_ms, "Write", {"l": broker})
            return
        steps = [step for (follower, _, _), step in one.places.items() if follower == broker]
        if steps:
            steps[-1].becomes("Fetch", {}, n=more)


def without_repeated_fetches(steps: Iterable[TracePlace]) -> Iterator[TracePlace]:
    """A fetch that brings nothing, once more in the same state, tells the leader nothing.

    A broker asks for all its partitions at once, so a busy one causes many of them in the others.
    """
    told = set[tuple[Json, Json]]()
    for step in steps:
        if step.action is None and step.otherwise == "FetchLost":
            if (who := (step.params["f"], step.params["l"])) in told:
                continue
            told.add(who)
        elif step.action is not None or step.otherwise is not None:
            told.clear()
        yield step


def _applied(written: Sequence[ObservedInput]) -> set[tuple[int, int]]:
    """The intended writes that the store has applied. Its answer says so; without one, another of
    the same kind must not be known to be applied, and the same must not be decided again."""
    places: list[tuple[tuple[int, int], tuple[int, int, int], Intended]] = []
    answers: dict[tuple[int, int, int], bool] = {}
    processes: dict[int, int] = {}
    for at, line in enumerate(written):
        process = processes[line.broker] = processes.get(line.broker, 0) + line.started
        for number, seen in enumerate(line.seen):
            if isinstance(seen, Intended):
                places.append(((at, number), (line.broker, process, seen.number), seen))
            elif isinstance(seen, StoreAnswered):
                answers[line.broker, process, seen.number] = seen.applied
    known = {key for _, asked, seen in places if answers.get(asked) for key in _keys(seen)}
    applied: set[tuple[int, int]] = set()
    for index, (place, asked, seen) in enumerate(places):
        later = {key for _, _, other in places[index + 1 :] for key in _keys(other)}
        if answers.get(asked, not _keys(seen) & (known | later)):
            applied.add(place)
    return applied


def _keys(intended: Intended) -> set[Any]:
    """The keys of a decision: of two decisions with a common key only one is applied."""
    found: set[Any] = set()
    for one in intended.decided:
        if isinstance(one, o.Registered):
            found.add((one.broker, one.broker_epoch))
        elif isinstance(one, o.Decided):
            found.add((one.partition, one.decision.partition_epoch))
        elif isinstance(one, o.IsrAnswered) and one.outcome.error is None:
            found.add((one.partition, one.outcome.partition_epoch))
    return found


NOTHING = ReplicaState(0, frozenset(), 0, False, 0, -1, 0)


def _replica(state: ReplicaState) -> Any:
    return _have(SimpleNamespace(log=SimpleNamespace(end=0)), state)


def _have(replica: Any, state: ReplicaState) -> Any:
    """Give a replica the state that a recorder asks for."""
    values = state._asdict()
    replica.log.end = values.pop("end")
    for name, value in values.items():
        setattr(replica, name, value)
    return replica
