"""The project's own producer, hosted in a run: `refimpl.clients.producer` on simulated time.

Its batches hold values in the place of bytes. It has connections, which deliver in order or break;
a request that waits too long costs the connection, as everywhere.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, field

from chaos.clients.connected import ConnectedClient
from chaos.clients.producer import STRIDE, Sending, batch_size
from chaos.sim.addresses import BROKERS, TICK, TOPIC, Tick
from chaos.sim.settings import Settings
from chaos.sim.simulation import Simulation
from refimpl.clients.producer.accumulator import ToAppend
from refimpl.clients.producer.config import ProducerConfig
from refimpl.clients.producer.machine import ProducerMachine
from refimpl.clients.producer.messages import Delivered, Disconnect, Failed
from refimpl.messages.broker import ProduceRequest, Request, Response, Timer, TopicPartition
from refimpl.storage.replica.memory import RecordBatch

RETRY_MS, RETRY_MAX_MS, MAX_AGE_MS = 20, 100, 300


@define(eq=False)
class ValuesBuilder:
    """The values of one batch; each counts for one, and so does the limit of a batch."""

    limit: int
    values: list[int] = field(factory=list[int])
    largest: int = field(default=1, init=False)

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.values)

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.values)

    def append(self, timestamp: int, key: Any, value: bytes | None, headers: Any) -> bool:
        """Take one more, if there is room."""
        if len(self.values) >= self.limit:
            return False
        self.values.append(int(value or b""))
        return True

    def build(self, producer_id: int, epoch: int, sequence: int) -> RecordBatch:
        """The batch of a Produce request."""
        return RecordBatch(tuple(self.values), producer_id, epoch, sequence)

    def split(self, limit: int) -> "Sequence[ValuesBuilder]":
        """The same values in batches of at most so many."""
        some = range(0, len(self.values), limit)
        return [ValuesBuilder(limit, self.values[at : at + limit]) for at in some]


class ValuesBuilders:
    """Makes batches of values."""

    def new(self, limit: int) -> ValuesBuilder:
        """An empty batch."""
        return ValuesBuilder(limit)

    def bound(self, key: Any, value: bytes | None, headers: Any) -> int:
        """Each value counts for one."""
        return 1


def config_of(settings: Settings, acks: str) -> ProducerConfig:
    """The settings of one producer of a run, under Kafka's names."""
    return ProducerConfig.of(
        {
            "acks": acks,
            "enable.idempotence": settings.idempotence and acks == "all",
            "max.in.flight.requests.per.connection": settings.max_in_flight,
            "batch.size": settings.batch_records,
            "linger.ms": 0,
            "request.timeout.ms": settings.request_timeout_ms,
            "delivery.timeout.ms": settings.delivery_timeout_ms,
            "max.block.ms": settings.delivery_timeout_ms,
            "metadata.max.age.ms": MAX_AGE_MS,
            "retry.backoff.ms": RETRY_MS,
            "retry.backoff.max.ms": RETRY_MAX_MS,
            "reconnect.backoff.ms": RETRY_MS,
            "reconnect.backoff.max.ms": RETRY_MAX_MS,
        }
    )


@define(eq=False)
class ReferenceProducer:
    """An application that sends value after value by a producer of our own."""

    id: int
    number: int
    simulation: Simulation
    acks: str
    rng: Random
    machine: ProducerMachine = field(init=False)
    paused_until: int = 0
    stopped: bool = False
    sent: int = 0
    #: Ticks until the next values: as many as there were, so that consumers keep up
    pause: int = 0
    sending: dict[int, Sending] = field(factory=dict[int, Sending])
    acked: dict[Any, tuple[TopicPartition, int]] = field(
        factory=dict[Any, tuple[TopicPartition, int]]
    )
    #: The first values of batches that were sent before
    tried: set[object] = field(factory=set[object])
    connected: ConnectedClient = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with all brokers as bootstrap servers."""
        self.connected = ConnectedClient(self.id, self.simulation)
        config = config_of(self.simulation.settings, self.acks)
        self.machine = ProducerMachine(
            config, ValuesBuilders(), BROKERS, self.rng.random, id=self.id
        )

    @property
    def process(self) -> str:
        """The name in the history."""
        return f"p{self.number}#0"

    def handle(self, message: Any) -> None:
        """A tick, a timer of the machine, or an answer."""
        now = self.simulation.timeline.now
        if type(message) is Tick:
            self._tick(now)
            return
        if type(message) is Response:
            self._answered(now, message)
        elif self.connected.is_due():
            self._take(now, self.machine.handle(now, message))

    def _answered(self, now: int, message: Response) -> None:
        """Answers come in the order of their requests."""
        if not self.connected.waits_for(message):
            self.simulation.counts["late acknowledgements"] += 1
        for _, _, answer in self.connected.answered(message):
            self._take(now, self.machine.handle(now, answer))

    def _tick(self, now: int) -> None:
        timeline, settings = self.simulation.timeline, self.simulation.settings
        timeline.at(now + settings.produce_ms, self.id, TICK)
        if self.pause:
            self.pause -= 1
        elif not self.stopped:
            count = batch_size(self.rng, settings.batch_records)
            self.pause = count - 1
            partition = TopicPartition(TOPIC, int(self.rng.random() * self._partitions()))
            for _ in range(count):
                self._send(now, partition)

    def _partitions(self) -> int:
        """The number of the topic's partitions, as far as the producer knows."""
        known = self.machine.metadata.topics.get(TOPIC)
        return len(known.partitions) if known and known.partitions else 1

    def _send(self, now: int, partition: TopicPartition) -> None:
        value = self.number * STRIDE + self.sent
        self.sent += 1
        sending = Sending(RecordBatch((value,)), partition, now)
        sending.begin(self.simulation.history, self.process)
        self.sending[value] = sending
        record = ToAppend(
            TOPIC, partition.partition, None, str(value).encode(), (), now, handle=value
        )
        self._take(now, self.machine.handle(now, record))

    def _take(self, now: int, outputs: Sequence[Any]) -> None:
        for output in outputs:
            match output:
                case Request():
                    self._ask(output)
                case Disconnect(node):
                    self.connected.close(node)
                case Timer():
                    self.connected.set_timer(output)
                case Delivered():
                    self._delivered(output)
                case Failed():
                    self._failed(output)
                case _:
                    pass

    def _ask(self, request: Request) -> None:
        body, counts = request.body, self.simulation.counts
        if type(body) is ProduceRequest:
            for _, batch in body.batches:
                counts["batches of our own producer"] += 1
                counts["sends repeated"] += batch.values[0] in self.tried
                self.tried.add(batch.values[0])
        answers = self.acks != "0" or type(body) is not ProduceRequest
        self.connected.send(request, expects_answer=answers)

    def _delivered(self, one: Delivered) -> None:
        sending = self.sending.pop(one.handle)
        if self.acks == "all" and one.offset >= 0:
            self.acked[one.handle] = one.partition, one.offset
        sending.end(self.simulation.history, "ok", one.offset)

    def _failed(self, one: Failed) -> None:
        sending = self.sending.pop(one.handle)
        what = "sends that failed" if one.certain else "sends of unknown outcome"
        self.simulation.counts[what] += 1
        outcome = "fail" if one.certain else "info"
        sending.end(self.simulation.history, outcome, error=one.error)
