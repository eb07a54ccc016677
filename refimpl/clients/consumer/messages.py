"""The inputs and outputs of a consumer, beside requests and responses.

A call of the application has a handle, by which its host knows it; its result carries the same one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from refimpl.clients.consumer.position import OffsetAndEpoch
from refimpl.clients.producer.messages import Disconnect, Disconnected
from refimpl.messages.broker import Request, Response, Timer, TopicPartition

Kind = Literal["assigned", "revoked", "lost"]


class Poll(NamedTuple):
    """Return records; without any, wait for them up to the time-out."""

    handle: Any
    timeout_ms: int


class CommitOffsets(NamedTuple):
    """Commit these offsets with their metadata, or all positions of what was returned.

    With `retries` it is tried again until the time-out, or until it cannot succeed.
    """

    handle: Any
    offsets: Mapping[TopicPartition, tuple[OffsetAndEpoch, str]] | None = None
    retries: bool = True
    timeout_ms: int | None = None


class AskOffsets(NamedTuple):
    """Ask for offsets by time: -1 for the end, -2 for the beginning, or a timestamp."""

    handle: Any
    times: Mapping[TopicPartition, int]
    timeout_ms: int | None = None


class AskCommitted(NamedTuple):
    """Ask for the group's committed offsets."""

    handle: Any
    partitions: Collection[TopicPartition]
    timeout_ms: int | None = None


class Called(NamedTuple):
    """The application's listener has returned."""


class Unsubscribe(NamedTuple):
    """Give up all partitions, and leave the group."""

    handle: Any


class CloseConsumer(NamedTuple):
    """Commit what is to be committed automatically, give up everything, and leave the group."""

    handle: Any
    timeout_ms: int | None = None


class Polled(NamedTuple):
    """The records of a poll, partition by partition."""

    handle: Any
    records: Sequence[tuple[TopicPartition, Sequence[Any]]] = ()


class CallDone(NamedTuple):
    """The result of another call: offsets that were committed or asked for, or None."""

    handle: Any
    value: Any = None


class CallFailed(NamedTuple):
    """A call fails: Kafka's name of the error, a sentence, and the partitions it is about."""

    handle: Any
    error: str
    message: str
    partitions: Sequence[TopicPartition] = ()


class CallListener(NamedTuple):
    """Call the application's listener in the call of this handle, and answer with `Called`."""

    handle: Any
    kind: Kind
    partitions: Sequence[TopicPartition]


class AutoCommitted(NamedTuple):
    """Positions were committed automatically."""

    offsets: Mapping[TopicPartition, tuple[OffsetAndEpoch, str]]


Input: TypeAlias = (
    Poll
    | CommitOffsets
    | AskOffsets
    | AskCommitted
    | Called
    | Unsubscribe
    | CloseConsumer
    | Response
    | Disconnected
    | Timer
)
Output: TypeAlias = (
    Request | Disconnect | Timer | Polled | CallDone | CallFailed | CallListener | AutoCommitted
)
