"""Records a run in the specs' words: the step of each observation.

Messages take time here and none in the specs, so a fetch has two ends. Its place in the trace is
the leader's receipt or, if it had to wait, the leader's answer. Its outcome is known when the
follower takes the answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from attrs import define, field

from chaos.recorders.group import GroupRecorder
from chaos.recorders.protocol_events import SubjectTrace, TracePlace
from chaos.sim.addresses import BROKERS
from chaos.sim.simulation import Simulation
from refimpl.events import Json, as_set
from refimpl.machines.messages import FetchRequest
from refimpl.machines.replica import INELIGIBLE_REPLICA, Replica
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.projection import REPLICATION_REPLICA

ReplicaOf: TypeAlias = Callable[[int, TopicPartition], Replica | None]
"""The replica of a partition in a broker's newest process."""


class BrokerEpoch(NamedTuple):
    """A broker epoch, and its number among those of the broker."""

    broker_epoch: int
    number: int


@define(eq=False)
class Replication:
    """The steps of one partition, as the spec of that name has them."""

    trace: SubjectTrace
    replicas: dict[int, Replica] = field(factory=dict[int, Replica])
    #: The places of fetches, by follower, incarnation and number, until their answers are taken
    places: dict[tuple[int, int, int], TracePlace] = field(
        factory=dict[tuple[int, int, int], TracePlace]
    )
    late: set[tuple[int, int, int]] = field(factory=set[tuple[int, int, int]])
    #: Replicas that have received no metadata yet: the spec begins after that
    untold: set[int] = field(factory=lambda: set(BROKERS))
    #: The spec has no ELR: offline, its ISR keeps its last member
    last_isr: int = 0
    #: The broker epoch in which each acts, and its number among those of the broker
    acting: dict[int, BrokerEpoch] = field(factory=dict[int, BrokerEpoch])
    #: The number of the broker epoch with which the spec's incarnation of a broker is 0
    first: dict[int, int] = field(factory=dict[int, int])
    #: As the controller knows it: the number of the newest broker epoch
    known: dict[int, int] = field(factory=dict[int, int])
    #: The leader epoch in which each broker last became leader or follower
    epochs: dict[int, int] = field(factory=dict[int, int])
    #: The log end of each replica, as the trace has it
    ends: dict[int, int] = field(factory=dict[int, int])
    #: The possible ISR members, as last received
    alive: frozenset[int] = frozenset(BROKERS)

    def changes(self, who: int, *variables: str) -> dict[str, Any]:
        """A replica's current values of these variables."""
        replica = self.replicas[who]
        return {name: (who, REPLICATION_REPLICA[name](replica)) for name in variables}

    def told(self, now: int, who: int, action: str, *variables: str) -> None:
        """A decision reached a replica."""
        epoch = self.epochs[who] = self.replicas[who].epoch
        first = who in self.untold and epoch == 1
        self.untold.discard(who)
        if not first:
            params = {"r": who, "e": epoch}
            self.trace.add(now, action, params, **self.changes(who, *variables))
        elif self.replicas[who].leads and self.replicas[who].partition_epoch > 1:
            self.isr_adopted(now, who)  # the ISR shrank before its leader was elected

    def heard(self, now: int, who: int, seen: o.FetchHeard) -> None:
        """A leader received a fetch. The sender may have moved on since, which the leader cannot
        know.

        A follower whose log ended before the leader's log start has begun again there. The spec has
        no log start, so the trace ends.
        """
        request = seen.request
        params = {"f": request.replica, "l": who}
        if self._is_current(request) and request.end > self.ends.get(request.replica, 0):
            self.trace.over = True
        if self._is_current(request):
            otherwise = None if seen.diverging else "FetchLost"
            step = self.trace.reserve(now, params, otherwise)
            self.places[_place(request)] = step
            return
        late = request.replica, request.incarnation, request.epoch
        if late not in self.late:  # a second one of the same changes nothing, and is no step
            self.late.add(late)
            self.trace.add(now, "LateFetch", params)

    def answered(self, now: int, who: int, seen: o.FetchAnswered) -> None:
        """An answer that waited is a step of its own, because it reflects later changes."""
        follower = seen.request.replica
        place = self.places.get(_place(seen.request))
        if self.trace.over or place is None or not self._is_current(seen.request):
            return
        if place is self.trace.steps[-1]:
            return
        step = self.trace.reserve(now, {"f": follower, "l": who}, "FetchLost")
        self.places[_place(seen.request)] = step

    def taken(self, who: int, seen: o.AnswerTaken) -> None:
        """A follower appended, or cut its log."""
        place = self.places.pop((who, self.replicas[who].incarnation, seen.number), None)
        if place is not None:
            self.ends[who] = self.replicas[who].log.end
            changes = self.changes(who, "highWatermark")
            if seen.truncated:
                place.becomes("Truncate", changes)
            else:
                place.becomes("Fetch", changes, n=self.replicas[who].log.end - seen.end)

    def broker_epoch_registered(self, now: int, who: int, number: int) -> None:
        """The controller knows of a broker epoch."""
        first = self.first.get(who, number)  # the first one is not recorded
        if number > self.known.get(who, first):
            self.trace.add(now, "Register", {"r": who, "i": number - first})
        self.known[who] = max(number, self.known.get(who, number))

    def broker_epoch_taken(self, now: int, who: int, taken: BrokerEpoch, *, again: bool) -> None:
        """A process acts in its first broker epoch or, with `again`, in another one.

        In the spec, too, no process acted in the epochs between.
        """
        last = self.acting.get(who)
        self.acting[who] = taken
        if last is None:
            self.first[who] = taken.number
            return
        for number in range(last.number + 1, taken.number + 1):
            if again or number < taken.number:
                self.trace.add(now, "RegisterAgain", {"r": who})
        if not again:
            self._restarted(now, who)

    def registered(self, now: int, who: int) -> None:
        """A process is registered anew, and broker and controller know it at once."""
        last = self.acting.get(who)
        taken = BrokerEpoch(self.replicas[who].incarnation, 1 if last is None else last.number + 1)
        self.acting.setdefault(who, BrokerEpoch(-1, 0))
        self.first.setdefault(who, 0)
        self.broker_epoch_registered(now, who, taken.number)
        self.broker_epoch_taken(now, who, taken, again=False)

    def _restarted(self, now: int, who: int) -> None:
        """A broker is back: before it has a broker epoch it does nothing."""
        replica = self.replicas[who]
        self.ends[who] = replica.log.end
        params = {"r": who, "checkpoint": replica.high_watermark, "kept": replica.log.end}
        self.untold.discard(who)
        names = "highWatermark", "isr", "partitionEpoch"
        self.trace.add(now, "Restart", params, **self.changes(who, *names))

    def isr_asked(self, now: int, who: int, seen: o.IsrAsked) -> None:
        """A leader's request for another ISR is under way; the same again is no step."""
        if seen.again:
            return
        isr, wanted = self.replicas[who].isr, seen.change.isr
        (follower,) = isr ^ wanted
        action = "ExpandIsr" if follower in wanted else "ShrinkIsr"
        self.trace.add(now, action, {"l": who, "f": follower})

    def isr_answered(self, now: int, seen: o.IsrAnswered) -> None:
        """The controller took a request, or refused it for the sake of a replica; its other
        refusals change nothing."""
        outcome = seen.outcome
        if outcome.error not in (None, INELIGIBLE_REPLICA):
            return
        if seen.active != self.alive:
            self.alive = seen.active
            self.trace.add(now, "Alive", {"those": as_set(seen.active)})
        state = {
            "leader": outcome.leader_id,
            "epoch": outcome.leader_epoch,
            "partitionEpoch": outcome.partition_epoch,
            "isr": as_set(outcome.isr),
        }
        params = {"l": seen.change.broker_id, "e": seen.change.partition_epoch}
        self.trace.add(now, "AlterPartition", params, state=state)

    def isr_adopted(self, now: int, who: int) -> None:
        """A metadata update reached the leader."""
        params = {"l": who, "e": self.replicas[who].partition_epoch}
        self.trace.add(now, "Told", params, **self.changes(who, "isr", "partitionEpoch"))

    def decided(self, now: int, seen: o.Decided) -> None:
        """The controller made a decision."""
        match seen.action:
            case "Fence":
                self.trace.add(now, "Fence", {"b": seen.broker, "r": seen.successor})
            case "GoOffline":
                self.last_isr = seen.broker
                self.trace.add(now, "GoOffline", {"b": seen.broker})
            case "Elect" | "ElectUnclean" | "ElectEligible" | "ElectLastKnown":
                in_isr = seen.action == "Elect" or (
                    seen.action == "ElectEligible" and seen.broker == self.last_isr
                )
                self.trace.add(now, "Elect" if in_isr else "ElectUnclean", {"r": seen.broker})
            case "Remove" | "Register" | "ClearElr":  # of the ISR without a leader, of the ELR
                self.trace.add(now, "ChangeOther", {})
            case _:
                pass

    def _is_current(self, request: FetchRequest) -> bool:
        """True if the sender still has, in the spec, the epoch and incarnation of its request."""
        who, taken = request.replica, self.acting.get(request.replica)
        same = taken is None or request.incarnation >= taken.broker_epoch
        return same and request.epoch == self.epochs.get(who, 1)


@define(eq=False)
class Registrations:
    """The broker epochs of all brokers, which the spec numbers: each partition begins with 0."""

    now: Callable[[], int]
    partitions: Mapping[TopicPartition, Replication]
    replica: ReplicaOf
    numbers: dict[int, list[int]] = field(factory=dict[int, list[int]])
    taken: dict[int, o.BrokerEpochTaken] = field(factory=dict[int, o.BrokerEpochTaken])

    def watchers(self) -> Mapping[type, Callable[[int, Any], None]]:
        """The handler of each kind of observation."""
        return {o.Registered: self._registered, o.BrokerEpochTaken: self._taken}

    def join(self, one: Replication) -> None:
        """A partition of which nothing has happened yet."""
        for broker, last in self.taken.items():
            one.broker_epoch_taken(self.now(), broker, self._numbered(last), again=False)

    def _registered(self, _: int, seen: o.Registered) -> None:
        for one in self.partitions.values():
            one.broker_epoch_registered(self.now(), seen.broker, self._numbered(seen).number)

    def _taken(self, _: int, seen: o.BrokerEpochTaken) -> None:
        last = self.taken.get(seen.broker)
        self.taken[seen.broker] = seen
        again = last is not None and last.incarnation_id == seen.incarnation_id
        for name, one in self.partitions.items():
            replica = self.replica(seen.broker, name)
            if replica is not None:
                one.replicas[seen.broker] = replica
                one.broker_epoch_taken(self.now(), seen.broker, self._numbered(seen), again=again)

    def _numbered(self, seen: o.Registered | o.BrokerEpochTaken) -> BrokerEpoch:
        numbers = self.numbers.setdefault(seen.broker, [])
        if seen.broker_epoch not in numbers:
            numbers.append(seen.broker_epoch)
        return BrokerEpoch(seen.broker_epoch, numbers.index(seen.broker_epoch))


@define(eq=False)
class Recorder:
    """The traces of one run."""

    replication: dict[TopicPartition, Replication]
    replica: ReplicaOf
    group: GroupRecorder
    _registrations: Registrations = field(init=False)

    @classmethod
    def of(
        cls, names: Iterable[TopicPartition], replica: ReplicaOf, group: GroupRecorder
    ) -> "Recorder":
        """Traces of these partitions and of this group, before anything has happened."""
        partitions = {name: Replication(partition_trace(name)) for name in names}
        return cls(partitions, replica, group)

    @property
    def traces(self) -> list[SubjectTrace]:
        """All traces."""
        return [*(one.trace for one in self.replication.values()), self.group.trace()]

    def lines(self, run: str, bounds: Mapping[str, Mapping[str, Json]]) -> Iterator[bytes]:
        """Everything as NDJSON: each trace with its header, which names the spec's constants."""
        for trace in self.traces:
            yield from trace.lines(run, bounds[trace.subject])

    def attach(self, simulation: Simulation) -> None:
        """Record the nodes' observations of their own steps."""
        timeline = simulation.timeline
        self._registrations = Registrations(lambda: timeline.now, self.replication, self.replica)
        watchers = {
            **partition_watchers(lambda: timeline.now, self.replication, self.replica),
            **self._registrations.watchers(),
        }
        for kind, watcher in watchers.items():
            simulation.watch(kind, watcher)
        self.group.attach(simulation.watch)

    def add(self, name: TopicPartition) -> None:
        """Record a partition that was added, of which nothing has happened yet."""
        one = self.replication[name] = Replication(partition_trace(name))
        self._registrations.join(one)


def partition_trace(name: TopicPartition) -> SubjectTrace:
    """A trace of Replication in which nothing has happened."""
    return SubjectTrace("Replication", _subject(name), _replication())


def partition_watchers(
    now: Callable[[], int], of: Mapping[TopicPartition, Replication], replica: ReplicaOf
) -> Mapping[type, Callable[[int, Any], None]]:
    """The step of each observation of a partition, by the observation's kind."""

    def takes_part(one: Replication, who: int, name: TopicPartition) -> None:
        here = replica(who, name)
        if here is not None:  # another one, if it was deleted and has come again
            one.replicas[who] = here

    def add(one: Replication, who: int, action: str, params: dict[str, int], *names: str) -> None:
        one.trace.add(now(), action, params, **one.changes(who, *names))

    def advanced(one: Replication, who: int, seen: o.HighWatermarkAdvanced) -> None:
        """Uses the observed value: a leader may advance its high watermark twice in one turn."""
        left = {"highWatermark": (who, seen.new)}
        one.trace.add(now(), "AdvanceHighWatermark", {"l": who}, **left)

    def told(one: Replication, who: int, seen: o.BecameLeader) -> None:
        takes_part(one, who, seen.partition)
        one.told(now(), who, "BecomeLeader", "epoch", "isr", "partitionEpoch")

    def follows(one: Replication, who: int, seen: o.BecameFollower) -> None:
        takes_part(one, who, seen.partition)
        names = "epoch", "isr", "highWatermark", "partitionEpoch"
        one.told(now(), who, "BecomeFollower", *names)

    def written(one: Replication, who: int, seen: o.Written) -> None:
        one.ends[who] = seen.end
        for _ in range(seen.offset, seen.end):
            add(one, who, "Write", {"l": who})

    def answer_taken(one: Replication, who: int, _: o.IsrAnswerTaken) -> None:
        add(one, who, "TakeIsrAnswer", {"l": who}, "isr", "partitionEpoch")

    steps: dict[type, Callable[[Replication, int, Any], None]] = {
        o.Written: written,
        o.HighWatermarkAdvanced: advanced,
        o.IsrAsked: lambda one, who, seen: one.isr_asked(now(), who, seen),
        o.IsrAnswered: lambda one, _, seen: one.isr_answered(now(), seen),
        o.IsrAnswerTaken: answer_taken,
        o.IsrAdopted: lambda one, who, seen: one.isr_adopted(now(), who),
        o.BecameLeader: told,
        o.BecameFollower: follows,
        o.FetchHeard: lambda one, who, seen: one.heard(now(), who, seen),
        o.FetchAnswered: lambda one, who, seen: one.answered(now(), who, seen),
        o.AnswerTaken: lambda one, who, seen: one.taken(who, seen),
        o.Decided: lambda one, _, seen: one.decided(now(), seen),
    }

    def recorded(step: Callable[[Replication, int, Any], None]) -> Callable[[int, Any], None]:
        def watcher(who: int, seen: Any) -> None:
            if seen.partition in of:  # and not of a topic that was made on the way
                step(of[seen.partition], who, seen)

        return watcher

    return {kind: recorded(step) for kind, step in steps.items()}


def _place(request: FetchRequest) -> tuple[int, int, int]:
    return request.replica, request.incarnation, request.number


def _subject(name: TopicPartition) -> str:
    return f"{name.topic}:{name.partition}"


def _replication() -> dict[str, Any]:
    everybody = frozenset((1, 2, 3))
    return {
        "highWatermark": [0, 0, 0],
        "epoch": [1, 1, 1],
        "isr": [everybody, frozenset[int](), frozenset[int]()],
        "partitionEpoch": [1, 0, 0],
    }
