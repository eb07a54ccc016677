"""The records that an application gives to a producer, and the results that it gets back."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from attrs import frozen

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@frozen
class ProducerRecord:
    """A record to be sent, as interceptors see it; they may return another one."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """The place where a record was written. The offset is -1 if no broker was asked (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class SendError(Exception):
    """A record was not written, or nobody knows whether it was.

    `error` is Kafka's name of the reason. Where `certain` is false, the record may be in the log.
    """

    def __init__(
        self, error: str, message: str, topic: str, partition: int, *, certain: bool
    ) -> None:
        """Says the error, the reason, and what is known."""
        where = topic if partition < 0 else f"{topic}-{partition}"
        doubt = "" if certain else "; it may have been written all the same"
        super().__init__(f"{where}: {error}" + (f": {message}" if message else "") + doubt)
        self.error, self.certain = error, certain
        self.topic, self.partition = topic, partition


class TransactionError(Exception):
    """A call of a transactional producer has failed. `error` is Kafka's name of the reason.

    Where it is `abortable`, the application may abort the transaction and begin another one; where
    not, the producer can only be closed.
    """

    def __init__(self, error: str, message: str, *, abortable: bool) -> None:
        """Says the error and the reason."""
        super().__init__(f"{error}: {message}" if message else error)
        self.error, self.abortable = error, abortable


OnDelivery: TypeAlias = Callable[[RecordMetadata | None, SendError | None], Any]
"""Kafka's Callback: where the record is, or why it is not; the other one is None."""
