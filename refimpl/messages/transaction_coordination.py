"""Messages between producers, brokers and the coordinators of transactional ids.

Named tuples, as in `refimpl.messages.broker`. Every request but ListTransactions is about one
transactional id, which decides its coordinator. A Kafka request about several ids becomes several
of these. An error is Kafka's name of it, or None.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import InitProducerIdResponse

NO_PRODUCER_ID, NO_PRODUCER_EPOCH = -1, -1


class InitTransactionalIdRequest(NamedTuple):
    """InitProducerId with a transactional id: begin a new epoch, which fences earlier instances.

    A producer that has an epoch already names its id and epoch (KIP-360).
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class AddPartitionsToTxnRequest(NamedTuple):
    """Add partitions to a transaction; with `verify_only` ask if they are in it (KIP-890).

    Producers send it before `transaction.version` 2. Leaders of partitions send it to verify the
    first write of a transaction, and since version 2 to add their partition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    verify_only: bool = False
    transaction_version: int = 2


class AddPartitionsToTxnResponse(NamedTuple):
    """The result for each partition."""

    partitions: Sequence[tuple[TopicPartition, str | None]]


class AddOffsetsToTxnRequest(NamedTuple):
    """Add the partition of a group's offsets to a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


class AddOffsetsToTxnResponse(NamedTuple):
    """The result."""

    error: str | None


class EndTxnRequest(NamedTuple):
    """Commit or abort a transaction.

    `transaction_version` is 2 if the client takes a new epoch with each end (EndTxn 5).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int = 2


class EndTxnResponse(NamedTuple):
    """The result; in version 2 the producer id and the epoch of the next transaction."""

    error: str | None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class DescribeTransactionRequest(NamedTuple):
    """Describe a transactional id (KIP-664): one of a DescribeTransactions request."""

    transactional_id: str


class DescribeTransactionResponse(NamedTuple):
    """One transactional id, and the partitions of its open transaction."""

    transactional_id: str
    error: str | None
    state: str = ""
    timeout_ms: int = -1
    start_ms: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    partitions: Sequence[TopicPartition] = ()


class ListTransactionsRequest(NamedTuple):
    """List this broker's transactional ids (KIP-664); empty filters mean all.

    Only those that have been open for longer than `duration_ms`, if that is not negative
    (KIP-994), and whose whole name matches `pattern` (KIP-1152).
    """

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    pattern: str | None = None


class ListedTransaction(NamedTuple):
    """A transactional id in the answer to ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str


class ListTransactionsResponse(NamedTuple):
    """The transactional ids that this broker coordinates."""

    error: str | None
    unknown_states: Sequence[str] = ()
    transactions: Sequence[ListedTransaction] = ()


REQUESTS: Mapping[type, str] = {
    InitTransactionalIdRequest: "InitProducerId",
    AddPartitionsToTxnRequest: "AddPartitionsToTxn",
    AddOffsetsToTxnRequest: "AddOffsetsToTxn",
    EndTxnRequest: "EndTxn",
    DescribeTransactionRequest: "DescribeTransactions",
}
"""The names of the requests about one transactional id, which its coordinator answers."""


def refused(request: object, error: str, message: str | None = None) -> object:
    """The response that refuses a request as a whole."""
    match request:
        case InitTransactionalIdRequest():
            return InitProducerIdResponse(error)
        case AddPartitionsToTxnRequest():
            return AddPartitionsToTxnResponse([(one, error) for one in request.partitions])
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(error)
        case EndTxnRequest():
            return EndTxnResponse(error)
        case DescribeTransactionRequest():
            return DescribeTransactionResponse(request.transactional_id, error)
        case ListTransactionsRequest():
            return ListTransactionsResponse(error)
        case _:
            raise TypeError(f"{type(request).__name__} is no request to a transaction coordinator")
