"""The logs of a node: opened by metadata updates, checkpointed, retained, and given up on failure.

Kafka calls it LogManager; the work is the storage's. Each timer returns the time until its next
call.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.logs import LogDirectory
from refimpl.broker.partition import Partition
from refimpl.errors import StorageDamage, StorageOffline
from refimpl.machines.replica import Replica
from refimpl.messages.broker import TopicPartition

FLUSH, CHECKPOINT, RETENTION, CLEANER, PRODUCERS = (
    *("flush", "checkpoint", "retention", "cleaner", "producers"),
)


@define(eq=False)
class LogManager:
    """The log directory of one broker, and its partitions in it."""

    context: Context
    logs: LogDirectory
    _work: dict[str, tuple[Callable[[], Any], int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Map each timer to its work and its interval."""
        config, logs = self.context.config, self.logs
        self._work = {
            FLUSH: (logs.flush, config.log_flush_interval_ms),
            CHECKPOINT: (self.checkpoint, config.replica_high_watermark_checkpoint_interval_ms),
            RETENTION: (
                lambda: logs.apply_retention(self._high_watermarks()),
                config.log_retention_check_interval_ms,
            ),
            CLEANER: (
                lambda: logs.clean(self._high_watermarks()),
                config.log_cleaner_backoff_ms,
            ),
            PRODUCERS: (
                logs.expire_producers,
                config.producer_id_expiration_check_interval_ms,
            ),
        }
        if not config.log_cleaner_enable:
            del self._work[CLEANER]

    @property
    def timers(self) -> Mapping[str, int]:
        """The interval of each timer, in ms."""
        return {name: period for name, (_, period) in self._work.items()}

    def work(self, name: str) -> int:
        """Do a timer's work; return the time until its next call. The disk may fail meanwhile."""
        work, period = self._work[name]
        try:
            work()
        except StorageOffline as failure:
            self.context.refused(name, failure)
        return period

    def prepare(self, names: Collection[TopicPartition]) -> None:
        """Prepare partitions that are about to be opened."""
        try:
            self.logs.prepare(names)
        except StorageOffline as failure:
            self.context.refused("LeaderAndIsr", failure)

    def begin_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Begin the leader epochs of partitions that are about to be led."""
        try:
            self.logs.begin_epochs(epochs)
        except StorageOffline as failure:
            self.context.refused("LeaderAndIsr", failure)

    def write_epochs(self) -> None:
        """Write the epochs that followers have taken, before their next fetch goes out."""
        try:
            self.logs.write_epochs()
        except StorageOffline as failure:
            self.context.refused("replication", failure)

    def open(self, name: TopicPartition, min_isr: int = 1) -> Partition | None:
        """Open or create the log of a partition; None if that fails."""
        context = self.context
        try:
            log, high_watermark, topic_id = self.logs.open(name)
        except (StorageOffline, StorageDamage) as failure:
            context.offline[name] = str(failure)
            return None
        replica = Replica(
            context.id,
            log,
            high_watermark=high_watermark,
            min_isr=min_isr,
            incarnation=context.broker_epoch,
        )
        partition = context.partitions[name] = Partition(name, replica, log, topic_id)
        return partition

    def delete(self, name: TopicPartition) -> None:
        """Delete the log of a partition that this broker no longer hosts."""
        try:
            self.logs.delete(name)
        except StorageOffline as failure:
            self.context.refused("StopReplica", failure)

    def checkpoint(self) -> None:
        """Write the high watermarks to the checkpoint."""
        self.logs.checkpoint(self._high_watermarks())

    def close(self) -> None:
        """Write the checkpoint, flush, and leave the clean shutdown mark; a failing disk gets no
        mark.
        """
        try:
            self.checkpoint()
            self.logs.close(self.context.broker_epoch)
        except StorageOffline as failure:
            self.context.refused("shutdown", failure)

    def failed(self) -> list[Partition]:
        """Remove and return the partitions that have gone offline since the last call."""
        context = self.context
        failed: list[Partition] = []
        for name, why in self.logs.offline().items():
            partition = context.partitions.pop(name, None)
            if partition is not None:
                context.offline[name] = why
                failed.append(partition)
        return failed

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        partitions = self.context.partitions
        return {name: one.replica.high_watermark for name, one in partitions.items()}
