"""Refusals of a node, one for each guard that is in no machine or log."""

from attrs import frozen

from refimpl.errors import Refusal
from refimpl.messages.broker import TopicPartition


@frozen
class UnknownTopicOrPartition(Refusal):
    """No broker has such a partition, as far as this one knows."""

    kafka_error = "UNKNOWN_TOPIC_OR_PARTITION"
    says = "broker {broker} knows no partition {partition}"
    broker: int
    partition: TopicPartition


@frozen
class PartitionOffline(Refusal):
    """The log of this partition failed, or was found damaged (KIP-112)."""

    kafka_error = "KAFKA_STORAGE_ERROR"
    says = "broker {broker} cannot serve {partition}: {why}"
    broker: int
    partition: TopicPartition
    why: str


@frozen
class InvalidRequiredAcks(Refusal):
    """The acks of a Produce request are neither 0, nor 1, nor -1 (all)."""

    kafka_error = "INVALID_REQUIRED_ACKS"
    says = "acks={acks}, expected -1, 0 or 1"
    acks: int


@frozen
class OutsideCommitted(Refusal):
    """Only committed records can be deleted (KIP-107)."""

    kafka_error = "OFFSET_OUT_OF_RANGE"
    says = "delete up to {offset}, where the high watermark is {high_watermark}"
    offset: int
    high_watermark: int


@frozen
class OffsetNotAvailable(Refusal):
    """A new leader does not know the high watermark yet (KIP-207)."""

    kafka_error = "OFFSET_NOT_AVAILABLE"
    says = "high watermark {high_watermark} of {partition} is below its epoch's start {epoch_start}"
    partition: TopicPartition
    high_watermark: int
    epoch_start: int


@frozen
class PolicyViolation(Refusal):
    """The topic's cleanup.policy does not allow records to be deleted."""

    kafka_error = "POLICY_VIOLATION"
    says = "cleanup.policy of {partition} does not have delete"
    partition: TopicPartition


@frozen
class InternalTopic(Refusal):
    """The topic is the coordinators' own."""

    kafka_error = "INVALID_TOPIC_EXCEPTION"
    says = "records of {topic} are the coordinators' to delete"
    topic: str


@frozen
class NotLeaderOrFollower(Refusal):
    """The request is for the leader, and this replica is not."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"
    says = "broker {broker} does not lead {partition}"
    broker: int
    partition: TopicPartition


@frozen
class InvalidMaxBytes(Refusal):
    """A Fetch request asks for less than nothing. Kafka fails at it, and has no code for it."""

    kafka_error = "UNKNOWN_SERVER_ERROR"
    says = "at most {max_bytes} bytes, where 0 is the least"
    max_bytes: int


@frozen
class FetchSessionIdNotFound(Refusal):
    """The fetch session is unknown, or was removed (KIP-227)."""

    kafka_error = "FETCH_SESSION_ID_NOT_FOUND"
    says = "there is no fetch session {session}"
    session: int


@frozen
class InvalidFetchSessionEpoch(Refusal):
    """Not the fetch session's next request: it was overtaken, or is a second copy (KIP-227)."""

    kafka_error = "INVALID_FETCH_SESSION_EPOCH"
    says = "request {asked} of fetch session {session}, where {here} comes next"
    session: int
    asked: int
    here: int


@frozen
class TopicNameTooLong(Refusal):
    """The folder that a log would move to cannot have such a name (KAFKA-4893)."""

    kafka_error = "INVALID_TOPIC_EXCEPTION"
    says = "a folder's name of {length} letters, where {most} are possible"
    length: int
    most: int


@frozen
class LogDirNotFound(Refusal):
    """The path is none of this broker's `log.dirs` (KIP-113)."""

    kafka_error = "LOG_DIR_NOT_FOUND"
    says = "broker {broker} has no such log directory"
    broker: int


@frozen
class ReplicaNotAvailable(Refusal):
    """This broker has no replica to move; one that comes will be put there (KIP-113)."""

    kafka_error = "REPLICA_NOT_AVAILABLE"
    says = "broker {broker} has no replica of {partition}"
    broker: int
    partition: TopicPartition
