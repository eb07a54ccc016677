"""Refusals: what a machine answers when an action's guard is false.

A refused action has changed nothing. Every guard has a class of its own, whose fields are the
values that disagreed; `kafka_error` is the name under which Kafka's clients know it, which several
guards may share. Only the wire turns that name into a code.
"""

from functools import cache
from typing import Any, ClassVar, cast

from attrs import fields, frozen, has


class Refusal(Exception):
    """A guard was false, and the machine is as it was."""

    kafka_error: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    says: ClassVar[str] = ""
    """The reason, with a place for each field."""

    def __str__(self) -> str:
        """Kafka's name for it, and the values that disagreed."""
        names = _names(type(self))
        if not names or not self.says:
            return self.kafka_error
        values = {name: _shown(getattr(self, name)) for name in names}
        return f"{self.kafka_error}: {self.says.format(**values)}"


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple([one.name for one in fields(kind)]) if has(kind) else ()


def _shown(value: Any) -> str:
    """A set in order, for messages are compared; anything else as it is."""
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(str, sorted(cast("frozenset[Any]", value)))) + "}"
    return "nobody" if value is None else str(value)


@frozen
class FencedLeaderEpoch(Refusal):
    """The sender stands in an older leader epoch (KIP-320)."""

    kafka_error = "FENCED_LEADER_EPOCH"
    says = "the request of {sender} is of leader epoch {asked}, and here it is {here}"
    sender: int
    asked: int
    here: int


@frozen
class StaleBrokerEpoch(Refusal):
    """The sender has restarted since: its earlier incarnation no longer counts (KIP-380,
    KIP-903)."""

    kafka_error = "STALE_BROKER_EPOCH"
    says = "broker {broker} is here in incarnation {here}, and this is of {asked}"
    broker: int
    asked: int
    here: int


class InvalidRequest(Refusal):
    """The action does not fit the state."""

    kafka_error = "INVALID_REQUEST"


class IneligibleReplica(Refusal):
    """A replica that is not alive, or not in this incarnation, cannot join the ISR."""

    kafka_error = "INELIGIBLE_REPLICA"


class EligibleLeadersNotAvailable(Refusal):
    """Nobody who may lead is there, or the one who was named may not."""

    kafka_error = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class OffsetOutOfRange(Refusal):
    """A log has no such offset, or knows no end of such an epoch."""

    kafka_error = "OFFSET_OUT_OF_RANGE"


@frozen
class OutsideLog(OffsetOutOfRange):
    """An offset before the log's start or behind its end."""

    says = "offset {offset}, of a log from {start} to {end}"
    offset: int
    start: int
    end: int


@frozen
class BeyondTheLog(InvalidRequest):
    """The length is not one of a prefix."""

    says = "{length} records, of a log with {end}"
    length: int
    end: int


@frozen
class LossNotAllowed(InvalidRequest):
    """The configuration promises that nothing is lost."""

    says = "cut to {length} records, where no loss is allowed"
    length: int
