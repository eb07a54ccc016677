"""The records of coordinators: `__consumer_offsets`, `__transaction_state` and share groups.

A key begins with its type, a value with its version; a key without a value deletes. KIP-915 froze
the versions (later fields are tagged). KIP-848, KIP-932 and KIP-1071 added the types of the new
groups.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Annotated, Any

from attrs import frozen

from refimpl.errors import CorruptBatch
from refimpl.java_hash import string_hash
from refimpl.records import consumer_groups as groups
from refimpl.records import share_groups as share
from refimpl.records import streams_groups as streams
from refimpl.records.java_text import decoded
from refimpl.records.schema import (
    ID,
    INT16,
    INT32,
    INT64,
    NO_ID,
    STRING,
    BufferUnderflow,
    Data,
    Int8,
    Int16,
    Int32,
    Int64,
    MaybeText,
    Numbers,
    RecordReader,
    Text,
    Uuid,
    own,
    read,
    since,
    tagged,
    write,
)

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
SHARE_TOPIC = "__share_group_state"


@frozen
class OffsetCommitKey:
    """The group and the partition of a committed offset."""

    group: Text
    topic: Text
    partition: Int32


@frozen(kw_only=True)
class OffsetCommitValue:
    """A group's committed offset, and the leader epoch of the last record read (KIP-320)."""

    offset: Int64
    leader_epoch: Annotated[int, INT32, since(3)] = -1
    metadata: Text
    commit_timestamp: Int64
    expire_timestamp: Annotated[int, INT64, since(1, 1)] = -1
    topic_id: Annotated[Uuid, ID, tagged(0, 4)] = NO_ID


@frozen
class GroupMetadataKey:
    """A group of the classic protocol."""

    group: Text


@frozen(kw_only=True)
class MemberMetadata:
    """A member of a classic group, with its subscription and its assignment."""

    member_id: Text
    group_instance_id: Annotated[str | None, STRING, since(3)] = None
    client_id: Text
    client_host: Text
    rebalance_timeout: Annotated[int, INT32, since(1)] = -1
    session_timeout: Int32
    subscription: Data
    assignment: Data


@frozen(kw_only=True)
class GroupMetadataValue:
    """A classic group's generation and members."""

    protocol_type: Text
    generation: Int32
    protocol: MaybeText
    leader: MaybeText
    current_state_timestamp: Annotated[int, INT64, since(2)] = -1
    members: tuple[MemberMetadata, ...]


@frozen
class TransactionLogKey:
    """A transactional id."""

    transactional_id: Text


@frozen
class TransactionPartitions:
    """Partitions of one topic that a transaction wrote to."""

    topic: Text
    partition_ids: Numbers


@frozen(kw_only=True)
class TransactionLogValue:
    """The state of a transaction (KIP-98); its previous and its next producer id (KIP-890)."""

    producer_id: Int64
    previous_producer_id: Annotated[int, INT64, tagged(0, 1)] = -1
    next_producer_id: Annotated[int, INT64, tagged(1, 1)] = -1
    producer_epoch: Int16
    next_producer_epoch: Annotated[int, INT16, tagged(3, 1)] = -1
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: tuple[TransactionPartitions, ...] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Annotated[int, INT16, tagged(2, 1)] = 0
    #: The producer's epoch before, if it gave that up itself; Kafka 4.3 keeps it in memory alone
    last_producer_epoch: Annotated[int, INT16, own(1000, 1)] = -1


@frozen
class RecordType:
    """A type of record: the schemas of key and value, and the first flexible version of the
    value.

    It stands alone if its key's newest record makes all earlier ones void, and tells them nothing.
    """

    number: int
    key: type[Any]
    value: type[Any]
    newest: int = 0
    flexible: int = 0
    stands_alone: bool = False


GROUP_RECORDS = {
    kind.number: kind
    for kind in (
        RecordType(0, OffsetCommitKey, OffsetCommitValue, flexible=1, stands_alone=True),
        RecordType(1, OffsetCommitKey, OffsetCommitValue, newest=4, flexible=4, stands_alone=True),
        RecordType(2, GroupMetadataKey, GroupMetadataValue, newest=4, flexible=4),
        RecordType(3, groups.GroupKey, groups.ConsumerGroupMetadata),
        RecordType(4, groups.GroupKey, groups.ConsumerGroupPartitionMetadata),
        RecordType(5, groups.MemberKey, groups.ConsumerGroupMemberMetadata),
        RecordType(6, groups.GroupKey, groups.TargetAssignmentMetadata),
        RecordType(7, groups.MemberKey, groups.TargetAssignmentMember),
        RecordType(8, groups.MemberKey, groups.CurrentMemberAssignment),
        RecordType(10, share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
        RecordType(11, share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
        RecordType(
            *(12, share.ShareGroupTargetAssignmentMetadataKey),
            share.ShareGroupTargetAssignmentMetadataValue,
        ),
        RecordType(
            *(13, share.ShareGroupTargetAssignmentMemberKey),
            share.ShareGroupTargetAssignmentMemberValue,
        ),
        RecordType(
            *(14, share.ShareGroupCurrentMemberAssignmentKey),
            share.ShareGroupCurrentMemberAssignmentValue,
        ),
        RecordType(
            *(15, share.ShareGroupStatePartitionMetadataKey),
            share.ShareGroupStatePartitionMetadataValue,
        ),
        RecordType(16, groups.RegularExpressionKey, groups.RegularExpression),
        RecordType(17, streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue),
        RecordType(
            19, streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue
        ),
        RecordType(
            *(20, streams.StreamsGroupTargetAssignmentMetadataKey),
            streams.StreamsGroupTargetAssignmentMetadataValue,
        ),
        RecordType(
            *(21, streams.StreamsGroupTargetAssignmentMemberKey),
            streams.StreamsGroupTargetAssignmentMemberValue,
        ),
        RecordType(
            *(22, streams.StreamsGroupCurrentMemberAssignmentKey),
            streams.StreamsGroupCurrentMemberAssignmentValue,
        ),
        RecordType(23, streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue),
    )
}
TRANSACTION_RECORDS = {
    0: RecordType(
        0, TransactionLogKey, TransactionLogValue, newest=1, flexible=1, stands_alone=True
    )
}
SHARE_RECORDS = {
    0: RecordType(0, share.ShareSnapshotKey, share.ShareSnapshotValue),
    1: RecordType(1, share.ShareUpdateKey, share.ShareUpdateValue),
}


def records_in(topic: str) -> Mapping[int, RecordType]:
    """The types of records in an internal topic."""
    if topic == SHARE_TOPIC:
        return SHARE_RECORDS
    return TRANSACTION_RECORDS if topic == TRANSACTIONS_TOPIC else GROUP_RECORDS


class UnknownRecordType(CorruptBatch):
    """A record of an unknown type; a newer broker may have written it."""

    kafka_error = "UNSUPPORTED_VERSION"


@frozen
class CoordinatorRecord:
    """A fact of a coordinator; without a value, the end of one."""

    kind: RecordType
    key: Any
    value: Any = None
    version: int = 0


def read_record(
    kinds: Mapping[int, RecordType], key: bytes, value: bytes | None
) -> CoordinatorRecord:
    """The record in this key and value."""
    if kinds is GROUP_RECORDS and value is not None:
        usual = usual_offset(key, value)
        if usual is not None:
            return usual
    reader, number = _version_of("key", key)
    if number not in kinds:
        raise UnknownRecordType(str(number))
    kind = kinds[number]
    try:
        whose = read(kind.key, reader, 0)
    except CorruptBatch as broken:
        raise _broken("key", number, broken) from None
    if value is None:
        return CoordinatorRecord(kind, whose)
    reader, version = _version_of("value", value)
    if not 0 <= version <= kind.newest:
        raise CorruptBatch(f"Found an unknown record version {version} for {number} type")
    try:
        content = read(kind.value, reader, version, version >= kind.flexible)
    except CorruptBatch as broken:
        raise _broken("value", version, broken) from None
    return CoordinatorRecord(kind, whose, content, version)


_LENGTH, _PARTITION, _OFFSET = Struct(">h"), Struct(">i"), Struct(">hqi")
_BEHIND_METADATA = Struct(">q3s16s")
_ONE_TAG = b"\x01\x00\x10"  # one tagged field: tag 0, of 16 bytes


def usual_offset(key: bytes, value: bytes) -> CoordinatorRecord | None:
    """A committed offset in the format of every broker since 4.2; None if it must be read field by
    field.

    Nearly all records of a coordinator are of this form, and a load waits for them.
    """
    if key[:2] != b"\x00\x01" or value[:2] != b"\x00\x04" or len(key) < 4 or len(value) < 42:
        return None
    behind = 14 + value[14]  # the length of the metadata, plus one
    topic_at = 6 + _LENGTH.unpack_from(key, 2)[0]
    if value[14] not in range(1, 0x80) or len(value) != behind + 27 or not 6 <= topic_at < len(key):
        return None
    end = topic_at + _LENGTH.unpack_from(key, topic_at - 2)[0]
    committed, tag, topic_id = _BEHIND_METADATA.unpack_from(value, behind)
    if tag != _ONE_TAG or end < topic_at or end + 4 != len(key):
        return None
    _, offset, epoch = _OFFSET.unpack_from(value)
    (partition,) = _PARTITION.unpack_from(key, end)
    group, topic = decoded(key[4 : topic_at - 2]), decoded(key[topic_at:end])
    content = OffsetCommitValue(
        offset=offset,
        leader_epoch=epoch,
        metadata=decoded(value[15:behind]),
        commit_timestamp=committed,
        topic_id=topic_id,
    )
    return CoordinatorRecord(
        GROUP_RECORDS[1], OffsetCommitKey(group, topic, partition), content, version=4
    )


def _version_of(part: str, data: bytes) -> tuple[RecordReader, int]:
    reader = RecordReader(data)
    try:
        return reader, reader.number(INT16)
    except BufferUnderflow:
        raise CorruptBatch(f"Could not read version from {part}'s buffer.") from None


def _broken(part: str, number: int, broken: CorruptBatch) -> CorruptBatch:
    """Kafka's message about a key of this type or a value of this version; its buffer has none for
    an early end.
    """
    why = "null" if isinstance(broken, BufferUnderflow) else broken.why
    return CorruptBatch(
        f"Could not read record with version {number} from {part}'s buffer due to: {why}."
    )


def write_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value of the record; reading them gives the record again."""
    kind, version = record.kind, record.version
    key = INT16.packing.pack(kind.number) + write(record.key, 0)
    if record.value is None:
        return key, None
    content = write(record.value, version, version >= kind.flexible)
    return key, INT16.packing.pack(version) + content


def partition_for(name: str, partitions: int) -> int:
    """The partition of a group or a transactional id.

    As in Kafka, the one number whose absolute value does not fit counts as zero.
    """
    distance = abs(string_hash(name))
    return distance % partitions if distance < 2**31 else 0
