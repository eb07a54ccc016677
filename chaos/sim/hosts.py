"""The hosts of `refimpl.broker`'s nodes: they carry outputs out and pass observations on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.sim.addresses import CONTROLLER, RECEIPTS, RESTART, ProcessTimer, Restart
from chaos.sim.disk import MemoryLogs
from chaos.sim.files import CrashingLogs
from chaos.sim.network import Clock, Timeline
from chaos.sim.share_messages import ShareSessionOver
from chaos.sim.simulation import ORDERED, Simulation, Watcher
from chaos.sim.store import StoreHost
from refimpl.broker.config import BrokerConfig
from refimpl.broker.node import Node
from refimpl.controller.controller import Controller
from refimpl.groups.config import GroupConfig
from refimpl.machines.controller import PartitionState
from refimpl.messages.broker import (
    MetadataRequest,
    Request,
    Response,
    Timer,
    TopicPartition,
)
from refimpl.messages.controller import (
    Stopped,
    StorageFailed,
    UpdateMetadataRequest,
)
from refimpl.messages.group import FindCoordinatorRequest
from refimpl.messages.share import OPEN_EPOCH, ShareFetchRequest
from refimpl.shares.config import ShareConfig
from refimpl.transactions.config import TransactionConfig

ABOUT_THE_CLUSTER = frozenset((UpdateMetadataRequest, MetadataRequest, FindCoordinatorRequest))
"""Requests by which brokers and clients learn of the cluster."""


class Handled(NamedTuple):
    """A process has handled a request about the cluster, with these outputs."""

    process: int
    request: Request
    outputs: Sequence[Any]


@define(eq=False)
class ControllerHost:
    """The controller's process, which does not end here."""

    simulation: Simulation
    controller: Controller
    paused_until: int = 0

    def start(self) -> None:
        """Set the controller's first timer."""
        self._carry_out(self.controller.start(self.simulation.timeline.now))

    def handle(self, message: Any) -> None:
        """Let the controller have a message of the network, or a timer."""
        if type(message) is ProcessTimer:
            message = message.timer
        self._carry_out(self.controller.handle(self.simulation.timeline.now, message))

    def partition(self, name: TopicPartition) -> PartitionState:
        """The partition's current state."""
        return self.controller.partitions[name].state

    def partitions_of(self, topic: str) -> int:
        """The number of partitions of a topic."""
        return len(self.controller.metadata.topics[topic].partitions)

    def believers(self) -> list[int]:
        """The nodes that act as controller."""
        return [CONTROLLER]

    def knows(self, broker: int, broker_epoch: int) -> bool:
        """True if the process with this broker epoch is the registered one."""
        return self.controller.registry.epochs.get(broker) == broker_epoch

    def move_leader(self, partition: TopicPartition, broker: int) -> None:
        """Elect another leader, as an operator would."""
        now = self.simulation.timeline.now
        self._carry_out(self.controller.move_leader(now, partition, broker))

    def _carry_out(self, outputs: Sequence[Any]) -> None:
        simulation = self.simulation
        for output in outputs:
            kind = output.__class__
            if kind is Request or kind is Response:
                simulation.network.send(output)
            elif kind is Timer:
                simulation.timeline.at(output.at_ms, CONTROLLER, ProcessTimer(0, output))
            else:
                simulation.observe(CONTROLLER, output)


@define(eq=False)
class BrokerHost:
    """A broker's machine: its disk, and the process that runs on it, if one does.

    `nodes` are the processes so far; a timer of an earlier one is void.
    """

    id: int
    simulation: Simulation
    controller: ControllerHost | StoreHost
    config: BrokerConfig
    partitions: Sequence[TopicPartition]
    disk: MemoryLogs | CrashingLogs
    clock: Clock
    nodes: list[Node] = field(factory=list[Node])
    up: bool = False
    paused_until: int = 0
    down_for: int = 0
    groups: GroupConfig = field(factory=GroupConfig, kw_only=True)
    transactions: TransactionConfig = field(factory=TransactionConfig, kw_only=True)
    shares: ShareConfig = field(factory=ShareConfig, kw_only=True)
    #: Connections that members have ended: no session is opened on them
    _over: set[int] = field(factory=set[int], init=False)
    _timeline: Timeline = field(init=False)
    _watchers: Mapping[type, Sequence[Watcher]] = field(init=False)
    _send: Callable[[Request | Response], None] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once where everything goes."""
        simulation = self.simulation
        self._timeline, self._watchers = simulation.timeline, simulation.watchers
        self._send = simulation.network.send
        if simulation.settings.share_members:
            simulation.watch(ShareSessionOver, lambda _, seen: self._over.add(seen.connection))

    @property
    def node(self) -> Node:
        """The newest process."""
        return self.nodes[-1]

    def start(self) -> None:
        """Start a process on the disk's content."""
        simulation = self.simulation
        self.up, self.paused_until = True, 0
        if simulation.settings.files and self.nodes:
            simulation.counts["recoveries from files"] += 1
        process = len(self.nodes) + 1
        self.nodes.append(
            Node(
                *(self.id, self.config, self.disk, self._min_isr(), process),
                group_config=self.groups,
                transaction_config=self.transactions,
                share_config=self.shares,
            )
        )
        self._carry_out(self.node.start(self.clock.now_ms(), self._partitions()))

    def _min_isr(self) -> Mapping[str, int]:
        """min.insync.replicas of each topic; one of them has a single replica."""
        topics = {name.topic: self.simulation.settings.min_isr for name in self.partitions}
        return {**topics, RECEIPTS: 1} if RECEIPTS in topics else topics

    def _partitions(self) -> Sequence[TopicPartition]:
        """The initial partitions, and all others on the disk."""
        found = self.disk.partitions()
        return [*self.partitions, *(one for one in found if one not in self.partitions)]

    def handle(self, message: Any) -> None:
        """Pass a message or a timer to the process; one that is down receives nothing."""
        kind, asked = message.__class__, None
        if kind is ProcessTimer:
            if message[0] != len(self.nodes):
                return
            message = message[1]
        elif kind is Request:
            asked = message[3].__class__
            if message[0] in self.simulation.connections.clients:
                self._read(message)
                return
            if asked in ORDERED and self.simulation.is_overtaken(message):
                return
            if asked is ShareFetchRequest and self._comes_too_late(message[3]):
                return
        elif kind is Restart:
            if not self.up:
                self.start()
            return
        if self.up:
            self._pass_on(message, asked)

    def _pass_on(self, message: Any, asked: type | None) -> None:
        outputs = self.nodes[-1].handle(self._timeline.now + self.clock.ahead_ms, message)
        if asked in ABOUT_THE_CLUSTER:
            self.simulation.observe(self.id, Handled(len(self.nodes), message, outputs))
        if outputs:
            self._carry_out(outputs)

    def _read(self, message: Request) -> None:
        """Pass on what a connection delivers now; a process that is down breaks it."""
        connections = self.simulation.connections
        if not self.up:
            connections.broken(message)
            return
        for request in connections.arrived(message):
            if self.up:
                self._pass_on(request, request.body.__class__)

    def _comes_too_late(self, body: ShareFetchRequest) -> bool:
        """True if a request opens a session on a connection that its member has ended."""
        return body.session_epoch == OPEN_EPOCH and body.connection in self._over

    def crash(self, kept: float) -> None:
        """The process ends, and this part of the unflushed page cache survives."""
        before = self.disk
        self.up = False
        self.disk = before.crashed(kept if self.simulation.settings.lossy else 1.0)
        lost = before.records - self.disk.records
        if lost:
            self.simulation.counts["records lost from page caches"] += lost

    def stop(self, down_for: int) -> None:
        """Begin a controlled shutdown; the next process starts so long after it is over."""
        self.down_for = down_for
        self._carry_out(self.node.stop(self.clock.now_ms()))

    def _halted(self) -> None:
        """The disk has failed, and the process ends; the next one finds the surviving disk."""
        timeline = self.simulation.timeline
        self.simulation.counts["disks that failed"] += 1
        self.crash(0.0)
        timeline.at(timeline.now + max(self.down_for, 1), self.id, RESTART)

    def _stopped(self) -> None:
        timeline = self.simulation.timeline
        self.node.close()
        self.disk = self.disk.crashed(1.0)
        self.up = False
        self.simulation.counts["controlled shutdowns"] += 1
        timeline.at(timeline.now + self.down_for, self.id, RESTART)

    def _carry_out(self, outputs: Sequence[Any]) -> None:
        id, watchers, due, send = self.id, self._watchers, self._timeline.due, self._send
        process, ahead_ms = len(self.nodes), self.clock.ahead_ms
        for output in outputs:
            kind = output.__class__
            if kind is Timer:
                timer = ProcessTimer(process, output)
                due[output[0] - ahead_ms].append((id, timer))
            elif kind is Response or kind is Request:
                send(output)
            elif kind in watchers:
                for watcher in watchers[kind]:
                    watcher(id, output)
            elif kind is Stopped:
                self._stopped()
            elif kind is StorageFailed:
                self._halted()
