"""Refusals of the controller election, one for each guard."""

from collections.abc import Hashable

from attrs import frozen

from refimpl.errors import InvalidRequest, Refusal


@frozen
class StaleControllerEpoch(Refusal):
    """The sender is not the controller any more (KAFKA-1188)."""

    kafka_error = "STALE_CONTROLLER_EPOCH"
    says = "news of controller epoch {asked}, and {here} was heard of"
    asked: int
    here: int


@frozen
class NotController(Refusal):
    """Only the controller writes decisions."""

    kafka_error = "NOT_CONTROLLER"
    says = "broker {broker} is {role}"
    broker: int
    role: str


@frozen
class NotCandidate(InvalidRequest):
    """Only a broker that saw no controller tries to become it."""

    says = "broker {broker} is {role}"
    broker: int
    role: str


@frozen
class NotRead(InvalidRequest):
    """A write is conditional on a version, so the node has to be read before."""

    says = "the version of {node} is not known"
    node: Hashable


@frozen
class SameSession(InvalidRequest):
    """A session begins once."""

    says = "broker {broker} has session {session} already"
    broker: int
    session: int


@frozen
class NotArmed(InvalidRequest):
    """A watch fires once, and only if it was set."""

    says = "the watch of broker {broker} is {watch}"
    broker: int
    watch: str


@frozen
class NothingNew(InvalidRequest):
    """The watch is armed and has not fired: nothing has changed."""

    says = "broker {broker} watches /controller, and its watch has not fired"
    broker: int


@frozen
class ClaimUnderWay(InvalidRequest):
    """A read beside a claim may be older than it, or newer."""

    says = "broker {broker} has tried to become controller, and has no answer yet"
    broker: int


@frozen
class NoClaim(InvalidRequest):
    """An answer to a claim that was not made, or whose connection is lost."""

    says = "broker {broker} has not tried to become controller"
    broker: int
