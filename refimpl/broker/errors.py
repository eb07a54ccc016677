"""What a node refuses, guard by guard, where no machine or log does."""

from attrs import frozen

from refimpl.broker.messages import TopicPartition
from refimpl.errors import Refusal


@frozen
class UnknownTopicOrPartition(Refusal):
    """This broker has no such partition."""

    kafka_error = "UNKNOWN_TOPIC_OR_PARTITION"
    says = "broker {broker} has no replica of {partition}"
    broker: int
    partition: TopicPartition


@frozen
class NotLeader(Refusal):
    """The request is for the leader."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"
    says = "broker {broker} does not lead {partition}"
    broker: int
    partition: TopicPartition


@frozen
class FetchSessionIdNotFound(Refusal):
    """The fetch session is not known, or no longer (KIP-227)."""

    kafka_error = "FETCH_SESSION_ID_NOT_FOUND"
    says = "there is no fetch session {session}"
    session: int


@frozen
class InvalidFetchSessionEpoch(Refusal):
    """Not the request of the fetch session that comes next: overtaken, or there for the second
    time (KIP-227)."""

    kafka_error = "INVALID_FETCH_SESSION_EPOCH"
    says = "request {asked} of fetch session {session}, where {here} comes next"
    session: int
    asked: int
    here: int
