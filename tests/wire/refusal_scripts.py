"""Scripts of values that a request should not have: twice, empty, negative, of another version."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from crc32c import crc32c

from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.record import Record
from tests.wire.asking import NOW, TIMEOUT, Ask, batch, create, produce, topic

TOPIC = 2
HOURS_MS = 3_600_000


def _configs(**values: str) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", "."), "value": value} for name, value in values.items()]


# Where to read


def reading(ask: Ask) -> None:
    """ListOffsets, Fetch and OffsetForLeaderEpoch."""
    create(ask, topic("t", 2), topic("empty"))
    for _ in range(3):
        produce(ask, "t", 3)
    for version in range(1, 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100):
            _list(ask, version, (0, timestamp))
    for timestamp in (-1, -2, -3, -4, -5, 0, 2**62):
        _list(ask, 11, (0, timestamp), name="empty")
    for version in (1, 4, 7, 11):
        _list(ask, version, (0, -1), (0, -2))
        _list(ask, version, (0, -1), (1, -7), (0, -1), (1, -1))
    for isolation in (0, 1, 2, -1, 127):
        _list(ask, 7, (0, -1), isolation_level=isolation)
    for replica_id in (-1, -2, -3, 1, 5):
        _list(ask, 7, (0, -1), replica_id=replica_id)
    for name, number in (("t", -1), ("bad name", 0), ("", 0), ("t", 2**31 - 1)):
        _list(ask, 7, (number, -1), name=name)
    _list(ask, 7)
    for version in (4, 7, 12):
        _fetch(ask, version, (0, 0, 1 << 20), (0, 3, 1 << 20))
        _fetch(ask, version, (0, 0, 1 << 20), (1, 0, 1 << 20), (0, 9, 1 << 20))
    for more in (
        *({"isolation_level": level} for level in (2, -1, 5)),
        *({name: -1} for name in ("min_bytes", "max_bytes", "max_wait")),
        *({"replica_id": one} for one in (-2, -3, 7)),
        *({"session_epoch": one} for one in (5, -2)),
        *({"session_id": 5}, {"max_bytes": 0}),
    ):
        for version in (7, 11):
            _fetch(ask, version, (0, 0, 1 << 20), **more)
    for one in ((0, 0, -1), (-1, 0, 100), (0, 2**63 - 1, 100), (0, -1, 100), (1, 0, -1)):
        _fetch(ask, 12, one)
    for epoch in (-5, -2, -1, 2**31 - 1):
        of = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        for version in range(2, 5):
            topics = [{"topic": "t", "partitions": [of]}]
            ask("OffsetForLeaderEpoch", version, replica_id=-1, topics=topics)


def _list(ask: Ask, version: int, *wanted: tuple[int, int], **more: Any) -> None:
    parts = [
        {"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp}
        for number, timestamp in wanted
    ]
    topics = [{"name": more.pop("name", "t"), "partitions": parts}]
    asked = {"replica_id": -1, "isolation_level": 0, "timeout": TIMEOUT, **more}
    ask("ListOffsets", version, topics=topics, **asked)


def _fetch(ask: Ask, version: int, *wanted: tuple[int, int, int], **more: Any) -> None:
    known = {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    parts = [
        {"partition": number, "fetch_offset": offset, "partition_max_bytes": most, **known}
        for number, offset, most in wanted
    ]
    asked = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    asked |= {"session_id": 0, "session_epoch": -1, "rack_id": "", "forgotten_topics_data": []}
    topics = [{"topic": "t", "partitions": parts}]
    asked = {**asked, "isolation_level": 0, **more}
    ask("Fetch", version, patient=False, topics=topics, **asked)


# What to write


def writing(ask: Ask) -> None:
    """Produce, with batches that are none, and DeleteRecords."""
    create(
        ask,
        topic("t", 2),
        topic("small", configs=_configs(max_message_bytes="200")),
        topic("stamped", configs=_configs(message_timestamp_type="LogAppendTime")),
        topic("gz", configs=_configs(compression_type="gzip")),
        topic("strict", configs=_configs(message_timestamp_before_max_ms="1000")),
    )
    good = batch(3)
    for version in (3, 6, 7, 9, 12):
        for codec in Codec:
            _write(ask, batch(3, codec=codec), version=version)
    for version in (3, 9):
        _write(ask, _message(0), version=version)
        _write(ask, _message(1), version=version)
        _write(ask, b"", version=version)
    for data in (
        *(good[:30], good[:-3], good[:11], good[:16], good + b"\0\0\0", good + good),
        *(good + good[:-3], good + b"\0" * 20, b"\0" * 11, b"\0" * 100, b"\xff" * 100),
        *(_patched(good, 16, ">b", 3), _patched(good, 16, ">b", -1), _patched(good, 8, ">i", -1)),
        *(_patched(good, 8, ">i", 20), _patched(good, 8, ">i", 2**31 - 1)),
        *(_patched(good, 21, ">h", one) for one in (5, 6, 7, 8, 0x10, 0x20, 0x80)),
        *(_patched(good, 57, ">i", one) for one in (4, 2, 0, -1)),
        *(_patched(good, 23, ">i", one) for one in (7, 0, -1)),
        *(batch(3, base_offset=7), batch(3, base_sequence=5), _patched(good, 17, ">I", 7, False)),
        batch(3, producer_id=77, producer_epoch=0, base_sequence=-1),
    ):
        _write(ask, data)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        damaged = _patched(batch(3, codec=codec), 61, ">10s", b"\0" * 10)
        _write(ask, damaged)
        _write(ask, damaged, name="gz")
    _write(ask, _stamped(0, -5_000), name="strict")
    _write(ask, _stamped(0, 0), name="strict")
    ahead = 100 * 365 * 24 * HOURS_MS
    for one in (_stamped(ahead), _stamped(0, ahead), _stamped(0, ahead, 1, ahead)):
        _write(ask, one)
        _write(ask, one, name="stamped")
    _write(ask, batch(30), name="small")
    for acks in (2, -2, 100):
        _write(ask, good, acks=acks)
    for name, number in (("missing", 0), ("bad name", 0), ("", 0), ("t", 9), ("t", -1)):
        _write(ask, good, name=name, number=number)
    parts = [{"index": index, "records": good} for index in (0, 0, 1)]
    _write_parts(ask, parts)
    parts = [{"index": index, "records": one} for index, one in ((0, good), (1, b""), (7, good))]
    _write_parts(ask, parts)
    deleting(ask)


def deleting(ask: Ask) -> None:
    """DeleteRecords where nobody may."""
    ask("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])
    topics = [{"name": "__consumer_offsets", "partitions": [_to(0), _to(1), _to(9)]}]
    for version in range(3):
        ask("DeleteRecords", version, topics=topics, timeout=TIMEOUT)
    twice = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}, _to(0)]}]
    ask("DeleteRecords", 2, topics=twice, timeout=0)


def _to(number: int) -> dict[str, Any]:
    return {"partition_index": number, "offset": 0}


def _write(ask: Ask, data: bytes, name: str = "t", number: int = 0, **more: Any) -> None:
    _write_parts(ask, [{"index": number, "records": data}], name=name, **more)


def _write_parts(ask: Ask, parts: Sequence[Mapping[str, Any]], **more: Any) -> None:
    asked = {"acks": -1, "timeout": TIMEOUT, "transactional_id": None, **more}
    data = [{"name": asked.pop("name", "t"), "partition_data": parts}]
    ask("Produce", asked.pop("version", 9), topic_data=data, **asked)


def _patched(data: bytes, at: int, form: str, value: Any, right: bool = True) -> bytes:
    """A batch with another value at this byte, and with the CRC of that, if it shall be right."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    if right:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def _message(magic: int) -> bytes:
    """A message of an old format."""
    stamp = struct.pack(">q", NOW) if magic else b""
    body = struct.pack(">bb", magic, 0) + stamp + struct.pack(">i1si1s", 1, b"k", 1, b"v")
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def _stamped(*later: int) -> bytes:
    records = [Record(at, NOW + ms, b"k", b"v") for at, ms in enumerate(later)]
    return encode_batch(records, base_offset=0)


# The cluster


def describing(ask: Ask) -> None:
    """ApiVersions, Metadata, DescribeConfigs, CreateTopics and time-outs."""
    for name, version in (
        *(("a b", "1"), ("", "1"), ("x", "1 2"), ("-x", "1"), ("x-", "1"), ("é", "1")),
        ("x", ""),
    ):
        for api in (3, 4):
            software = {"client_software_name": name, "client_software_version": version}
            ask("ApiVersions", api, **software)
    create(ask, topic("t"))
    for version in (1, 4, 9, 12):
        for names in (["", "t"], ["t", "t"], ["bad name"], ["x" * 250], []):
            topics = [{"name": name} for name in names]
            ask("Metadata", version, topics=topics, allow_auto_topic_creation=False)
    ask("Metadata", 9, topics=[{"name": ""}], allow_auto_topic_creation=True)
    for topics in (
        [{"name": None}],
        [{"name": None, "topic_id": UUID(int=5)}, {"name": "t", "topic_id": UUID(int=5)}],
        [{"name": None, "topic_id": UUID(int=5)}, {"name": "t"}],
        [{"name": "t"}, {"name": None}],
    ):
        for version in (10, 12, 13):
            ask("Metadata", version, topics=topics, allow_auto_topic_creation=False)
    for version in range(1, 5):
        for keys in ([], ["retention.ms", "retention.ms"], [""]):
            resource = {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": keys}
            ask("DescribeConfigs", version, resources=[resource])
    create(
        ask,
        topic("spaces", configs=_configs(retention_ms=" 100 ", cleanup_policy="compact, delete")),
        topic("capitals", configs=_configs(unclean_leader_election_enable="TRUE")),
        topic("twice", configs=_configs(retention_ms="1") + _configs(retention_ms="2")),
        topic("none", configs=_configs(cleanup_policy="")),
    )
    timeouts(ask)


def timeouts(ask: Ask) -> None:
    """Requests to the controller that have no time at all."""
    for timeout in (0, -1):
        for version in (2, 7):
            create(ask, topic("late"), topic("bad name"), version=version, timeout=timeout)
        parts = [{"name": "t", "count": 4, "assignments": None}]
        ask("CreatePartitions", 3, topics=parts, timeout=timeout)
        ask("DeleteTopics", 6, topics=[{"name": "t"}, {"name": "zz"}], timeout=timeout)
        ask("DeleteTopics", 4, topic_names=["t"], timeout=timeout)
        for wanted in ([{"topic": "t", "partitions": [0]}], None):
            more = {"topic_partitions": wanted, "timeout": timeout}
            ask("ElectLeaders", 2, election_type=0, **more)
        moved = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
        ask("AlterPartitionReassignments", 0, topics=moved, timeout=timeout)
        ask("ListPartitionReassignments", 0, topics=None, timeout=timeout)


# Groups


def leaving(ask: Ask) -> None:
    """Groups that are not there, and offsets of a group that has no member."""
    create(ask, topic("t", 2))
    ask("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])
    for version in range(6):
        who = {"member_id": "me", "group_instance_id": None, "reason": None}
        members = [who, {**who, "member_id": "", "group_instance_id": "i"}]
        for group in ("absent", ""):
            ask("LeaveGroup", version, group_id=group, member_id="me", members=members)
    ask("LeaveGroup", 5, group_id="absent", members=[])
    offset = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    parts = [{"partition_index": number, **offset} for number in (0, 1)]
    simple = {"generation_id_or_member_epoch": -1, "member_id": "", "retention_time": -1}
    topics = [{"name": "t", "partitions": parts}]
    ask("OffsetCommit", 8, group_id="g", **simple, topics=topics)
    requests: tuple[list[dict[str, Any]], ...] = (
        [{"name": "missing", "partition_indexes": [0, 1]}, {"name": "t", "partition_indexes": []}],
        [{"name": "t", "partition_indexes": [0, 0]}, {"name": "t", "partition_indexes": [1, 9]}],
        [],
    )
    for wanted in requests:
        for version in (1, 5, 7):
            ask("OffsetFetch", version, group_id="g", topics=wanted)
        ask("OffsetFetch", 8, groups=[{"group_id": "g", "topics": wanted}])
    gone = [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]
    for _ in range(2):
        ask("OffsetDelete", 0, group_id="g", topics=gone)
    ask("DescribeGroups", 6, groups=["g"])
    ask("ListGroups", 5, states_filter=[], types_filter=[])
    for _ in range(2):
        ask("DeleteGroups", 2, groups_names=["g"])
    ask("OffsetDelete", 0, group_id="g", topics=gone)
