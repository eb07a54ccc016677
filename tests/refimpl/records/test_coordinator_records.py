"""Records of the coordinators: both ways, every version, and where a group lives."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.dump.schema_json import as_json
from refimpl.errors import CorruptBatch
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordType,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
    UnknownRecordType,
    partition_for,
    read_record,
    usual_offset,
    write_record,
)
from refimpl.records.schema import Field, Number, RecordReader, Sized, Uuid, fields_of, write
from refimpl.records.schema import read as read_message

KINDS = [
    pytest.param(kinds, kind, id=f"{kind.value.__name__}-{kind.number}")
    for kinds in (GROUP_RECORDS, TRANSACTION_RECORDS)
    for kind in kinds.values()
]

# Each kind of record has its own examples.
A_THIRD = settings(max_examples=settings().max_examples // 3)


def values(field: Field, version: int) -> st.SearchStrategy[object]:
    """Everything that a field can say."""
    match field.kind:
        case Number(packing) if packing.format == ">16s":
            one = st.binary(min_size=16, max_size=16)
        case Number(packing) if packing.format == ">?":
            one = st.booleans()
        case Number(packing):
            signed = packing.format[-1].islower()
            least = -(2 ** (8 * packing.size - 1)) if signed else 0
            one = st.integers(least, least + 2 ** (8 * packing.size) - 1)
        case Sized(length, _, _):
            one = st.text(max_size=5) if length.packing.size == 2 else st.binary(max_size=200)
        case schema:
            one = messages(schema, version)
    many = st.lists(one, max_size=3).map(tuple) if field.is_array else one
    return st.none() | many if field.nullable else many


@st.composite
def messages(draw: st.DrawFn, schema: type[object], version: int) -> object:
    """Every message that this version of a schema can say."""
    there = [f for f in fields_of(schema) if f.versions.first <= version <= f.versions.last]
    return schema(**{field.name: draw(values(field, version)) for field in there})


@st.composite
def records(draw: st.DrawFn, kind: RecordType) -> CoordinatorRecord:
    """Every record of a type, deletions among them."""
    version = draw(st.integers(0, kind.newest))
    content = draw(st.none() | messages(kind.value, version))
    key = draw(messages(kind.key, 0))
    return CoordinatorRecord(kind, key, content, version if content is not None else 0)


@pytest.mark.parametrize(("kinds", "kind"), KINDS)
@given(data=st.data())
@A_THIRD
def test_what_is_written_is_read(
    kinds: dict[int, RecordType], kind: RecordType, data: st.DataObject
) -> None:
    record = data.draw(records(kind))
    key, value = write_record(record)
    assert read_record(kinds, key, value) == record


@pytest.mark.parametrize(("kinds", "kind"), KINDS)
@given(data=st.data())
@A_THIRD
def test_a_cut_value_is_refused_and_never_half_read(
    kinds: dict[int, RecordType], kind: RecordType, data: st.DataObject
) -> None:
    record = data.draw(records(kind).filter(lambda one: one.value is not None))
    key, value = write_record(record)
    assert value is not None
    shorter = value[: data.draw(st.integers(0, len(value) - 1))]
    with pytest.raises(CorruptBatch):
        read_record(kinds, key, shorter)


def test_the_bytes_are_those_of_kafka() -> None:
    """KIP-848 brokers write version 4 of a commit only where the topic's id is known."""
    commit = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    kind = GROUP_RECORDS[1]
    key, value = write_record(CoordinatorRecord(kind, OffsetCommitKey("g", "t", 3), commit, 3))
    assert key == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\3"
    assert value == b"\0\3" + (5).to_bytes(8) + b"\0\0\0\2" + b"\0\1m" + (9).to_bytes(8)
    topic = OffsetCommitValue(offset=5, metadata="", commit_timestamp=9, topic_id=Uuid(b"i" * 16))
    _, value = write_record(CoordinatorRecord(kind, OffsetCommitKey("g", "t", 3), topic, 4))
    flexible = b"\0\4" + (5).to_bytes(8) + b"\xff" * 4 + b"\1" + (9).to_bytes(8)
    assert value == flexible + b"\1" + b"\0\x10" + b"i" * 16


def test_json_names_and_order_are_those_of_the_tool() -> None:
    partitions = (TransactionPartitions("t", (0, 2)),)
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=4,
        client_transaction_version=2,
    )
    assert list(as_json(value, 1).items()) == [
        ("producerId", 7),
        ("producerEpoch", 1),
        ("transactionTimeoutMs", 60_000),
        ("transactionStatus", 1),
        ("transactionPartitions", [{"topic": "t", "partitionIds": [0, 2]}]),
        ("transactionLastUpdateTimestampMs", 5),
        ("transactionStartTimestampMs", 4),
        ("clientTransactionVersion", 2),
    ]
    assert "clientTransactionVersion" not in as_json(value, 0)


def test_a_type_of_the_future_is_refused_by_its_number() -> None:
    key, value = write_record(CoordinatorRecord(TRANSACTION_RECORDS[0], TransactionLogKey("t")))
    assert value is None
    with pytest.raises(UnknownRecordType, match="99"):
        read_record(TRANSACTION_RECORDS, b"\x00\x63" + key[2:], None)


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("", 0),
        ("test", 48),  # "test".hashCode() == 3556498
        ("größe", 7),
        ("\U0001f600", 49),  # two units: 0xD83D, 0xDE00
        ("polygenelubricants", 0),  # the smallest int, which has no absolute value
    ],
)
def test_a_group_lives_where_javas_hash_puts_it(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition


OFFSETS = GROUP_RECORDS[1]
#: The same type under another number: its records are read field by field, as all others are.
FIELD_BY_FIELD = {**GROUP_RECORDS}


def what_comes_of(kinds: Mapping[int, RecordType], key: bytes, value: bytes) -> object:
    try:
        return read_record(kinds, key, value)
    except CorruptBatch as broken:
        return str(broken)


@given(records(OFFSETS), st.data())
def test_a_committed_offset_is_read_at_once_as_it_is_field_by_field(
    record: CoordinatorRecord, data: st.DataObject
) -> None:
    """Whole, cut off, longer, or with a byte that another one took the place of."""
    key, value = write_record(record)
    parts = [key, value or b""]
    which = data.draw(st.integers(0, 1))
    at = data.draw(st.integers(0, len(parts[which])))
    change = data.draw(st.binary(max_size=2))
    cut = data.draw(st.sampled_from((at, at + 1, at + len(change), len(parts[which]))))
    parts[which] = parts[which][:at] + change + parts[which][cut:]
    for one, two in ((key, value or b""), (parts[0], parts[1])):
        assert what_comes_of(GROUP_RECORDS, one, two) == what_comes_of(FIELD_BY_FIELD, one, two)


def test_what_brokers_write_today_is_read_at_once() -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=1, topic_id=Uuid(b"t" * 16))
    record = CoordinatorRecord(OFFSETS, OffsetCommitKey("g", "t", 3), value, 4)
    key, content = write_record(record)
    assert usual_offset(key, content or b"") == record


def test_a_field_of_our_own_that_is_cut_off_is_one_that_kafka_cannot_skip() -> None:
    """DumpLogSegments names its size, for it skips bytes; a number of Kafka's own it would read."""
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
        last_producer_epoch=3,
    )
    data = write(value, 1, flexible=True)
    read = RecordReader(data[:-1])
    with pytest.raises(CorruptBatch, match=r"byte array of 2 byte\(s\): only 1"):
        read_message(TransactionLogValue, read, 1, flexible=True)
