"""A producer machine with brokers that are dictionaries, on a clock that a test moves."""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, field

from refimpl.clients.producer.accumulator import ToAppend
from refimpl.clients.producer.config import ProducerConfig
from refimpl.clients.producer.machine import ProducerMachine
from refimpl.clients.producer.messages import (
    Accepted,
    CloseProducer,
    Delivered,
    Disconnect,
    Disconnected,
    Failed,
    Flush,
    Flushed,
)
from refimpl.errors import Refusal
from refimpl.machines.producer import Batch
from refimpl.machines.producer_state import ProducerState
from refimpl.messages.broker import (
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
    Timer,
    TopicPartition,
)
from refimpl.messages.controller import InitProducerIdRequest, InitProducerIdResponse

BOOTSTRAP = -1


@define(eq=False)
class Values:
    """A batch of values: each record counts by the length of its value."""

    limit: int
    values: list[bytes] = field(factory=list[bytes])
    size: int = 0

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def largest(self) -> int:
        return max(map(len, self.values))

    def append(self, timestamp: int, key: Any, value: bytes | None, headers: Any) -> bool:
        size = len(value or b"")
        if self.values and self.size + size > self.limit:
            return False
        self.values.append(value or b"")
        self.size += size
        return True

    def build(self, producer_id: int, epoch: int, sequence: int) -> Any:
        return tuple(self.values), producer_id, epoch, sequence

    def split(self, limit: int) -> "Sequence[Values]":
        parts = [Values(limit)]
        for value in self.values:
            if not parts[-1].append(0, None, value, ()):
                parts.append(Values(limit))
                parts[-1].append(0, None, value, ())
        return parts


class AllValues:
    """Makes batches of values."""

    def new(self, limit: int) -> Values:
        return Values(limit)

    def bound(self, key: Any, value: bytes | None, headers: Any) -> int:
        return len(value or b"")


@define(eq=False)
class World:
    """One producer, `nodes` brokers, and a topic whose partitions they lead in turn.

    `answers` decides what a broker says to a batch: None lets it decide by itself.
    """

    given: dict[str, Any] = field(factory=dict[str, Any])
    partitions: int = 1
    nodes: int = 1
    seed: int = 1
    now: int = 0
    requests: list[Request] = field(factory=list[Request], init=False)
    outputs: list[Any] = field(factory=list[Any], init=False)
    written: dict[Any, Delivered] = field(factory=dict[Any, Delivered], init=False)
    failed: dict[Any, Failed] = field(factory=dict[Any, Failed], init=False)
    logs: dict[TopicPartition, list[bytes]] = field(
        factory=dict[TopicPartition, list[bytes]], init=False
    )
    states: dict[TopicPartition, ProducerState] = field(
        factory=dict[TopicPartition, ProducerState], init=False
    )
    timer: int | None = field(default=None, init=False)
    random: Random = field(init=False)
    machine: ProducerMachine = field(init=False)
    leaders: dict[int, int] = field(init=False)
    epoch: int = 0
    producer_ids: int = 0
    sent: int = 0

    def __attrs_post_init__(self) -> None:
        self.random = Random(self.seed)
        config = ProducerConfig.of(self.given)
        self.machine = ProducerMachine(config, AllValues(), (BOOTSTRAP,), self.random.random)
        self.leaders = {p: 1 + p % self.nodes for p in range(self.partitions)}

    # The application

    def send(self, value: bytes, partition: int | None = 0, handle: Any = None, **more: Any) -> Any:
        handle = value if handle is None else handle
        record = ToAppend(
            "t", partition, more.get("key"), value, more.get("headers", ()), self.now, handle
        )
        self.give(record)
        return handle

    def flush(self) -> None:
        self.give(Flush("flush"))

    def close(self, timeout_ms: int | None = None) -> None:
        self.give(CloseProducer("close", timeout_ms))

    @property
    def flushed(self) -> list[Any]:
        return [one.handle for one in self.outputs if isinstance(one, Flushed)]

    @property
    def accepted(self) -> list[Any]:
        return [one.handle for one in self.outputs if isinstance(one, Accepted)]

    def give(self, message: Any) -> None:
        for output in self.machine.handle(self.now, message):
            match output:
                case Request():
                    self.requests.append(output)
                case Timer(at_ms):
                    self.timer = at_ms
                case Delivered(handle):
                    assert handle not in self.written
                    assert handle not in self.failed
                    self.written[handle] = output
                case Failed(handle):
                    assert handle not in self.written
                    assert handle not in self.failed
                    self.failed[handle] = output
                case Disconnect(node):
                    self.requests = [one for one in self.requests if one.target != node]
                case _:
                    pass
            self.outputs.append(output)

    # Time and network

    def advance(self, by_ms: int) -> None:
        """Move the clock, and stop at each timer on the way."""
        until = self.now + by_ms
        while self.timer is not None and self.timer <= until:
            self.now, self.timer = max(self.now, self.timer), None
            self.give(Timer(self.now, "producer"))
        self.now = until

    def begin(self) -> None:
        """Answer what a producer asks first: metadata and an id."""
        self.settle(but_of=ProduceRequest)

    def settle(self, but_of: type[Any] = Timer) -> None:
        """Answer requests, in their order, until none is left."""
        while chosen := [one for one in self.requests if not isinstance(one.body, but_of)]:
            self.answer(chosen[0])

    def answer(self, request: Request, error: str | None = None, lost: bool = False) -> None:
        """A broker handles a request; its answer may be lost with the connection."""
        self.requests.remove(request)
        body = self.handled(request, error)
        if not lost:
            self.give(Response(request.target, request.source, request.correlation_id, body))

    def disconnect(self, node: int, handled: int = 0) -> None:
        """A connection ends, after the broker has handled so many of its requests."""
        mine = [one for one in self.requests if one.target == node]
        for request in mine[:handled]:
            self.handled(request)
        self.requests = [one for one in self.requests if one.target != node]
        self.give(Disconnected(node))

    def handled(self, request: Request, error: str | None = None) -> Any:
        match request.body:
            case MetadataRequest(topics):
                return self.metadata(tuple(topics or ()))
            case InitProducerIdRequest():
                self.producer_ids += 1
                return InitProducerIdResponse(None, self.producer_ids, 0)
            case ProduceRequest(_, _, batches):
                return ProduceResponse(
                    [self.append(request.target, at, batch, error) for at, batch in batches]
                )
            case _:
                raise AssertionError(request)

    def metadata(self, topics: tuple[str, ...]) -> MetadataResponse:
        found = [
            PartitionMetadata(TopicPartition(topic, p), None, node, self.epoch, frozenset((node,)))
            for topic in topics
            if topic == "t"
            for p, node in self.leaders.items()
        ]
        others = {topic: "UNKNOWN_TOPIC_OR_PARTITION" for topic in topics if topic != "t"}
        return MetadataResponse(found, others)

    def append(
        self, node: int, at: TopicPartition, batch: Any, error: str | None
    ) -> ProducedPartition:
        """A leader's answer to a batch."""
        values, producer_id, epoch, sequence = batch
        if error is None and self.leaders[at.partition] != node:
            error = "NOT_LEADER_OR_FOLLOWER"
        if error is not None:
            return ProducedPartition(at, error)
        log = self.logs.setdefault(at, [])
        if producer_id < 0:
            log += values
            return ProducedPartition(at, None, len(log) - len(values))
        state = self.states.setdefault(at, ProducerState())
        entry = Batch(
            producer_id, epoch, sequence, (sequence + len(values) - 1) % 2**31, records=len(values)
        )
        try:
            seen = state.admit(entry)
        except Refusal as refusal:
            return ProducedPartition(at, refusal.kafka_error)
        if seen is not None:
            return ProducedPartition(at, None, seen.first_offset)
        state.take(entry, len(log))
        log += values
        return ProducedPartition(at, None, len(log) - len(values))

    def produced(self) -> list[tuple[int, list[tuple[int, int, int]]]]:
        """Requests that wait: node, and of each batch partition, epoch, and sequence."""
        return [
            (one.target, [(at.partition, batch[2], batch[3]) for at, batch in one.body.batches])
            for one in self.requests
            if isinstance(one.body, ProduceRequest)
        ]
