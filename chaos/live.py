"""Records brokers that real clients write to, as the simulator's recorder does its own.

There a change of the ISR takes no time, as in Truncation; here a leader asks, the controller
decides, and the leader learns. While a leader asks for a follower, its high watermark waits for it
already (KIP-497): a step `ExpandIsr` stands where the leader asked, if the controller agreed. While
it asks to be rid of one it goes on waiting for it: `ShrinkIsr` stands where the leader learned, or
before the controller's next decision if that came first.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field

from chaos.protocol_events import Step, Trace
from chaos.recorder import Replication, partition_trace, partition_watchers
from refimpl.broker import observations as o
from refimpl.broker.messages import TopicPartition
from refimpl.events import Header, Json
from refimpl.machines.replica import Replica

Hosts = Mapping[int, Any]
"""Broker hosts of `refimpl.edge` by broker: each has the `node` of its process."""


@define(eq=False)
class LiveReplication(Replication):
    """The steps of one partition whose ISR changes by request."""

    #: Where the leader asked for a follower: (leader, follower), and the step
    asked: tuple[tuple[int, int], Step] | None = None
    #: High watermarks that waited for the follower that was asked for
    waited: list[Step] = field(factory=list[Step])
    #: Decided, and the leader has not learned: leader, follower, ISR
    shrunk: tuple[int, int, frozenset[int]] | None = None
    #: From here on a high watermark waited for a follower that never joined, which no step allows
    cut: Step | None = None

    def isr_asked(self, now: int, who: int, seen: o.IsrAsked) -> None:
        """A leader asks: from now on its high watermark waits for the follower as well."""
        self._not_granted()
        step = self.trace.reserve(now, {"l": who, "f": seen.follower}, None)
        self.asked = (who, seen.follower), step

    def advanced(self, now: int, who: int) -> None:
        """A leader's high watermark: the least end in the ISR, or less while it asks."""
        replica = self.replicas[who]
        self.trace.add(
            now, "AdvanceHighWatermark", {"l": who}, **self.changes(who, "highWatermark")
        )
        if self.asked is not None and self.asked[0][0] == who:
            ends = [replica.ends.get(one, -1) for one in replica.isr if one != who]
            if min([replica.log.end, *ends]) != replica.high_watermark:
                self.waited.append(self.trace.steps[-1])

    def decided(self, now: int, seen: o.Decided) -> None:
        """The controller made a decision."""
        self.learned(now)
        if seen.action == "ExpandIsr" and self.asked and self.asked[0] == seen[2:4]:
            (leader, _), step = self.asked
            step.becomes("ExpandIsr", {"isr": (leader, seen.decision.isr)})
            self.asked, self.waited = None, []
            return
        self._not_granted()
        if seen.action == "ShrinkIsr":
            self.shrunk = seen.broker, seen.successor, seen.decision.isr
        else:
            Replication.decided(self, now, seen)

    def learned(self, now: int) -> None:
        """The leader has learned who left the ISR, or never will in time."""
        if self.shrunk is not None:
            leader, follower, isr = self.shrunk
            self.shrunk = None
            params = {"l": leader, "f": follower}
            self.trace.add(now, "ShrinkIsr", params, isr=(leader, isr))

    def registered(self, now: int, who: int) -> None:
        """A broker is back."""
        self.learned(now)
        Replication.registered(self, now, who)

    def _not_granted(self) -> None:
        """What a leader asked for was refused: where its high watermark waited for that, the
        trace has to end."""
        if self.waited and self.cut is None:
            self.cut = self.waited[0]
        self.asked, self.waited = None, []

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.trace.steps)

    def end(self, now: int) -> None:
        """Nothing more comes."""
        self.learned(now)
        self._not_granted()
        if self.cut is not None:
            del self.trace.steps[self.trace.steps.index(self.cut) :]


@define(eq=False)
class LiveRecorder:
    """Give its `observe` to a `Cluster`, and that one's `hosts` to it, before topics are made.

    Partitions of this topic are to be on brokers 1, 2 and 3, and brokers to be observed from their
    start on.
    """

    topic: str
    clock: Callable[[], int]
    hosts: Hosts = field(factory=dict[int, Any])
    partitions: dict[TopicPartition, LiveReplication] = field(
        factory=dict[TopicPartition, LiveReplication]
    )
    _replicas: dict[TopicPartition, dict[int, Replica]] = field(
        factory=dict[TopicPartition, dict[int, Replica]]
    )
    _known: set[int] = field(factory=set[int])
    _watchers: dict[type, Callable[[int, Any], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Know what each observation is in the words of the spec."""
        self._watchers = {
            **partition_watchers(self.clock, self.partitions),
            o.HighWatermarkAdvanced: lambda who, seen: self.partitions[seen.partition].advanced(
                self.clock(), who
            ),
            o.IsrAsked: lambda who, seen: self.partitions[seen.partition].isr_asked(
                self.clock(), who, seen
            ),
            o.IsrAltered: lambda _, seen: self._altered(seen),
            o.Registered: lambda _, seen: self._registered(seen.broker),
        }

    def observe(self, who: int, seen: Any) -> None:
        """One observation of a node, or of the controller."""
        kind = seen.__class__
        name: TopicPartition | None = getattr(seen, "partition", None)
        if name is not None and name.topic != self.topic:
            return
        if name is not None and (kind is o.BecameLeader or kind is o.BecameFollower):
            if name not in self.partitions:
                self._new(name)
            self._replicas[name][who] = self.hosts[who].node.partitions[name].replica
        watcher = self._watchers.get(kind)
        if watcher is not None:
            watcher(who, seen)

    def _new(self, name: TopicPartition) -> None:
        replicas = self._replicas[name] = {}
        self.partitions[name] = LiveReplication(partition_trace(name), replicas)

    def _altered(self, seen: o.IsrAltered) -> None:
        if not seen.joined:
            self.partitions[seen.partition].learned(self.clock())

    def _registered(self, broker: int) -> None:
        if broker in self._known:
            for name, one in self.partitions.items():
                replica = self.hosts[broker].node.partitions[name].replica
                self._replicas[name][broker] = replica
                one.registered(self.clock(), broker)
        self._known.add(broker)

    def lines(self, run: str, constants: Mapping[str, Json]) -> Iterator[bytes]:
        """Everything as NDJSON, once the run is over."""
        for one in self.partitions.values():
            one.end(self.clock())
            trace: Trace = one.trace
            yield Header(run, trace.spec, trace.subject, constants).line()
            for event in trace.events(run):
                yield event.line()
