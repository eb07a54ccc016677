"""Records of `__consumer_offsets` about commits that no recorded process made."""

import struct
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define, field

from refimpl.java_hash import string_hash
from refimpl.records import coordinators as kafka
from traces.record.committers import (
    GONE,
    commits_of_others,
    decoded,
    recorded_commits,
)
from traces.record.coordinator_logs import partition_of
from traces.record.scan import Library


def test_a_group_is_where_kafka_keeps_it() -> None:
    groups = ("g", "billing", "orders-readers", "größe", "\U0001f600", "polygenelubricants")
    assert string_hash("polygenelubricants") == -(2**31)  # the one number that has no opposite
    for group in groups:
        assert partition_of(group, 50) == kafka.partition_for(group, 50)


def test_a_commit_is_read_as_kafka_writes_it() -> None:
    key = kafka.OffsetCommitKey("größe", "t", 3)
    value = kafka.OffsetCommitValue(offset=17, leader_epoch=2, metadata="m", commit_timestamp=5)
    raw = written(key, value)
    assert decoded(*raw) == ("größe", "t:3", 17)
    assert decoded(raw[0], None) == ("größe", "t:3", GONE)
    assert decoded(struct.pack(">h", 2) + b"\0\1g", b"..") is None


def written(key: kafka.OffsetCommitKey, value: Any, version: int = 4) -> tuple[bytes, Any]:
    return kafka.write_record(
        kafka.CoordinatorRecord(kafka.GROUP_RECORDS[1], key, value, version=version)
    )


def line(seq: int, op: str, took_ns: int = 1000, outcome: str = "ok", **more: Any) -> bytes:
    times = {"invoked_ns": seq * 10**9, "returned_ns": seq * 10**9 + took_ns}
    call = {"process": "c#0", "clock": "elsewhere", "seq": seq, "op": op, "outcome": outcome}
    return orjson.dumps(call | times | more, option=orjson.OPT_APPEND_NEWLINE)


def commit(seq: int, offset: int, **more: Any) -> bytes:
    return line(seq, "commit", group="g", offsets={"t:0": offset}, **more)


@define
class Message:
    raw_key: bytes
    raw_value: bytes | None
    at: int

    def key(self) -> bytes:
        return self.raw_key

    def value(self) -> bytes | None:
        return self.raw_value

    def offset(self) -> int:
        return self.at

    def error(self) -> None:
        return None


@define
class Partition:
    topic: str
    partition: int
    offset: int = -1001


@define
class Reader:
    """A consumer of one partition of `__consumer_offsets` that is given this log."""

    log: list[tuple[str, str, int]]
    messages: list[Message] = field(factory=list[Message])
    at: int = -1001

    def get_watermark_offsets(self, _partition: Partition, timeout: float) -> tuple[int, int]:
        return 0, len(self.log)

    def assign(self, partitions: list[Partition]) -> None:
        self.at = partitions[0].offset

    def position(self, _partitions: list[Partition]) -> list[Partition]:
        return [Partition("", 0, self.at)]

    def consume(self, count: int, timeout: float) -> list[Message]:
        assert count == 1 or timeout == 0  # for many, the client waits until the time is over
        found: list[Message] = []
        for number, (group, name, offset) in enumerate(self.log):
            topic, _, partition = name.rpartition(":")
            key = kafka.OffsetCommitKey(group, topic, int(partition))
            value = kafka.OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)
            found.append(Message(*written(key, None if offset == GONE else value), number))
        begin, self.at = self.at, min(self.at + count, len(self.log))
        return found[begin : self.at]


def others(run: Path, *log: tuple[str, str, int]) -> list[tuple[str, str, int]]:
    used = Library(None, None, Partition, None, 0)
    return commits_of_others(used, Reader(list(log)), recorded_commits(run), 1)["g"]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([5, 9], []),
        ([5], []),
        ([5, 9, 5], [5]),  # a tool went back to where the group had been
        ([5, 7, 9], [7]),
        ([5, 9, GONE], [GONE]),
    ],
)
def test_a_commit_that_nobody_recorded_made_is_found(
    tmp_path: Path, log: list[int], expected: list[int]
) -> None:
    calls = [commit(0, 5), commit(1, 9), commit(2, 11, outcome="fail")]
    (tmp_path / "c#0.ndjson").write_bytes(b"".join(calls))
    found = others(tmp_path, *(("g", "t:0", offset) for offset in log), ("other", "t:0", 3))
    assert found == [("g", "t:0", offset) for offset in expected]


@pytest.mark.parametrize(
    ("call", "gone"),
    [
        (line(1, "delete_groups", group="g"), [[], [GONE]]),
        (line(1, "delete_offsets", group="g", partitions=["t:0"]), [[], [GONE]]),
        (line(1, "delete_groups", group="g", outcome="fail"), [[GONE], [GONE, GONE]]),
        (line(1, "delete_groups", group="h"), [[GONE], [GONE, GONE]]),
    ],
)
def test_offsets_that_a_recorded_administrator_deleted_are_of_nobody_else(
    tmp_path: Path, call: bytes, gone: list[list[int]]
) -> None:
    (tmp_path / "c#0.ndjson").write_bytes(commit(0, 5) + call)
    for times, expected in enumerate(gone, 1):
        found = others(tmp_path, ("g", "t:0", 5), *[("g", "t:0", GONE)] * times)
        assert [offset for _, _, offset in found] == expected


def test_an_offset_that_a_recorded_administrator_set_is_of_nobody_else(tmp_path: Path) -> None:
    reset = line(1, "alter_offsets", group="g", offsets={"t:0": 2})
    (tmp_path / "c#0.ndjson").write_bytes(commit(0, 5) + reset)
    assert others(tmp_path, ("g", "t:0", 5), ("g", "t:0", 2)) == []
    assert others(tmp_path, ("g", "t:0", 5), ("g", "t:0", 3)) == [("g", "t:0", 3)]


@pytest.mark.parametrize("more", [{"took_ns": 60_000_000}, {"outcome": "info"}])
def test_a_client_may_have_sent_a_slow_commit_twice(tmp_path: Path, more: dict[str, Any]) -> None:
    (tmp_path / "c#0.ndjson").write_bytes(commit(0, 5, **more))
    assert others(tmp_path, ("g", "t:0", 5), ("g", "t:0", 5)) == []


def test_a_time_of_another_clock_limits_nothing(tmp_path: Path) -> None:
    (tmp_path / "c#0.ndjson").write_bytes(commit(3, 5))
    assert recorded_commits(tmp_path).began_ns is None
