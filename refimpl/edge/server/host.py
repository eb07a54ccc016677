"""A broker process on the edge: its node, its clock and timers, its listener and its disk."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, TypeAlias, cast
from uuid import uuid4

from attrs import define, field, fields_dict

from refimpl.api.call import ClientTelemetry, Served
from refimpl.broker.config import BrokerConfig
from refimpl.broker.file_logs import FileLogs
from refimpl.broker.forwarding import AutoTopicsConfig
from refimpl.broker.logs import LogDirectory
from refimpl.broker.node import Node
from refimpl.broker.several_logs import SeveralLogs
from refimpl.configs import Configs
from refimpl.edge.server.addresses import PLAINTEXT, Address, protocol_of
from refimpl.edge.server.clock import Clock, Timers
from refimpl.edge.server.faults import Faults
from refimpl.edge.server.limits import Limits
from refimpl.edge.server.listener import Listener, counted
from refimpl.edge.server.log import BROKER
from refimpl.edge.server.log_directory import Begun, Directory, GoneDisk, Place
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.network import Network
from refimpl.edge.server.security import security_of
from refimpl.edge.server.watching import Watch
from refimpl.groups.config import GroupConfig
from refimpl.messages.broker import CONSUMER, Request, Response, Timer, TopicPartition
from refimpl.messages.cluster import Endpoint
from refimpl.messages.controller import BrokerAddress, Stopped, StorageFailed
from refimpl.shares.config import ShareConfig
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Disk
from refimpl.transactions.config import TransactionConfig

PEER = "PEER"
"""The listener on which a broker hears other brokers; clients are on the first one."""
CLIENT = CONSUMER
"""The node id of whoever asks by the wire."""

REGISTRATION_MS = "initial.broker.registration.timeout.ms"

Observe = Callable[[int, Any], None]
"""Told what a node observed: broker id, and one of `refimpl.messages.observations`."""

Answers: TypeAlias = Sequence[tuple[Callable[[Any], None], Any, Callable[[], None] | None]]
"""Whom to give an answer, the answer, and what to do once it is given."""
_Interrupted: TypeAlias = tuple[Answers, Sequence[Any]]


class NotTakenIn(TimeoutError):
    """The broker is registered by nobody, or was told of nothing, in time."""


@define(eq=False, repr=False)
class BrokerHost:
    """One broker: a machine with a disk, on which one process after the other runs.

    A process ends by `stop` (its leadership handed over, everything flushed) or by `kill` (at once,
    with what is in the page cache kept, as by SIGKILL).
    """

    id: int
    network: Network
    directory: Directory
    configs: Configs
    budget: Budget
    limits: Limits
    host: str
    port: int
    rack: str | None = None
    #: The name of the listener at `host` and `port`, and the other listeners for clients
    listener_name: str = PLAINTEXT
    also: Sequence[Address] = ()
    #: What clients are told to connect to, by the names of listeners, where it is elsewhere
    advertised: Mapping[str, tuple[str, int]] = field(factory=dict[str, tuple[str, int]])
    #: Whether clients may come before the broker was told of the cluster's metadata
    accepts_at_once: bool = True
    #: Where `network` listens for the processes of other brokers, if it does
    peer: tuple[str, int] | None = None
    observe: Observe | None = None
    #: What cues hear, where there are any
    watch: Watch | None = None
    #: Takes what clients push of their metrics, which they are asked for only then
    client_telemetry: Callable[[ClientTelemetry], Any] | None = None
    clock: Clock = field(factory=Clock)
    faults: Faults = field(factory=Faults)
    node: Node = field(init=False)
    listener: Listener | None = field(default=None, init=False)
    _others: list[Listener] = field(factory=list[Listener], init=False)
    _endpoints_also: list[Endpoint] = field(factory=list[Endpoint], init=False)
    processes: int = field(default=0, init=False)
    up: bool = field(default=False, init=False)
    paused: bool = field(default=False, init=False)
    #: Set when the process has stopped by itself, and why if it had to
    stopped: asyncio.Event = field(factory=asyncio.Event, init=False)
    _timers: Timers = field(init=False)
    _pending: dict[int, Callable[[Any], None]] = field(
        factory=dict[int, Callable[[Any], None]], init=False
    )
    _asked: int = field(default=0, init=False)
    #: The numbers of connections, whichever listener they come by
    _connections: Iterator[int] = field(factory=counted, init=False)
    _broker_epoch: int = field(default=-1, init=False)
    _backlog: list[Any] = field(factory=list[Any], init=False)
    #: What a pause in the middle of carrying out has left, each with the answers before it
    _interrupted: list[_Interrupted] = field(factory=list[_Interrupted], init=False)

    def log_dirs(self) -> Sequence[Place]:
        """Its log directories."""
        return self.directory.places()

    # A process begins and ends

    async def start(self) -> None:
        """Start a process on what the disk has, and listen.

        Raises UnusableDirectory, or OSError for a port in use.
        """
        security = security_of(self.configs, self.listener_name, lambda: self.node.metadata)
        disks = self.directory.open()
        listener = Listener(
            *(self, self.limits, self.budget, self.faults, self.watch),
            security=security,
            id=self.id,
            numbers=self._connections,
        )
        try:
            accepts = self.accepts_at_once
            self.port = listener.listen(self.host, self.port, accepts=accepts)
            self._listen_also(accepts=accepts)
        except OSError:
            for one in (listener, *self._others):
                one.close()
            self._others.clear()
            self.directory.release()
            raise
        self.listener = listener
        self.processes += 1
        self.stopped = asyncio.Event()
        self._timers = Timers(self.clock, self._due)
        begun = self.directory.begin()
        self._broker_epoch = -1
        logs = self._logs(disks, begun)
        self.node = self._new_node(logs, begun.incarnation)
        self.up, self.paused = True, False
        self.network.nodes[self.id] = self.receive
        self.network.disconnected[self.id] = self.node.disconnected
        self._carry_out(self.node.start(self.clock.now(), logs.partitions()))
        self.network.run()

    async def join(self) -> None:
        """Start a process, and let clients in once the cluster has taken the broker in.

        Raises UnusableDirectory, OSError for a port in use, and NotTakenIn after
        `initial.broker.registration.timeout.ms`; the process has ended then.
        """
        try:
            await self.start()
            await self._taken_in(int(str(self.configs[REGISTRATION_MS])) / 1000)
            self.accept()
        except BaseException:
            self.kill()
            raise

    async def _taken_in(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not self.registered:
                    await asyncio.sleep(0.005)
        except TimeoutError:
            reason = f": {self.waits_for}" if self.waits_for else ""
            raise NotTakenIn(
                f"broker {self.id} was not taken into the cluster within {timeout_s:g} s "
                f"({REGISTRATION_MS}){reason}"
            ) from None

    def _logs(self, disks: Sequence[Disk], begun: Begun) -> "_Logs | _SeveralLogs":
        each = [self._logs_on(disk, begun) for disk in disks]
        return each[0] if len(each) == 1 else _SeveralLogs(each, begun, self.directory)

    def _logs_on(self, disk: Disk, begun: Begun) -> "_Logs":
        topic_ids = _TopicIds(self)
        logs = _Logs(disk, self.clock.now, self._log_config(), topic_ids=topic_ids, begun=begun)
        if isinstance(disk, GoneDisk):
            BROKER.warning("broker %s starts without %s", self.id, disk.reason)
            logs.directory.disk.failure = disk.reason
        return logs

    def _listen_also(self, *, accepts: bool) -> None:
        """Listen at the other addresses. Who comes there is told of the endpoints of that listener.

        Raises OSError for a port in use.
        """
        self._endpoints_also.clear()
        for name, host, port in ((one.name, one.host or self.host, one.port) for one in self.also):
            broker = cast("Served", _Through(self, name))
            more = Listener(
                *(broker, self.limits, self.budget, self.faults, self.watch),
                security=security_of(self.configs, name, lambda: self.node.metadata),
                id=self.id,
                numbers=self._connections,
            )
            self._others.append(more)
            taken = more.listen(host, port, accepts=accepts)
            known, at = self.advertised.get(name, (host, taken))
            protocol = protocol_of(self.configs.static, name)
            self._endpoints_also.append(Endpoint(name, known or host, at, protocol))

    def _new_node(self, logs: LogDirectory, incarnation: int) -> Node:
        return Node(
            self.id,
            BrokerConfig.of(self.configs),
            logs,
            dict[str, int](),
            incarnation,
            address=BrokerAddress(self._endpoints(), self.rack),
            auto_topics_config=auto_topics_config(self.configs),
            configs=self.configs,
            group_config=GroupConfig.of(self.configs),
            transaction_config=TransactionConfig.of(self.configs),
            share_config=ShareConfig.of(self.configs),
            new_id=lambda: str(uuid4()),
        )

    def _endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints of this broker, that of its first listener first."""
        host, port = self.advertised.get(self.listener_name, (self.host, self.port))
        protocol = protocol_of(self.configs.static, self.listener_name)
        peers = () if self.peer is None else (Endpoint(PEER, *self.peer),)
        own = Endpoint(self.listener_name, host or self.host, port, protocol)
        return (own, *self._endpoints_also, *peers)

    def _log_config(self) -> LogConfig:
        expiration = self.configs["producer.id.expiration.ms"]
        return LogConfig.of(self.configs.topic({}), int(str(expiration)))

    def accept(self) -> None:
        """Let clients in: before the broker was told of the cluster, it would say of every topic
        that there is none. Raises OSError for a port in use."""
        assert self.listener is not None
        for one in (self.listener, *self._others):
            one.accept()

    @property
    def registered(self) -> bool:
        """True once the broker is part of the cluster, and knows it."""
        known = self.node.metadata.brokers.get(self.id)
        epoch = self.node.context.broker_epoch
        return epoch >= 0 and known is not None and known.broker_epoch == epoch and not known.fenced

    @property
    def waits_for(self) -> str:
        """The reason why it is not registered, in words, if that is known."""
        return ""

    def peer_registered(self, broker: int) -> tuple[str, int] | None:
        """The address on which a broker listens for its peers, as far as this one was told."""
        known = self.node.metadata.brokers.get(broker) if self.up else None
        return peer_of(known.endpoints if known else ())

    async def stop(self, timeout_ms: int = 30_000) -> None:
        """Hand leadership over, write everything down, and end; at once if nobody can take over
        within the time."""
        if not self.up:
            return
        self.resume()
        self._carry_out(self.node.stop(self.clock.now()))
        self.network.run()
        try:
            await asyncio.wait_for(self.stopped.wait(), timeout_ms / 1000)
        except TimeoutError:
            self._end()

    def kill(self) -> None:
        """End as by SIGKILL: nothing is said to anyone, nothing is written."""
        if self.up:
            self._gone()

    def pause(self) -> None:
        """Do nothing from now on, as by SIGSTOP; what comes waits."""
        if self.up and not self.paused and self.listener is not None:
            self.paused = True
            for one in (self.listener, *self._others):
                one.pause(paused=True)

    def resume(self) -> None:
        """Go on, with what has waited first."""
        if not self.paused or self.listener is None:
            return
        self.paused = False
        interrupted, self._interrupted = self._interrupted, []
        for answers, outputs in interrupted:
            self._carry_out(outputs, answers)
        backlog, self._backlog = self._backlog, []
        for message in backlog:
            self._take(message)
        for one in (self.listener, *self._others):
            one.pause(paused=False)
        self._timers.arm()
        self.network.run()

    def _end(self) -> None:
        """The controlled shutdown is over."""
        self.node.close()
        self._gone()
        self.stopped.set()

    def _gone(self) -> None:
        self.up = self.paused = False
        self.network.leave(self.id)
        self._timers.clear()
        self._pending.clear()
        self._backlog.clear()
        self._interrupted.clear()
        if self.watch is not None:
            self.watch.forget()
        if self.listener is not None:
            for one in (self.listener, *self._others):
                one.close()
            self.listener = None
            self._others.clear()
        self.directory.release()

    # What clients and handlers need

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.directory.cluster_id

    def now(self) -> int:
        """The time in ms since 1970."""
        return self.clock.now()

    def new_id(self) -> bytes:
        """A random UUID."""
        return uuid4().bytes

    def telemetry_failed(self, why: Exception) -> None:
        """The function that takes clients' metrics has failed: the client hears INVALID_RECORD."""
        BROKER.error("client_telemetry failed: %s: %s", type(why).__name__, why)

    def elapsed_ns(self) -> int:
        """The time in ns since some moment."""
        return perf_counter_ns()

    def ask(self, body: Any, then: Callable[[Any], None]) -> None:
        """Let the node handle a client's request; `then` is called with the answer's body."""
        if not self.up:
            return
        self._asked += 1
        self._pending[self._asked] = then
        if self.watch is not None and self.listener is not None:
            self.watch.asked(self._asked, body, self.listener.client_id)
        self._take(Request(CLIENT, self.id, self._asked, body))
        self.network.soon()

    def tell(self, body: Any) -> None:
        """Let the node handle a client's request to which nobody wants an answer."""
        self.ask(body, lambda answer: None)
        self._pending.pop(self._asked, None)

    def let_watch(self, watch: Watch) -> None:
        """Let cues hear what happens here from now on."""
        self.watch = watch
        if self.listener is not None:
            self.listener.watch = watch

    def advance(self, by_ms: int) -> None:
        """Let time pass on this broker's clock; what is due by that happens."""
        self.clock.advanced_ms += by_ms
        if self.up:
            self._timers.arm()

    # The node's inputs and outputs

    def receive(self, message: Request | Response) -> None:
        """A message of another node."""
        self._take(message)

    def _due(self, name: str) -> None:
        self._take(Timer(self.clock.now(), name))
        self.network.run()

    def _take(self, message: Any) -> None:
        if self.paused:
            self._backlog.append(message)
        elif self.up:
            if self.watch is not None:
                is_asked = message.__class__ is Request and message.source == CLIENT
                self.watch.handling(message.correlation_id if is_asked else None)
            outputs = self.node.handle(self.clock.now(), message)
            if self.node.context.broker_epoch != self._broker_epoch:
                self._broker_epoch = self.node.context.broker_epoch
                self.directory.registered(self._broker_epoch)
            self._carry_out(outputs)

    def _carry_out(self, outputs: Sequence[Any], before: Answers = ()) -> None:
        """In order; what clients are answered last, for their handlers may ask again.

        A cue may end the process at an observation, or pause it: then nothing more goes out.
        """
        answers = list(before)
        for number, output in enumerate(outputs):
            kind = output.__class__
            if kind is Response:
                if output.target != CLIENT:
                    self.network.send(output)
                elif (then := self._pending.pop(output.correlation_id, None)) is not None:
                    answers.append((then, output.body, self._answering(output)))
            elif kind is Request:
                self.network.send(output)
            elif kind is Timer:
                self._timers.set(output.at_ms, output.name)
            elif kind is Stopped:
                self._end()
                return
            elif kind is StorageFailed:
                print(f"Error: broker {self.id} ends: {output.why}", file=sys.stderr)
                self._gone()
                self.stopped.set()
            elif self._is_observed and self._observed(output):
                if self.up and self.paused:
                    self._interrupted.append((answers, outputs[number + 1 :]))
                if self.paused or not self.up:
                    return
        for then, body, later in answers:
            then(body)
            if later is not None:
                later()

    @property
    def _is_observed(self) -> bool:
        return self.observe is not None or self.watch is not None

    def _observed(self, output: Any) -> bool:
        """Tell who observes; whether that may have changed anything here."""
        if self.observe is not None:
            self.observe(self.id, output)
        if self.watch is None:
            return False
        was = self.up, self.paused
        with self.network.held():
            self.watch.observed(output)
        return (self.up, self.paused) != was

    def _answering(self, output: Response) -> Callable[[], None] | None:
        if self.watch is None:
            return None
        return self.watch.answering(output.correlation_id, output.body)


def peer_of(endpoints: Sequence[Endpoint]) -> tuple[str, int] | None:
    """The address of the listener for peers among these, if it is there."""
    for endpoint in endpoints:
        if endpoint.listener == PEER:
            return endpoint.host, endpoint.port
    return None


def auto_topics_config(configs: Configs) -> AutoTopicsConfig:
    """The settings in server.properties of topics that are created automatically."""
    names = {one: one.replace("_", ".") for one in fields_dict(AutoTopicsConfig)}
    values: Any = {ours: configs[name] for ours, name in names.items()}
    return AutoTopicsConfig(**values)


@define(eq=False)
class _Through:
    """A broker as those see it who come by another of its listeners."""

    _broker: BrokerHost
    listener_name: str

    def __getattr__(self, name: str) -> Any:
        """Everything else is the broker's."""
        return getattr(self._broker, name)


@define(eq=False, kw_only=True)
class _Logs(FileLogs):
    """Kafka's files, and whether the end of the last process can have lost anything."""

    begun: Begun

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch of the last process, if all that it wrote is here."""
        if not self.begun.is_whole:
            return -1
        return max(FileLogs.clean_shutdown_epoch(self), self.begun.survived)


@define(eq=False)
class _SeveralLogs(SeveralLogs):
    """Kafka's files in several directories."""

    begun: Begun
    place: Directory
    _lost: int = field(default=0, init=False)

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch of the last process, if all that it wrote is here."""
        return max(SeveralLogs.clean_shutdown_epoch(self), self.begun.survived)

    def offline(self) -> Mapping[TopicPartition, str]:
        """The partitions of failed directories, and damaged ones.

        After a failure nobody may say of this process that it lost nothing: the kernel may have
        dropped what the disk did not take.
        """
        failed = len(self.offline_directories())
        if failed > self._lost:
            self._lost = failed
            self.place.registered(-1)
        return SeveralLogs.offline(self)


@define(eq=False)
class _TopicIds(Mapping[str, bytes]):
    """Topic ids, as the broker's metadata has them when a log is made."""

    host: BrokerHost

    def __getitem__(self, name: str) -> bytes:
        return self.host.node.metadata.topics[name].topic_id

    def __iter__(self) -> Any:
        return iter(self.host.node.metadata.topics)

    def __len__(self) -> int:
        return len(self.host.node.metadata.topics)
