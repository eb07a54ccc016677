"""Refusals: what a machine answers when an action's guard is false.

A refused action has changed nothing. Every guard has a class of its own, whose fields are the
values that disagreed; `kafka_error` is the name under which Kafka's clients know it, which several
guards may share. Only the wire turns that name into a code.

Damage of a file is no refusal: it names the file and the position, and takes the partition, or the
whole log directory, offline.
"""

from functools import cache
from typing import Any, ClassVar, cast

from attrs import fields, frozen, has


class Refusal(Exception):
    """A guard was false, and the machine is as it was."""

    kafka_error: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    says: ClassVar[str] = ""
    """The reason, with a place for each field."""

    def __str__(self) -> str:
        """Kafka's name for it, and the values that disagreed."""
        names = _names(type(self))
        if not names or not self.says:
            return self.kafka_error
        values = {name: _shown(getattr(self, name)) for name in names}
        return f"{self.kafka_error}: {self.says.format(**values)}"


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple([one.name for one in fields(kind)]) if has(kind) else ()


def _shown(value: Any) -> str:
    """A set in order, for messages are compared; anything else as it is."""
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(str, sorted(cast("frozenset[Any]", value)))) + "}"
    return "nobody" if value is None else str(value)


@frozen
class FencedLeaderEpoch(Refusal):
    """The sender stands in an older leader epoch (KIP-320)."""

    kafka_error = "FENCED_LEADER_EPOCH"
    says = "the request of {sender} is of leader epoch {asked}, and here it is {here}"
    sender: int
    asked: int
    here: int


@frozen
class StaleBrokerEpoch(Refusal):
    """The sender has restarted since: its earlier incarnation no longer counts (KIP-380,
    KIP-903)."""

    kafka_error = "STALE_BROKER_EPOCH"
    says = "broker {broker} is here in incarnation {here}, and this is of {asked}"
    broker: int
    asked: int
    here: int


class InvalidRequest(Refusal):
    """The action does not fit the state."""

    kafka_error = "INVALID_REQUEST"


class IneligibleReplica(Refusal):
    """A replica that is not alive, or not in this incarnation, cannot join the ISR."""

    kafka_error = "INELIGIBLE_REPLICA"


class EligibleLeadersNotAvailable(Refusal):
    """Nobody who may lead is there, or the one who was named may not."""

    kafka_error = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class OffsetOutOfRange(Refusal):
    """A log has no such offset, or knows no end of such an epoch."""

    kafka_error = "OFFSET_OUT_OF_RANGE"


@frozen
class OutsideLog(OffsetOutOfRange):
    """An offset before the log's start or behind its end."""

    says = "offset {offset}, of a log from {start} to {end}"
    offset: int
    start: int
    end: int


@frozen
class AboveHighWatermark(OffsetOutOfRange):
    """Only committed records may be deleted (KIP-107)."""

    says = "offset {offset}, above the high watermark {high_watermark}"
    offset: int
    high_watermark: int


@frozen
class BeyondTheLog(InvalidRequest):
    """The length is not one of a prefix."""

    says = "{length} records, of a log with {end}"
    length: int
    end: int


@frozen
class LossNotAllowed(InvalidRequest):
    """The configuration promises that nothing is lost."""

    says = "cut to {length} records, where no loss is allowed"
    length: int


# Storage


@frozen
class RefusedBatch(Refusal):
    """A batch that is not appended; `why` says what was expected."""

    kafka_error = "UNKNOWN_SERVER_ERROR"
    why: str

    def __str__(self) -> str:
        """Kafka's name, and the reason."""
        return f"{self.kafka_error}: {self.why}"


class CorruptBatch(RefusedBatch):
    """The bytes are no record batch: torn, flipped, or something else altogether."""

    kafka_error = "CORRUPT_MESSAGE"


class UnreadableBatch(RefusedBatch):
    """Records that no consumer could read, where Kafka fails and has no code for it."""

    kafka_error = "UNKNOWN_SERVER_ERROR"


class InvalidRecord(RefusedBatch):
    """The batch is whole, but what it says of itself cannot be (KIP-467)."""

    kafka_error = "INVALID_RECORD"


@frozen
class InvalidRecords(InvalidRecord):
    """Some records of a batch are not accepted: which, counted from 0, and why (KIP-467)."""

    records: tuple[tuple[int, str], ...]


@frozen
class InvalidTimestamp(RefusedBatch):
    """The producer's clock is too far from the broker's (KIP-937): in which records (KIP-467)."""

    kafka_error = "INVALID_TIMESTAMP"
    records: tuple[tuple[int, str], ...] = ()


class UnsupportedForMessageFormat(RefusedBatch):
    """A message format that is read but no longer written (KIP-724), or one of the future."""

    kafka_error = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class MessageTooLarge(RefusedBatch):
    """A batch above max.message.bytes."""

    kafka_error = "MESSAGE_TOO_LARGE"


class RecordListTooLarge(RefusedBatch):
    """More bytes in one append than fit into a segment."""

    kafka_error = "RECORD_LIST_TOO_LARGE"


class UnexpectedOffset(RefusedBatch):
    """A follower was handed what does not continue its log."""

    kafka_error = "UNKNOWN_SERVER_ERROR"


class OutOfOrderSequence(RefusedBatch):
    """A batch of this producer is missing in between (KIP-98)."""

    kafka_error = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidProducerEpoch(RefusedBatch):
    """A newer incarnation of the same producer has taken over (KIP-98, KIP-588)."""

    kafka_error = "INVALID_PRODUCER_EPOCH"


class InvalidTxnState(RefusedBatch):
    """A marker or a batch that does not fit the producer's transaction (KIP-890)."""

    kafka_error = "INVALID_TXN_STATE"


class TransactionCoordinatorFenced(RefusedBatch):
    """A marker of a transaction coordinator that was replaced."""

    kafka_error = "TRANSACTION_COORDINATOR_FENCED"


@frozen
class StorageDamage(Exception):
    """A file that is not what it should be; nothing was deleted."""

    path: str
    position: int
    found: str

    def __str__(self) -> str:
        """One line: where, and what."""
        return f"{self.path}: at byte {self.position}: {self.found}"


class CorruptFile(StorageDamage):
    """Flushed data that no longer reads back, or a file of somebody else's."""


class UnsupportedFormat(StorageDamage):
    """A file that a newer Kafka wrote."""


@frozen
class StorageOffline(Refusal):
    """The log directory or the partition was taken offline after a failure (KIP-112)."""

    kafka_error = "KAFKA_STORAGE_ERROR"
    why: str

    def __str__(self) -> str:
        """Kafka's name, and the failure."""
        return f"{self.kafka_error}: {self.why}"
