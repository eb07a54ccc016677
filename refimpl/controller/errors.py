"""What the controller refuses an operator: an error name of Kafka, and Kafka's message beside it.

Both are what clients see, so they are those of Kafka 4.3.
"""

from attrs import frozen


@frozen
class ApiError(Exception):
    """A request, or one part of one, that is refused."""

    error: str
    message: str | None = None

    def __str__(self) -> str:
        """Both, for people."""
        return self.error if self.message is None else f"{self.error}: {self.message}"


def unknown_topic_or_partition(message: str | None = None) -> ApiError:
    """No such topic, or no such partition of it."""
    return ApiError(
        "UNKNOWN_TOPIC_OR_PARTITION",
        "This server does not host this topic-partition." if message is None else message,
    )
