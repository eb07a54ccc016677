"""The checks of batches from a producer and from a leader.

KIP-32 and KIP-937 (timestamps), KIP-74, KIP-98, KIP-724 (old formats are read and no longer
written), KAFKA-18723. Every check reads only the 61 bytes of the header and the CRC, except for
keys where a topic is compacted, and the codec's data. Kafka opens each batch and checks every
record. Here a batch whose header does not match its records is found by its reader.
"""

from refimpl.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidRecords,
    InvalidTimestamp,
    MessageTooLarge,
    UnexpectedOffset,
    UnreadableBatch,
    UnsupportedForMessageFormat,
)
from refimpl.machines.replica_log import Origin
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    batches,
    converted,
    crc_matches,
    decode_keys,
    decode_records,
    read_header,
)
from refimpl.storage.format.compression import Codec, decompress

Found = list[tuple[int, BatchHeader]]

MOST_NAMED = 10_000
"""The number of refused records of a batch that are named in an answer. A client may send many
more, compressed to next to nothing, and must not get a larger answer.
"""


def from_producer(data: Buffer, config: LogConfig, origin: Origin, now_ms: int) -> Found:
    """The batches of a producer or a coordinator; all of them are acceptable, or all are
    refused.
    """
    found = list(batches(data))
    if not found:
        raise InvalidRecord("no batch at all")
    if len(found) > 1 and any(header.producer_id != NO_PRODUCER for _, header in found):
        raise InvalidRecord(f"{len(found)} batches, where an idempotent producer sends one")
    stamped_by_producer = config.message_timestamp_type is TimestampType.CREATE_TIME
    for position, header in found:
        if header.magic != MAGIC:
            raise UnsupportedForMessageFormat(f"format {header.magic} is not written any more")
        _check_size(header, config)
        if not crc_matches(data, header, position):
            raise CorruptBatch(f"the CRC of the batch at byte {position} does not match")
        _check_claims(header, origin)
        if stamped_by_producer:
            _check_clock(data, position, header, config, now_ms)
        if origin is Origin.CLIENT:
            if config.compacts:
                _check_keys(data, position)
            elif header.codec is not Codec.NONE:
                _check_codec(data, position, header)
    return found


def with_codec(data: Buffer, found: Found, codec: Codec, config: LogConfig) -> tuple[Buffer, Found]:
    """The same batches with their records in the topic's `compression.type`.

    A batch that the other codec makes larger than `max.message.bytes` is refused.
    """
    if all(header.codec is codec for _, header in found):
        return data, found
    parts: list[Buffer] = []
    for position, header in found:
        same = header.codec is codec
        whole = memoryview(data)[position : position + header.size]
        parts.append(whole if same else converted(data, position, header, codec))
    data = b"".join(parts)
    found = list(batches(data))
    for _, header in found:
        _check_size(header, config)
    return data, found


def from_leader(data: Buffer, next_offset: int, leader_epoch: int, *, empty: bool = False) -> Found:
    """The batches of a fetch that continue the log.

    The last one may be cut off, and comes again. So do batches of a newer leader than the one that
    we asked: they may not fit behind our log (KAFKA-18723). An empty log may start inside of a
    batch, because records are deleted up to any offset; then that batch comes whole.
    """
    found: Found = []
    position, expected = 0, next_offset
    while len(data) - position > LOG_OVERHEAD:
        length = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD], signed=True)
        if length > len(data) - position - LOG_OVERHEAD:
            break
        header = read_header(data, position)
        if header.leader_epoch > leader_epoch:
            break
        if not crc_matches(data, header, position):
            raise CorruptBatch(f"the CRC of the batch at byte {position} does not match")
        holds = empty and not found and header.next_offset > expected
        if header.base_offset < expected and not holds:
            raise UnexpectedOffset(f"offset {header.base_offset}, where {expected} must follow")
        if header.last_offset_delta < 0:
            raise CorruptBatch(f"a last offset before the first, at byte {position}")
        found.append((position, header))
        position += header.size
        expected = header.next_offset
    return found


def _check_size(header: BatchHeader, config: LogConfig) -> None:
    if header.size > config.max_message_bytes:
        raise MessageTooLarge(f"{header.size} bytes, above {config.max_message_bytes}")


def _check_claims(header: BatchHeader, origin: Origin) -> None:
    attributes = header.attributes
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if attributes & 0x07 > 4:
        raise UnreadableBatch(f"codec {attributes & 0x07} is not known")
    if origin is Origin.CLIENT:
        if header.producer_id != NO_PRODUCER and header.base_sequence < 0:
            raise InvalidRecord(f"sequence {header.base_sequence} of an idempotent producer")
        if header.is_control:
            raise InvalidRecord("clients do not write control records")
        if header.base_offset != 0:
            raise InvalidRecord(f"base offset {header.base_offset}, which only leaders assign")
        if header.is_transactional and header.producer_id == NO_PRODUCER:
            raise InvalidRecord("a transactional batch without producer id")
    if header.delete_horizon_ms is not None:
        raise InvalidRecord("a delete horizon, which only compaction sets")


def _check_keys(data: Buffer, position: int) -> None:
    """Refuse records without a key, because compaction keeps the newest value of each key."""
    without, why = 0, "a compacted topic takes no record without a key"
    named: list[tuple[int, str]] = []
    for number, key in enumerate(decode_keys(data, position)):
        if key is None:
            without += 1
            if without <= MOST_NAMED:
                named.append((number, why))
    if without:
        raise InvalidRecords(f"{why}, and {without} have none", tuple(named))


def _check_codec(data: Buffer, position: int, header: BatchHeader) -> None:
    """Refuse a batch whose data are not those of its codec: no consumer would get past it.

    One that would be larger than any batch may be is left for its reader.
    """
    payload = memoryview(data)[position + HEADER_SIZE : position + header.size]
    try:
        decompress(header.codec, payload)
    except MessageTooLarge:
        return
    except CorruptBatch as corrupt:
        raise UnreadableBatch(corrupt.why) from None


def _check_clock(
    data: Buffer, position: int, header: BatchHeader, config: LogConfig, now_ms: int
) -> None:
    """Refuse a batch with a record out of range, and name the records (KIP-467).

    The header has the newest timestamp, but not the oldest: where a record can be too old, all are
    read.
    """
    first = now_ms - config.message_timestamp_before_max_ms
    last = now_ms + config.message_timestamp_after_max_ms
    stamps = header.base_timestamp, header.max_timestamp
    fits = all(one == NO_TIMESTAMP or first <= one <= last for one in stamps)
    if fits and first <= 0:
        return
    refused: list[tuple[int, str]] = []
    try:
        for number, record in enumerate(decode_records(data, position)):
            stamp = record.timestamp
            if stamp != NO_TIMESTAMP and not first <= stamp <= last and len(refused) < MOST_NAMED:
                refused.append(
                    (
                        number,
                        f"Timestamp {stamp} of message with offset {record.offset} is out of "
                        f"range. The timestamp should be within [{first}, {last}]",
                    )
                )
    except CorruptBatch as corrupt:
        raise UnreadableBatch(corrupt.why) from None
    if fits and not refused:
        return
    why = "One or more records have been rejected due to invalid timestamp"
    raise InvalidTimestamp(why, tuple(refused))
