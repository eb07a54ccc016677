"""The interfaces of a log directory and its logs, as a node uses them."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from refimpl.machines.producer_state import ProducerState
from refimpl.machines.replica_log import Batch, Records, ReplicaLog
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.transactional import Entry
from refimpl.storage.config import LogConfig
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.replica.transactional import TransactionalBatch, Writer


class BrokerLog(ReplicaLog, Protocol):
    """A replica's log, with the operations that clients need.

    Sizes are in bytes, or in the unit of a log in memory.
    """

    def configure(self, config: LogConfig) -> None:
        """Apply changed configurations of the topic or the broker."""
        ...

    @property
    def deletes(self) -> bool:
        """True if records may be deleted: cleanup.policy has "delete"."""
        ...

    @property
    def producers(self) -> ProducerState:
        """The state of idempotent and transactional producers."""
        ...

    @property
    def size(self) -> int:
        """The size of all that is kept, including segments that begin before the log start."""
        ...

    def size_of(self, records: Records) -> int:
        """The size of records that were read."""
        ...

    def size_between(self, start: int, end: int) -> int:
        """The size of the batches from the one that holds `start` on, below `end`."""
        ...

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction is decided, at this high watermark (KIP-98)."""
        ...

    def aborted_transactions(self, start: int, up_to: int) -> Sequence[AbortedTxn]:
        """The aborted transactions that a read_committed reader must leave out of this range."""
        ...

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with this timestamp or a later one (KIP-79)."""
        ...

    def newest_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the newest record; of the first one, if several are equally
        new.
        """
        ...

    def keyed_batch(
        self, records: Sequence[CoordinatorRecord], now_ms: int, writer: Writer | None = None
    ) -> Batch:
        """One batch of a coordinator's records, within the transaction of this producer."""
        ...

    def marker_batch(self, writer: Writer, marker: EndTxnMarker, now_ms: int) -> Batch:
        """The batch that ends a producer's transaction here."""
        ...

    def transactional(self, batch: Batch) -> TransactionalBatch | None:
        """The producer of a batch, if it is of a transaction."""
        ...

    def keyed_records(
        self, start: int, records: Records, committed: int = 0
    ) -> tuple[Sequence[tuple[int, Entry]], int]:
        """A coordinator's records that `slice` read from `start` on, and the ends of transactions,
        with their offsets; and the next offset.

        Records of unknown types are left out, and values that a later record below `committed`
        replaces may be.
        """
        ...

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at this offset, -1 for none."""
        ...


class Found(NamedTuple):
    """A partition as found at a start: its log, its checkpointed high watermark, and its topic's
    id.

    The id is empty if it is not known.
    """

    log: BrokerLog
    high_watermark: int
    topic_id: bytes = b""


class Future(NamedTuple):
    """The log of a partition in the directory that it moves to, and the number of that."""

    log: BrokerLog
    directory: int


class LogDirectory(Protocol):
    """The logs of one broker and the files around them.

    Every failure raises StorageOffline, and takes partitions offline (KIP-112).
    """

    def directory_of(self, partition: TopicPartition) -> int:
        """The number of the directory that has the partition's log, in the order of `log.dirs`."""
        ...

    def offline_directories(self) -> Collection[int]:
        """The numbers of the directories that have failed."""
        ...

    def prepare(self, partitions: Collection[TopicPartition]) -> None:
        """Prepare partitions that are about to be opened, all at once."""
        ...

    def open(self, partition: TopicPartition) -> Found:
        """The log of a partition; an empty one for a new partition."""
        ...

    def told(self) -> None:
        """All partitions are opened that were there before this process; later ones are new."""
        ...

    def begin_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Begin these leader epochs at the ends of the logs, all at once."""
        ...

    def write_epochs(self) -> None:
        """Write the epochs that followers have taken, all at once, before they ask for more."""
        ...

    def delete(self, partition: TopicPartition) -> None:
        """Delete a partition; its files go later."""
        ...

    # Moves between directories (KIP-113)

    def futures(self) -> Mapping[TopicPartition, Future]:
        """The partitions that move to another directory, one that has not failed."""
        ...

    def move(self, partition: TopicPartition, directory: int) -> Future:
        """Begin to move a partition: an empty log in that directory, which is to be filled."""
        ...

    def stop_moving(self, partition: TopicPartition) -> None:
        """Let the partition stay where it is; what was copied is deleted."""
        ...

    def replace(self, partition: TopicPartition, high_watermark: int) -> BrokerLog:
        """Let the future log, which has all that the current one has, be the partition's only
        log.
        """
        ...

    def prefer(self, partition: TopicPartition, directory: int) -> None:
        """Put the partition into this directory, once it is created here."""
        ...

    def offline(self) -> Mapping[TopicPartition, str]:
        """The partitions whose storage failed, or that are damaged, with the reason."""
        ...

    def failure(self) -> str | None:
        """The failure that makes all storage unusable; None if there is none."""
        ...

    def flush(self) -> None:
        """Flush all logs, so that they survive a crash of the machine."""
        ...

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks to replication-offset-checkpoint."""
        ...

    def apply_retention(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Delete records that exceed retention, and files whose delete delay is over."""
        ...

    def expire_producers(self) -> None:
        """Remove producers that have been silent for too long."""
        ...

    def clean(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Compact the dirtiest log, if any needs it."""
        ...

    def close(self, broker_epoch: int) -> None:
        """Leave the clean shutdown mark with this broker epoch, after a controlled shutdown
        (KIP-966).
        """
        ...

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch in the last process's clean shutdown mark; -1 without one."""
        ...


class OneDirectory:
    """A log directory beside which there is no other: nothing moves."""

    def futures(self) -> Mapping[TopicPartition, Future]:
        """None."""
        return {}

    def move(self, partition: TopicPartition, directory: int) -> Future:
        """There is nowhere to go."""
        raise AssertionError(f"{partition} cannot move to directory {directory}")

    def stop_moving(self, partition: TopicPartition) -> None:
        """Nothing moves."""

    def replace(self, partition: TopicPartition, high_watermark: int) -> BrokerLog:
        """Nothing has moved."""
        raise AssertionError(f"{partition} has not moved")

    def prefer(self, partition: TopicPartition, directory: int) -> None:
        """There is no choice."""
