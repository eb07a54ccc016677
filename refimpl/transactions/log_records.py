"""The records of `__transaction_state`: the whole state of a transactional id in each.

Kafka's format, and one tagged field of our own: the epoch that the producer had before. With it a
producer that asks again after a failover is known (KAFKA-20357). Kafka skips it.
"""

from collections.abc import Iterable
from itertools import groupby

from refimpl.errors import CorruptBatch
from refimpl.machines.transaction_coordinator import (
    BY_NUMBER,
    LAST_EPOCH,
    ProducerIdentity,
    TransactionMetadata,
    TransactionState,
)
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)

KIND = TRANSACTION_RECORDS[0]


def record_of(
    transactional_id: str, metadata: TransactionMetadata, *, flexible: bool
) -> CoordinatorRecord:
    """The record of a state; without flexible fields neither `next` nor `last` is kept."""
    at = metadata.at
    after, last = (metadata.next, metadata.last) if flexible else (at, None)
    value = TransactionLogValue(
        producer_id=at.id,
        previous_producer_id=-1 if last is None else last.id,
        last_producer_epoch=-1 if last is None else last.epoch,
        next_producer_id=-1 if after.id == at.id else after.id,
        producer_epoch=at.epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=(
            None if metadata.state is TransactionState.EMPTY else _by_topic(metadata.partitions)
        ),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.started_ms,
        client_transaction_version=metadata.client_version,
    )
    key = TransactionLogKey(transactional_id)
    return CoordinatorRecord(KIND, key, value, version=1 if flexible else 0)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The end of an id that has expired."""
    return CoordinatorRecord(KIND, TransactionLogKey(transactional_id))


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[TransactionPartitions, ...]:
    return tuple(
        TransactionPartitions(topic, tuple(one.partition for one in of_topic))
        for topic, of_topic in groupby(sorted(partitions), key=lambda one: one.topic)
    )


def metadata_of(value: TransactionLogValue, last_epoch: int = LAST_EPOCH) -> TransactionMetadata:
    """The state in a record, ours or Kafka's. Raises CorruptBatch for an unknown state."""
    if value.transaction_status not in BY_NUMBER:
        raise CorruptBatch(f"no transaction has status {value.transaction_status}")
    at = ProducerIdentity(value.producer_id, value.producer_epoch)
    after = value.next_producer_id
    return TransactionMetadata(
        state=BY_NUMBER[value.transaction_status],
        at=at,
        next=at if after < 0 else ProducerIdentity(after, 0),
        last=_last(value),
        partitions=frozenset(
            TopicPartition(one.topic, number)
            for one in value.transaction_partitions or ()
            for number in one.partition_ids
        ),
        timeout_ms=value.transaction_timeout_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        started_ms=value.transaction_start_timestamp_ms,
        client_version=value.client_transaction_version,
        last_epoch=last_epoch,
    )


def _last(value: TransactionLogValue) -> ProducerIdentity | None:
    """The identity before; Kafka's record has only its id, which tells where that was changed."""
    before, epoch = value.previous_producer_id, value.last_producer_epoch
    if epoch >= 0:
        return ProducerIdentity(before, epoch)
    return None if before in (-1, value.producer_id) else ProducerIdentity(before, LAST_EPOCH)
