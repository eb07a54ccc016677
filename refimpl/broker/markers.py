"""WriteTxnMarkers: the ends of transactions, written by the leaders of their partitions (KIP-98).

A request has one answer, when each of its markers is below the high watermark or refused. In Kafka
a request with one partition that is not here may get none.
"""

from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.delayed import WaitingBatch
from refimpl.broker.leader import Leader
from refimpl.broker.partition import Partition
from refimpl.errors import Refusal
from refimpl.machines.replica_log import Origin
from refimpl.messages.broker import Request, TopicPartition
from refimpl.messages.observations import Refused, Written
from refimpl.messages.transactions import (
    TxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from refimpl.records.coordinators import OFFSETS_TOPIC
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.replica.transactional import Writer


class OffsetTransactions(Protocol):
    """The group coordinators, as they learn of the end of a transaction."""

    def end_transaction(
        self, now: int, number: int, marker: TxnMarker, then: Callable[[str | None], None]
    ) -> None:
        """Write a marker to a partition of `__consumer_offsets`."""
        ...


@define(eq=False)
class DelayedMarkers:
    """A WriteTxnMarkers request, until each of its markers is committed or refused."""

    request: Request
    missing: int
    errors: dict[int, dict[TopicPartition, str | None]] = field(
        factory=dict[int, dict[TopicPartition, str | None]]
    )

    @property
    def completed(self) -> bool:
        """True if every marker has a result."""
        return self.missing <= 0


@define(eq=False)
class WaitingMarker:
    """One marker of a request in one partition, until it is committed or refused."""

    markers: "MarkerWriter"
    delayed: DelayedMarkers
    producer_id: int
    name: TopicPartition
    completed: bool = False

    def done(self, error: str | None) -> None:
        """Take its result, once; a refusal of the same producer in the same partition stays."""
        if self.completed:
            return
        self.completed = True
        delayed, context = self.delayed, self.markers.context
        if error is not None:
            context.outputs.append(Refused("WriteTxnMarkers", error))
        of_producer = delayed.errors.setdefault(self.producer_id, {})
        of_producer[self.name] = of_producer.get(self.name) or error
        delayed.missing -= 1
        if delayed.completed:
            context.respond(delayed.request, WriteTxnMarkersResponse(delayed.errors))


@define(eq=False)
class MarkerWriter:
    """The WriteTxnMarkers requests of one broker."""

    context: Context
    leader: Leader
    groups: OffsetTransactions
    #: Calls a function with an operation at a time, unless that is completed by then
    wait: Callable[[int, Callable[[Any], None], Any], None]

    def write(self, now: int, request: Request) -> None:
        """Append each marker, and answer for all of them."""
        body: WriteTxnMarkersRequest = request.body
        missing = sum(len(one.partitions) for one in body.markers)
        if not missing:
            self.context.respond(request, WriteTxnMarkersResponse({}))
            return
        delayed = DelayedMarkers(request, missing)
        grown: dict[TopicPartition, Partition] = {}
        for marker in body.markers:
            for name in marker.partitions:
                marked = WaitingMarker(self, delayed, marker.producer_id, name)
                self.wait(now + self.context.config.request_timeout_ms, _expire, marked)
                if min(marker.producer_id, marker.producer_epoch) < 0:
                    marked.done("INVALID_REQUEST")  # no producer has these
                elif name.topic == OFFSETS_TOPIC:
                    self.groups.end_transaction(now, name.partition, marker, marked.done)
                elif (partition := self._append(now, marker, marked)) is not None:
                    grown[name] = partition
        for partition in grown.values():
            self.leader.appended(now, partition)

    def _append(self, now: int, marker: TxnMarker, marked: WaitingMarker) -> Partition | None:
        """Append a marker to a partition that grows by it; None if it is refused."""
        try:
            partition = self.context.partition(marked.name)
            end = EndTxnMarker(marker.committed, marker.coordinator_epoch)
            writer = Writer(marker.producer_id, marker.producer_epoch)
            batch = partition.log.marker_batch(writer, end, now)
            version = marker.transaction_version
            appended = partition.replica.write(
                batch, origin=Origin.COORDINATOR, transaction_version=version
            )
        except Refusal as refusal:
            self.context.refused("WriteTxnMarkers", refusal)
            marked.done(refusal.kafka_error)
            return None
        written = Written(partition.name, appended.first_offset, appended.last_offset + 1)
        self.context.outputs.append(written)
        partition.waiting_batches.append(WaitingBatch(appended, batch, marked))
        return partition


def _expire(marked: WaitingMarker) -> None:
    """Answer after the time-out; the marker may still be committed."""
    marked.done("REQUEST_TIMED_OUT")
