"""Messages of share groups, under Kafka's names (KIP-932).

Members send ShareFetch and ShareAcknowledge to leaders of partitions. Leaders and group
coordinators ask the share coordinator for the stored state of one share partition; a Kafka request
about several becomes several of these. An error is Kafka's name of it, or None.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refimpl.messages.broker import TopicPartition
from refimpl.records.schema import Uuid

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""Share acquire modes (KIP-1206)."""

OPEN_EPOCH, FINAL_EPOCH = 0, -1
"""Epochs of the first and of the last request of a share session."""


class ShareKey(NamedTuple):
    """A partition as a share group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int


class StoredBatch(NamedTuple):
    """Records in one state, by Kafka's numbers."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


# The share coordinator


class InitializeShareStateRequest(NamedTuple):
    """Begin a life of a share partition; a start of -1 is left to its first leader."""

    key: ShareKey
    state_epoch: int
    start_offset: int


class ReadShareStateRequest(NamedTuple):
    """Read the state for a new leader; writes of earlier leader epochs are refused from then on."""

    key: ShareKey
    leader_epoch: int


class WriteShareStateRequest(NamedTuple):
    """Write the changes of a share partition's state."""

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StoredBatch]


class DeleteShareStateRequest(NamedTuple):
    """End a life of a share partition."""

    key: ShareKey


class ReadShareStateSummaryRequest(NamedTuple):
    """Read the state's epochs and its start."""

    key: ShareKey


class ShareStateResponse(NamedTuple):
    """The state of a share partition, as far as the request asks for it."""

    error: str | None
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = -1
    start_offset: int = -1
    delivery_complete_count: int = -1
    batches: Sequence[StoredBatch] = ()


# Members and leaders

LONGEST_MEMBER_ID = 36
"""Members choose ids, which are UUIDs with Kafka's clients."""


def is_no_member_id(member_id: str) -> bool:
    """True if no member of a share group may have this id."""
    return not member_id.strip() or len(member_id) > LONGEST_MEMBER_ID


class AcknowledgementBatch(NamedTuple):
    """Acknowledge types of the offsets from first to last: one for all, or one for each."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


Acknowledgements = Mapping[TopicPartition, Sequence[AcknowledgementBatch]]


class ShareFetchRequest(NamedTuple):
    """Acknowledge records, and acquire others."""

    group_id: str
    member_id: str
    session_epoch: int
    partitions: Sequence[TopicPartition]
    forgotten: Sequence[TopicPartition]
    acknowledgements: Acknowledgements
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 26
    max_records: int = 500
    batch_size: int = 500
    acquire_mode: int = BATCH_OPTIMIZED
    is_renew: bool = False
    #: The number of the member's connection, 0 for none
    connection: int = 0


class ShareConnectionLost(NamedTuple):
    """A member's connection is gone: its session ends, and its records are released."""

    connection: int


class ShareFetchedPartition(NamedTuple):
    """Records of one partition, and those among them that the member has acquired."""

    partition: TopicPartition
    error: str | None = None
    error_message: str | None = None
    acknowledge_error: str | None = None
    acknowledge_message: str | None = None
    records: bytes = b""
    #: First offset, last offset and delivery count
    acquired: Sequence[tuple[int, int, int]] = ()


class ShareFetchResponse(NamedTuple):
    """The results; acquisition locks last so many ms."""

    error: str | None
    lock_timeout_ms: int = 0
    partitions: Sequence[ShareFetchedPartition] = ()
    error_message: str | None = None


class ShareAcknowledgeRequest(NamedTuple):
    """Acknowledge records."""

    group_id: str
    member_id: str
    session_epoch: int
    acknowledgements: Acknowledgements
    is_renew: bool = False


class ShareAcknowledgeResponse(NamedTuple):
    """The result for each partition: an error and its message."""

    error: str | None
    lock_timeout_ms: int = 0
    partitions: Sequence[tuple[TopicPartition, str | None, str | None]] = ()
    error_message: str | None = None


STATE_REQUESTS = (
    *(InitializeShareStateRequest, ReadShareStateRequest, WriteShareStateRequest),
    *(DeleteShareStateRequest, ReadShareStateSummaryRequest),
)
"""Requests to the share coordinator."""


def refused(request: object, error: str, message: str | None = None) -> object:
    """The response that refuses a request as a whole."""
    match request:
        case ShareFetchRequest():
            return ShareFetchResponse(error, error_message=message)
        case ShareAcknowledgeRequest():
            return ShareAcknowledgeResponse(error, error_message=message)
        case _ if isinstance(request, STATE_REQUESTS):
            return ShareStateResponse(error, message)
        case _:
            raise TypeError(f"{type(request).__name__} is no request of share groups")
