"""The sender of markers: tells every partition of a decided transaction how it ended.

Kafka's TransactionMarkerChannelManager. A marker is sent until its partition has written it. A
partition without leader is waited for; only a deleted one owes nothing (KAFKA-20734).
"""

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from refimpl.broker.context import Context
from refimpl.broker.coordinators import Coordinators
from refimpl.broker.metadata import Metadata
from refimpl.machines.transaction_coordinator import ProducerIdentity
from refimpl.messages.broker import Response, TopicPartition
from refimpl.messages.observations import Refused
from refimpl.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from refimpl.transactions.shard import TransactionShard

RETRY_MS = 50
"""The interval of looking for markers that have to be sent again."""

GIVEN_UP = frozenset(("INVALID_PRODUCER_EPOCH", "UNSUPPORTED_FOR_MESSAGE_FORMAT"))
"""Errors after which a marker is not sent again: the partition has a later epoch of the producer,
so nothing of this transaction is open there. Kafka then gives up the markers of all partitions.
"""


@frozen
class PendingMarkers:
    """A decided transaction, and the partitions that one request is for."""

    number: int
    transactional_id: str
    shard: TransactionShard
    at: ProducerIdentity
    partitions: tuple[TopicPartition, ...]


@frozen
class MarkersInFlight:
    """A request to a broker that has no answer yet."""

    broker: int
    until_ms: int
    marked: Sequence[PendingMarkers]


@define(eq=False)
class MarkerSender:
    """The markers that this broker's coordinators owe."""

    context: Context
    metadata: Metadata
    coordinators: Coordinators[TransactionShard]
    request_timeout_ms: int
    #: Decided transactions, by partition of the log and transactional id
    owing: dict[tuple[int, str], None] = field(factory=dict[tuple[int, str], None])
    #: True if a decision was committed since the last call of `send`
    is_new: bool = False
    _sent: dict[int, MarkersInFlight] = field(factory=dict[int, MarkersInFlight])

    def decided(self, number: int, transactional_id: str) -> None:
        """Take a decision that is committed."""
        self.owing[number, transactional_id] = None
        self.is_new = True

    def send(self, now: int) -> bool:
        """Send every marker that is not under way; True if there are markers that are owed."""
        self.is_new = False
        by_broker: dict[int, list[PendingMarkers]] = {}
        under_way = self._under_way()
        for key in list(self.owing):
            self._plan(now, *key, under_way.get(key, set()), by_broker)
        for broker, marked in by_broker.items():
            markers = tuple(
                one.shard.marker(one.transactional_id, one.partitions) for one in marked
            )
            asked = self.context.request(broker, WriteTxnMarkersRequest(markers))
            self._sent[asked] = MarkersInFlight(broker, now + self.request_timeout_ms, marked)
        return bool(self.owing)

    def _plan(
        self,
        now: int,
        number: int,
        transactional_id: str,
        under_way: set[TopicPartition],
        by_broker: dict[int, list[PendingMarkers]],
    ) -> None:
        coordinator = self.coordinators.by_partition.get(number)
        shard = None if coordinator is None else coordinator.shard
        if shard is None or transactional_id not in shard.store.owed:
            del self.owing[number, transactional_id]
            return
        at = shard.store.ids.current[transactional_id].at
        waiting = shard.store.owed[transactional_id] - under_way
        for name in [one for one in waiting if self._is_deleted(one)]:
            shard.written(transactional_id, at, name)
            waiting.discard(name)
        for broker, partitions in self._by_leader(waiting).items():
            marked = PendingMarkers(number, transactional_id, shard, at, partitions)
            by_broker.setdefault(broker, []).append(marked)
        self._complete(now, number, transactional_id, shard)

    def _under_way(self) -> Mapping[tuple[int, str], set[TopicPartition]]:
        """The partitions of each transaction that have a marker without an answer."""
        found: dict[tuple[int, str], set[TopicPartition]] = {}
        for sent in self._sent.values():
            for one in sent.marked:
                if self._is_here(one):
                    found.setdefault((one.number, one.transactional_id), set()).update(
                        one.partitions
                    )
        return found

    def _is_here(self, marked: PendingMarkers) -> bool:
        """True if the coordinator that sent a marker was not closed since."""
        coordinator = self.coordinators.by_partition.get(marked.number)
        return coordinator is not None and coordinator.shard is marked.shard

    def _is_deleted(self, name: TopicPartition) -> bool:
        """True if the cluster has no such partition; not if this broker's metadata is behind."""
        return name not in self.metadata.partitions and self.metadata.is_current

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[int, tuple[TopicPartition, ...]]:
        found: dict[int, tuple[TopicPartition, ...]] = {}
        for name in sorted(partitions):
            known = self.metadata.partitions.get(name)
            leader = None if known is None else known.decision.leader
            if leader is not None and leader in self.metadata.brokers:
                found[leader] = (*found.get(leader, ()), name)
        return found

    def _complete(
        self, now: int, number: int, transactional_id: str, shard: TransactionShard
    ) -> None:
        """Write that the transaction is complete, once no partition owes an answer.

        An append that is refused leaves it owing, and is tried again.
        """
        if shard.store.owed.get(transactional_id) == set():
            self.coordinators.operate_on(
                now, number, lambda shard: shard.complete(now, transactional_id)
            )
        if transactional_id not in shard.store.owed:
            self.owing.pop((number, transactional_id), None)

    # Answers

    def answered(self, now: int, response: Response) -> None:
        """Take a broker's answer; markers that it refused are sent again later."""
        sent = self._sent.pop(response.correlation_id, None)
        if sent is None:
            return
        body: WriteTxnMarkersResponse = response.body
        for one in sent.marked:
            if not self._is_here(one):
                continue
            errors = body.errors.get(one.at.id, {})
            for name in one.partitions:
                error = errors.get(name, "UNKNOWN_SERVER_ERROR")
                if error is not None:
                    self.context.outputs.append(Refused("WriteTxnMarkers", error))
                if error is None or error in GIVEN_UP:
                    one.shard.written(one.transactional_id, one.at, name)
            self._complete(now, one.number, one.transactional_id, one.shard)

    def disconnected(self, broker: int) -> None:
        """Give up the requests to a broker whose connection is lost: their answers may be lost."""
        self._sent = {number: one for number, one in self._sent.items() if one.broker != broker}

    def expire(self, now: int) -> None:
        """Give up requests that were not answered in time."""
        self._sent = {number: one for number, one in self._sent.items() if one.until_ms > now}
