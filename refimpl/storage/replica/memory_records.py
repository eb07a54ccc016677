"""Record batches on their way from one log to another: bytes, which are opened by who looks.

Kafka's MemoryRecords. A broker passes them on as they are; whoever looks reads them as the sequence
of their records.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from attrs import define, field

from refimpl.machines.replica_log import Record
from refimpl.storage.format.batch import HEADER_SIZE, BatchHeader, decode_records, read_header

Opened = Iterable[tuple[int, Record]]
"""Records, each with its offset."""

Decode = Callable[[BatchHeader, bytes | None], object]
"""What a record's value stands for, by its batch's header and its bytes."""


def the_bytes(header: BatchHeader, value: bytes | None) -> object:
    """A value is its bytes."""
    return value


def opened_by(decode: Decode) -> Callable[[bytes], Opened]:
    """How batches are opened whose values stand for something."""

    def open_all(data: bytes) -> Opened:
        for header, batch in whole(data):
            for record in decode_records(batch):
                yield record.offset, Record(header.leader_epoch, decode(header, record.value))

    return open_all


#: How batches are opened whose values are bytes
as_bytes = opened_by(the_bytes)


@define(eq=False)
class MemoryRecords(Sequence[Record]):
    """Whole batches of format v2, the last one possibly cut off (KIP-74), from an offset on."""

    data: bytes
    start: int = 0
    open: Callable[[bytes], Opened] = as_bytes
    _records: tuple[Record, ...] | None = field(default=None, init=False)

    def __bool__(self) -> bool:
        """Whether there is anything at all, which costs nothing to know."""
        return bool(self.data)

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._opened())

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        """One record, or some of them."""
        return self._opened()[index]

    def __iter__(self) -> Iterator[Record]:
        """Each record, in order."""
        return iter(self._opened())

    def _opened(self) -> tuple[Record, ...]:
        if self._records is None:
            self._records = tuple(
                [record for offset, record in self.open(self.data) if offset >= self.start]
            )
        return self._records


def whole(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Header and bytes of each whole batch."""
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = read_header(data, position)
        end = position + header.size
        if end > len(data):
            return
        yield header, data[position:end]
        position = end
