"""Batches go round through a codec that others wrote, in both directions."""

from collections.abc import Sequence
from typing import Literal

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import CorruptBatch
from refimpl.storage.format.batch import (
    Record,
    batches,
    crc_matches,
    decode_keys,
    decode_records,
    encode_batch,
    read_header,
)
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.legacy import decode_messages
from refimpl.storage.format.record_library import WORTH_IT
from tests.refimpl.storage.format.independent import (
    Producer,
    legacy_read_by_others,
    legacy_written_by_others,
    read_by_others,
    written_by_others,
)

some_bytes = st.none() | st.binary(max_size=40) | st.just(b"again and again " * 5_000)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
codecs = st.sampled_from(Codec)
producers = st.builds(
    Producer,
    id=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**15 - 1),
    base_sequence=st.integers(0, 2**31 - 1),
    transactional=st.booleans(),
) | st.just(Producer())


@st.composite
def runs_of_records(draw: st.DrawFn, with_headers: bool = True) -> list[Record]:
    """Records that follow one another, as one producer sends them."""
    contents = st.tuples(
        st.integers(0, 2**41), some_bytes, some_bytes, headers if with_headers else st.just([])
    )
    drawn = draw(st.lists(contents, min_size=1, max_size=12))
    return [
        Record(offset, timestamp, key, value, tuple(named))
        for offset, (timestamp, key, value, named) in enumerate(drawn)
    ]


def ours(records: Sequence[Record], codec: Codec, producer: Producer) -> bytes:
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        transactional=producer.transactional,
        leader_epoch=0,
    )


@given(records=runs_of_records(), codec=codecs, producer=producers, base=st.integers(0, 2**62))
def test_others_read_what_we_write(
    records: list[Record], codec: Codec, producer: Producer, base: int
) -> None:
    placed = [evolve(record, offset=base + record.offset) for record in records]
    assert read_by_others(ours(placed, codec, producer)) == (placed, producer)


@given(records=runs_of_records(), codec=codecs, producer=producers)
def test_we_read_what_others_write(records: list[Record], codec: Codec, producer: Producer) -> None:
    batch = written_by_others(records, codec, producer)
    header = read_header(batch)
    assert crc_matches(batch, header)
    assert list(decode_records(batch)) == records
    assert header.codec is codec
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.is_transactional == producer.transactional
    who = header.producer_id, header.producer_epoch, header.base_sequence
    assert who == (producer.id, producer.epoch, producer.base_sequence)


@given(records=runs_of_records(), producer=producers)
def test_without_compression_both_write_the_same_bytes(
    records: list[Record], producer: Producer
) -> None:
    theirs = bytearray(written_by_others(records, Codec.NONE, producer))
    theirs[12:16] = bytes(4)  # the leader's epoch, which a producer leaves open
    assert ours(records, Codec.NONE, producer) == theirs


@given(
    records=runs_of_records(with_headers=False),
    kind=st.sampled_from([(0, Codec.NONE), (0, Codec.GZIP), (0, Codec.SNAPPY)])
    | st.sampled_from([(1, Codec.NONE), (1, Codec.GZIP), (1, Codec.SNAPPY), (1, Codec.LZ4)]),
)
def test_we_read_the_old_formats_as_others_write_them(
    records: list[Record], kind: tuple[Literal[0, 1], Codec]
) -> None:
    """All but LZ4 in v0, which others do not write: real Kafka's files speak for that."""
    magic, codec = kind
    data = legacy_written_by_others(records, magic, codec)
    read = [message for at, _ in batches(data) for message in decode_messages(data, at)]
    stamped = [evolve(one, timestamp=one.timestamp if magic else -1) for one in records]
    assert [message.record for message in read] == stamped
    assert all(message.is_valid for message in read)


@given(
    records=runs_of_records(with_headers=False),
    codec=st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4]),
    base=st.integers(1, 2**62),
)
def test_others_number_what_a_broker_has_placed_as_we_do(
    records: list[Record], codec: Codec, base: int
) -> None:
    data = bytearray(legacy_written_by_others(records, 1, codec))
    data[:8] = (base + records[-1].offset).to_bytes(8)
    ours_read = [message.record for message in decode_messages(data)]
    assert ours_read == legacy_read_by_others(bytes(data), 1)
    assert ours_read[0].offset == base


@given(
    runs_of_records(),
    codecs,
    st.booleans(),
    st.none() | st.integers(0, 2**40),
    st.none() | st.integers(0, 2**40),
)
def test_a_large_batch_is_decoded_alike_by_the_library_and_by_us(
    some: list[Record], codec: Codec, broken: bool, horizon: int | None, stamped: int | None
) -> None:
    """Large batches are handed over; names that are no UTF-8, and damage, stay ours."""
    many = [
        evolve(one, offset=n * len(some) + one.offset)
        for n in range(-(-WORTH_IT // len(some)))
        for one in some
    ]
    data = bytearray(
        encode_batch(many, codec=codec, delete_horizon_ms=horizon, append_time_ms=stamped)
    )
    if broken:
        data[-1] ^= 0x55
    results: list[object] = []
    for most in (WORTH_IT, 2**31):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("refimpl.storage.format.batch.WORTH_IT", most)
            try:
                records = list(decode_records(data))
                assert list(decode_keys(data)) == [one.key for one in records]
                results.append(records)
            except CorruptBatch as refused:
                results.append(refused.why)
    assert results[0] == results[1]
    assert broken or [one.value for one in many] == [one.value for one in decode_records(data)]
