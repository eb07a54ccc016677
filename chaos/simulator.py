"""One run: three brokers, a controller and clients, from a configuration and a script of faults,
event by event from one timeline."""

import gc
import hashlib
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

from attrs import define, field

from chaos import counting
from chaos.clients.application import ClassicApplication, ConsumerApplication
from chaos.clients.classic_member import ClassicMember
from chaos.clients.committed_reader import CommittedReader, Reading
from chaos.clients.consumer import Part
from chaos.clients.consumer_member import ConsumerMember
from chaos.clients.group_member import SimulatedMember
from chaos.clients.leaders import Leaders
from chaos.clients.operator import Operator
from chaos.clients.producer import Producer
from chaos.clients.purger import Purger
from chaos.clients.reference_consumer import ReferenceConsumer
from chaos.clients.reference_producer import ReferenceProducer
from chaos.clients.share_consumer import ShareConsumer
from chaos.clients.transactional_producer import (
    TransactionalProducer,
    TransactionNumbers,
    outputs_of,
)
from chaos.faults.nemesis import Nemesis, TransactionalClients
from chaos.faults.script import Script, expand
from chaos.oracles.availability import AvailabilityOracle
from chaos.oracles.classic_group import ClassicGroupOracle
from chaos.oracles.configurations import ConfigurationsOracle
from chaos.oracles.consumer_group import ConsumerGroupOracle
from chaos.oracles.control_plane import ControlPlaneOracle
from chaos.oracles.coordinated_group import CoordinatedGroup
from chaos.oracles.deletion import DeletionOracle
from chaos.oracles.group import GroupPartition
from chaos.oracles.loaded import LoadedOracle
from chaos.oracles.operations import OperationsOracle
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.progress import ProgressOracle
from chaos.oracles.share_group import ShareGroupOracle
from chaos.oracles.told import ToldOracle
from chaos.oracles.transactions import TransactionsOracle
from chaos.oracles.violation import Violation
from chaos.oracles.watch import ReplicationOracles
from chaos.recorders.groups import group_recorder
from chaos.recorders.replication import Recorder
from chaos.sim.added import AddedPartitions
from chaos.sim.addresses import (
    APPLICATION,
    BROKERS,
    FIRST_CLIENT,
    GROUP,
    NEMESIS,
    OFFSETS,
    PAYMENTS,
    PROGRESS,
    RECEIPTS,
    SHARE_GROUP,
    SHARE_STATE,
    STATE,
    TICK,
    TOPIC,
    TOPIC_ID,
    TOPIC_IDS,
)
from chaos.sim.disk import MemoryLogs
from chaos.sim.expiry import Expiry
from chaos.sim.files import CrashingLogs
from chaos.sim.history import History
from chaos.sim.hosts import BrokerHost, ControllerHost
from chaos.sim.network import Clock, Entry, Network, Timeline, TransactionalNetwork
from chaos.sim.settings import DAY_MS, Settings
from chaos.sim.simulation import Simulation
from chaos.sim.store import StoreHost
from chaos.sim.stored_hosts import StoredBrokerHost
from refimpl.broker.config import BrokerConfig
from refimpl.configs import Configs
from refimpl.controller.controller import Controller
from refimpl.controller.state import ControllerConfig
from refimpl.groups.config import GroupConfig
from refimpl.machines.group import CommittingMember
from refimpl.machines.messages import LeaderAndIsr
from refimpl.machines.replica import Replica
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import GROUP as GROUP_RESOURCE
from refimpl.messages.cluster import ConfigResource
from refimpl.messages.observations import BecameFollower, BecameLeader, Registered
from refimpl.shares.config import ShareConfig
from refimpl.storage.config import LogConfig
from refimpl.transactions.config import TransactionConfig

ASSIGNMENTS = ((1, 2, 3), (1, 3, 2))


class Receiver(Protocol):
    """A receiver of messages."""

    paused_until: int

    def handle(self, message: Any) -> None:
        """Take a message, at the time that the timeline shows."""
        ...


@define(eq=False)
class Run:
    """A run and its result: `violation` is None if every promise held."""

    settings: Settings
    script: Script = field(repr=False)
    simulation: Simulation = field(repr=False)
    nodes: list[Receiver] = field(repr=False)
    partitions: list[PartitionOracle] = field(repr=False)
    group: CoordinatedGroup = field(repr=False)
    progress: ProgressOracle = field(repr=False)
    recorder: Recorder | None = field(repr=False)
    transactions: TransactionsOracle | None = field(default=None, repr=False)
    shares: ShareGroupOracle | None = field(default=None, repr=False)
    violation: Violation | None = None
    events: int = 0

    @property
    def complete(self) -> bool:
        """True if the run ended and every partition was read once more."""
        return self.progress.done and not any(p.unavailable() for p in self.partitions)

    @property
    def now_ms(self) -> int:
        """The current simulated time."""
        return self.simulation.timeline.now

    def go(self, hasher: Any = None) -> "Run":
        """Run to the end, a violation, or the event budget. With a hasher, feed it every step."""
        collects = gc.isenabled()
        gc.disable()  # a run is short, and what it leaves behind goes when it is over
        try:
            self._loop(hasher)
        except Violation as violation:
            self.violation = violation
        except Exception as unforeseen:  # a machine may also break in unforeseen ways
            where = traceback.extract_tb(unforeseen.__traceback__)[-1]
            name = type(unforeseen).__name__
            self.violation = Violation(name, f"{unforeseen} in {where.name}, line {where.lineno}")
        finally:
            if collects:
                gc.enable()
        return self

    def _loop(self, hasher: Any) -> None:
        timeline, progress, nodes = self.simulation.timeline, self.progress, self.nodes
        due, budget = timeline.due, self.settings.events
        now, events, left = timeline.now, 0, iter(tuple[Entry]())
        counts = self.simulation.counts
        try:
            while True:
                now_due = due.get(now)
                if now_due is None:
                    now += 1
                    continue
                timeline.now, left = now, iter(now_due)  # which grows during the iteration
                for target, message in left:
                    node = nodes[target]
                    if node.paused_until > now:
                        timeline.at(node.paused_until, target, message)
                        counts["messages that waited for a paused node"] += 1
                        continue
                    events += 1
                    if hasher is not None:
                        hasher.update(repr((now, target, message)).encode())
                    node.handle(message)
                    if events >= budget:
                        raise Violation("EventBudget", f"{budget} events, and no end")
                    if progress.done:
                        return
                del due[now]
        finally:
            self.events, due[now] = events, [*left]


def build(
    settings: Settings,
    script: Script | None = None,
    *,
    events: bool = False,
    history: bool = False,
) -> Run:
    """Set a run up; nothing has happened yet."""
    script = expand(settings) if script is None else script
    rng, timeline = Random(settings.seed * 2), Timeline()
    network = (TransactionalNetwork if settings.transactions else Network)(
        timeline,
        rng,
        settings.delay_ms,
        settings.jitter_ms,
        settings.drop,
        settings.duplicate,
        settings.stray,
    )
    simulation = Simulation(settings, rng, timeline, network, network.counts)
    simulation.history = History(timeline) if history else None
    names = [TopicPartition(TOPIC, number) for number in range(settings.partitions)]
    recorded = [*names, OFFSETS]
    everything = [
        *recorded,
        *(_of_transactions(simulation) if settings.transactions else ()),
        *((SHARE_STATE,) if settings.share_members else ()),
    ]
    controller, brokers = _cluster(simulation, everything)
    added = AddedPartitions(names)
    if settings.adds_partitions:
        added.attach(simulation)
    replicas: dict[TopicPartition, dict[int, Replica]] = {name: {} for name in everything}
    added.told.append(lambda name: replicas.update({name: _nothing()}))
    _watch_registrations(simulation, brokers, replicas)
    recorder = None
    if events:
        who, clock = (settings.group_protocol, GROUP), lambda: timeline.now
        of_group = group_recorder(*who, clock, replicas[OFFSETS].__getitem__, names, TOPIC_ID)
        recorder = Recorder.of(recorded, partial(_replica, brokers), of_group)
        recorder.attach(simulation)  # first of all, so that a step that breaks something is there
        added.told.append(partial(_record, recorder, controller))
    counting.attach(simulation)

    def judge(name: TopicPartition) -> PartitionOracle:
        about = settings, controller.partition(name), replicas[name], simulation.counts
        return PartitionOracle(f"{name.topic}:{name.partition}", *about)

    judged = {name: judge(name) for name in everything}
    offsets, of_topic = judged[OFFSETS], [judged[name] for name in names]
    ReplicationOracles(judged).attach(simulation)
    consumers, producers = _clients(simulation, names)
    clients = [node.id for node in (*consumers, *producers)]
    group = _group(simulation, offsets, of_topic, brokers, consumers)
    group.attach()
    LoadedOracle(simulation, brokers, simulation.counts).attach()
    ToldOracle(simulation).attach()

    if settings.reconfigures:
        ConfigurationsOracle(simulation, controller, brokers).attach()

    def judge_added(name: TopicPartition) -> None:
        oracle = judged[name] = judge(name)
        of_topic.append(oracle)
        group.partitions.append(_of_group(simulation, oracle))

    added.told.append(judge_added)
    control_plane = operations = operator = None
    if isinstance(controller, StoreHost):
        control_plane = ControlPlaneOracle(simulation, controller, simulation.counts)
        control_plane.attach()
        operations = OperationsOracle(simulation, controller, brokers, simulation.counts)
        operations.attach()
        operator = Operator(clients[-1] + 1, simulation, Random(settings.seed * 2 + 1001))
        clients.append(operator.id)
    deletion = _deletion(clients[-1] + 1, simulation, group.partitions, names, judged)
    purgers = [] if deletion is None else [deletion.purger]
    clients += [purger.id for purger in purgers]
    transactional = transactions = None
    writers: Sequence[Receiver] = ()
    if settings.transactions:
        transactional, reader = _transactional(clients[-1] + 1, simulation, names)
        writers = (*transactional.all, reader)
        clients += [*(node.id for node in transactional.all), reader.id]
        transactions = TransactionsOracle(
            *(simulation, brokers, judged, outputs_of(simulation)),
            *(transactional.producers, transactional.applications, reader, simulation.counts),
        )
        transactions.attach()
    shares, sharing = None, _sharing(clients[-1] + 1, simulation)
    if sharing:
        clients += [node.id for node in sharing]
        topics = sharing[0].topics
        shares = ShareGroupOracle(simulation, brokers, judged, topics, sharing, simulation.counts)
        shares.attach()
    nemesis = Nemesis(
        *(simulation, script, controller, brokers, consumers, tuple(clients)),
        operator,
        transactional,
        sharing,
    )
    availability = None
    if settings.lasting:
        availability = AvailabilityOracle(simulation, brokers, clients, judged, producers)
    progress = ProgressOracle(
        simulation,
        nemesis,
        of_topic,
        group,
        producers,
        consumers,
        control_plane,
        operations,
        deletion,
        availability,
        transactions,
        shares,
    )
    nodes: list[Receiver] = [
        *(controller, *brokers, nemesis, progress),
        *(*consumers, *producers),
        *(*(() if operator is None else (operator,)), *purgers),
        *writers,
        *sharing,
    ]
    _start(simulation, controller, brokers, nodes)
    for broker in brokers:
        for name, partition in broker.node.partitions.items():
            replicas[name][broker.id] = partition.replica
    applications = () if transactional is None else transactional.applications
    for consumer in (*consumers, *applications, *sharing):
        consumer.subscribe()
    nemesis.start()
    progress.start()
    about = settings, script, simulation, nodes, of_topic, group, progress, recorder
    return Run(*about, transactions, shares)


def _of_transactions(simulation: Simulation) -> Sequence[TopicPartition]:
    """The partitions of coordinators of transactions, and those that transactions write to."""
    return (*STATE, *outputs_of(simulation))


def _transactional(
    first: int, simulation: Simulation, names: Sequence[TopicPartition]
) -> tuple[TransactionalClients, CommittedReader]:
    """The clients that write within transactions, and one that reads what is committed."""
    settings, numbers = simulation.settings, TransactionNumbers()
    producers: list[TransactionalProducer] = []
    for index in range(2 * settings.transactional_ids):
        node, rng = first + index, Random(settings.seed * 2 + 1031 + index)
        known = Leaders(node, simulation, rng)
        about = simulation, rng, known, f"payments-{index // 2}", numbers, index % 2 == 0
        producers.append(TransactionalProducer(node, *about))
    kind = ClassicApplication if settings.group_protocol == "classic" else ConsumerApplication
    applications: list[ClassicApplication | ConsumerApplication] = []
    for index in range(settings.applications):
        node = first + len(producers) + index
        parts = [Part(name, CommittingMember(node - FIRST_CLIENT + 1)) for name in names]
        known = Leaders(node, simulation, Random(settings.seed * 2 + 1031 + node))
        applications.append(kind(node, simulation, parts, known, APPLICATION, numbers=numbers))
    node = first + len(producers) + len(applications)
    readings = [Reading(name) for name in outputs_of(simulation)]
    known = Leaders(node, simulation, Random(settings.seed * 2 + 1031 + node))
    return TransactionalClients(producers, applications), CommittedReader(
        node, simulation, known, readings
    )


def _sharing(first: int, simulation: Simulation) -> list[ShareConsumer]:
    """The members of the share group; with transactions they read those as well."""
    settings, members = simulation.settings, list[ShareConsumer]()
    topics = (TOPIC, PAYMENTS) if settings.transactions else (TOPIC,)
    names = {TOPIC_IDS[one]: one for one in topics}
    for number in range(settings.share_members):
        node, rng = first + number, Random(settings.seed * 2 + 1311 + number)
        known = Leaders(node, simulation, rng)
        members.append(ShareConsumer(node, number, simulation, topics, names, known, rng))
    return members


def _nothing() -> dict[int, Replica]:
    """Replicas of a partition that no broker has opened."""
    return {broker: Replica(broker) for broker in BROKERS}


def _record(
    recorder: Recorder, controller: ControllerHost | StoreHost, name: TopicPartition
) -> None:
    """Record a partition that was added, if it begins as the spec does: led by broker 1, and all
    are in sync."""
    if controller.partition(name).decision == LeaderAndIsr(1, 1, frozenset(BROKERS), 1):
        recorder.add(name)


def _of_group(simulation: Simulation, oracle: PartitionOracle) -> GroupPartition:
    return GroupPartition(oracle.name, simulation.settings, oracle, simulation.counts)


def _group(
    simulation: Simulation,
    offsets: PartitionOracle,
    partitions: list[PartitionOracle],
    brokers: list[BrokerHost],
    members: list[SimulatedMember],
) -> CoordinatedGroup:
    classic = simulation.settings.group_protocol == "classic"
    kind = ClassicGroupOracle if classic else ConsumerGroupOracle
    return kind(
        simulation,
        lambda broker: brokers[broker - 1].node.partitions[OFFSETS].log,
        offsets,
        [_of_group(simulation, one) for one in partitions],
        members,
        simulation.counts,
    )


def _start(
    simulation: Simulation,
    controller: ControllerHost | StoreHost,
    brokers: list[BrokerHost],
    nodes: list[Receiver],
) -> None:
    controller.start()
    for broker in brokers:
        broker.start()
    for number, _ in enumerate(nodes):
        if number > BROKERS[-1] and number not in (NEMESIS, PROGRESS):
            simulation.timeline.at(number, number, TICK)


def _disk(simulation: Simulation, clock: Clock) -> MemoryLogs | CrashingLogs:
    settings, expiry = simulation.settings, Expiry(simulation.counts)
    expiration_ms = settings.producer_expiration_ms
    if not settings.files:
        return MemoryLogs(now_ms=clock.now_ms, producer_expiration_ms=expiration_ms, expiry=expiry)
    config = LogConfig(
        segment_bytes=settings.segment_bytes, producer_id_expiration_ms=expiration_ms
    )
    return CrashingLogs.on(clock, config, expiry)


def _replica(brokers: list[BrokerHost], broker: int, name: TopicPartition) -> Replica | None:
    host = brokers[broker - 1]
    partition = host.node.partitions.get(name)
    if partition is None:
        return None if name in host.partitions else Replica(broker)  # one that it has still to open
    return partition.replica


def _watch_registrations(
    simulation: Simulation,
    brokers: list[BrokerHost],
    replicas: Mapping[TopicPartition, dict[int, Replica]],
) -> None:
    """Observe a broker's new process from its registration on, when it can act."""

    def registered(_: int, seen: Registered) -> None:
        node = brokers[seen.broker - 1].nodes[seen.incarnation_id - 1]
        for name, of_broker in replicas.items():
            if name in node.partitions:
                of_broker[seen.broker] = node.partitions[name].replica
            elif name not in known:  # it was added, and the broker's log of it is lost
                of_broker[seen.broker] = Replica(seen.broker)
        simulation.counts["registrations"] += 1

    def takes_part(who: int, seen: BecameLeader | BecameFollower) -> None:
        replicas[seen.partition][who] = brokers[who - 1].node.partitions[seen.partition].replica

    known = {*replicas}
    simulation.watch(Registered, registered)
    settings = simulation.settings
    if settings.store or settings.adds_partitions:  # if a replica may come, or go and come again
        simulation.watch(BecameLeader, takes_part)
        simulation.watch(BecameFollower, takes_part)


def _cluster(
    simulation: Simulation, names: list[TopicPartition]
) -> tuple[ControllerHost | StoreHost, list[BrokerHost]]:
    """Brokers, and the controller, or the store that elects one of them."""
    settings, config = simulation.settings, _config(simulation.settings)
    clocks = [Clock(simulation.timeline) for _ in BROKERS]
    if not settings.store:
        controller = ControllerHost(simulation, _controller(settings, names))
        disks = [_disk(simulation, clock) for clock in clocks]
        return controller, [
            BrokerHost(
                *(id, simulation, controller, config, _replicas_of(id, names), disk, clock),
                groups=_groups(settings),
                transactions=_transactions(settings),
                shares=_shares(settings),
            )
            for id, disk, clock in zip(BROKERS, disks, clocks, strict=True)
        ]
    store = StoreHost(simulation)
    store.provide(names, [_assignment(name) for name in names], _of_share_group(settings))
    hosts = [
        StoredBrokerHost(
            id,
            simulation,
            store,
            config,
            _replicas_of(id, names),
            _disk(simulation, clock),
            clock,
            controllers=_controller_config(settings),
            groups=_groups(settings),
            transactions=_transactions(settings),
            shares=_shares(settings),
        )
        for id, clock in zip(BROKERS, clocks, strict=True)
    ]
    store.acting = {host.id: host.acts_as_controller for host in hosts}
    return store, [*hosts]


def _assignment(name: TopicPartition) -> tuple[int, ...]:
    return (2,) if name.topic == RECEIPTS else ASSIGNMENTS[name.partition % 2]


def _replicas_of(broker: int, names: list[TopicPartition]) -> list[TopicPartition]:
    return [name for name in names if broker in _assignment(name)]


def _controller_config(settings: Settings) -> ControllerConfig:
    return ControllerConfig(
        broker_session_timeout_ms=settings.session_ms,
        leader_imbalance_check_interval_ms=0,
        min_insync_replicas=settings.min_isr,
        unclean_leader_election_enable=settings.unclean,
        eligible_leader_replicas=settings.elr,
        configs=Configs(_of_all_groups(settings)),
    )


def _of_all_groups(settings: Settings) -> Mapping[str, str]:
    """Sessions of groups, as short as those of the brokers."""
    session_ms = settings.member_session_ms
    return {
        "group.consumer.min.session.timeout.ms": "1",
        "group.consumer.min.heartbeat.interval.ms": "1",
        "group.consumer.session.timeout.ms": str(session_ms),
        "group.consumer.heartbeat.interval.ms": str(session_ms // 4),
    }


def _controller(settings: Settings, names: list[TopicPartition]) -> Controller:
    """A controller that has the topic, and waits for the first process of each broker."""
    controller = Controller(_controller_config(settings), Random(settings.seed * 2 + 2))
    controller.expect(BROKERS)
    for topic in dict.fromkeys((TOPIC, OFFSETS.topic, *(name.topic for name in names))):
        controller.decisions.create_topic(topic, TOPIC_IDS[topic])
    for name in names:
        controller.decisions.create_partition(name, _assignment(name))
    controller.metadata.configs.update(_of_share_group(settings))
    return controller


def _of_share_group(settings: Settings) -> Mapping[ConfigResource, Mapping[str, str]]:
    """The share group's own configurations."""
    if not settings.share_members:
        return {}
    own = {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": settings.share_isolation,
    }
    return {ConfigResource(GROUP_RESOURCE, SHARE_GROUP): own}


def _shares(settings: Settings) -> ShareConfig:
    return ShareConfig(
        snapshot_updates=settings.share_snapshot_updates,
        prune_interval_ms=settings.share_prune_ms,
        cold_interval_ms=settings.share_prune_ms,
        load_buffer_size=settings.fetch_limit,
        write_timeout_ms=settings.request_timeout_ms,
        share_delivery_count_limit=settings.share_delivery_limit,
        share_partition_max_record_locks=settings.share_locks,
        share_record_lock_duration_ms=settings.share_lock_ms,
    )


def _groups(settings: Settings) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=1,
        initial_rebalance_delay_ms=settings.tick_ms,
        offsets_commit_timeout_ms=settings.request_timeout_ms,
        offsets_load_buffer_size=settings.fetch_limit,
        consumer_session_timeout_ms=settings.member_session_ms,
        consumer_min_session_timeout_ms=1,
        consumer_min_heartbeat_interval_ms=1,
        consumer_heartbeat_interval_ms=settings.member_session_ms // 4,
        consumer_assignment_interval_ms=settings.assignment_interval_ms,
        consumer_assignors=(settings.server_assignor,),
        share_assignment_interval_ms=settings.assignment_interval_ms,
        share_session_timeout_ms=settings.member_session_ms,
        share_min_session_timeout_ms=1,
        share_min_heartbeat_interval_ms=1,
        share_heartbeat_interval_ms=settings.member_session_ms // 4,
    )


def _transactions(settings: Settings) -> TransactionConfig:
    return TransactionConfig(
        transactional_id_expiration_ms=settings.id_expiration_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=50,
        transaction_remove_expired_transaction_cleanup_interval_ms=150,
        transaction_state_log_load_buffer_size=settings.fetch_limit,
        request_timeout_ms=settings.request_timeout_ms,
        transaction_version=settings.transaction_version,
    )


NEVER_LOOKS_MS = 600_000
"""The interval in which brokers let producers expire, longer than a run."""


def _config(settings: Settings) -> BrokerConfig:
    expires = settings.clocks or settings.producer_expiration_ms < DAY_MS
    look_ms = 100 if expires and settings.transactions else NEVER_LOOKS_MS
    return BrokerConfig(
        producer_id_expiration_check_interval_ms=look_ms,
        replica_lag_time_max_ms=settings.lag_ms,
        replica_fetch_wait_max_ms=min(settings.fetch_wait_ms, settings.lag_ms // 3),
        replica_fetch_backoff_ms=settings.tick_ms,
        replica_socket_timeout_ms=settings.fetch_timeout_ms + settings.fetch_wait_ms,
        replica_fetch_max_bytes=settings.fetch_limit,
        replica_high_watermark_checkpoint_interval_ms=settings.checkpoint_ms,
        log_flush_interval_ms=settings.flush_ms,
        broker_heartbeat_interval_ms=settings.heartbeat_ms,
    )


def _clients(
    simulation: Simulation, names: list[TopicPartition]
) -> tuple[list[SimulatedMember], list[Producer] | list[ReferenceProducer]]:
    settings = simulation.settings
    consumers: list[SimulatedMember] = []
    for index in range(settings.consumers):
        node = FIRST_CLIENT + index
        parts = [Part(name, CommittingMember(index + 1, settings.commit_when)) for name in names]
        if settings.reference_clients:
            consumers.append(ReferenceConsumer(node, simulation))
            continue
        kind = ClassicMember if settings.group_protocol == "classic" else ConsumerMember
        consumers.append(kind(node, simulation, parts, Leaders(node, simulation, simulation.rng)))
    first = FIRST_CLIENT + settings.consumers
    rngs = [Random(settings.seed * 2 + 3 + index) for index in range(len(settings.acks))]
    ids = [(first + index, index, acks) for index, acks in enumerate(settings.acks)]
    if settings.reference_clients:
        return consumers, [
            ReferenceProducer(node, index, simulation, acks, rng)
            for (node, index, acks), rng in zip(ids, rngs, strict=True)
        ]
    return consumers, [
        Producer(node, index, simulation, acks, rng, Leaders(node, simulation, simulation.rng))
        for (node, index, acks), rng in zip(ids, rngs, strict=True)
    ]


def _deletion(
    node: int,
    simulation: Simulation,
    groups: Sequence[GroupPartition],
    names: Sequence[TopicPartition],
    partitions: Mapping[TopicPartition, PartitionOracle],
) -> DeletionOracle | None:
    """A client that deletes records, if the settings have one, and its oracle."""
    if not simulation.settings.deletes:
        return None
    rng = Random(simulation.settings.seed * 2 + 5)
    leaders = Leaders(node, simulation, rng)

    def committed(number: int) -> int:
        return groups[number].answered

    purger = Purger(node, simulation, names, committed, rng, leaders)
    oracle = DeletionOracle(partitions, purger)
    oracle.attach(simulation)
    return oracle


def run(settings: Settings, script: Script | None = None) -> Run:
    """Run a configuration to its end."""
    return build(settings, script).go()


def trace_hash(settings: Settings, script: Script | None = None) -> str:
    """A hash over every step of a run: equal wherever and whenever the run is repeated."""
    hasher = hashlib.blake2b(digest_size=16)
    build(settings, script).go(hasher)
    return hasher.hexdigest()
