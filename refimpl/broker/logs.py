"""What a node needs of its log directory."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from refimpl.broker.messages import TopicPartition
from refimpl.machines.replica_log import ReplicaLog


class Found(NamedTuple):
    """What a start finds of a partition: its log, and the high watermark that was written down."""

    log: ReplicaLog
    high_watermark: int


class LogDirectory(Protocol):
    """The logs of one broker and the files around them."""

    def open(self, partition: TopicPartition) -> Found:
        """What is there of a partition; nothing, for one that is new."""
        ...

    def flush(self) -> None:
        """Make all logs survive the end of the machine."""
        ...

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks down (replication-offset-checkpoint)."""
        ...

    def close(self, broker_epoch: int) -> None:
        """The controlled shutdown is over: leave the mark that says so, and by whom (KIP-966)."""
        ...

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch of the last process, if it left that mark; else -1."""
        ...
