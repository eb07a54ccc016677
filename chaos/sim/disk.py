"""The cheap disk: logs in memory, with a page cache whose end may be lost in a crash."""

from collections.abc import Callable, Collection, Mapping

from attrs import define, field

from chaos.sim.expiry import Expiry
from refimpl.broker.logs import Found, OneDirectory
from refimpl.messages.broker import TopicPartition
from refimpl.storage.replica.memory import MemoryLog


@define(eq=False)
class CachedLog(MemoryLog):
    """A log in memory of which everything below `flushed` survives a crash."""

    flushed: int = 0

    def truncate_to(self, end: int) -> None:
        """Truncate; truncated records no longer count as flushed."""
        MemoryLog.truncate_to(self, end)
        self.flushed = min(self.flushed, self.end)


@define(eq=False)
class MemoryLogs(OneDirectory):
    """The log directory of one broker, without files.

    A crash keeps the part `kept`, from 0 to 1, of the unflushed records.
    """

    logs: dict[TopicPartition, CachedLog] = field(factory=dict[TopicPartition, CachedLog])
    high_watermarks: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])
    closed_by: int = -1
    now_ms: Callable[[], int] = field(default=lambda: 0, kw_only=True)
    producer_expiration_ms: int = field(default=0, kw_only=True)
    expiry: Expiry = field(factory=Expiry, kw_only=True)

    @property
    def records(self) -> int:
        """The number of records of all logs."""
        return sum(log.end for log in self.logs.values())

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have logs."""
        return list(self.logs)

    def directory_of(self, partition: TopicPartition) -> int:
        """All logs are in one place."""
        return 0

    def offline_directories(self) -> Collection[int]:
        """Memory does not fail."""
        return ()

    def prepare(self, partitions: Collection[TopicPartition]) -> None:
        """Nothing is to be done for logs in memory."""

    def open(self, partition: TopicPartition) -> Found:
        """The log, with its high watermark inside it, because deleted records were committed.

        The bounded high watermark is saved, as recovered files have it. A high watermark above lost
        records would be above other records after the next crash.
        """
        log = self.logs.setdefault(partition, CachedLog())
        known = min(max(self.high_watermarks.get(partition, 0), log.start), log.end)
        self.high_watermarks[partition] = known
        return Found(log, known)

    def told(self) -> None:
        """Nothing depends on it: there is one directory."""

    def write_epochs(self) -> None:
        """Nothing waits to be written."""

    def begin_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Nothing is to be done for logs in memory."""

    def delete(self, partition: TopicPartition) -> None:
        """Forget the log."""
        self.logs.pop(partition, None)
        self.high_watermarks.pop(partition, None)

    def offline(self) -> Mapping[TopicPartition, str]:
        """Memory does not fail."""
        return {}

    def failure(self) -> str | None:
        """Memory does not fail."""
        return None

    def flush(self) -> None:
        """Write the page cache out."""
        for log in self.logs.values():
            log.flushed = log.end

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks down."""
        self.high_watermarks.update(high_watermarks)

    def apply_retention(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Nothing is too old."""

    def expire_producers(self) -> None:
        """Forget the producers that were silent for long."""
        states, now = {name: log.producers for name, log in self.logs.items()}, self.now_ms()

        def expire() -> None:
            for state in states.values():
                state.expire_all(now, self.producer_expiration_ms)

        self.expiry.expire(states, expire)

    def clean(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Nothing is compacted."""

    def close(self, broker_epoch: int) -> None:
        """Leave the mark of a controlled shutdown."""
        self.closed_by = broker_epoch

    def clean_shutdown_epoch(self) -> int:
        """The epoch of the broker that left the clean-shutdown mark, or -1. Reading clears it."""
        epoch, self.closed_by = self.closed_by, -1
        return epoch

    @property
    def broken(self) -> bool:
        """Memory does not fail."""
        return False

    def fail(self) -> bool:
        """Memory does not fail."""
        return False

    def heal(self) -> None:
        """Memory does not fail."""

    def crashed(self, kept: float) -> "MemoryLogs":
        """The directory as the next process finds it."""
        logs: dict[TopicPartition, CachedLog] = {}
        for partition, log in self.logs.items():
            end = log.flushed + int(kept * (log.end - log.flushed))
            end = max(end, log.start)  # a log start offset is saved at once
            kept_records = list(log.records)
            crashed = logs[partition] = CachedLog(kept_records, log.start, flushed=log.flushed)
            crashed.truncate_to(end)
            crashed.flushed = crashed.end
        return MemoryLogs(
            *(logs, dict(self.high_watermarks), self.closed_by),
            now_ms=self.now_ms,
            producer_expiration_ms=self.producer_expiration_ms,
            expiry=Expiry(self.expiry.counts),
        )
