"""Refusals: what a machine answers when an action's guard is false.

A refused action has changed nothing. Each carries the name under which Kafka's clients know it;
only the wire turns it into an error code.
"""

from typing import ClassVar


class Refusal(Exception):
    """A guard was false.

    The machine is as it was.
    """

    kafka_error: ClassVar[str] = "UNKNOWN_SERVER_ERROR"

    def __str__(self) -> str:
        """The error's name as Kafka's clients know it."""
        return self.kafka_error


class NotLeaderOrFollower(Refusal):
    """This replica does not have the role that the request asks of it."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"


class FencedLeaderEpoch(Refusal):
    """The other side stands in an older leader epoch (KIP-320)."""

    kafka_error = "FENCED_LEADER_EPOCH"


class UnknownLeaderEpoch(Refusal):
    """The other side stands in a newer leader epoch, which we were not told of yet
    (KIP-320)."""

    kafka_error = "UNKNOWN_LEADER_EPOCH"


class StaleBrokerEpoch(Refusal):
    """The sender has restarted since: its earlier incarnation no longer counts (KIP-380,
    KIP-903)."""

    kafka_error = "STALE_BROKER_EPOCH"


class NotEnoughReplicas(Refusal):
    """The ISR is smaller than min.insync.replicas, so acks=all cannot be promised."""

    kafka_error = "NOT_ENOUGH_REPLICAS"


class IneligibleReplica(Refusal):
    """A replica that is not alive, or not in this incarnation, cannot join the ISR (KIP-841,
    KIP-903)."""

    kafka_error = "INELIGIBLE_REPLICA"


class EligibleLeadersNotAvailable(Refusal):
    """Nobody who may lead is there, or the one who was named may not."""

    kafka_error = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class InvalidRequest(Refusal):
    """The action does not fit the state: nothing to advance, nobody to remove, an answer nobody
    waits for."""

    kafka_error = "INVALID_REQUEST"


class OffsetOutOfRange(Refusal):
    """An offset outside of the log, or an epoch of which it knows no end (KIP-320)."""

    kafka_error = "OFFSET_OUT_OF_RANGE"


class IllegalGeneration(Refusal):
    """The member's generation is over; somebody else may own the partition now."""

    kafka_error = "ILLEGAL_GENERATION"


class UnknownMember(Refusal):
    """The group does not know this member as the partition's owner."""

    kafka_error = "UNKNOWN_MEMBER_ID"


class OvertakenCommit(Refusal):
    """A later commit of the same member arrived first; this one's connection is gone."""

    kafka_error = "NETWORK_EXCEPTION"


class UnknownTopicOrPartition(Refusal):
    """This broker has no such partition."""

    kafka_error = "UNKNOWN_TOPIC_OR_PARTITION"


class FetchSessionIdNotFound(Refusal):
    """The fetch session is not known, or no longer (KIP-227)."""

    kafka_error = "FETCH_SESSION_ID_NOT_FOUND"


class InvalidFetchSessionEpoch(Refusal):
    """Not the request of the fetch session that comes next: overtaken, or there for the second
    time (KIP-227)."""

    kafka_error = "INVALID_FETCH_SESSION_EPOCH"
