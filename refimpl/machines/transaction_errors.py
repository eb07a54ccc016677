"""Refusals of a transaction coordinator, one for each guard."""

from attrs import frozen

from refimpl.errors import Refusal


@frozen
class ConcurrentTransactions(Refusal):
    """Another change of this transactional id is under way; the client asks again."""

    kafka_error = "CONCURRENT_TRANSACTIONS"
    says = "a change is under way, in state {state}"
    state: str


@frozen
class InvalidProducerIdMapping(Refusal):
    """The transactional id is not known, or has another producer id."""

    kafka_error = "INVALID_PRODUCER_ID_MAPPING"
    says = "producer id {asked}, and here it is {here}"
    asked: int
    here: int | None


@frozen
class ProducerFenced(Refusal):
    """The producer names an epoch that is not the current one: a newer instance has begun, or its
    transaction took too long."""

    kafka_error = "PRODUCER_FENCED"
    says = "epoch {asked} of the producer, and here it is {here}"
    asked: int
    here: int


@frozen
class NothingToEnd(Refusal):
    """There is no transaction that may end in this way."""

    kafka_error = "INVALID_TXN_STATE"
    says = "nothing to {outcome} in state {state}"
    outcome: str
    state: str


@frozen
class TransactionAbortable(Refusal):
    """The partition is not in the transaction (KIP-890); the producer has to abort it."""

    kafka_error = "TRANSACTION_ABORTABLE"
    says = "{partition} is not in the transaction"
    partition: object


@frozen
class MarkersNotWritten(Refusal):
    """Some partitions have not written the marker yet."""

    kafka_error = "CONCURRENT_TRANSACTIONS"
    says = "{owed} partitions have not answered"
    owed: int
