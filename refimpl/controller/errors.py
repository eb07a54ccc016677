"""The controller's refusals to operators: Kafka's name of an error, and Kafka's message.

Clients see both, so they are those of Kafka 4.3.
"""

from attrs import frozen


@frozen
class ApiError(Exception):
    """The refusal of a request, or of one part of one."""

    error: str
    message: str | None = None

    def __str__(self) -> str:
        """Error and message, for people."""
        return self.error if self.message is None else f"{self.error}: {self.message}"


def unknown_topic_or_partition(message: str | None = None) -> ApiError:
    """The error for a topic or partition that does not exist."""
    return ApiError(
        "UNKNOWN_TOPIC_OR_PARTITION",
        "This server does not host this topic-partition." if message is None else message,
    )
