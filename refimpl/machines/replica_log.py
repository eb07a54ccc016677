"""The log interface of a replica, and the convention by which every log answers for its epochs.

Two logs keep it: `refimpl.machines.log.Log`, a list in memory, and Kafka's files, by
`refimpl.storage.replica.files`. docs/replica-log.md has the convention edge by edge, each beside
the line of Kafka that decides it.

Spec: `log`, EndOf, EpochAtOrBelow, EpochStart in Truncation. KIP-101, KIP-279, KIP-320, KIP-595.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from attrs import frozen

UNDEFINED_EPOCH = UNDEFINED_EPOCH_OFFSET = -1

#: What travels between producers, leaders and followers. Only the log that made it looks into it:
#: a value and a sequence of `Record` in memory, bytes of record batches on disk.
Batch: TypeAlias = Any
Records: TypeAlias = Any


class Origin(Enum):
    """The origin of an append, which decides how much a log checks: Kafka's AppendOrigin."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class Guard:
    """One verification of a producer's transaction by its coordinator; equal to no other (KIP-890).

    A log takes the first write of a transaction only with the guard that it made for it.
    """


@frozen(slots=True)
class Record:
    """A record as replication sees it.

    Offset and epoch name it, for an epoch has one leader, which only appends.
    """

    epoch: int
    value: object


class Appended(NamedTuple):
    """The offsets of a producer's records; of a repeated batch, those of the first time.

    `append_time_ms` is -1 where the producer stamped them.
    """

    first_offset: int
    last_offset: int
    append_time_ms: int = -1
    duplicate: bool = False


class EpochEnd(NamedTuple):
    """The answer to OffsetForLeaderEpoch: an epoch, and the offset behind its last record."""

    epoch: int
    end: int


UNDEFINED = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


class ReplicaLog(Protocol):
    """The log of one replica of one partition.

    Epochs are Kafka's: from 0 on, -1 for none. An epoch is in the log from its first record on; at
    its leader already from the moment of its assignment. It is there until its last record, or the
    assignment without one, is truncated or deleted.
    """

    @property
    def start(self) -> int:
        """The log start offset: that of the first record that was not deleted."""
        ...

    @property
    def end(self) -> int:
        """The log end offset: that of the next record."""
        ...

    @property
    def latest_epoch(self) -> int:
        """The newest epoch in the log, -1 for none."""
        ...

    @property
    def records(self) -> Sequence[Record]:
        """The records from `start` on, one per offset; for inspection, not for serving."""
        ...

    def append(
        self,
        epoch: int,
        batch: Batch,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> Appended:
        """Append a batch of a client or of a coordinator, as the leader of this epoch.

        A batch that the log has already, from the same producer, changes nothing. A batch with a
        gap before it, or of a producer epoch that has passed, is refused (KIP-98). Only a
        coordinator appends control records. The transaction version of a marker decides whether its
        epoch must be a new one (KIP-1228). The first write of a transaction needs its guard.
        """
        ...

    def extend(self, records: Records) -> None:
        """Append a leader's answer, with its epochs, as a follower.

        An epoch that was assigned at the end, and that no record bears, gives way.
        """
        ...

    def slice(self, start: int, limit: int, up_to: int | None = None) -> Records:
        """Records from `start` on, below `up_to` or the end, as many as the limit allows.

        The limit counts records or bytes; the first batch is always there, if the limit is not 0.
        Raises OffsetOutOfRange if `start` is outside of the log.
        """
        ...

    def assign_epoch(self, epoch: int) -> None:
        """Begin this replica's leader epoch at the log end offset."""
        ...

    def end_of(self, epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch: the largest epoch in the log that is not above this one, and its
        end offset.

        The end of the latest epoch is the log end offset. Below the first epoch the answer is the
        epoch asked for, and the start of the first one: nothing is known of deleted records. Above
        the latest epoch, and for a log without epochs, it is UNDEFINED.
        """
        ...

    def start_of(self, epoch: int) -> int:
        """The start offset of this epoch, or of the next one in the log; else the log end
        offset.
        """
        ...

    def truncate_to(self, end: int) -> None:
        """Truncate the log to this end offset, or before it if a batch would be split.

        A shorter log keeps its records. Epochs that start at the end or behind it go in any case.
        """
        ...

    def advance_start(self, start: int) -> None:
        """DeleteRecords (KIP-107): delete all records below this offset.

        The caller promises that it is not above the high watermark. The log never starts earlier
        again; the epoch that spans the new start begins there.
        """
        ...

    def restart_at(self, offset: int) -> None:
        """Delete everything, and go on at this offset: the leader's log starts behind our end."""
        ...
