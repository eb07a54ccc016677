"""Batches: every record comes back, and what is damaged is noticed."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import (
    CorruptBatch,
    MessageTooLarge,
    RefusedBatch,
    UnsupportedForMessageFormat,
)
from refimpl.storage.format.batch import (
    CRC_FROM,
    HEADER_SIZE,
    PLACED_SIZE,
    Record,
    TimestampType,
    batches,
    crc_matches,
    decode_records,
    encode_batch,
    placed,
    read_header,
    stamped,
)
from refimpl.storage.format.compression import MOST_BYTES, Codec, compress, decompress
from refimpl.storage.format.control import (
    EndTxnMarker,
    encode_leader_change,
    encode_marker,
    read_marker,
)
from refimpl.storage.format.varint import decode_varint, encode_varint
from tests.refimpl.storage.format.bombs import BOMBS, bomb

longs = st.integers(-(2**63), 2**63 - 1)
blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)


@st.composite
def some_records(draw: st.DrawFn) -> list[Record]:
    base = draw(st.integers(0, 2**40))
    deltas = sorted(draw(st.sets(st.integers(0, 2**20), min_size=1, max_size=6)))
    stamps = st.integers(0, 2**62)
    return [
        Record(base + delta, draw(stamps), draw(blobs), draw(blobs), draw(headers))
        for delta in deltas
    ]


@given(longs)
def test_a_varint_comes_back(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(b"x" + encoded, 1) == (value, 1 + len(encoded))
    for end in range(len(encoded)):
        with pytest.raises(CorruptBatch):
            decode_varint(encoded[:end], 0)


@given(some_records(), st.sampled_from(Codec))
def test_records_come_back_from_every_codec(records: list[Record], codec: Codec) -> None:
    data = encode_batch(
        records, codec=codec, leader_epoch=5, producer_id=9, base_sequence=2**31 - 1
    )
    header = read_header(data)
    assert list(decode_records(data)) == records
    assert crc_matches(data, header)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert (header.size, header.codec, header.leader_epoch) == (len(data), codec, 5)
    assert header.last_sequence == (2**31 - 1 + header.last_offset_delta) % 2**31


@given(st.binary(max_size=200_000), st.sampled_from(Codec))
def test_bytes_come_back_from_every_codec(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data)) == data
    assert compress(codec, data) == compress(codec, data)


def test_snappy_without_the_framing_of_java_is_read_too() -> None:
    import cramjam

    raw = bytes(cramjam.snappy.compress_raw(b"librdkafka " * 50))
    assert decompress(Codec.SNAPPY, raw) == b"librdkafka " * 50


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_damaged_compressed_data_are_a_corrupt_batch(codec: Codec) -> None:
    whole = compress(codec, bytes(range(256)) * 40)
    for data in (whole[: len(whole) // 2], b"\xff" + whole[1:], b"nonsense"):
        with pytest.raises(CorruptBatch):
            decompress(codec, data)


@pytest.mark.parametrize("codec", BOMBS)
def test_a_bomb_is_refused_before_it_is_in_memory(codec: Codec) -> None:
    data = bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLarge, match="when they are decompressed"):
            decompress(codec, data)
        assert tracemalloc.get_traced_memory()[1] < 3 * MOST_BYTES
    finally:
        tracemalloc.stop()


def test_a_block_of_snappy_that_lies_about_its_size_takes_no_memory() -> None:
    with pytest.raises(MessageTooLarge):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(10))


@pytest.mark.parametrize("codec", BOMBS)
def test_what_is_just_not_too_large_is_decompressed(codec: Codec) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refimpl.storage.format.compression.MOST_BYTES", 100_000)
        patch.setattr("refimpl.storage.format.compression.MOST_TIMES", 0)
        assert len(decompress(codec, compress(codec, bytes(100_000)))) == 100_000
        with pytest.raises(MessageTooLarge, match="more than 100000 bytes"):
            decompress(codec, compress(codec, bytes(100_001)))


def test_every_flipped_bit_under_the_crc_is_noticed() -> None:
    data = bytearray(encode_batch([Record(0, 1, b"k", b"v" * 20)]))
    for bit in range(CRC_FROM * 8, len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        assert not crc_matches(data, read_header(data))
        data[bit // 8] ^= 1 << bit % 8


@given(some_records(), st.data())
def test_damaged_records_are_refused_and_never_crash_the_reader(
    records: list[Record], data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        for position, _ in batches(batch):
            list(decode_records(batch, position))
    except RefusedBatch:
        pass


def test_a_format_of_the_future_is_named() -> None:
    data = bytearray(encode_batch([Record(0, 1, None, b"v")]))
    data[16] = 3
    with pytest.raises(UnsupportedForMessageFormat, match="message format 3 is not known"):
        read_header(data)


@given(some_records(), st.integers(0, 2**40), st.integers(0, 2**20))
def test_placing_a_batch_changes_offset_and_epoch_alone(
    records: list[Record], offset: int, epoch: int
) -> None:
    data = encode_batch(records)
    moved = placed(read_header(data), offset, epoch) + data[PLACED_SIZE:]
    header = read_header(moved)
    assert (header.base_offset, header.leader_epoch) == (offset, epoch)
    assert crc_matches(moved, header)
    assert header[3:] == read_header(data)[3:]


@given(some_records(), st.integers(0, 2**50))
def test_the_broker_stamps_a_batch_without_opening_it(records: list[Record], now_ms: int) -> None:
    data = encode_batch(records, codec=Codec.LZ4)
    told = stamped(data, 0, read_header(data), 70, 3, now_ms) + data[HEADER_SIZE:]
    header = read_header(told)
    assert crc_matches(told, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in decode_records(told)} == {now_ms}
    assert [r.value for r in decode_records(told)] == [r.value for r in records]


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_comes_back(committed: bool) -> None:
    marker = EndTxnMarker(committed, 7)
    data = encode_marker(marker, producer_id=4, producer_epoch=1, timestamp=5)
    assert read_marker(data) == marker
    assert read_header(data).is_control
    assert read_header(data).is_transactional


def test_a_leader_change_is_no_transaction_marker() -> None:
    data = encode_leader_change(1, [1, 2, 3], [1, 3], timestamp=5, epoch=9, offset=40)
    assert read_marker(data) is None
    assert read_header(data).leader_epoch == 9
    (record,) = decode_records(data)
    voters = b"\4" + b"".join(bytes((0, 0, 0, id, 0)) for id in (1, 2, 3))
    granting = b"\3" + b"".join(bytes((0, 0, 0, id, 0)) for id in (1, 3))
    assert (record.key, record.value) == (
        bytes((0, 0, 0, 2)),
        bytes((0, 0, 0, 0, 0, 1)) + voters + granting + b"\0",
    )


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0"])
def test_a_marker_without_its_coordinators_epoch_is_damage(value: bytes | None) -> None:
    record = Record(0, 5, bytes((0, 0, 0, 1)), value)
    data = encode_batch([record], producer_id=4, producer_epoch=1, transactional=True, control=True)
    with pytest.raises(CorruptBatch, match="without version and coordinator epoch"):
        read_marker(data)


def test_a_delete_horizon_stands_in_for_the_base_timestamp() -> None:
    records = [Record(3, 50, b"k", None), Record(9, 60, b"l", b"v")]
    data = encode_batch(records, base_offset=0, last_offset=11, delete_horizon_ms=1_000)
    header = read_header(data)
    assert (header.delete_horizon_ms, header.base_offset, header.last_offset) == (1_000, 0, 11)
    assert list(decode_records(data)) == records
