"""Record batches on their way from one log to another: bytes, which the reader opens.

Kafka's MemoryRecords. A broker passes them on as they are; a reader sees the sequence of their
records.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from attrs import define, field

from refimpl.machines.replica_log import Record
from refimpl.storage.format.batch import HEADER_SIZE, BatchHeader, decode_records, read_header

Opened = Iterable[tuple[int, Record]]
"""Records, each with its offset."""

Decode = Callable[[BatchHeader, bytes | None], object]
"""A record's value, from its batch's header and its bytes."""


def the_bytes(header: BatchHeader, value: bytes | None) -> object:
    """The value as bytes."""
    return value


def opened_by(decode: Decode) -> Callable[[bytes], Opened]:
    """A function that opens batches whose values are encoded."""

    def open_all(data: bytes) -> Opened:
        for header, batch in whole(data):
            for record in decode_records(batch):
                yield record.offset, Record(header.leader_epoch, decode(header, record.value))

    return open_all


#: Opens batches whose values are bytes
as_bytes = opened_by(the_bytes)


@define(eq=False)
class MemoryRecords(Sequence[Record]):
    """Whole batches of format v2, the last one possibly cut off (KIP-74), from an offset on."""

    data: bytes
    start: int = 0
    open: Callable[[bytes], Opened] = as_bytes
    _records: tuple[Record, ...] | None = field(default=None, init=False)

    def __bool__(self) -> bool:
        """True if there are any bytes, which costs nothing to know."""
        return bool(self.data)

    def __len__(self) -> int:
        """The number of records."""
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
