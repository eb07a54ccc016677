"""Stand-ins for clients: the real libraries' messages and errors, and no cluster behind them.

What they do is set by the test; how they are called is what the real ones accept, which the suite
against real Kafka holds them to.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.cimpl import Message

Line = dict[str, Any]
Report = Callable[[Any, Any], None]


def lines(run: Path, process: str) -> list[Line]:
    raw = (run / f"{process}.ndjson").read_bytes()
    return [orjson.loads(line) for line in raw.splitlines()]


def ops(found: list[Line]) -> list[str]:
    return [line["op"] for line in found]


def message(offset: int, headers: Any = None, error: int | None = None, **more: Any) -> Any:
    """A message as the C library makes them."""
    failure = None if error is None else KafkaError(error)
    about: Line = {"topic": "t", "partition": 0, "offset": offset, "error": failure}
    about |= {"headers": headers, "timestamp": (1, 77), **more}
    return Message(**about)


@define
class Producer:
    """As confluent_kafka.Producer: reports come out of `poll`, and `fate` decides them."""

    conf: dict[str, Any] = field(factory=dict[str, Any])
    fate: int | None = None
    refusal: Exception | None = None
    sent: list[tuple[Any, Any, Any, Any]] = field(factory=list[Any])
    _reports: list[tuple[Report, Any, Any]] = field(factory=list[Any])
    _offset: int = 0

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.sent.append((topic, value, key, headers))
        error = None if self.fate is None else KafkaError(self.fate)
        delivered = message(-1001 if error else self._offset, error=self.fate)
        self._offset += 1
        self._reports.append((callback or on_delivery, error, delivered))

    def poll(self, timeout: float = -1) -> int:
        reports, self._reports = self._reports, []
        for report, error, delivered in reports:
            report(error, delivered)
        return len(reports)

    def flush(self, timeout: float = -1) -> int:
        self.poll()
        return 0

    def init_transactions(self) -> None: ...
    def begin_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...
    def commit_transaction(self) -> None:
        self.poll()
        if self.refusal is not None:
            raise self.refusal

    def send_offsets_to_transaction(self, offsets: Any, group: Any) -> None: ...


@define
class Consumer:
    """As confluent_kafka.Consumer: a script of what each poll brings."""

    conf: dict[str, Any] = field(factory=dict[str, Any])
    script: list[Any] = field(factory=list[Any])
    answer: Any = None
    callbacks: dict[str, Any] = field(factory=dict[str, Any])
    generation: int = 3

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def rebalance(self, what: str, *partitions: int) -> None:
        self.callbacks[what](self, [TopicPartition("t", number) for number in partitions])

    def poll(self, timeout: float = -1) -> Any:
        return self._next()

    def consume(self, number: int = 1, timeout: float = -1) -> Any:
        return self._next() or []

    def _next(self) -> Any:
        step = self.script.pop(0) if self.script else None
        return step() if callable(step) else step

    def commit(self, *, asynchronous: bool, **what: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return None if asynchronous else self.answer

    def committed(self, partitions: Any, timeout: float = -1) -> Any:
        return self.answer

    def seek(self, partition: Any) -> None: ...
    def assign(self, partitions: Any) -> None: ...
    def close(self) -> None: ...

    def get_watermark_offsets(self, partition: Any, **more: Any) -> Any:
        return (0, 9)

    def consumer_group_metadata(self) -> bytes:
        head = b"CGMDv2:" + struct.pack("=i", self.generation)
        return head + b"g\0member-1\0\1"


for stand_in in (Producer, Consumer):
    stand_in.__module__ = "confluent_kafka"


def refused(code: int, must_abort: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, txn_requires_abort=must_abort))


def committed_at(*offsets: int, errors: dict[int, int] | None = None) -> list[Any]:
    """The answer to a commit: partitions 0, 1, … with these offsets, some of them refused."""
    answer: list[Any] = []
    for number, offset in enumerate(offsets):
        partition: Any = TopicPartition("t", number, offset)
        answer.append(partition)
        if errors and number in errors:
            answer[-1] = Refused("t", number, offset, KafkaError(errors[number]))
    return answer


@define
class Refused:
    """As TopicPartition, whose error only the C library can set."""

    topic: str
    partition: int
    offset: int
    error: Any
