"""Record batches of a producer as bytes, made by aiokafka's writer in C."""

from collections.abc import Sequence
from typing import Any

from aiokafka.record.default_records import (  # pyright: ignore[reportMissingTypeStubs]
    DefaultRecordBatchBuilder,
)
from attrs import define, field

from refimpl.clients.producer.batch import Headers
from refimpl.storage.format.batch import (
    HEADER_SIZE,
    Codec,
    converted,
    decode_records,
    read_header,
)

#: A record's own head: its length, attributes, timestamp, offset and number of headers
_OVERHEAD = 21
_NOTHING: Headers = ()
#: The writer wants a list, and does not change it
_NO_HEADERS: list[tuple[str, bytes | None]] = []


@define(eq=False)
class BytesBatch:
    """The bytes of one batch, in the codec of the producer."""

    limit: int
    codec: Codec
    is_transactional: bool = False
    count: int = 0
    #: Of the whole batch, before it is compressed
    size: int = HEADER_SIZE
    _writer: Any = field(init=False)
    _records: bytes | None = field(default=None, init=False)
    _built: tuple[tuple[int, int, int], bytes] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without a producer, which is known when the batch is sent."""
        self._writer = DefaultRecordBatchBuilder(
            2, 0, int(self.is_transactional), -1, -1, -1, self.limit
        )

    @property
    def largest(self) -> int:
        """The most that a batch of its largest record alone can take."""
        return max(bound(one.key, one.value, one.headers) for one in self._opened())

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> bool:
        """Take one more record, if there is room."""
        written = self._writer.append(
            self.count, timestamp, key, value, [*headers] if headers else _NO_HEADERS
        )
        if written is None:
            return False
        self.count += 1
        self.size += written.size
        return True

    def build(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        """The batch under this producer's identity; the records are written once."""
        identity = producer_id, epoch, sequence
        if self._built is None or self._built[0] != identity:
            self._writer.set_producer_state(*identity)
            data = bytes(self._writer.build())
            if self.codec is not Codec.NONE:
                data = converted(data, 0, read_header(data), self.codec)
            self._built = identity, data
        return self._built[1]

    def split(self, limit: int) -> Sequence["BytesBatch"]:
        """The same records in smaller batches."""
        parts: list[BytesBatch] = []
        for record in self._opened():
            content = record.timestamp, record.key, record.value, record.headers
            if not parts or not parts[-1].append(*content):
                room = max(limit, bound(record.key, record.value, record.headers))
                parts.append(BytesBatch(room, self.codec, self.is_transactional))
                parts[-1].append(*content)
        return parts

    def _opened(self) -> Sequence[Any]:
        if self._built is None:
            self.build(-1, -1, -1)
        assert self._built is not None
        return [*decode_records(self._built[1])]


@define
class BytesBatches:
    """Makes batches in one codec."""

    codec: Codec = Codec.NONE
    is_transactional: bool = False

    def new(self, limit: int) -> BytesBatch:
        """An empty batch."""
        return BytesBatch(limit, self.codec, self.is_transactional)

    def bound(self, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """The most that a batch of this record alone can take."""
        return bound(key, value, headers)


def bound(key: bytes | None, value: bytes | None, headers: Headers = _NOTHING) -> int:
    """Kafka's upper bound of the size of a batch with one record."""
    size = HEADER_SIZE + _OVERHEAD + _sized(key) + _sized(value) + _varint(len(headers))
    for name, content in headers:
        size += _sized(name.encode()) + _sized(content)
    return size


def _sized(data: bytes | None) -> int:
    return 1 if data is None else _varint(len(data)) + len(data)


def _varint(number: int) -> int:
    """The size of a number as a signed varint."""
    return max(1, -(-(number * 2).bit_length() // 7))
