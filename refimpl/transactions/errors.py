"""Refusals of a transaction coordinator that are no rule of a transaction."""

from attrs import frozen

from refimpl.errors import InvalidRequest, Refusal


@frozen
class InvalidTransactionTimeout(Refusal):
    """The producer asks for no time, or for more than transaction.max.timeout.ms."""

    kafka_error = "INVALID_TRANSACTION_TIMEOUT"
    says = "{asked} ms asked for, of at most {most}"
    asked: int
    most: int


@frozen
class HalfAnIdentity(InvalidRequest):
    """The producer names its id without its epoch, or the other way round."""

    says = "producer id {producer_id} with epoch {epoch}"
    producer_id: int
    epoch: int


@frozen
class NoProducerIds(Refusal):
    """The controller has not allocated producer ids yet; the client asks again."""

    kafka_error = "COORDINATOR_LOAD_IN_PROGRESS"
    says = "broker {broker} has no producer ids at hand"
    broker: int
