"""Refusals of every coordinator, whatever its shard holds."""

from attrs import frozen

from refimpl.errors import Refusal


@frozen
class CoordinatorLoadInProgress(Refusal):
    """The coordinator still reads its log."""

    kafka_error = "COORDINATOR_LOAD_IN_PROGRESS"
    says = "partition {partition} is read up to offset {position} of {end}"
    partition: int
    position: int
    end: int


@frozen
class NotCoordinator(Refusal):
    """Another broker is the coordinator, or none is."""

    kafka_error = "NOT_COORDINATOR"
    says = "this broker does not lead partition {partition} of {topic}"
    topic: str
    partition: int


@frozen
class UnsupportedCoordinatorRequest(Refusal):
    """The coordinator's shard has no handler for this request."""

    kafka_error = "UNSUPPORTED_VERSION"
    says = "{request} is not served"
    request: str
