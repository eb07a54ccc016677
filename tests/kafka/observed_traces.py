"""What broker processes wrote down, put together as one trace of each partition.

Processes of one machine share a clock, and each writes before it sends anything, so in the order of
their times no effect comes before its cause. A process that is killed may have appended and not
written that down: what it finds when it starts again says so. A process whose session has ended and
that registers again is in the spec one that restarts, loses nothing, and is told what it knew.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attrs import define, field

from chaos.recorder import Replication, partition_trace, partition_watchers
from refimpl.broker import observations as o
from refimpl.broker.messages import TopicPartition
from refimpl.events import Header, Json
from tests.kafka.observed_host import Answered, Intended, Line, State, lines


@define(eq=False)
class Merge:
    """The traces of the partitions of a topic, from what all processes wrote."""

    partitions: dict[TopicPartition, Replication] = field(
        factory=dict[TopicPartition, Replication], init=False
    )
    #: What was appended by a process that was killed before it said so
    inferred: int = field(default=0, init=False)
    #: How often a process registered again. Its last fetches may still count for the leader then,
    #: which the spec does not know: a trace with such a step that is refused shows nothing
    registered_again: int = field(default=0, init=False)
    _now_ms: int = field(default=0, init=False)
    _replicas: dict[TopicPartition, dict[int, Any]] = field(
        factory=dict[TopicPartition, dict[int, Any]], init=False
    )
    #: What processes have that nobody has told anything yet
    _begun: dict[int, dict[TopicPartition, State]] = field(
        factory=dict[int, dict[TopicPartition, State]], init=False
    )
    #: Leaders that have registered again and believe that they lead: their new epoch and what they
    #: had then
    _deposed_later: dict[tuple[TopicPartition, int], tuple[int, State]] = field(
        factory=dict[tuple[TopicPartition, int], tuple[int, State]], init=False
    )
    _known: set[int] = field(factory=set[int], init=False)
    _watchers: Mapping[type, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Know what each observation is in the words of the spec."""
        self._watchers = partition_watchers(
            lambda: self._now_ms, self.partitions, lambda who, name: self._replicas[name][who]
        )

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
            yield Header(run, one.trace.spec, one.trace.subject, constants).line()
            for event in one.trace.events(run):
                yield event.line()

    def _take_states(self, line: Line) -> None:
        broker = line.broker
        if line.started and broker in self._known:
            self._begun[broker] = {}
        begun = self._begun.get(broker)
        for name, state in line.states.items():
            if name not in self.partitions:
                self._replicas[name] = {one: _replica(NOTHING) for one in (1, 2, 3)}
                self.partitions[name] = Replication(partition_trace(name), self._replicas[name])
            if begun is not None:
                begun[name] = state
            else:
                _have(self._replicas[name][broker], state)

    def _observe(self, who: int, seen: Any) -> None:
        if isinstance(seen, o.Registered):
            self._registered(seen)
            return
        if isinstance(seen, o.BecameLeader | o.BecameFollower):
            self._deposed(seen.partition, who)
        if (watcher := self._watchers.get(seen.__class__)) is not None:
            watcher(who, seen)

    def _registered(self, seen: o.Registered) -> None:
        broker = seen.broker
        begun = self._begun.pop(broker, {})
        if broker in self._known:
            self.registered_again += not begun
            for name, one in self.partitions.items():
                replica = self._replicas[name][broker]
                if name in begun:
                    self._infer(one, broker, begun[name].end - replica.log.end)
                    _have(replica, begun[name])
                elif replica.leads:
                    self._deposed_later[name, broker] = seen.broker_epoch, _state(replica)
                    continue
                replica.incarnation = seen.broker_epoch
                one.registered(self._now_ms, broker)
                if name not in begun and replica.epoch:
                    one.told(self._now_ms, broker, "BecomeFollower", *FOLLOWER)
        self._known.add(broker)

    def _deposed(self, name: TopicPartition, broker: int) -> None:
        """A former leader that has registered again is told what is so, and is a leader no more."""
        broker_epoch, before = self._deposed_later.pop((name, broker), (0, None))
        if before is None:
            return
        replica = self._replicas[name][broker]
        now = _state(replica)
        _have(replica, before._replace(incarnation=broker_epoch))
        self.partitions[name].registered(self._now_ms, broker)
        _have(replica, now._replace(incarnation=broker_epoch))

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


def _applied(written: Sequence[Line]) -> set[tuple[int, int]]:
    """Which intended writes the store has applied: by its answer; without one, by whether the same
    was decided anew."""
    places: list[tuple[tuple[int, int], tuple[int, int, int], Intended]] = []
    answers: dict[tuple[int, int, int], bool] = {}
    processes: dict[int, int] = {}
    for at, line in enumerate(written):
        process = processes[line.broker] = processes.get(line.broker, 0) + line.started
        for number, seen in enumerate(line.seen):
            if isinstance(seen, Intended):
                places.append(((at, number), (line.broker, process, seen.number), seen))
            elif isinstance(seen, Answered):
                answers[line.broker, process, seen.number] = seen.applied
    applied: set[tuple[int, int]] = set()
    for index, (place, asked, seen) in enumerate(places):
        later = {key for _, _, other in places[index + 1 :] for key in _keys(other)}
        if answers.get(asked, not _keys(seen) & later):
            applied.add(place)
    return applied


def _keys(intended: Intended) -> set[Any]:
    """What two decisions have in common of which only one is so."""
    found: set[Any] = set()
    for one in intended.decided:
        if isinstance(one, o.Registered):
            found.add((one.broker, one.broker_epoch))
        elif isinstance(one, o.Decided):
            found.add((one.partition, one.decision.partition_epoch))
        elif isinstance(one, o.IsrAnswered) and one.outcome.error is None:
            found.add((one.partition, one.outcome.partition_epoch))
    return found


FOLLOWER = "epoch", "isr", "highWatermark", "partitionEpoch"
NOTHING = State(0, frozenset(), 0, False, 0, -1, 0)


def _replica(state: State) -> Any:
    return _have(SimpleNamespace(log=SimpleNamespace(end=0)), state)


def _state(replica: Any) -> State:
    values = {one: getattr(replica, one) for one in State._fields[:-1]}
    return State(**values, end=replica.log.end)


def _have(replica: Any, state: State) -> Any:
    """What the recorder asks of a replica."""
    values = state._asdict()
    replica.log.end = values.pop("end")
    for name, value in values.items():
        setattr(replica, name, value)
    return replica
