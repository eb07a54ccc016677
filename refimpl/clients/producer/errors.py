"""Refusals of the producer's own machines."""

from typing import ClassVar

from attrs import frozen

from refimpl.errors import Refusal


@frozen
class NothingToSend(Refusal):
    """No batch waits in the partition."""

    kafka_error = "INVALID_REQUEST"


@frozen
class TooManyInFlight(Refusal):
    """The broker has as many requests as it may have (max.in.flight.requests.per.connection)."""

    kafka_error = "THROTTLING_QUOTA_EXCEEDED"
    says = "{in_flight} requests wait for their answers, of at most {most}"
    in_flight: int
    most: int


@frozen
class NoProducerEpoch(Refusal):
    """An epoch must be taken before anything else is sent (KIP-360)."""

    kafka_error = "UNKNOWN_PRODUCER_ID"


class OutOfTurn(Refusal):
    """Batches of the partition that are sent before it are not settled yet."""

    kafka_error: ClassVar[str] = "OUT_OF_ORDER_SEQUENCE_NUMBER"


@frozen
class EarlierRetry(OutOfTurn):
    """Of batches that are sent again only the first one is under way."""

    says = "the batch of sequence {first} comes before that of {sequence}"
    sequence: int
    first: int


@frozen
class EarlierEpoch(OutOfTurn):
    """Batches of an older producer epoch are in flight."""

    says = "batches of producer epoch {epoch} are in flight, and the producer has {current}"
    epoch: int
    current: int


@frozen
class UnresolvedSequence(OutOfTurn):
    """Nobody knows whether the last sequence was used (KIP-360)."""

    says = "nobody knows whether the sequences before {following} were used"
    following: int


@frozen
class FirstUnknown(OutOfTurn):
    """The leader takes any sequence of a producer that it does not know, so the first batch goes
    alone.
    """


@frozen
class PastWindow(OutOfTurn):
    """The first unanswered batch would be further back than a leader remembers.

    The former leader may hold it, and max.in.flight.requests.per.connection bounds one connection.
    """

    says = "{behind} batches were sent since the first unanswered one began, of at most {most}"
    behind: int
    most: int


@frozen
class NotExpired(Refusal):
    """The batch has a result already."""

    kafka_error = "INVALID_REQUEST"


@frozen
class NothingUnresolved(Refusal):
    """The partition's sequences are known, or batches in flight will tell."""

    kafka_error = "INVALID_REQUEST"


@frozen
class NoBumpNeeded(Refusal):
    """The producer epoch is as good as before."""

    kafka_error = "INVALID_REQUEST"


@frozen
class InvalidTransactionState(Refusal):
    """A call does not fit the state of the producer's transaction."""

    kafka_error = "INVALID_TXN_STATE"
    says = "{wanted} is not possible while the transaction is {state}"
    wanted: str
    state: str
    #: The error that has led there, and true if an abort leads out of it
    cause: str = ""
    abortable: bool = False
