"""Records of `__transaction_state` about transactions that no producer ended."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from attrs import define, field

from refimpl.records import coordinators as kafka
from traces.record.aborts import ABORTS, ended, ended_by_others
from traces.record.scan import Library

BEGUN, COMMITTING, COMMITTED = 1, 2, 4
TXN = {"txn": 0, "transactional_id": "till"}


def write(run: Path, *, visible: list[int], end: str = "txn_commit", stable: int = 5) -> None:
    """A transaction of records 1 and 2, beside record 3, each at the offset of its number; and both
    scans, of which one ends at the last stable offset."""

    def line(op: str, *ids: int, **more: Any) -> bytes:
        records = {
            "records": [{"topic": "t", "partition": 0, "id": id, "offset": id} for id in ids]
        }
        about = {"process": "p#0", "clock": "elsewhere", "op": op, "outcome": "ok"}
        return orjson.dumps(about | more | (records if ids else {})) + b"\n"

    calls = [line("txn_begin", **TXN), line("send", 1, **TXN), line("send", 2, **TXN)]
    (run / "p#0.ndjson").write_bytes(b"".join([*calls, line("send", 3), line(end, **TXN)]))
    for name, ids, stop in (
        ("read_uncommitted", [1, 2, 3], 5),
        ("read_committed", visible, stable),
    ):
        reached = line("scan", *ids, isolation=name, offsets={"t:0": stop})
        (run / f"{name}.ndjson").write_bytes(reached)


@define
class Message:
    key: Any
    value: Any
    at: int

    def offset(self) -> int:
        return self.at

    def error(self) -> None:
        return None


@define
class Reader:
    """A consumer of `__transaction_state` that is given these states of one transactional id."""

    states: list[tuple[str, int]]
    at: int = 0
    read: list[int] = field(factory=list[int])

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None})})

    def get_watermark_offsets(self, _partition: Any, timeout: float) -> tuple[int, int]:
        return 0, len(self.states)

    def assign(self, _partitions: list[Any]) -> None: ...

    def position(self, _partitions: list[Any]) -> list[Any]:
        return [SimpleNamespace(offset=self.at)]

    def consume(self, count: int, timeout: float) -> list[Message]:
        assert count == 1 or timeout == 0  # for many, the client waits until the time is over
        begin, self.at = self.at, min(self.at + count, len(self.states))
        return [_message(*self.states[number], number) for number in range(begin, self.at)]


def _message(name: str, status: int, number: int) -> Message:
    value = kafka.TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=(),
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=4,
    )
    kind, key = kafka.TRANSACTION_RECORDS[0], kafka.TransactionLogKey(name)
    raw = kafka.write_record(kafka.CoordinatorRecord(kind, key, value, version=number % 2))
    return Message(lambda: raw[0], lambda: raw[1], number)


def others(run: Path, *states: tuple[str, int]) -> list[str]:
    def partition(topic: str, number: int, offset: int = 0) -> Any:
        return SimpleNamespace(topic=topic, partition=number, offset=offset)

    used = Library(None, None, partition, None, 0)
    return ended_by_others(used, Reader(list(states)), ended(run))


COMMIT = [("till", status) for status in (BEGUN, COMMITTING, COMMITTED)]


@pytest.mark.parametrize("visible", [[3], [1, 3]])
def test_what_was_committed_and_is_hidden_was_aborted_by_an_operator(
    tmp_path: Path, visible: list[int]
) -> None:
    write(tmp_path, visible=visible)
    assert others(tmp_path, *COMMIT) == ["till"]
    assert others(tmp_path, *COMMIT, ("another", ABORTS[0])) == ["till"]


@pytest.mark.parametrize("status", ABORTS)
def test_a_coordinator_that_aborted_may_have_hit_another_transaction(
    tmp_path: Path, status: int
) -> None:
    """That is a fault of Kafka's (KIP-890), and nobody is excused."""
    write(tmp_path, visible=[3])
    assert others(tmp_path, ("till", status), *COMMIT) == []


def test_what_is_visible_or_was_aborted_by_its_producer_needs_no_other(tmp_path: Path) -> None:
    write(tmp_path, visible=[1, 2, 3])
    assert others(tmp_path, *COMMIT) == []
    write(tmp_path, visible=[3], end="txn_abort")
    assert others(tmp_path, *COMMIT) == []


def test_what_lies_above_the_last_stable_offset_nobody_has_ended(tmp_path: Path) -> None:
    write(tmp_path, visible=[], stable=1)
    assert others(tmp_path, *COMMIT) == []
    write(tmp_path, visible=[], stable=2)
    assert others(tmp_path, *COMMIT) == ["till"]
