"""Fetched record batches as a consumer reads them, decoded by aiokafka's reader in C."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from aiokafka.record.default_records import (  # pyright: ignore[reportMissingTypeStubs]
    DefaultRecordBatch,
)
from attrs import define, frozen

from refimpl.clients.consumer.records import Read, Unreadable
from refimpl.edge.clients.deserializers import Deserializer
from refimpl.errors import CorruptBatch
from refimpl.messages.broker import TopicPartition
from refimpl.storage.format.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Codec,
    crc_matches,
    decode_records,
    read_header,
)
from refimpl.storage.format.control import read_marker


class ConsumerRecord(NamedTuple):
    """A record, and where it was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()


@frozen
class FetchedBytes:
    """A record batch of format v2 in an answer."""

    partition: TopicPartition
    data: memoryview
    header: BatchHeader
    opener: "BytesOpener"

    @property
    def base_offset(self) -> int:
        """The offset of its first record."""
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        """The offset behind its last record."""
        return self.header.next_offset

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that wrote it."""
        return self.header.leader_epoch

    @property
    def producer_id(self) -> int:
        """Its producer, -1 if it has none."""
        return self.header.producer_id

    @property
    def is_transactional(self) -> bool:
        """True if a marker decides whether it counts."""
        return self.header.is_transactional

    @property
    def is_control(self) -> bool:
        """True if it is not for consumers."""
        return self.header.is_control

    @property
    def is_abort(self) -> bool:
        """True for the marker of an aborted transaction."""
        marker = read_marker(self.data) if self.header.is_control else None
        return marker is not None and not marker.committed

    def read(self, offset: int) -> Read:
        """Its records from an offset on, up to the first that cannot be read."""
        try:
            if self.header.magic != MAGIC:
                raise CorruptBatch(f"message format {self.header.magic} is older than Kafka 0.11")
            if self.opener.checks_crc and not crc_matches(self.data, self.header):
                raise CorruptBatch("the checksum of its batch does not match")
            records = self._plain() if self.header.codec is Codec.NONE else self._any()
        except Exception as error:
            return Read((), Unreadable(offset, error))
        if self.header.base_offset < offset:
            records = [one for one in records if one.offset >= offset]
        return self.opener.deserialized(records)

    def _plain(self) -> list[ConsumerRecord]:
        topic, partition = self.partition
        return [
            _new(
                ConsumerRecord,
                (
                    *(topic, partition, one.offset, one.timestamp, one.key, one.value),
                    tuple(one.headers) if one.headers else (),
                ),
            )
            for one in DefaultRecordBatch(bytes(self.data))  # pyright: ignore
        ]

    def _any(self) -> list[ConsumerRecord]:
        topic, partition = self.partition
        return [
            ConsumerRecord(
                topic, partition, one.offset, one.timestamp, one.key, one.value, one.headers
            )
            for one in decode_records(self.data)
        ]


_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@define
class BytesOpener:
    """Reads the bytes of a Fetch, and makes keys and values of them."""

    checks_crc: bool = True
    key: Deserializer | None = None
    value: Deserializer | None = None

    def batches(self, partition: TopicPartition, data: Any) -> Iterable[FetchedBytes]:
        """The whole batches; the last one may be cut off, and is fetched again."""
        return self._batches(partition, memoryview(data))

    def _batches(self, partition: TopicPartition, data: memoryview) -> Iterator[FetchedBytes]:
        at = 0
        while len(data) - at >= HEADER_SIZE:
            header = read_header(data, at)
            end = at + LOG_OVERHEAD + header.length
            if end > len(data):
                return
            yield FetchedBytes(partition, data[at:end], header, self)
            at = end

    def deserialized(self, records: list[ConsumerRecord]) -> Read:
        """Keys and values as the application wants them."""
        if self.key is None and self.value is None:
            return Read(records)
        found: list[ConsumerRecord] = []
        for one in records:
            try:
                key = one.key if self.key is None or one.key is None else self.key(one.key)
                null = self.value is None or one.value is None
                value = one.value if null else self.value(one.value)  # pyright: ignore
            except Exception as error:
                return Read(found, Unreadable(one.offset, error))
            found.append(one._replace(key=key, value=value))
        return Read(found)
