"""Refusals of a cluster, each one sentence that names the topic, the broker or the port."""


class ClusterError(Exception):
    """An operation that the cluster refused: Kafka's name of the error, and why."""

    def __init__(self, error: str, message: str | None) -> None:
        super().__init__(f"{error}: {message}" if message else error)
        self.error = error

    def __str__(self) -> str:
        """The sentence."""
        return str(self.args[0])


class UnknownPartition(ClusterError, KeyError):
    """No such topic, no such partition of it, or no replica of it on that broker."""

    def __init__(self, message: str, error: str = "UNKNOWN_TOPIC_OR_PARTITION") -> None:
        super().__init__(error, message)


class UnknownBroker(ClusterError, KeyError):
    """No broker of the cluster has this number."""

    def __init__(self, message: str) -> None:
        super().__init__("BROKER_ID_NOT_REGISTERED", message)


class NotRunning(RuntimeError):
    """The cluster has not been started, or has ended."""
