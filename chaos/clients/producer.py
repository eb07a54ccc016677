"""A producer: sends, waits, sends again, and in the end may not know."""

from random import Random
from typing import Any, Protocol

from attrs import define, field

from chaos.clients.leaders import Leaders
from chaos.sim.addresses import TICK, TOPIC, Tick
from chaos.sim.history import Call, History
from chaos.sim.simulation import Simulation
from refimpl.messages.broker import (
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
    TopicPartition,
)
from refimpl.storage.replica.memory import RecordBatch

# Values of a producer: its number * STRIDE, and counting on.
STRIDE = 1_000_000
# Refused before anything was appended: such an attempt, if it comes once, has not happened.
CERTAIN = {"NOT_ENOUGH_REPLICAS", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"}
ACKS = {"0": 0, "1": 1, "all": -1}


@define(eq=False)
class Sending:
    """A batch of records on its way."""

    batch: RecordBatch
    partition: TopicPartition
    first_at: int
    sent_at: int = 0
    attempt: int = 0
    waits: bool = False
    unsure: bool = False
    call: Call | None = None

    @property
    def value(self) -> Any:
        """The first record's value."""
        return self.batch.values[0]

    def begin(self, history: History | None, process: str) -> None:
        """Write down that the application sends its records."""
        if history is not None:
            at = {"topic": TOPIC, "partition": self.partition.partition}
            records = [{**at, "id": value} for value in self.batch.values]
            self.call = history.invoke(process, "send", records=records)

    def end(self, history: History | None, outcome: str, offset: int = -1, error: str = "") -> None:
        """Write down what the application is told; the offset is that of the first record."""
        if history is None or self.call is None:
            return
        fields: dict[str, Any] = {"error": error} if error else {}
        if offset >= 0:
            fields["records"] = [
                {**record, "offset": at} for at, record in enumerate(self.call["records"], offset)
            ]
        history.complete(self.call, outcome, **fields)


class SimulatedProducer(Protocol):
    """A producer of a run, as oracles see it."""

    id: int
    number: int
    acks: str
    #: True once it sends nothing more
    stopped: bool
    #: The sends that have no result, by their first values
    sending: dict[int, Sending]
    #: Where each acknowledged value is, with acks=all
    acked: dict[Any, tuple[TopicPartition, int]]


def batch_size(rng: Random, most: int) -> int:
    """The number of records of the next batch."""
    return 1 if most == 1 else 1 + int(rng.random() * most)


@define(eq=False)
class Producer:
    """Sends one batch after the other, and with acks=all remembers each answer.

    An idempotent producer counts sequences for each partition. When it gives a record up it takes a
    new producer epoch, because the sequence may have been used (KIP-360).
    """

    id: int
    number: int
    simulation: Simulation
    acks: str
    rng: Random
    leaders: Leaders
    paused_until: int = 0
    stopped: bool = False
    sent: int = 0
    #: Ticks until the next batch: as many as records, so that consumers keep up
    pause: int = 0
    attempts: int = 0
    epoch: int = 0
    sequences: dict[TopicPartition, tuple[int, int]] = field(
        factory=dict[TopicPartition, tuple[int, int]]
    )
    sending: dict[int, Sending] = field(factory=dict[int, Sending])
    acked: dict[Any, tuple[TopicPartition, int]] = field(
        factory=dict[Any, tuple[TopicPartition, int]]
    )

    @property
    def process(self) -> str:
        """The name in the history."""
        return f"p{self.number}#0"

    def handle(self, message: Any) -> None:
        """A tick, or an answer."""
        if type(message) is Tick:
            self._tick()
        elif type(message.body) is ProduceResponse:
            self._produced(message)
        elif type(message.body) is MetadataResponse:
            self.leaders.told(message.body)

    def _tick(self) -> None:
        timeline, settings = self.simulation.timeline, self.simulation.settings
        now = timeline.now
        timeline.at(now + settings.produce_ms, self.id, TICK)
        self.leaders.keep_up()
        for sending in tuple(self.sending.values()):
            if now - sending.first_at > settings.delivery_timeout_ms:
                self._give_up(sending)
            elif not sending.waits or now - sending.sent_at > settings.request_timeout_ms:
                if sending.waits:
                    sending.unsure = True
                    self.leaders.refresh()
                self._attempt(sending)
        if self.pause:
            self.pause -= 1
        elif not self.stopped:
            self._send()

    def _send(self) -> None:
        """A new batch, where there is room; with idempotence in order, one at a time."""
        settings = self.simulation.settings
        partition = TopicPartition(TOPIC, int(self.rng.random() * self.leaders.partitions))
        busy = sum(1 for other in self.sending.values() if other.partition == partition)
        if busy >= (1 if settings.idempotence else settings.max_in_flight):
            return
        value = self.number * STRIDE + self.sent
        values = tuple(range(value, value + batch_size(self.rng, settings.batch_records)))
        self.sent += len(values)
        self.pause = len(values) - 1
        sending = Sending(self._batch(partition, values), partition, self.simulation.timeline.now)
        sending.begin(self.simulation.history, self.process)
        if self.acks != "0":
            self.sending[value] = sending
        self._attempt(sending)
        if self.acks == "0":
            sending.end(self.simulation.history, "ok")

    def _batch(self, partition: TopicPartition, values: tuple[int, ...]) -> RecordBatch:
        if not self.simulation.settings.idempotence:
            return RecordBatch(values)
        epoch, sequence = self.sequences.get(partition, (self.epoch, 0))
        if epoch != self.epoch:
            epoch, sequence = self.epoch, 0
        self.sequences[partition] = epoch, sequence + len(values)
        return RecordBatch(values, self.number, epoch, sequence)

    def _attempt(self, sending: Sending) -> None:
        """Send the batch to the leader, if one is known; with acks=0 it is never sent again."""
        leader = self.leaders.of(sending.partition)
        if leader is None:
            return
        self.attempts += 1
        if sending.attempt:
            self.simulation.counts["sends repeated"] += 1
        sending.attempt, sending.waits = self.attempts, True
        sending.unsure |= self.simulation.network.duplicate > 0  # a copy may come after the refusal
        sending.sent_at = self.simulation.timeline.now
        timeout_ms = self.simulation.settings.request_timeout_ms
        batches = ((sending.partition, sending.batch),)
        body = ProduceRequest(ACKS[self.acks], timeout_ms, batches)
        self.simulation.network.send(Request(self.id, leader, sending.attempt, body))

    def _produced(self, response: Response) -> None:
        body: ProduceResponse = response.body
        (produced,) = body.partitions
        attempt, error = response.correlation_id, produced.error
        sending = next((one for one in self.sending.values() if one.attempt == attempt), None)
        if sending is None:
            late = "late acknowledgements" if error is None else "late errors"
            self.simulation.counts[late] += 1
            return
        if error is None:
            del self.sending[sending.value]
            if self.acks == "all":
                for offset, value in enumerate(sending.batch.values, produced.base_offset):
                    self.acked[value] = produced.partition, offset
            sending.end(self.simulation.history, "ok", produced.base_offset)
            return
        sending.waits = False
        sending.unsure |= error not in CERTAIN
        self.leaders.refresh()

    def _give_up(self, sending: Sending) -> None:
        """delivery.timeout.ms is over. The outcome is known only if every attempt was refused."""
        del self.sending[sending.value]
        self.epoch += 1
        unsure = sending.unsure or sending.waits
        counts = self.simulation.counts
        counts["sends of unknown outcome" if unsure else "sends that failed"] += 1
        outcome = "info" if unsure else "fail"
        sending.end(self.simulation.history, outcome, error="REQUEST_TIMED_OUT")
