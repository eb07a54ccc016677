"""Refusals of a heartbeat that do not depend on its group."""

from attrs import frozen

from refimpl.errors import InvalidRequest, Refusal


@frozen
class ConsumerGroupNotFound(Refusal):
    """The heartbeat is for a consumer group that does not exist here."""

    kafka_error = "GROUP_ID_NOT_FOUND"
    says = "Consumer group {group} not found."
    group: str


@frozen
class ShareGroupNotFound(Refusal):
    """The heartbeat is for a share group that does not exist here."""

    kafka_error = "GROUP_ID_NOT_FOUND"
    says = "Share group {group} not found."
    group: str


@frozen
class InvalidHeartbeat(InvalidRequest):
    """A field is missing, or has an invalid value."""

    says = "{why}"
    why: str


@frozen
class UnsupportedAssignor(Refusal):
    """The assignor is not in `group.consumer.assignors`."""

    kafka_error = "UNSUPPORTED_ASSIGNOR"
    says = "ServerAssignor {name} is not supported. Supported assignors: {known}."
    name: str
    known: str


@frozen
class InvalidRegularExpression(Refusal):
    """RE2 cannot compile the regular expression."""

    kafka_error = "INVALID_REGULAR_EXPRESSION"
    says = "SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."
    regex: str
    why: str
