"""Producer: a client's partitions, its connections, and leaders that remember its batches."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from attrs import define, field

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.clients.producer.batch import NONE, Builder, Headers, ProducerBatch
from refimpl.clients.producer.delivery import Delivery, Sequences
from refimpl.errors import InvalidProducerEpoch, OutOfOrderSequence
from refimpl.machines.producer import Batch
from refimpl.machines.producer_state import ProducerState
from refimpl.messages.broker import TopicPartition

ID = 1
COUNTED = ("breaks", "expired", "denied", "refused", "lost", "moved")
Sent = tuple[int, int, int]
"""Batch, epoch, sequence."""
ERRORS = {
    "none": None,
    "order": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "epoch": "INVALID_PRODUCER_EPOCH",
    "denied": "NOT_ENOUGH_REPLICAS",
    "refused": "MESSAGE_TOO_LARGE",
}


@define
class OneRecord:
    """A batch of one record, without content."""

    count: int = 1
    size: int = 1
    largest: int = 1

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> bool:
        return False

    def build(self, producer_id: int, epoch: int, sequence: int) -> Any:
        return producer_id, epoch, sequence

    def split(self, limit: int) -> Sequence[Builder]:
        return [self]


@cache
def partition(number: int) -> TopicPartition:
    """The name of a partition of the spec."""
    return TopicPartition("t", number - 1)


@define(eq=False)
class PartitionLeader:
    """A partition's log, and the leader's memory of the producer."""

    window: int
    log: list[Sent] = field(factory=list[Sent])
    state: ProducerState = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.lose(len(self.log))

    def lose(self, n: int) -> None:
        """Go on with the first n batches, and what they tell."""
        self.log = self.log[:n]
        entries = [_entry(epoch, sequence) for _, epoch, sequence in self.log]
        self.state = ProducerState.replayed(entries, n, 0, self.window)

    def take(self, sent: Sent) -> str:
        """Append a batch, or say why not."""
        _, epoch, sequence = sent
        if epoch == NONE:
            self.log.append(sent)
            return "none"
        entry = _entry(epoch, sequence)
        try:
            duplicate = self.state.admit(entry)
        except OutOfOrderSequence:
            return "order"
        except InvalidProducerEpoch:
            return "epoch"
        if duplicate is None:
            self.state.take(entry, len(self.log))
            self.log.append(sent)
        return "none"

    def is_complete(self, batch: int) -> bool:
        """True if all before a batch is in the log."""
        return {*range(1, batch)} <= {one for one, _, _ in self.log}


@cache
def _entry(epoch: int, sequence: int) -> Batch:
    return Batch(ID, epoch, sequence, sequence)


class Producer(Binding):
    """A producer, a leader and a connection for each partition."""

    module = "Producer"
    #: A batch that is sent again waits in the queue, and among those that are tracked
    shared_on_purpose: ClassVar = (ProducerBatch,)
    knobs: ClassVar = {
        "AckOfEpoch": True,
        "OnDoubt": "bump",
        "Dropped": "none",
        "FirstAlone": True,
        "WithinWindow": True,
        "RememberSent": True,
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.constants = constants
        self.ids = tuple(range(1, constants["Partitions"] + 1))
        self.numbers = tuple(range(1, constants["Batches"] + 1))
        self._begin()
        self.leaders = {p: PartitionLeader(constants["Window"]) for p in self.ids}
        self.wire: dict[int, list[Sent]] = {p: [] for p in self.ids}
        self.answers: dict[int, list[tuple[Sent, str]]] = {p: [] for p in self.ids}
        self.old: dict[int, list[Sent]] = {p: [] for p in self.ids}
        self.former: dict[int, list[tuple[Sent, str]]] = {p: [] for p in self.ids}
        self.failed: set[tuple[int, int]] = set()
        self.needless = False
        self.count: dict[str, int] = dict.fromkeys(COUNTED, 0)

    def _begin(self) -> None:
        self.delivery = Delivery(self.constants["Idempotent"], self.constants["InFlight"])
        self.delivery.identify(ID, 0)
        for p in self.ids:
            self.delivery.of(partition(p))
        self.batches: dict[tuple[int, int], ProducerBatch] = {}

    def _sequences(self) -> Iterator[Sequences]:
        """The client's knowledge of each partition."""
        return (self.delivery.of(partition(p)) for p in self.ids)

    # The client

    def enqueue(self, p: int) -> None:
        number = sum(1 for q, _ in self.batches if q == p) + 1
        if number > self.constants["Batches"]:
            raise Bound
        batch = self.batches[p, number] = _batch(p)
        self.delivery.enqueue(batch)

    def drain(self, p: int) -> None:
        in_flight = len(self.wire[p]) + len(self.answers[p])
        batch = self.delivery.drain(partition(p), in_flight)
        self.wire[p].append((self._number(batch), batch.epoch, batch.sequence))

    def take_answer(self, p: int) -> None:
        self._take_first(p, self.answers[p])

    def take_former(self, p: int) -> None:
        self._take_first(p, self.former[p])

    def _take_first(self, p: int, answers: list[tuple[Sent, str]]) -> None:
        if not answers:
            raise OtherAction
        (number, epoch, sequence), error = answers.pop(0)
        self._answered(p, number, ERRORS[error], epoch, sequence)

    def _answered(self, p: int, number: int, error: str | None, epoch: int, sequence: int) -> None:
        batch = self.batches[p, number]
        outcome = self.delivery.take_answer(batch, error, sent_as=(epoch, sequence))
        if outcome == "failed":
            self.failed.add((p, number))
        if outcome == "retried":
            batch.attempts = 1

    def expire(self, p: int) -> None:
        if self.count["expired"] >= self.constants["MaxExpired"]:
            raise Bound
        waiting = [n for n in self.numbers if (p, n) in self.batches and not self._is_done(p, n)]
        if not waiting:
            raise OtherAction
        self.delivery.expire(self.batches[p, waiting[0]])
        self.failed.add((p, waiting[0]))
        self.count["expired"] += 1

    def resolve(self, p: int) -> None:
        self.delivery.resolve(partition(p))

    def bump(self) -> None:
        self.delivery.bump()

    # The leader

    def arrive(self, p: int) -> None:
        if not self.wire[p]:
            raise OtherAction
        sent = self.wire[p].pop(0)
        error = self.leaders[p].take(sent)
        self.answers[p].append((sent, error))
        self.needless |= error == "order" and self.leaders[p].is_complete(sent[0])

    def deny(self, p: int) -> None:
        self._refuse(p, "denied", "MaxDenied")

    def refuse(self, p: int) -> None:
        self._refuse(p, "refused", "MaxRefused")

    def _refuse(self, p: int, error: str, bound: str) -> None:
        if not self.wire[p]:
            raise OtherAction
        if self.count[error] >= self.constants[bound]:
            raise Bound
        self.answers[p].append((self.wire[p].pop(0), error))
        self.count[error] += 1

    def lose(self, p: int, n: int) -> None:
        if self.count["lost"] >= self.constants["MaxLost"]:
            raise Bound
        if n >= len(self.leaders[p].log):
            raise Environment
        self.leaders[p].lose(n)
        self.count["lost"] += 1

    def move(self, p: int) -> None:
        if self.count["moved"] >= self.constants["MaxMoved"]:
            raise Bound
        if self.former[p]:
            raise Environment
        if not self.answers[p] and not self.wire[p]:
            raise OtherAction
        self.former[p] = self.answers[p] + [(sent, "denied") for sent in self.wire[p]]
        self.wire[p], self.answers[p] = [], []
        self.count["moved"] += 1

    # Connections

    def disconnect(self, p: int) -> None:
        held = [sent for sent, _ in self.answers[p]] + self.wire[p]
        late = self.wire[p] if self.constants["Late"] else []
        self._break(p, held)
        self.old[p], self.wire[p], self.answers[p] = late, [], []

    def disconnect_former(self, p: int) -> None:
        self._break(p, [sent for sent, _ in self.former[p]])
        self.former[p] = []

    def _break(self, p: int, held: list[Sent]) -> None:
        if not held:
            raise OtherAction
        if self.count["breaks"] >= self.constants["MaxBreaks"]:
            raise Bound
        self.count["breaks"] += 1
        for number, epoch, sequence in held:
            self._answered(p, number, "NETWORK_EXCEPTION", epoch, sequence)

    def arrive_late(self, p: int) -> None:
        if not self.old[p]:
            raise OtherAction
        self.leaders[p].take(self.old[p].pop(0))

    # Words of the spec

    def _number(self, batch: ProducerBatch) -> int:
        return next(number for (_, number), one in self.batches.items() if one is batch)

    def _is_done(self, p: int, number: int) -> bool:
        return self.batches[p, number].done

    def _outcome(self, p: int, number: int) -> str:
        """The application's knowledge of a batch."""
        if (p, number) not in self.batches:
            return "none"
        if (p, number) in self.failed:
            return "failed"
        return "written" if self._is_done(p, number) else "waiting"

    def _numbers_of(self, batches: Sequence[ProducerBatch]) -> tuple[int, ...]:
        return tuple([self._number(one) for one in batches])

    def load(self, state: Mapping[str, Value]) -> None:
        self._begin()
        self.delivery.epoch = state["epoch"]
        self.failed = set()
        for p in self.ids:
            for number in self.numbers:
                outcome = state["outcome"][p - 1][number - 1]
                if outcome != "none":
                    batch = self.batches[p, number] = _batch(p)
                    batch.done = outcome in ("written", "failed")
                if outcome == "failed":
                    self.failed.add((p, number))
            self._load_partition(p, state)
        self.delivery.restarting = {partition(p) for p in state["restarting"]}
        self.needless = state["needless"]
        self.count = {name: state["count"][name] for name in self.count}

    def _load_partition(self, p: int, state: Mapping[str, Value]) -> None:
        one, known = self.delivery.of(partition(p)), state["sequences"][p - 1]
        one.epoch, one.next_sequence = known["epoch"], known["next"]
        one.numbered = one.next_sequence
        one.producer_id = NONE if one.epoch == NONE else ID
        one.acked, one.unresolved = known["acked"], known["unresolved"]
        if one.unresolved != NONE:
            self.delivery.doubtful.add(partition(p))
        for tracked in state["tracked"][p - 1]:
            batch = self.batches[p, tracked["batch"]]
            batch.producer_id, batch.epoch = ID, tracked["epoch"]
            batch.sequence, batch.renumbered = tracked["sequence"], tracked["renumbered"]
            batch.number = batch.sequence
            batch.attempts = int(tracked["again"])
            one.tracked.append(batch)
        one.queue.extend(self.batches[p, number] for number in state["queue"][p - 1])
        self.wire[p] = [_sent(r) for r in state["wire"][p - 1]]
        self.answers[p] = [(_sent(a), a["error"]) for a in state["answers"][p - 1]]
        self.old[p] = [_sent(r) for r in state["old"][p - 1]]
        self.former[p] = [(_sent(a), a["error"]) for a in state["former"][p - 1]]
        log = [_sent(r) for r in state["log"][p - 1]]
        self.leaders[p] = PartitionLeader(self.constants["Window"], log)


def _batch(p: int) -> ProducerBatch:
    return ProducerBatch(partition(p), OneRecord(), 1, 0, handles=[None])


def _sent(record: Mapping[str, Value]) -> Sent:
    return record["batch"], record["epoch"], record["sequence"]


@cache
def _request(batch: int, epoch: int, sequence: int) -> Rec:
    return Rec.of(batch=batch, epoch=epoch, sequence=sequence)


@cache
def _answer(sent: Sent, error: str) -> Rec:
    batch, epoch, sequence = sent
    return Rec.of(batch=batch, epoch=epoch, sequence=sequence, error=error)


def _tracked(number: int, batch: ProducerBatch) -> Rec:
    return Rec.of(
        batch=number,
        epoch=batch.epoch,
        sequence=batch.sequence,
        renumbered=batch.renumbered,
        again=batch.attempts > 0,
    )


Producer.projection = {
    "outcome": lambda c: tuple([tuple([c._outcome(p, n) for n in c.numbers]) for p in c.ids]),
    "queue": lambda c: tuple([c._numbers_of(one.queue) for one in c._sequences()]),
    "tracked": lambda c: tuple(
        [
            tuple([_tracked(c._numbers_of([one])[0], one) for one in known.tracked])
            for known in c._sequences()
        ]
    ),
    "sequences": lambda c: tuple(
        [
            Rec.of(epoch=k.epoch, next=k.next_sequence, acked=k.acked, unresolved=k.unresolved)
            for k in c._sequences()
        ]
    ),
    "epoch": lambda c: c.delivery.epoch,
    "restarting": lambda c: frozenset([one.partition + 1 for one in c.delivery.restarting]),
    "wire": lambda c: tuple([tuple([_request(*one) for one in c.wire[p]]) for p in c.ids]),
    "answers": lambda c: tuple([tuple([_answer(*one) for one in c.answers[p]]) for p in c.ids]),
    "old": lambda c: tuple([tuple([_request(*one) for one in c.old[p]]) for p in c.ids]),
    "former": lambda c: tuple([tuple([_answer(*one) for one in c.former[p]]) for p in c.ids]),
    "log": lambda c: tuple([tuple([_request(*one) for one in c.leaders[p].log]) for p in c.ids]),
    "needless": lambda c: c.needless,
    "count": lambda c: Rec.of(**c.count),
}

MODULE = Module(
    binding=Producer,
    machines=("delivery",),
)
