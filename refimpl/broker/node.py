"""The node: one broker process without I/O.

`handle(now, input)` takes a request, a response or a timer, and returns its outputs: requests,
responses, timers to set, and observations. The host carries them out, in order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from refimpl.broker.alter_log_dirs import ReplicaAlterLogDirs
from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.delayed import Deadlines
from refimpl.broker.delete_records import Deletes
from refimpl.broker.descriptions import Descriptions
from refimpl.broker.errors import PartitionOffline
from refimpl.broker.fetch import Fetches
from refimpl.broker.fetcher import Fetchers
from refimpl.broker.forwarding import FORWARDED, AutoTopics, AutoTopicsConfig, Forwarding
from refimpl.broker.group_coordinators import GroupCoordinators
from refimpl.broker.leader import Leader
from refimpl.broker.lifecycle import Lifecycle
from refimpl.broker.log_manager import CHECKPOINT, LogManager
from refimpl.broker.logs import LogDirectory
from refimpl.broker.markers import MarkerWriter
from refimpl.broker.metadata import Metadata
from refimpl.broker.offsets import OffsetAnswers
from refimpl.broker.partition import Partition
from refimpl.broker.produce import Produces
from refimpl.broker.producer_ids import ProducerIds
from refimpl.broker.replica_manager import ReplicaManager
from refimpl.broker.share_coordinators import ShareCoordinators
from refimpl.broker.share_partitions import SharePartitions
from refimpl.broker.share_persister import SharePersister
from refimpl.broker.transaction_coordinators import TransactionCoordinators
from refimpl.broker.transactional_produce import TransactionalProduces
from refimpl.broker.verification import Guards, Verifications
from refimpl.configs import Configs
from refimpl.controller.client_metrics import ClientMetrics
from refimpl.controller.client_quotas import ClientQuotas
from refimpl.errors import Refusal
from refimpl.groups.config import GroupConfig
from refimpl.machines.election import ControllerFence
from refimpl.messages import broker as m
from refimpl.messages import controller as c
from refimpl.messages import group as g
from refimpl.messages import share as s
from refimpl.messages import transaction_coordination as t
from refimpl.messages.controller import BrokerAddress
from refimpl.messages.observations import BrokerEpochTaken, Ignored, WentOffline
from refimpl.messages.transaction_coordination import AddPartitionsToTxnResponse
from refimpl.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from refimpl.named import named
from refimpl.security.authorizer import Authorizer
from refimpl.security.config import authorizer_of
from refimpl.shares.config import ShareConfig
from refimpl.transactions.config import TransactionConfig

REGISTER, HEARTBEAT, FETCH, ISR, EXPIRE, OFFLINE, GROUPS = (
    *("register", "heartbeat", "fetch", "isr", "expire", "offline", "groups"),
)
TRANSACTIONS, MARKERS = "transactions", "markers"
LOG_DIRS = "log dirs"
SHARE_STATE, SHARE_LOCKS, PERSISTER = "share state", "share locks", "persister"
#: A period as long as Kafka's default for "never"
NEVER = 2**62


@define(eq=False)
class _Counted:
    """Ids that differ by a number."""

    prefix: str
    count: int = 0

    def __call__(self) -> str:
        self.count += 1
        return f"{self.prefix}-{self.count}"


@define(eq=False, repr=False)
class Node:
    """One process of one broker, from its start to its end.

    `min_isr` is min.insync.replicas of each topic. `incarnation_id` grows with each process.
    """

    id: int
    config: BrokerConfig
    logs: LogDirectory
    min_isr: Mapping[str, int]
    incarnation_id: int
    address: BrokerAddress = field(factory=BrokerAddress)
    auto_topics_config: AutoTopicsConfig = field(factory=AutoTopicsConfig)
    #: server.properties; without it topics are configured by `min_isr`, and logs by themselves
    configs: Configs | None = None
    group_config: GroupConfig = field(factory=GroupConfig)
    transaction_config: TransactionConfig = field(factory=TransactionConfig)
    share_config: ShareConfig = field(factory=ShareConfig)
    #: Makes a part of a member's id; without it ids count on from this process's number
    new_id: Callable[[], str] | None = None
    context: Context = field(init=False)
    lifecycle: Lifecycle = field(init=False)
    metadata: Metadata = field(init=False)
    produces: Produces = field(init=False)
    verifications: Verifications = field(init=False)
    transactional_produces: TransactionalProduces = field(init=False)
    markers: MarkerWriter = field(init=False)
    fetches: Fetches = field(init=False)
    storage: LogManager = field(init=False)
    alter_log_dirs: ReplicaAlterLogDirs = field(init=False)
    deletes: Deletes = field(init=False)
    offsets: OffsetAnswers = field(init=False)
    descriptions: Descriptions = field(init=False)
    client_quotas: ClientQuotas = field(init=False)
    client_metrics: ClientMetrics = field(init=False)
    #: None where everybody may do everything
    authorizer: Authorizer | None = field(init=False)
    leader: Leader = field(init=False)
    groups: GroupCoordinators = field(init=False)
    transactions: TransactionCoordinators = field(init=False)
    share_coordinators: ShareCoordinators = field(init=False)
    share_partitions: SharePartitions = field(init=False)
    persister: SharePersister = field(init=False)
    fetchers: Fetchers = field(init=False)
    replicas: ReplicaManager = field(init=False)
    forwarding: Forwarding = field(init=False)
    auto_topics: AutoTopics = field(init=False)
    producer_ids: ProducerIds = field(init=False)
    fence: ControllerFence = field(factory=ControllerFence)
    deadlines: Deadlines = field(factory=Deadlines)
    #: The time of the newest input; what waited for a commit may know an earlier one
    _now: int = field(default=0, init=False)
    _handlers: dict[type, Callable[[int, Any], None]] = field(init=False)
    _timers: dict[str, Callable[[int], int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Create the parts of the node, and map requests to their handlers."""
        context = self.context = Context(self.id, self.config, self.incarnation_id)
        self.metadata = Metadata(context=context)
        context.known = self.metadata.partitions
        self.lifecycle = Lifecycle(
            context, self.metadata, self.logs.clean_shutdown_epoch(), self.address
        )
        self.forwarding = Forwarding(context)
        self.auto_topics = AutoTopics(context, self.metadata, self.auto_topics_config)
        self.producer_ids = ProducerIds(context)
        self.produces, self.fetches = Produces(context), Fetches(context, self.metadata)
        self.verifications = Verifications(context, self.metadata, self._wait)
        self.transactional_produces = TransactionalProduces(
            context, self.verifications, self._produce
        )
        self.storage = LogManager(context, self.logs)
        self.alter_log_dirs = ReplicaAlterLogDirs(
            *(context, self.storage),
            arm=lambda: self._set(self._now + 1, LOG_DIRS),
        )
        self.deletes, self.offsets = Deletes(context, self.metadata), OffsetAnswers(context)
        self.descriptions = Descriptions(context, self.logs)
        self.client_quotas = ClientQuotas(
            self.metadata,
            self.config.quota_window_num,
            1000 * self.config.quota_window_size_seconds,
        )
        self.client_metrics = ClientMetrics(self.metadata, self.config.telemetry_max_bytes)
        self.authorizer = authorizer_of(self.configs, self.metadata.acls)
        self.leader = Leader(context, self.produces, self.fetches, self.deletes)
        self.fetchers = Fetchers(context)
        self.persister = SharePersister(
            *(context, self.metadata, self.auto_topics),
            arm=lambda at_ms: self._set(max(at_ms, self._now), PERSISTER),
        )
        self.groups = GroupCoordinators(
            *(context, self.metadata, self.auto_topics, self.group_config),
            self.new_id or _Counted(f"{self.id}-{self.incarnation_id}"),
            appended=self.leader.appended,
            arm=lambda at_ms: self._set(at_ms, GROUPS),
            verifications=self.verifications,
            persister=self.persister,
        )
        share_config = evolve(self.share_config, of_group=self.groups.configured)
        self.share_coordinators = ShareCoordinators(
            *(context, self.metadata, share_config),
            appended=self.leader.appended,
            arm=lambda at_ms: self._set(at_ms, SHARE_STATE),
        )
        self.share_partitions = SharePartitions(
            *(context, self.metadata, share_config, self.persister),
            arm=lambda at_ms: self._set(at_ms, SHARE_LOCKS),
            wait=self._wait,
        )
        self.fetches.on_change = self.share_partitions.changed
        self.markers = MarkerWriter(context, self.leader, self.groups, self._wait)
        self.transactions = TransactionCoordinators(
            *(context, self.metadata, self.transaction_config, self.producer_ids),
            appended=self.leader.appended,
            arm=lambda at_ms: self._set(at_ms, TRANSACTIONS),
            arm_markers=lambda at_ms: self._set(at_ms, MARKERS),
        )
        self.replicas = ReplicaManager(
            *(context, self.metadata, self.storage, self.min_isr, self.leader, self.fetchers),
            *(self.produces, self.fetches, self.deletes, self.groups, self.transactions),
            *(self.share_coordinators, self.share_partitions),
            self.configs,
        )
        self._handlers = {
            m.ProduceRequest: self._produce,
            WriteTxnMarkersRequest: self.markers.write,
            AddPartitionsToTxnResponse: self.verifications.answered,
            m.FetchRequest: self._fetch,
            m.FetchResponse: self._fetched,
            m.MetadataRequest: lambda now, request: self._describe(request),
            m.DeleteRecordsRequest: self._delete_records,
            m.ListOffsetsRequest: lambda now, request: self.offsets.list_offsets(request),
            m.ListOffsetsResponse: self._listed,
            m.OffsetForLeaderEpochRequest: (
                lambda now, request: self.offsets.offset_for_leader_epoch(request)
            ),
            m.DescribeProducersRequest: (lambda now, request: self.descriptions.producers(request)),
            m.DescribeLogDirsRequest: lambda now, request: self.descriptions.log_dirs(request),
            m.AlterReplicaLogDirsRequest: lambda now, request: self.alter_log_dirs.alter(request),
            c.UpdateMetadataRequest: self._update_metadata,
            c.AlterPartitionResponse: self.leader.altered,
            c.BrokerRegistrationResponse: self._registered,
            c.BrokerHeartbeatResponse: lambda now, response: self.lifecycle.heard(response),
            c.InitProducerIdRequest: self.producer_ids.init,
            c.AllocateProducerIdsResponse: self.producer_ids.allocated,
            **dict.fromkeys(FORWARDED, self.forwarding.forward),
            **dict.fromkeys(g.REQUESTS, self.groups.handle),
            g.FindCoordinatorRequest: lambda now, request: self.groups.find(request),
            g.ListGroupsRequest: lambda now, request: self.groups.list_groups(request),
            **dict.fromkeys(t.REQUESTS, self.transactions.handle),
            t.ListTransactionsRequest: self.transactions.list_transactions,
            WriteTxnMarkersResponse: self.transactions.answered,
            **dict.fromkeys(s.STATE_REQUESTS, self.share_coordinators.handle),
            s.ShareStateResponse: self.persister.answered,
            s.ShareFetchRequest: self.share_partitions.fetch,
            s.ShareConnectionLost: self.share_partitions.lost,
            s.ShareAcknowledgeRequest: self.share_partitions.acknowledge,
        }
        self._timers = {
            REGISTER: self._register_again,
            HEARTBEAT: self._heartbeat,
            FETCH: self._retry_fetches,
            ISR: self._keep_isrs,
            OFFLINE: self._give_up_offline,
            LOG_DIRS: lambda now: int(self.alter_log_dirs.work()),
            MARKERS: self._send_markers,
            SHARE_LOCKS: self.share_partitions.expire,
            PERSISTER: self.persister.retry,
        }

    @property
    def partitions(self) -> Mapping[m.TopicPartition, Partition]:
        """The partitions that this broker has a replica of."""
        return self.context.partitions

    # In and out

    def start(self, now: int, partitions: Sequence[m.TopicPartition]) -> Sequence[Any]:
        """Open the logs of these partitions, which recovers them, and register."""
        for name in partitions:
            self._open(name)
        self._register_again(now)
        self._set(now + self.config.broker_heartbeat_interval_ms, REGISTER)
        return self._outputs()

    def stop(self, now: int) -> Sequence[Any]:
        """Ask for a controlled shutdown; the output `Stopped` follows when the controller
        agrees.
        """
        self.lifecycle.wants_to_stop = True
        if self.lifecycle.registered:
            self.lifecycle.heartbeat()
        return self._outputs()

    def disconnected(self, broker: int) -> None:
        """Give up the requests to another broker whose connection is lost."""
        self.fetchers.disconnected(broker)
        self.verifications.disconnected(broker)
        self.transactions.markers.disconnected(broker)
        self.persister.disconnected(broker)
        self.groups.share_groups.ends.disconnected(broker)

    def close(self) -> None:
        """Close the storage after `Stopped`: flush, write the checkpoint, and leave the mark."""
        self.storage.close()

    def handle(self, now: int, message: m.Input) -> Sequence[Any]:
        """Take an input; return outputs, in the order in which they happened."""
        context, self._now = self.context, now
        if type(message) is m.Timer:
            self._timer(now, message.name)
        elif type(message) is m.Response and not context.is_ours(message):
            context.outputs.append(Ignored("answers to an earlier process"))
        else:
            body: Any = message[-1]
            handler = self._handlers.get(body.__class__)
            if handler is not None:
                handler(now, message)
            elif isinstance(message, m.Response):
                _ = self.forwarding.answered(message) or self.auto_topics.answered(message)
        if self.transactions.markers.is_new:
            self.transactions.send(now)
        if context.storage_failed:
            context.storage_failed = False
            self._set(now, OFFLINE)
        outputs = context.outputs
        if outputs:
            context.outputs = []
        return outputs

    def _outputs(self) -> Sequence[Any]:
        outputs, self.context.outputs = self.context.outputs, []
        return outputs

    def _set(self, at_ms: int, name: str) -> None:
        self.context.outputs.append(named(m.Timer, (at_ms, name)))

    # Time passes

    def _timer(self, now: int, name: str) -> None:
        if name == EXPIRE:
            again = self.deadlines.expire(now)
            if again is not None:
                self._set(again, EXPIRE)
            return
        if name == GROUPS:
            again = self.groups.coordinators.expire(now)
            if again is not None:
                self._set(again, GROUPS)
            return
        if name == TRANSACTIONS:
            again = self.transactions.coordinators.expire(now)
            if again is not None:
                self._set(again, TRANSACTIONS)
            return
        if name == SHARE_STATE:
            again = self.share_coordinators.coordinators.expire(now)
            if again is not None:
                self._set(again, SHARE_STATE)
            return
        own = self._timers.get(name)
        period = self.storage.work(name) if own is None else own(now)
        if 0 < period < NEVER:
            self._set(now + period, name)

    def _register_again(self, now: int) -> int:
        if self.lifecycle.registered:
            return 0
        self.lifecycle.register()
        return self.config.broker_heartbeat_interval_ms

    def _heartbeat(self, now: int) -> int:
        self.lifecycle.heartbeat()
        self.forwarding.expire(now)
        self.auto_topics.forget()
        self.producer_ids.ask()
        return self.config.broker_heartbeat_interval_ms

    def _retry_fetches(self, now: int) -> int:
        self.fetchers.retry(now)
        return self.config.replica_fetch_backoff_ms

    def _keep_isrs(self, now: int) -> int:
        self.leader.keep_isrs(now)
        return max(1, self.config.replica_lag_time_max_ms // 2)

    def _send_markers(self, now: int) -> int:
        self.transactions.retry(now)
        return 0

    # Starting

    def _open(self, name: m.TopicPartition) -> Partition | None:
        return self.storage.open(name, self.min_isr.get(name.topic, 1))

    def _registered(self, now: int, response: m.Response) -> None:
        """Take the answer to a registration; the node's work begins with it."""
        if self.lifecycle.answered(response):
            self._take_broker_epoch()
            self._begin(now)

    def _take_broker_epoch(self) -> None:
        epoch = self.context.broker_epoch
        for partition in self.partitions.values():
            partition.replica.incarnation = epoch
        self.context.outputs.append(BrokerEpochTaken(self.id, self.incarnation_id, epoch))

    def _begin(self, now: int) -> None:
        config = self.config
        for period, name in (
            (0, HEARTBEAT),
            (config.replica_fetch_backoff_ms, FETCH),
            (config.replica_lag_time_max_ms // 2, ISR),
            *((period, name) for name, period in self.storage.timers.items()),
        ):
            if period < NEVER:
                self._set(now + period, name)
        self.alter_log_dirs.resume()

    # Requests

    def _produce(
        self,
        now: int,
        request: m.Request,
        guards: Guards | None = None,
        refused: Mapping[m.TopicPartition, m.ProducedPartition] | None = None,
    ) -> None:
        """Append; with a transactional id once it is known which writes are verified."""
        if guards is None and request.body.transactional_id is not None:
            self.transactional_produces.produce(now, request)
            return
        grown, delayed = self.produces.produce(request, guards, refused)
        for partition in grown:
            self.leader.appended(now, partition)
        if not delayed.completed:
            self._wait(now + request.body.timeout_ms, self.produces.expire, delayed)

    def _fetch(self, now: int, request: m.Request) -> None:
        delayed = self.fetches.fetch(now, request, self.leader.heard)
        if delayed is not None:
            self._wait(now + request.body.max_wait_ms, self.fetches.expire, delayed)

    def _delete_records(self, now: int, request: m.Request) -> None:
        moved, delayed = self.deletes.delete(request)
        for partition in moved:
            self.fetches.check(now, partition)
        if not delayed.completed:
            self._wait(now + request.body.timeout_ms, self.deletes.expire, delayed)

    def _fetched(self, now: int, response: m.Response) -> None:
        """Take a fetch answer, and serve consumers that can read more by it."""
        self.fetchers.fetched(now, response)
        self.storage.write_epochs()
        if self.fetchers.readable:
            readable, self.fetchers.readable = self.fetchers.readable, []
            for partition in readable:
                self.fetches.check(now, partition)
        self._write_lower_high_watermarks()

    def _listed(self, now: int, response: m.Response) -> None:
        if self.groups.share_groups.ends.answered(response):
            return
        self.fetchers.listed(now, response)
        self._write_lower_high_watermarks()

    def _write_lower_high_watermarks(self) -> None:
        """Checkpoint a high watermark that moved back, so that a restart does not restore the
        higher one.
        """
        if self.fetchers.went_back:
            self.fetchers.went_back = False
            self.storage.work(CHECKPOINT)

    def _wait(self, until: int, expire: Callable[[Any], None], delayed: Any) -> None:
        if self.deadlines.add(until, expire, delayed):
            self._set(until, EXPIRE)

    # Storage

    def _give_up_offline(self, now: int) -> int:
        """Give up partitions whose log has failed, until the next start (KIP-112).

        This is an input of its own, because the input before may have changed the partition
        already. The controller is informed at once, so that another replica leads.
        """
        failed = self.storage.failed()
        for partition in failed:
            partition.replica.fail()
            self.context.outputs.append(WentOffline(partition.name))
            self.fetchers.leave(partition)
            self.produces.give_up(partition, PartitionOffline.kafka_error)
            self.deletes.give_up(partition, PartitionOffline.kafka_error)
            self.groups.coordinators.resigned(now, partition)
            self.transactions.coordinators.resigned(now, partition)
            self.share_coordinators.coordinators.resigned(now, partition)
            self.share_partitions.resigned(now, partition)
            self.fetches.check(now, partition)
        why = self.logs.failure()
        if why is not None:
            self.context.outputs.append(c.StorageFailed(why))
        elif failed and self.lifecycle.registered:
            self.lifecycle.heartbeat()
        return 0

    def _describe(self, request: m.Request) -> None:
        """Answer a Metadata request; missing topics may be created."""
        body: m.MetadataRequest = request.body
        errors = self.auto_topics.errors(
            body.topics or (), body.client_id, allowed=body.allow_auto_topic_creation
        )
        self.metadata.answer(request, errors)

    # Metadata updates

    def _update_metadata(self, now: int, request: m.Request) -> None:
        """Apply a metadata update that is meant for this process."""
        body: c.UpdateMetadataRequest = request.body
        if request.source != body.controller_id or body.broker_epoch != self.context.broker_epoch:
            self.context.outputs.append(Ignored("decisions for an earlier incarnation"))
            return
        try:
            self.fence.hear(body.controller_epoch)
        except Refusal:
            self.context.outputs.append(Ignored("decisions of an earlier controller"))
        else:
            self.context.controller = body.controller_id
            self.replicas.update(now, self.metadata.take(body), is_full=body.is_full)
