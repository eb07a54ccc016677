"""What storage refuses, and what it finds broken.

A refusal answers a client and has changed nothing. Damage names the file and the position, and
takes the partition, or the whole log directory, offline.
"""

from attrs import frozen

from refimpl import errors
from refimpl.errors import Refusal


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


class InvalidRecord(RefusedBatch):
    """The batch is whole, but what it says of itself cannot be (KIP-467)."""

    kafka_error = "INVALID_RECORD"


@frozen
class InvalidRecords(InvalidRecord):
    """Some records of a batch are not accepted: which, counted from 0, and why (KIP-467)."""

    records: tuple[tuple[int, str], ...]


class InvalidTimestamp(RefusedBatch):
    """The producer's clock is too far from the broker's (KIP-937)."""

    kafka_error = "INVALID_TIMESTAMP"


class UnsupportedForMessageFormat(RefusedBatch):
    """A message format that is read but no longer written (KIP-724), or one of the future."""

    kafka_error = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class MessageTooLarge(RefusedBatch):
    """A batch above max.message.bytes."""

    kafka_error = "MESSAGE_TOO_LARGE"


class RecordListTooLarge(RefusedBatch):
    """More bytes in one append than fit into a segment."""

    kafka_error = "RECORD_LIST_TOO_LARGE"


class OffsetOutOfRange(RefusedBatch, errors.OffsetOutOfRange):
    """An offset before the log's start or behind its end."""

    kafka_error = "OFFSET_OUT_OF_RANGE"


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
