"""Scripts for a producer, generated here, and played on ours as `Producers.java` plays them."""

from collections import deque
from random import Random
from typing import Any

from attrs import define, evolve, field

from refimpl.clients.producer.accumulator import ToAppend
from refimpl.clients.producer.batch import ProducerBatch
from refimpl.clients.producer.config import ProducerConfig
from refimpl.clients.producer.delivery import Delivery, Outcome
from refimpl.clients.producer.machine import ProducerMachine
from refimpl.clients.producer.messages import Delivered, Disconnected, Failed
from refimpl.clients.producer.partitioner import Sticky
from refimpl.edge.clients.batches import BytesBatches
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
from refimpl.storage.format.batch import decode_records, read_header

Script = dict[str, Any]
LONG = 1 << 30
ERRORS = (
    *("", "", "", "", "", "NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"),
    *("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "REQUEST_TIMED_OUT"),
    *("INVALID_RECORD", "MESSAGE_TOO_LARGE", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
)


def script_of(seed: int) -> Script:
    """One script: settings and steps.

    With idempotence each partition has a node of its own, because Kafka's sender passes over all
    partitions of a node while one of them waits for its turn.
    """
    random = Random(seed)
    idempotent = random.random() < 0.7
    partitions = random.randint(1, 3)
    nodes = partitions if idempotent else random.randint(1, partitions)
    given: Script = {
        "idempotent": idempotent,
        "in_flight": random.choice((2, 3, 5)) if idempotent else random.choice((1, 2, 5)),
        "partitions": partitions,
        "nodes": nodes,
        "acks": -1 if idempotent else random.choice((0, 1)),
        "batch_size": random.choice((100, 200, 16384)),
        "linger": random.choice((0, 5, 50)),
        "delivery_timeout": random.choice((700, 3000)),
        "seed": random.randrange(1 << 31),
    }
    faults = random.choice((ERRORS, ERRORS[:7], ("",)))
    given["steps"] = [
        _step(random, given, faults, number) for number in range(random.choice((15, 40, 80)))
    ]
    return given


def _step(random: Random, given: Script, faults: tuple[str, ...], number: int) -> list[Any]:
    node = random.randint(1, given["nodes"])
    match random.randrange(12):
        case 0 | 1 | 2 | 3 | 4:
            partition = random.choice((-1, random.randrange(given["partitions"])))
            return ["send", partition, random.choice((8, 30, 60, 150)), number]
        case 5 | 6 | 7 | 8:
            return ["answer", str(node), random.choice(faults), 1000 * number]
        case 9 if len(faults) > 1 and random.random() < 0.5:
            return ["disconnect", str(node)]
        case 10 if not given["idempotent"] and random.random() < 0.5:
            return ["leader", random.randrange(given["partitions"]), node]
        case _:
            return ["advance", random.choice((1, 5, 50, 120, 120, 400))]


@define(eq=False)
class LikeKafka(Delivery):
    """The delivery with Kafka's rules where ours are stronger; `differs` where they still differ.

    From there on the two clients are in different states on purpose: docs/kafka-diff.md.
    """

    differs: bool = False

    def expire(self, batch: ProducerBatch) -> None:
        # There what is sent again expires after all that is in flight before it.
        self.differs |= batch.attempts > 0 and batch not in self.of(batch.partition).queue
        super().expire(batch)

    def take_answer(self, batch: ProducerBatch, error: str | None, **more: Any) -> Outcome:
        one = self.of(batch.partition)
        if error in (None, "DUPLICATE_SEQUENCE_NUMBER") and self.idempotent:
            # The answer of an older epoch counts there.
            self.differs |= more["sent_as"][0] != one.epoch
        outcome = super().take_answer(batch, error, **more)
        # Kafka takes a new epoch at once where an earlier attempt may have been written.
        self.differs |= outcome == "failed" and self.idempotent and batch.attempts > 0
        return outcome


@define(eq=False)
class Random31:
    """The numbers of `ScriptPartitioner`."""

    state: int

    def __call__(self) -> int:
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return self.state


@define(eq=False)
class Play:
    """One script on our machine."""

    script: Script
    now: int = 0
    machine: ProducerMachine = field(init=False)
    leaders: dict[int, tuple[int, int]] = field(init=False)
    in_flight: dict[int, deque[Request]] = field(init=False)
    sent: list[Any] = field(factory=list[Any], init=False)
    completed: list[Any] = field(factory=list[Any], init=False)
    timer: int | None = None

    def __attrs_post_init__(self) -> None:
        script = self.script
        config = ProducerConfig.of(
            {
                "acks": str(script["acks"]),
                "enable.idempotence": script["idempotent"],
                "max.in.flight.requests.per.connection": script["in_flight"],
                "batch.size": script["batch_size"],
                "linger.ms": script["linger"],
                "retry.backoff.max.ms": 100,
            }
        )
        config = evolve(
            config,
            delivery_timeout_ms=script["delivery_timeout"],
            request_timeout_ms=LONG,
            reconnect_backoff_ms=0,
            rebootstraps=False,
        )
        self.machine = ProducerMachine(config, BytesBatches(), (1,), lambda: 0.5)
        kafka = LikeKafka(
            *(script["idempotent"], script["in_flight"]),
            first_alone=False,
            remembers_sent=False,
            within_window=False,
        )
        self.machine.delivery = self.machine.accumulator.delivery = kafka
        self.machine.accumulator.sticky = lambda size: Sticky(size, Random31(script["seed"]))
        self.leaders = {p: (1 + p % script["nodes"], 0) for p in range(script["partitions"])}
        self.in_flight = {n: deque() for n in range(1, script["nodes"] + 1)}
        self.machine.metadata.use("t", 0)
        self.update()

    def update(self) -> None:
        self.machine.metadata.update(self.now, self.metadata())

    def metadata(self) -> MetadataResponse:
        return MetadataResponse(
            [
                PartitionMetadata(TopicPartition("t", p), None, node, epoch, frozenset((node,)))
                for p, (node, epoch) in self.leaders.items()
            ]
        )

    def all(self) -> list[Any]:
        """The events of each step, up to where the two may differ."""
        answers: list[Any] = []
        self.give(Timer(0, ""))
        for step in self.script["steps"]:
            self.sent, self.completed = [], []
            self.play(step)
            self.give(Timer(self.now, ""))
            delivery = self.machine.delivery
            if isinstance(delivery, LikeKafka) and delivery.differs:
                break
            answers.append({"sent": self.sent, "completed": self.completed})
        return answers

    def play(self, step: list[Any]) -> None:
        match step:
            case ["send", partition, size, id]:
                value = id.to_bytes(4) + bytes(size - 4)
                at = None if partition < 0 else partition
                self.give(ToAppend("t", at, None, value, (), 0, id))
            case ["advance", ms]:
                self.now += ms
            case ["answer", node, error, offset]:
                if waiting := self.in_flight[int(node)]:
                    self.answer(waiting.popleft(), error or None, offset)
            case ["disconnect", node]:
                if self.in_flight[int(node)]:
                    self.in_flight[int(node)].clear()
                    self.give(Disconnected(int(node)))
            case ["leader", partition, node]:
                self.leaders[partition] = node, self.leaders[partition][1] + 1
                self.update()
            case _:
                raise AssertionError(step)

    def answer(self, request: Request, error: str | None, offset: int) -> None:
        results = [
            ProducedPartition(at, error, -1 if error else offset) for at, _ in request.body.batches
        ]
        body = ProduceResponse(results)
        self.give(Response(request.target, -1, request.correlation_id, body))

    def give(self, message: Any) -> None:
        for output in self.machine.handle(self.now, message):
            self.take(message, output)

    def take(self, message: Any, output: Any) -> None:
        """One output of the machine, to this input."""
        match output:
            case Request(_, node, number, MetadataRequest()):
                self.give(Response(node, -1, number, self.metadata()))
            case Request(_, node, number, InitProducerIdRequest()):
                body = InitProducerIdResponse(None, 1000, 0)
                self.give(Response(node, -1, number, body))
            case Request(_, node, _, ProduceRequest(acks, _, batches)):
                told = [batch_told(at.partition, data) for at, data in batches]
                self.sent.append({"node": node, "batches": told})
                if acks:
                    self.in_flight[node].append(output)
            case Delivered(id, _, offset):
                self.completed.append({"id": id, "offset": offset})
            case Failed(id, _, error):
                self.completed.append({"id": id, "error": error})
            case _:
                pass


def batch_told(partition: int, data: bytes) -> dict[str, Any]:
    """A batch as the other side tells of it."""
    header = read_header(data)
    return {
        "partition": partition,
        "epoch": header.producer_epoch,
        "sequence": header.base_sequence,
        "records": [int.from_bytes((one.value or b"")[:4]) for one in decode_records(data)],
    }


def ordered(steps: list[Any]) -> list[Any]:
    """The events that have no order between nodes and partitions, in one order."""
    return [
        {
            "sent": {
                node: [
                    sorted(one["batches"], key=lambda batch: batch["partition"])
                    for one in step["sent"]
                    if one["node"] == node
                ]
                for node in sorted({one["node"] for one in step["sent"]})
            },
            "completed": sorted(step["completed"], key=lambda one: one["id"]),
        }
        for step in steps
    ]


def difference(script: Script, theirs: list[Any]) -> str | None:
    """The first step in which ours does something else, None if there is none."""
    ours = Play(script).all()
    for number, (mine, other) in enumerate(zip(ordered(ours), ordered(theirs), strict=False)):
        if mine != other:
            step = script["steps"][number]
            return f"step {number}, {step}:\n  ours  {mine}\n  Kafka {other}"
    return None
