"""The transaction coordinators of one broker, on the partitions of `__transaction_state` that it
leads.

A request goes to the coordinator of its transactional id.
"""

from collections.abc import Callable
from typing import Any

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.coordinators import Coordinators, PartitionCoordinatorLog, partition_of
from refimpl.broker.metadata import Metadata
from refimpl.broker.partition import Partition
from refimpl.broker.producer_ids import ProducerIds
from refimpl.broker.txn_markers import RETRY_MS, MarkerSender
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.errors import Refusal
from refimpl.messages import transaction_coordination as m
from refimpl.messages.broker import Request, Response, TopicPartition
from refimpl.records.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_for
from refimpl.transactions.config import TransactionConfig
from refimpl.transactions.operators import Filter, unknown_states
from refimpl.transactions.shard import TransactionCoordinator, TransactionShard, coordinator_of


@define(eq=False)
class TransactionCoordinators:
    """Every transactional id that this broker coordinates."""

    context: Context
    metadata: Metadata
    config: TransactionConfig
    producer_ids: ProducerIds
    #: Called after an append
    appended: Callable[[int, Partition], None]
    #: Sets a timer of the node that lets the coordinators' timers fire
    arm: Callable[[int], None]
    #: Sets a timer of the node that calls `send`
    arm_markers: Callable[[int], None]
    coordinators: Coordinators[TransactionShard] = field(init=False)
    markers: MarkerSender = field(init=False)
    _armed: bool = False

    def __attrs_post_init__(self) -> None:
        """Begin without transactional ids."""
        self.coordinators = Coordinators(
            self.context,
            TRANSACTIONS_TOPIC,
            "TransactionCoordinator",
            self._new,
            self.appended,
            self.arm,
        )
        self.markers = MarkerSender(
            self.context, self.metadata, self.coordinators, self.config.request_timeout_ms
        )

    def _new(self, number: int, log: PartitionCoordinatorLog) -> TransactionCoordinator:
        shard = TransactionShard(
            self.config,
            log.partition.replica.epoch,
            self.producer_ids.take,
            self.offsets_of,
            lambda transactional_id: self.markers.decided(number, transactional_id),
            level=lambda: self.config.level(self.metadata),
        )
        return coordinator_of(number, log, shard)

    def offsets_of(self, group_id: str) -> TopicPartition:
        """The partition of a group's offsets, also before their topic is there."""
        number = partition_of(self.metadata, OFFSETS_TOPIC, group_id)
        if number < 0:
            number = partition_for(group_id, self.config.offsets_topic_num_partitions)
        return TopicPartition(OFFSETS_TOPIC, number)

    # Requests

    def handle(self, now: int, request: Request) -> None:
        """Let the coordinator of a transactional id answer, if it is here."""
        body: Any = request.body
        if not body.transactional_id:
            self.context.respond(request, m.refused(body, "INVALID_REQUEST"))
        elif isinstance(body, m.InitTransactionalIdRequest) and not self.producer_ids.available:
            self.producer_ids.wait(lambda then: self._handle(then, request))
        elif isinstance(body, m.AddPartitionsToTxnRequest) and not self._exist(body):
            self.context.respond(request, self._unknown(body))
        else:
            self._handle(now, request)

    def _handle(self, now: int, request: Request) -> None:
        number = partition_of(self.metadata, TRANSACTIONS_TOPIC, request.body.transactional_id)
        if number in self.coordinators.by_partition:
            self.coordinators.handle(now, number, request)
        else:
            self.context.respond(request, m.refused(request.body, "NOT_COORDINATOR"))

    def _exist(self, body: m.AddPartitionsToTxnRequest) -> bool:
        known = self.metadata.partitions
        return all(one in known for one in body.partitions)

    def _unknown(self, body: m.AddPartitionsToTxnRequest) -> m.AddPartitionsToTxnResponse:
        """If one partition does not exist, none is added."""
        known = self.metadata.partitions
        return m.AddPartitionsToTxnResponse(
            [
                (one, "OPERATION_NOT_ATTEMPTED" if one in known else "UNKNOWN_TOPIC_OR_PARTITION")
                for one in body.partitions
            ]
        )

    def list_transactions(self, now: int, request: Request) -> None:
        """Answer all transactional ids of this broker that a filter admits."""
        body: m.ListTransactionsRequest = request.body
        found: list[m.ListedTransaction] = []
        try:
            wanted = Filter.of(body)
        except Refusal as refusal:
            self.context.respond(request, m.ListTransactionsResponse(refusal.kafka_error))
            return
        unknown = unknown_states(body)
        for _, coordinator in sorted(self.coordinators.by_partition.items()):
            if coordinator.state is CoordinatorState.LOADING:
                error = "COORDINATOR_LOAD_IN_PROGRESS"
                self.context.respond(request, m.ListTransactionsResponse(error))
                return
            if len(unknown) < len(body.states) or not body.states:
                found += coordinator.shard.operators.listed(now, wanted)
        self.context.respond(request, m.ListTransactionsResponse(None, unknown, found))

    # Markers

    def send(self, now: int) -> None:
        """Send the markers that are owed, and look again later while there are any."""
        if self.markers.send(now) and not self._armed:
            self._armed = True
            self.arm_markers(now + RETRY_MS)

    def retry(self, now: int) -> None:
        """The node's timer: look again."""
        self._armed = False
        self.markers.expire(now)
        self.send(now)

    def answered(self, now: int, response: Response) -> None:
        """Take a broker's answer to markers."""
        self.markers.answered(now, response)
