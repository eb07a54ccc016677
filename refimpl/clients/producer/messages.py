"""The inputs and outputs of a producer, beside requests and responses."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from refimpl.clients.producer.accumulator import ToAppend
from refimpl.messages.broker import Request, Response, Timer, TopicPartition


class Unauthenticated(NamedTuple):
    """The end of a connection whose broker refuses this client: Kafka's error, and a sentence."""

    error: str
    message: str


class Disconnected(NamedTuple):
    """A connection has ended, or could not be made: its requests are answered no more."""

    node: int
    reason: Unauthenticated | None = None


class Flush(NamedTuple):
    """Send what is there now, and say when all of it has its result."""

    handle: Any


class CloseProducer(NamedTuple):
    """Take no more records; say when all have their results. After the time-out they are failed."""

    handle: Any
    timeout_ms: int | None = None


class GroupMetadata(NamedTuple):
    """A consumer's place in its group, by which its offsets are fenced (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TransactionCall(NamedTuple):
    """Begin with the transactional id, send offsets into the transaction, commit or abort it."""

    handle: Any
    kind: Literal["init", "offsets", "commit", "abort"]
    #: Of each partition the next offset, its leader epoch, and metadata
    offsets: Mapping[TopicPartition, tuple[int, int, str]] = {}
    group: GroupMetadata | None = None


class TransactionDone(NamedTuple):
    """A call is done."""

    handle: Any


class TransactionFailed(NamedTuple):
    """A call has failed: Kafka's name of the error, and a sentence.

    Where it is abortable, the application may abort the transaction and begin another one.
    """

    handle: Any
    error: str
    message: str
    abortable: bool


class Delivered(NamedTuple):
    """A record is written. The offset is -1 where no broker was asked for it (acks=0)."""

    handle: Any
    partition: TopicPartition
    offset: int
    #: Given by the broker, -1 where the producer's own counts
    log_append_time_ms: int = -1


class Failed(NamedTuple):
    """A record is not written, or nobody knows whether it is.

    `error` is Kafka's name. What was never sent, and what each broker has refused, is certain.
    """

    handle: Any
    partition: TopicPartition
    error: str
    message: str
    certain: bool


class Accepted(NamedTuple):
    """A record that had to wait for metadata or memory is in a batch."""

    handle: Any


class Flushed(NamedTuple):
    """A flush, or the end, is done."""

    handle: Any


class Disconnect(NamedTuple):
    """Give up the connection to a node: a request waits too long for its answer."""

    node: int


Input: TypeAlias = (
    ToAppend | Response | Disconnected | Timer | Flush | CloseProducer | TransactionCall
)
Output: TypeAlias = (
    Request
    | Disconnect
    | Delivered
    | Failed
    | Accepted
    | Flushed
    | TransactionDone
    | TransactionFailed
    | Timer
)
