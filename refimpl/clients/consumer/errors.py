"""Refusals of the consumer's own machines, and the meaning of errors for its requests."""

from typing import ClassVar

from attrs import frozen

from refimpl.errors import Refusal

FETCH_AGAIN = frozenset(
    (
        *("NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
        *("FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"),
        *("UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "LEADER_NOT_AVAILABLE"),
    )
)
"""Errors of a fetched partition after which metadata is asked for, and the leader again."""

WAIT = frozenset(("UNKNOWN_LEADER_EPOCH", "UNKNOWN_SERVER_ERROR"))
"""Errors of a fetched partition that are over sooner or later."""

NOT_A_MEMBER = frozenset(
    (
        *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"),
        "FENCED_MEMBER_EPOCH",
    )
)
"""Errors of a commit whose sender is no member any more."""


@frozen
class HasPosition(Refusal):
    """The partition has a position: a committed offset comes too late."""

    kafka_error = "INVALID_REQUEST"


@frozen
class NotResetting(Refusal):
    """The partition's position is not being reset, or by another strategy."""

    kafka_error = "INVALID_REQUEST"
    says = "a reset to {asked}, and the partition is {state} ({wanted})"
    asked: str
    state: str
    wanted: str | None


@frozen
class NotValidating(Refusal):
    """The partition's position is not being validated."""

    kafka_error = "INVALID_REQUEST"


class Moved(Refusal):
    """The position is another one than when the request was sent."""

    kafka_error: ClassVar[str] = "INVALID_FETCH_SESSION_EPOCH"


@frozen
class PositionMoved(Moved):
    """The position has another offset."""

    says = "an answer for offset {asked}, and the position is {offset}"
    asked: int
    offset: int


@frozen
class LeaderMoved(Moved):
    """The position is of another leader's epoch."""

    says = "an answer of leader epoch {asked}, and the position is of {epoch}"
    asked: int
    epoch: int


class NotFetchable(Refusal):
    """No records are returned, or asked for, from the partition now."""

    kafka_error: ClassVar[str] = "OFFSET_NOT_AVAILABLE"


@frozen
class NoPosition(NotFetchable):
    """The position is not known, or not known to be of the leader's log."""

    says = "the position is {state}"
    state: str


@frozen
class BeingRevoked(NotFetchable):
    """The partition is being given up: its last commit is on the way, or its listener is called."""


@frozen
class Paused(NotFetchable):
    """The application has paused the partition, or has not heard yet that it is assigned."""


@frozen
class NothingFetched(NotFetchable):
    """No records of the partition are there."""


@frozen
class AlreadyFetched(NotFetchable):
    """Records of the partition wait to be returned."""
