"""The metadata store of a run, its links to brokers, and what the store has of partitions.

Frames of a connection arrive in order, as on TCP: a frame that is lost breaks the connection.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.sim.addresses import BROKERS, NEMESIS, STORE, TOPIC, TOPIC_ID, ProcessTimer
from chaos.sim.simulation import Simulation
from refimpl.broker import control_messages as c
from refimpl.broker import znodes
from refimpl.broker.cluster import PartitionRegistration
from refimpl.broker.messages import Request, Timer, TopicPartition
from refimpl.broker.observations import Deciding
from refimpl.machines.messages import LeaderAndIsr
from refimpl.metadata.contract import Create, Multi, Operation
from refimpl.metadata.contract import Request as StoreRequest
from refimpl.metadata.embedded import Connect, Connection, EmbeddedStore, Frame, Write

OPERATOR = 999
# A segment that is lost is sent again, so much later; of ten one is not, and the connection breaks.
SENT_AGAIN_MS, BROKEN = 40, 0.1
PROCESSES = 10_000
"""A client of the store is a broker, and which of its processes: broker * PROCESSES + process."""


class Applied(NamedTuple):
    """The store has applied a write of this broker, or of the operator (0)."""

    broker: int
    session: int
    write: Write


@define(eq=False)
class PartitionView:
    """What the store has of a partition: what is in force, whoever knows of it."""

    host: "StoreHost"
    path: str

    @property
    def _found(self) -> znodes.Decision:
        return znodes.state_of(self.host.store.tree.nodes[self.path].data)

    @property
    def decision(self) -> LeaderAndIsr:
        """Who leads, and who is in sync."""
        return self._found.decision

    @property
    def leader(self) -> int | None:
        """Who leads."""
        return self.decision.leader

    @property
    def leader_epoch(self) -> int:
        """Since which election."""
        return self.decision.leader_epoch

    @property
    def isr(self) -> frozenset[int]:
        """Who is in sync."""
        return self.decision.isr

    @property
    def elr(self) -> frozenset[int]:
        """Who else may be elected."""
        return self._found.elr


@define(eq=False)
class StoreHost:
    """The store's process, which does not end; links to it are lost, late, and broken."""

    simulation: Simulation
    store: EmbeddedStore = field(factory=EmbeddedStore)
    paused_until: int = 0
    expiry_at: int = -1
    arrivals: dict[tuple[int, int], int] = field(factory=dict[tuple[int, int], int])
    intended: dict[int, list[Deciding]] = field(factory=dict[int, list[Deciding]])
    operations: int = 0
    #: Whether the process of a broker acts as controller
    acting: dict[int, Callable[[], bool]] = field(factory=dict[int, Callable[[], bool]])

    def __attrs_post_init__(self) -> None:
        """Be told of what is applied."""
        self.store.journal = self

    def provide(
        self, names: Sequence[TopicPartition], assignments: Sequence[tuple[int, ...]]
    ) -> None:
        """Let the topic be there before anything else."""
        paths = [Create(path) for path in ("/controller_epoch", *znodes.ROOTS)]
        paths[0] = Create("/controller_epoch", b"0")
        registrations = [
            PartitionRegistration(
                *(name, TOPIC_ID),
                LeaderAndIsr(1, BROKERS[0], frozenset(BROKERS), 1),
                assignments[name.partition],
            )
            for name in names
        ]
        topic = znodes.topic_path(TOPIC)
        paths += [
            Create(topic, znodes.topic(TOPIC_ID, registrations)),
            Create(f"{topic}/partitions"),
        ]
        for one in registrations:
            paths.append(Create(znodes.partition_path(one.partition)))
            paths.append(Create(znodes.state_path(one.partition), znodes.state(one, 0)))
        for number, one in enumerate(paths, 1):
            self.store.redo(number, 0, one)

    def start(self) -> None:
        """Nobody has a session yet."""

    def partition(self, name: TopicPartition) -> PartitionView:
        """What the store has of a partition."""
        return PartitionView(self, znodes.state_path(name))

    def move_leader(self, partition: TopicPartition, broker: int) -> None:
        """Ask whoever believes to be controller to put a broker first, and to let it lead."""
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
        """Ask whoever believes to be controller to move a partition."""
        wanted = c.ReassignablePartition(partition, tuple(replicas))
        body = c.Envelope(c.AlterPartitionReassignmentsRequest((wanted,)))
        now = self.simulation.timeline.now
        for target in self.believers():
            self.simulation.timeline.at(now, target, Request(NEMESIS, target, 0, body))

    def moved(self, partition: TopicPartition) -> bool:
        """Whether a partition is not on all brokers, or on its way."""
        path = znodes.topic_path(partition.topic)
        here = znodes.topic_of(self.store.tree.nodes[path].data)[1][partition.partition]
        return len(here.replicas) < len(BROKERS) or bool(here.adding or here.removing)

    def believers(self) -> list[int]:
        """The brokers that act as controller."""
        return [broker for broker, acts in self.acting.items() if acts()]

    # In and out

    def handle(self, message: Any) -> None:
        """Take a frame, or look whose session is over."""
        now = self.simulation.timeline.now
        if type(message) is ProcessTimer:
            self.expiry_at = -1
            self._send(self.store.expire(now))
        elif isinstance(message, Request) and isinstance(message.body, Frame):
            self._send(self.store.handle(now, message.body))
        self._look_after_sessions()

    def _look_after_sessions(self) -> None:
        at = self.store.next_expiry
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

    # What is applied

    def append(self, zxid: int, session: int, write: Write) -> None:
        """The store has applied a write: what it decides is so from now on."""
        self.operations += 1
        known = self.store.sessions.get(session)
        connection = known.connection if known is not None else None
        client = connection.client if connection is not None else 0
        broker = client // PROCESSES
        self.simulation.observe(STORE, Applied(broker, session, write))
        if not isinstance(write, Multi):
            return
        for deciding in self.intended.get(client, []):
            if deciding.operation == write:
                self.intended[client].remove(deciding)
                for one in deciding.decided:
                    self.simulation.observe(broker, one)
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
        self._send(self.store.expire(self.simulation.timeline.now))

    def operate(self, operation: Operation) -> None:
        """Do what an operator asks, at once."""
        now, connection = self.simulation.timeline.now, Connection(OPERATOR, self.operations + 1)
        self.operations += 1
        self._send(self.store.handle(now, Frame(connection, 1, Connect(0, 60_000))))
        self._send(self.store.handle(now, Frame(connection, 2, StoreRequest(1, operation))))
        self.store.disconnect(connection)
