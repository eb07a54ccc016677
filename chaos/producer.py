"""A producer: sends, waits, sends again, and in the end may not know."""

from random import Random
from typing import Any

from attrs import define, field

from chaos import messages as m
from chaos.history import Call
from chaos.messages import Message
from chaos.producer_state import STRIDE
from chaos.world import World

# Refused before anything was appended: such an attempt has certainly not happened.
CERTAIN = {"NOT_ENOUGH_REPLICAS"}


@define(eq=False)
class Sending:
    """A record on its way."""

    value: int
    partition: int
    first_at: int
    sent_at: int = 0
    attempt: int = 0
    waits: bool = False
    unsure: bool = False
    call: Call | None = None


@define(eq=False)
class Producer:
    """Sends one record after the other, and with acks=all keeps what it was told of each."""

    id: int
    number: int
    world: World
    acks: str
    dice: Random
    paused_until: int = 0
    stopped: bool = False
    sequence: int = 0
    attempts: int = 0
    leaders: dict[int, int] = field(factory=dict[int, int])
    sending: dict[int, Sending] = field(factory=dict[int, Sending])
    acked: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])

    @property
    def process(self) -> str:
        """The name in the history."""
        return f"p{self.number}#0"

    def handle(self, message: Message) -> None:
        """A tick, or an answer."""
        if message[0] == m.TICK:
            self._tick(message)
        elif message[0] == m.PRODUCED:
            self._produced(message)

    def _tick(self, message: Message) -> None:
        timeline, swarm = self.world.timeline, self.world.swarm
        now = timeline.now
        timeline.at(now + swarm.produce_ms, self.id, message)
        for sending in tuple(self.sending.values()):
            if now - sending.first_at > swarm.delivery_timeout_ms:
                self._give_up(sending)
            elif not sending.waits or now - sending.sent_at > swarm.request_timeout_ms:
                if sending.waits:
                    sending.unsure = True
                    self._ask_for_leader(sending.partition)
                self._attempt(sending)
        if not self.stopped:
            self._send()

    def _send(self) -> None:
        """A new record, where there is room; with idempotence in order, one at a time."""
        swarm = self.world.swarm
        partition = int(self.dice.random() * swarm.partitions)
        busy = sum(1 for other in self.sending.values() if other.partition == partition)
        if busy >= (1 if swarm.idempotence else swarm.max_in_flight):
            return
        value = self.number * STRIDE + self.sequence
        self.sequence += 1
        sending = Sending(value, partition, self.world.timeline.now)
        if self.world.history is not None:
            record = {"topic": "orders", "partition": partition, "id": value}
            sending.call = self.world.history.invoke(self.process, "send", records=[record])
        if self.acks != "0":
            self.sending[value] = sending
        self._attempt(sending)
        if self.acks == "0":
            self._end(sending, "ok")

    def _attempt(self, sending: Sending) -> None:
        self.attempts += 1
        sending.attempt, sending.waits = self.attempts, True
        sending.sent_at = self.world.timeline.now
        leader = self.leaders.get(sending.partition) or self._ask_for_leader(sending.partition)
        self.world.network.send(
            (
                m.PRODUCE,
                self.id,
                leader,
                sending.partition,
                sending.attempt,
                sending.value,
                self.acks,
            )
        )

    def _ask_for_leader(self, partition: int) -> int:
        """Metadata: mostly what is in force, sometimes what some broker believes."""
        leader = self.world.partitions[partition].state.leader
        if leader is None or self.dice.random() < 0.1:
            leader = m.BROKERS[int(self.dice.random() * len(m.BROKERS))]
        self.leaders[partition] = leader
        return leader

    def _produced(self, message: Message) -> None:
        _, _, _, partition, attempt, value, error, offset = message
        sending = self.sending.get(value)
        if sending is None or sending.attempt != attempt:
            self.world.counts["late acknowledgements" if error is None else "late errors"] += 1
            return
        if error is None:
            del self.sending[value]
            if self.acks == "all":
                self.acked[value] = partition, offset
            self._end(sending, "ok", offset)
            return
        sending.waits = False
        sending.unsure |= error not in CERTAIN
        self._ask_for_leader(partition)

    def _give_up(self, sending: Sending) -> None:
        """delivery.timeout.ms is over; only if every attempt was refused we know what it means."""
        del self.sending[sending.value]
        unsure = sending.unsure or sending.waits
        self.world.counts["sends of unknown outcome" if unsure else "sends that failed"] += 1
        self._end(sending, "info" if unsure else "fail")

    def _end(self, sending: Sending, outcome: str, offset: int = -1) -> None:
        history, call = self.world.history, sending.call
        if history is None or call is None:
            return
        fields: dict[str, Any] = {} if outcome == "ok" else {"error": "REQUEST_TIMED_OUT"}
        if offset >= 0:
            fields["records"] = [{**call["records"][0], "offset": offset}]
        history.complete(call, outcome, **fields)
