"""The records of a fetch, batch by batch: without control records, and without what was aborted.

KIP-98: with read_committed a broker names the aborted transactions of what it sends, and the batch
of such a producer counts again from the marker that ends its transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from attrs import define, field

from refimpl.clients.consumer.position import NONE, OffsetAndEpoch
from refimpl.messages.broker import TopicPartition
from refimpl.storage.format.txn_index import AbortedTxn


class FetchedBatch(Protocol):
    """One batch, as the host reads it."""

    @property
    def base_offset(self) -> int:
        """The offset of its first record."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset behind its last record, which may be compacted away."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that wrote it."""
        ...

    @property
    def producer_id(self) -> int:
        """Its producer, -1 if it has none."""
        ...

    @property
    def is_transactional(self) -> bool:
        """True if a marker decides whether it counts."""
        ...

    @property
    def is_control(self) -> bool:
        """True if it is not for consumers."""
        ...

    @property
    def is_abort(self) -> bool:
        """True for the marker of an aborted transaction."""
        ...

    def read(self, offset: int) -> "Read":
        """Its records from an offset on."""
        ...


class Read(NamedTuple):
    """Records in order, each with its `offset`; and why the one behind them cannot be read."""

    records: Sequence[Any]
    error: "Unreadable | None" = None


class Unreadable(NamedTuple):
    """A record that a deserializer refuses, or a batch that is corrupt."""

    offset: int
    error: Exception


class Opener(Protocol):
    """Reads what a broker has sent, in the host's form."""

    def batches(self, partition: TopicPartition, data: Any) -> Iterable[FetchedBatch]:
        """The batches, the first of which may begin before the offset that was asked for."""
        ...


@define(eq=False)
class Fetched:
    """The records that one fetch has brought of a partition, and how much of it was returned."""

    position: OffsetAndEpoch
    batches: Iterator[FetchedBatch]
    #: None unless only what is committed counts
    aborted: list[AbortedTxn] | None = None
    #: Why the next record cannot be returned
    unreadable: Unreadable | None = field(default=None, init=False)
    is_empty: bool = field(default=False, init=False)
    _aborting: set[int] = field(factory=set[int], init=False)
    _batch: FetchedBatch | None = field(default=None, init=False)
    _records: Sequence[Any] = field(default=(), init=False)
    _at: int = field(default=0, init=False)

    def take(self, most: int) -> list[Any]:
        """The next records; none at all if the next one cannot be read."""
        taken: list[Any] = []
        while len(taken) < most and not self.is_empty:
            if self._at == len(self._records) and not self._open():
                break
            part = self._records[self._at : self._at + most - len(taken)]
            self._at += len(part)
            taken += part
            self._pass(part)
        if self._at == len(self._records) and not self.unreadable:
            self._open()
        return taken

    def _pass(self, part: Sequence[Any]) -> None:
        batch = self._batch
        assert batch is not None
        if self._at == len(self._records) and self.unreadable is None:
            self.position = OffsetAndEpoch(batch.next_offset, batch.leader_epoch)
        elif part:
            self.position = OffsetAndEpoch(part[-1].offset + 1, batch.leader_epoch)

    def _open(self) -> bool:
        """Go on with the next batch that has records; False if there is none that can be read."""
        if self.unreadable is not None:
            return False
        for batch in self.batches:
            if batch.next_offset <= self.position.offset:
                continue
            if not self._counts(batch):
                self.position = OffsetAndEpoch(batch.next_offset, batch.leader_epoch)
                continue
            read = batch.read(self.position.offset)
            self._batch, self._records, self._at = batch, read.records, 0
            self.unreadable = read.error
            if read.records:
                return True
            if read.error is not None:
                return False
            self.position = OffsetAndEpoch(batch.next_offset, batch.leader_epoch)
        self.is_empty = True
        return False

    def _counts(self, batch: FetchedBatch) -> bool:
        """True if the application gets its records."""
        if self.aborted is None or batch.producer_id == NONE:
            return not batch.is_control
        while self.aborted and self.aborted[0].first_offset < batch.next_offset:
            self._aborting.add(self.aborted.pop(0).producer_id)
        if batch.is_control:
            if batch.is_abort:
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)
