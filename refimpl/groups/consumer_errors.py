"""What is wrong with a heartbeat, whatever group it is for."""

from attrs import frozen

from refimpl.errors import InvalidRequest, Refusal


@frozen
class ConsumerGroupNotFound(Refusal):
    """A member of a group that is not here."""

    kafka_error = "GROUP_ID_NOT_FOUND"
    says = "Consumer group {group} not found."
    group: str


@frozen
class InvalidHeartbeat(InvalidRequest):
    """A field is missing, or has a value that it cannot have."""

    says = "{why}"
    why: str


@frozen
class UnsupportedAssignor(Refusal):
    """`group.consumer.assignors` does not name it."""

    kafka_error = "UNSUPPORTED_ASSIGNOR"
    says = "ServerAssignor {name} is not supported. Supported assignors: {known}."
    name: str
    known: str


@frozen
class InvalidRegularExpression(Refusal):
    """RE2 does not take it."""

    kafka_error = "INVALID_REGULAR_EXPRESSION"
    says = "SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."
    regex: str
    why: str
