"""What a node needs of its log directory, and of the logs in it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from refimpl.machines.replica_log import Batch, Records, ReplicaLog
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.storage.config import LogConfig
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.producer_state import ProducerState


class BrokerLog(ReplicaLog, Protocol):
    """A replica's log, with what clients ask of it. Sizes are in bytes, or in what a log in memory
    counts."""

    def configure(self, config: LogConfig) -> None:
        """Behave so from now on: the topic's configurations, or the broker's, have changed."""
        ...

    @property
    def deletes(self) -> bool:
        """Whether records may be deleted: cleanup.policy has "delete"."""
        ...

    @property
    def producers(self) -> ProducerState:
        """What is remembered of idempotent and transactional producers."""
        ...

    @property
    def size(self) -> int:
        """The size of all that is kept, of segments that begin before the log start too."""
        ...

    def size_of(self, records: Records) -> int:
        """The size of what was read."""
        ...

    def size_between(self, start: int, end: int) -> int:
        """The size of the batches from the one that holds `start` on, below `end`."""
        ...

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below this offset every transaction is decided, where so much is committed (KIP-98)."""
        ...

    def aborted_transactions(self, start: int, up_to: int) -> Sequence[AbortedTxn]:
        """What a reader of committed records must leave out of this range."""
        ...

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record that is as new as this (KIP-79)."""
        ...

    def newest_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the newest record; the first of them, if several are."""
        ...

    def keyed_batch(self, records: Sequence[CoordinatorRecord], now_ms: int) -> Batch:
        """One batch of what a coordinator writes down."""
        ...

    def keyed_records(
        self, start: int, records: Records
    ) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        """What a coordinator wrote down, in what `slice` read from `start` on, each with its
        offset; and the offset behind. Types that nobody knows are left out."""
        ...

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at this offset, -1 for none."""
        ...


class Found(NamedTuple):
    """What a start finds of a partition: its log, the high watermark that was written down, and
    the id of the topic that it was made for, if it is known."""

    log: BrokerLog
    high_watermark: int
    topic_id: bytes = b""


class LogDirectory(Protocol):
    """The logs of one broker and the files around them.

    Whatever fails raises StorageOffline, and takes partitions offline (KIP-112).
    """

    def prepare(self, partitions: Collection[TopicPartition]) -> None:
        """These are about to be opened: what can be done for all of them at once is done."""
        ...

    def open(self, partition: TopicPartition) -> Found:
        """What is there of a partition; nothing, for one that is new."""
        ...

    def delete(self, partition: TopicPartition) -> None:
        """The partition is no longer here; its files go later."""
        ...

    def offline(self) -> Mapping[TopicPartition, str]:
        """The partitions that something failed for, or that were found damaged, and why."""
        ...

    def failure(self) -> str | None:
        """Why nothing can be stored any more; None while something can."""
        ...

    def flush(self) -> None:
        """Make all logs survive the end of the machine."""
        ...

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks down (replication-offset-checkpoint)."""
        ...

    def apply_retention(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Delete what is too old or too much, and the files whose delay is over."""
        ...

    def expire_producers(self) -> None:
        """Forget the producers that have been silent for too long."""
        ...

    def clean(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Compact what is dirtiest, if anything is."""
        ...

    def close(self, broker_epoch: int) -> None:
        """The controlled shutdown is over: leave the mark that says so, and by whom (KIP-966)."""
        ...

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch of the last process, if it left that mark; else -1."""
        ...
