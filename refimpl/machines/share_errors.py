"""Refusals of a share partition and of its stored state."""

from attrs import frozen

from refimpl.errors import InvalidRequest, Refusal


@frozen
class SharePartitionNotLoaded(Refusal):
    """The leader has not yet read the partition's state, or has forgotten it."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"
    says = "the share partition is not loaded"


@frozen
class InvalidRecordState(Refusal):
    """The record is not acquired by this member, or an acknowledgement of it is under way."""

    kafka_error = "INVALID_RECORD_STATE"
    says = "offset {offset} is {state} and held by {holder}, and {member} acknowledges it"
    offset: int
    state: str
    holder: str | None
    member: str


@frozen
class InvalidAcknowledgement(InvalidRequest):
    """The batch's offsets or its types are no acknowledgement."""

    says = "offsets {first} to {last} are acknowledged with {types} types: {why}"
    first: int
    last: int
    types: int
    why: str


@frozen
class UnknownDeliveryState(InvalidRequest):
    """No record is in a state of this number."""

    says = "delivery state {state} is none of {known}"
    state: int
    known: tuple[int, ...]


@frozen
class UnknownShareState(InvalidRequest):
    """The partition's state was never initialised, or it is deleted."""

    says = "there is no state of this partition"


@frozen
class UnknownSharedTopic(Refusal):
    """There is no topic of this id, or it has no such partition: it may be deleted."""

    kafka_error = "UNKNOWN_TOPIC_OR_PARTITION"
    says = "This server does not host this topic-partition."  # Kafka's words
    topic_id: bytes
    partition: int


@frozen
class FencedStateEpoch(Refusal):
    """The sender knows an older life of the group (KIP-932)."""

    kafka_error = "FENCED_STATE_EPOCH"
    says = "the request is of state epoch {asked}, and here it is {here}"
    asked: int
    here: int


@frozen
class FencedShareLeader(Refusal):
    """Another leader has read the state since."""

    kafka_error = "FENCED_LEADER_EPOCH"
    says = "the request is of leader epoch {asked}, and here it is {here}"
    asked: int
    here: int
