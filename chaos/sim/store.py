"""The metadata store of a run, its links to brokers, and its state of partitions.

Frames of a connection arrive in order, as on TCP: a lost frame breaks the connection. The store's
process crashes, also in the middle of a write, and recovers from its disk.
"""

import errno
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.sim.addresses import (
    BROKERS,
    NEMESIS,
    RESTART,
    STORE,
    TOPIC_IDS,
    ProcessTimer,
    Restart,
)
from chaos.sim.simulation import Simulation
from refimpl.controller import znodes
from refimpl.errors import StorageOffline
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import controller as c
from refimpl.messages.broker import Request, Timer, TopicPartition
from refimpl.messages.cluster import ConfigResource, PartitionRegistration
from refimpl.messages.observations import Deciding
from refimpl.metadata.contract import Create, Multi, Operation
from refimpl.metadata.contract import StoreRequest as StoreRequest
from refimpl.metadata.durable import DurableStore
from refimpl.metadata.embedded import Connect, EmbeddedStore, Frame, SessionConnection, Write
from refimpl.storage.disk.crashing import CrashDisk, Inode

OPERATOR = 999
# A segment that is lost is sent again, so much later; of ten one is not, and the connection breaks.
SENT_AGAIN_MS, BROKEN = 40, 0.1
TRANSACTIONS_A_SNAPSHOT = 50
PROCESSES = 10_000
"""A client of the store is a broker, and which of its processes: broker * PROCESSES + process."""


class Applied(NamedTuple):
    """The store has applied a write of this broker, or of the operator (0)."""

    broker: int
    session: int
    write: Write


class Unsafe(NamedTuple):
    """A write that is not durable yet: its zxid, its client (0: the operator), and its content."""

    zxid: int
    client: int
    session: int
    write: Write


@define(eq=False)
class PartitionView:
    """A partition's state in the store; it is in force even for brokers without it."""

    host: "StoreHost"
    path: str

    @property
    def _found(self) -> znodes.TopicPartitionStateZNode:
        return znodes.state_of(self.host.store.tree.nodes[self.path].data)

    @property
    def decision(self) -> LeaderAndIsr:
        """The leader and the ISR."""
        return self._found.decision

    @property
    def leader(self) -> int | None:
        """The leader."""
        return self.decision.leader

    @property
    def leader_epoch(self) -> int:
        """Since which election."""
        return self.decision.leader_epoch

    @property
    def isr(self) -> frozenset[int]:
        """The ISR."""
        return self.decision.isr

    @property
    def elr(self) -> frozenset[int]:
        """The eligible leader replicas."""
        return self._found.elr


@define(eq=False)
class StoreHost:
    """The store's process and its disk. Messages on its links are lost or late, and links break.

    `unsafe` are the writes that the process has applied and not flushed. Nobody has received their
    answers, and a crash may keep them or not.
    """

    simulation: Simulation
    disk: CrashDisk = field(factory=CrashDisk)
    up: bool = True
    paused_until: int = 0
    expiry_at: int = -1
    arrivals: dict[tuple[int, int], int] = field(factory=dict[tuple[int, int], int])
    intended: dict[int, list[Deciding]] = field(factory=dict[int, list[Deciding]])
    unsafe: list[Unsafe] = field(factory=list[Unsafe])
    operations: int = 0
    #: True if the process of a broker acts as controller
    acting: dict[int, Callable[[], bool]] = field(factory=dict[int, Callable[[], bool]])
    durable: DurableStore = field(init=False)
    crash_in: float | None = None
    down_for: int = 0

    def __attrs_post_init__(self) -> None:
        """Begin on an empty disk."""
        self._recover()

    @property
    def store(self) -> EmbeddedStore:
        """The state of the process; while it is down, what its next one will find."""
        return self.durable.store

    def _recover(self) -> None:
        """Let a process open its disk, and observe the writes that it applies."""
        now = self.simulation.timeline.now
        self.durable = DurableStore.open(
            self.disk, now, transactions_a_snapshot=TRANSACTIONS_A_SNAPSHOT
        )
        self.store.journal = self

    def provide(
        self,
        names: Sequence[TopicPartition],
        assignments: Sequence[tuple[int, ...]],
        configs: Mapping[ConfigResource, Mapping[str, str]],
    ) -> None:
        """Let these partitions and configurations be there before anything else."""
        paths = [Create(path) for path in ("/controller_epoch", *znodes.ROOTS)]
        paths[0] = Create("/controller_epoch", b"0")
        registrations = [
            PartitionRegistration(
                name,
                TOPIC_IDS[name.topic],
                LeaderAndIsr(1, assignment[0], frozenset(assignment), 1),
                assignment,
            )
            for name, assignment in zip(names, assignments, strict=True)
        ]
        for topic, topic_id in TOPIC_IDS.items():
            of_topic = [one for one in registrations if one.partition.topic == topic]
            if not of_topic:
                continue
            path = znodes.topic_path(topic)
            paths.append(Create(path, znodes.topic(topic_id, of_topic)))
            paths.append(Create(f"{path}/partitions"))
            for one in of_topic:
                paths.append(Create(znodes.partition_path(one.partition)))
                paths.append(Create(znodes.state_path(one.partition), znodes.state(one, 0)))
        for resource, values in configs.items():
            paths.append(Create(znodes.config_path(resource), znodes.config(values)))
        for number, one in enumerate(paths, 1):
            self.store.redo(number, 0, one)
            self.durable.append(number, 0, one)
        self.durable.expire(0)

    def start(self) -> None:
        """No session exists yet."""

    def partition(self, name: TopicPartition) -> PartitionView:
        """A partition's state in the store."""
        return PartitionView(self, znodes.state_path(name))

    def partitions_of(self, topic: str) -> int:
        """The number of partitions of a topic."""
        path = znodes.topic_path(topic)
        return len(znodes.topic_of(self.store.tree.nodes[path].data)[1])

    def move_leader(self, partition: TopicPartition, broker: int) -> None:
        """Ask the acting controller to put a broker first, and to elect it."""
        order = (broker, *(one for one in BROKERS if one != broker))
        wanted = c.ReassignablePartition(partition, order)
        for target in self.believers():
            for number, body in enumerate(
                (
                    c.AlterPartitionReassignmentsRequest((wanted,)),
                    c.ElectLeadersRequest(c.PREFERRED, (partition,)),
                )
            ):
                request = Request(NEMESIS, target, number, c.Envelope(body))
                self.simulation.timeline.at(self.simulation.timeline.now, target, request)

    def reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Ask the acting controller to move a partition."""
        wanted = c.ReassignablePartition(partition, tuple(replicas))
        body = c.Envelope(c.AlterPartitionReassignmentsRequest((wanted,)))
        now = self.simulation.timeline.now
        for target in self.believers():
            self.simulation.timeline.at(now, target, Request(NEMESIS, target, 0, body))

    def moved(self, partition: TopicPartition) -> bool:
        """True if a partition is not on all brokers, or is being reassigned."""
        path = znodes.topic_path(partition.topic)
        here = znodes.topic_of(self.store.tree.nodes[path].data)[1][partition.partition]
        return len(here.replicas) < len(BROKERS) or bool(here.adding or here.removing)

    def knows(self, broker: int, broker_epoch: int) -> bool:
        """True if a controller has recorded this broker epoch.

        Until then the broker's earlier incarnation stays in sync.
        """
        found = self.store.tree.nodes.get(f"{znodes.BROKER_EPOCHS}/{broker}")
        return (
            found is not None
            and znodes.last_registration_of(found.data).broker_epoch == broker_epoch
        )

    def believers(self) -> list[int]:
        """The brokers that act as controller."""
        return [broker for broker, acts in self.acting.items() if acts()]

    def watched(self) -> dict[int, set[str]]:
        """By broker that is connected: the znodes whose data it watches."""
        found: dict[int, set[str]] = {}
        for session in self.store.sessions.values():
            if session.connection is not None:
                found[session.connection.client // PROCESSES] = session.data_watches
        return {broker: found[broker] for broker in BROKERS if broker in found}

    # In and out

    def handle(self, message: Any) -> None:
        """Take a frame, or expire sessions; a process that is down receives nothing."""
        now, store = self.simulation.timeline.now, self.durable
        if type(message) is Restart:
            self._restart()
        elif type(message) is ProcessTimer:
            self.expiry_at = -1
            self._safely(lambda: store.expire(now))
        elif isinstance(message, Request) and isinstance(message.body, Frame):
            frame = message.body
            self._safely(lambda: store.handle(now, frame))
        self._look_after_sessions()

    def _safely(self, work: Callable[[], Sequence[Frame]]) -> None:
        """Let the process act. Its outputs take effect, and go out, when they are durable."""
        if not self.up:
            return
        try:
            frames = work()
        except StorageOffline:
            self._ended(self.crash_in or 0.0, self.down_for)
            return
        self._applied()
        self._send(frames)

    def _applied(self) -> None:
        unsafe, self.unsafe = self.unsafe, []
        for one in unsafe:
            self._is_safe(one)

    def _look_after_sessions(self) -> None:
        at = self.store.next_expiry if self.up else None
        if at is not None and not 0 <= self.expiry_at <= at:
            self.expiry_at = at
            self.simulation.timeline.at(at, STORE, ProcessTimer(0, Timer(at, "expiry")))

    def _send(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if frame.connection.client != OPERATOR:
                broker = frame.connection.client // PROCESSES
                self.carry(STORE, broker, frame)

    def carry(self, source: int, target: int, frame: Frame) -> None:
        """Let a frame travel, behind all that were sent before it."""
        simulation = self.simulation
        network, timeline, link = simulation.network, simulation.timeline, (source, target)
        random = simulation.rng.random
        lost = network.drop and random() < network.drop
        if link in network.cut or (lost and random() < BROKEN):
            network.lost += 1
            return
        arrives = timeline.now + network.delay_ms + (SENT_AGAIN_MS if lost else 0)
        arrives += int(random() * network.jitter_ms) + network.slow.get(link, 0)
        arrives = self.arrivals[link] = max(arrives, self.arrivals.get(link, 0))
        timeline.at(arrives, target, Request(source, target, 0, frame))

    # Writes

    def append(self, zxid: int, session: int, write: Write) -> None:
        """The store applies a write, which is not safe yet."""
        self.durable.append(zxid, session, write)
        self.operations += 1
        known = self.store.sessions.get(session)
        connection = known.connection if known is not None else None
        client = connection.client if connection is not None else 0
        self.unsafe.append(Unsafe(zxid, client, session, write))

    def _is_safe(self, one: Unsafe) -> None:
        """A write is durable: its decision holds from now on."""
        broker, write = one.client // PROCESSES, one.write
        self.simulation.observe(STORE, Applied(broker, one.session, write))
        if not isinstance(write, Multi):
            return
        for deciding in self.intended.get(one.client, []):
            if deciding.operation == write:
                self.intended[one.client].remove(deciding)
                for each in deciding.decided:
                    self.simulation.observe(broker, each)
                return

    def intend(self, client: int, deciding: Deciding) -> None:
        """A client asks for a write: once it is applied, this will be so."""
        self.intended.setdefault(client, []).append(deciding)

    # Faults

    def expire(self, broker: int) -> None:
        """End a broker's sessions, though it lives."""
        for session in self.store.sessions.values():
            connection = session.connection
            if connection is not None and connection.client // PROCESSES == broker:
                session.heard_at = -session.timeout_ms
        store, now = self.durable, self.simulation.timeline.now
        self._safely(lambda: store.expire(now))

    def operate(self, operation: Operation) -> None:
        """Do what an operator asks, at once."""
        now, connection = (
            self.simulation.timeline.now,
            SessionConnection(OPERATOR, self.operations + 1),
        )
        self.operations += 1
        store = self.durable
        session, asked = Connect(0, 60_000), StoreRequest(1, operation)
        frames = [Frame(connection, 1, session), Frame(connection, 2, asked)]
        self._safely(lambda: store.handle_all(now, frames))
        store.disconnect(connection)

    def crash(self, kept: float, down_for: int, *, writing: bool) -> None:
        """End the process: now, or in the middle of its next write, of which so much is kept."""
        if not self.up:
            return
        if not writing:
            self._ended(kept, down_for)
            return
        self.crash_in, self.down_for = kept, down_for
        self.disk.fail = lambda operation, path: errno.EIO if operation == "flush" else None

    def heal(self) -> None:
        """From now on the process runs."""
        self.disk.fail = None
        if not self.up:
            self._restart()

    def _ended(self, kept: float, down_for: int) -> None:
        """The process has ended; the next one finds the kept part of the last write."""
        timeline = self.simulation.timeline
        self.up, self.crash_in = False, None

        def keep(path: str, inode: Inode) -> bytes:
            changes = inode.changes
            if not changes or kept == 1.0:
                return inode.after(len(changes))
            data = changes[0].data
            return inode.after(1, None if data is None else int(kept * len(data)))

        names = int(kept * len(self.disk.name_changes))
        self.disk = self.disk.crashed(names, keep)
        self._recover()
        unsafe, self.unsafe = self.unsafe, []
        for one in unsafe:
            if one.zxid <= self.store.zxid:
                self.simulation.counts["writes that a crash of the store kept"] += 1
                self._is_safe(one)
            else:
                self.simulation.counts["writes that a crash of the store lost"] += 1
        timeline.at(timeline.now + max(down_for, 1), STORE, RESTART)

    def _restart(self) -> None:
        """The next process gives every session its whole time again."""
        if self.up:
            return
        self.up = True
        self.simulation.counts["restarts of the store"] += 1
        self.store.restarted(self.simulation.timeline.now)
        self._look_after_sessions()
