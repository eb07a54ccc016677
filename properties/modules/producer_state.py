"""ProducerState: the leader's memory of producers, on a log of entries.

Producers, their connections and their coordinators are the environment: the binding plays them.
Epochs are the spec's. Sequences and offsets begin at 0 in the machine, at 1 in the spec.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import asdict, define, evolve, frozen

from properties.conformance.binding import Binding, Bound, Environment, NoSuchChoice, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.errors import Refusal
from refimpl.machines.producer import NONE, Batch, Marker, Producer, SeenBatch, Verification
from refimpl.machines.producer_state import ProducerState
from refimpl.machines.replica_log import Guard

DAY_MS = 86_400_000
CONNECTIONS = "new", "old"


@frozen
class Entry:
    """A record of the log, in the words of the spec."""

    kind: str
    producer: int
    epoch: int
    sequence: int
    transaction: int
    coordinator: int

    @property
    def is_data(self) -> bool:
        return self.kind == "data"


@frozen
class Left:
    """The batches that a broken connection still holds."""

    epoch: int = 0
    transaction: int = 0
    next: int = 1
    last: int = 0

    @property
    def drained(self) -> bool:
        return self.next > self.last


@frozen
class OneProducer:
    """One producer."""

    phase: str
    epoch: int = 1
    transaction: int = 0
    sent: int = 0
    arrived: int = 0
    heard: int = 0


@frozen
class Coordinator:
    """The state of one producer at its coordinator, with the offset of its marker."""

    phase: str = "idle"
    epoch: int = 1
    transaction: int = 0
    marker: int = 0

    @property
    def ending(self) -> bool:
        return self.phase in ("commit", "abort")


@frozen
class Asking:
    """The write at the head of a connection, and its guard."""

    phase: str = "none"
    guard: Guard | None = None


@define
class Count:
    """Bounds and faults used up."""

    breaks: int = 0
    failovers: int = 0
    copies: int = 0
    drops: int = 0
    days: int = 0


@frozen
class Bounds:
    """The constants that end the model."""

    batches: int
    transactions: int
    breaks: int
    failovers: int
    coordinators: int
    copies: int
    drops: int
    days: int
    in_flight: int
    faults: frozenset[str]


class ProducerStates(Binding):
    """A leader, producers 1..P with their connections, and a coordinator for each."""

    module = "ProducerState"
    knobs: ClassVar = {
        "StrictMarkers": True,
        "ExactMarkers": True,
        "FenceCoordinator": True,
        "Verify": True,
        "GuardOfEpoch": True,
        "ByClock": True,
        "RefuseOverOpen": True,
        "Dropped": "none",
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["Producers"] + 1))
        self.version: int = constants["Version"]
        self.window: int = constants["Window"]
        self.reload: int = constants["Reload"]
        self.bounds = Bounds(
            batches=constants["Batches"],
            transactions=constants["MaxTransactions"],
            breaks=constants["MaxBreaks"],
            failovers=constants["MaxFailovers"],
            coordinators=constants["MaxCoordinators"],
            copies=constants["MaxCopies"],
            drops=constants["MaxDrops"],
            days=constants["MaxDays"],
            in_flight=constants["InFlight"],
            faults=constants["Faults"],
        )
        self.log: list[Entry] = []
        self.high_watermark = self.now = 0
        self.state = ProducerState(window=self.window)
        self.asking = {(i, c): Asking() for i in self.ids for c in CONNECTIONS}
        phase = "ready" if self.version else "in"
        self.client = {i: OneProducer(phase) for i in self.ids}
        self.old = {i: Left() for i in self.ids}
        self.coordinator = {i: Coordinator() for i in self.ids}
        self.coordinator_epoch = 1
        self.sent: frozenset[Entry] = frozenset()
        self.decision = ["none"] * self.bounds.transactions
        self.begun = 0
        self.count = Count()

    # The log

    def _must(self, true: bool, otherwise: type[Refusal] = OtherAction) -> None:
        if not true:
            raise otherwise

    def _appended(self, entry: Entry) -> None:
        self.log.append(entry)
        if "lag" not in self.bounds.faults:
            self._replicated(len(self.log))

    def _replicated(self, offset: int) -> None:
        self.high_watermark = offset
        self.state.advance_high_watermark(offset)

    def commit(self) -> None:
        self._must(self.high_watermark < len(self.log))
        self._replicated(self.high_watermark + 1)

    def failover(self, kept: int) -> None:
        end = self.high_watermark + kept
        self._must(self.count.failovers < self.bounds.failovers, Bound)
        self._must(end <= len(self.log), Environment)
        del self.log[end:]
        entries = [self._batch_of(one) if one.is_data else self._marker_of(one) for one in self.log]
        self.state = ProducerState.replayed(entries, self.high_watermark, self.now, self.reload)
        self.state.window = self.window
        self.asking = dict.fromkeys(self.asking, Asking())
        for i in self.ids:
            self.client[i] = evolve(self.client[i], arrived=self.client[i].heard)
            self.old[i] = Left()
            self.coordinator[i] = evolve(self.coordinator[i], marker=0)
        self.count.failovers += 1

    # Batches

    def _batch(self, i: int, c: str) -> Batch:
        sender = self.client[i] if c == "new" else self.old[i]
        sequence = self.client[i].arrived if c == "new" else self.old[i].next - 1
        return Batch(i, sender.epoch, sequence, sequence, self.version > 0, self.version)

    def _batch_of(self, entry: Entry) -> Batch:
        sequence = entry.sequence - 1
        return Batch(
            entry.producer, entry.epoch, sequence, sequence, self.version > 0, self.version
        )

    def _waiting(self, i: int, c: str) -> Batch:
        client, old = self.client[i], self.old[i]
        there = client.phase == "in" and client.arrived < client.sent if c == "new" else None
        self._must(not old.drained if there is None else there)
        return self._batch(i, c)

    def _verified_or_free(self, i: int, c: str, batch: Batch) -> Guard | None:
        asking = self.asking[i, c]
        self._must(not self.state.must_verify(batch) or asking.phase == "verified")
        return asking.guard

    def _go_on(self, i: int, c: str) -> None:
        if c == "new":
            self.client[i] = evolve(self.client[i], arrived=self.client[i].arrived + 1)
        else:
            self.old[i] = evolve(self.old[i], next=self.old[i].next + 1)
        self.asking[i, c] = Asking()

    def _again(self, i: int, c: str) -> None:
        if c == "new":
            self.client[i] = evolve(self.client[i], arrived=self.client[i].heard)
        else:
            self.old[i] = evolve(self.old[i], next=self.old[i].next + 1)
        self.asking[i, c] = Asking()

    def produce(self, i: int, c: str) -> None:
        batch = self._waiting(i, c)
        guard = self._verified_or_free(i, c, batch)
        self._must(self.state.duplicate_of(batch) is None)
        self.state.check(batch, guard)
        self.state.take(batch, len(self.log), self.now)
        transaction = (self.client[i] if c == "new" else self.old[i]).transaction
        entry = Entry("data", i, batch.epoch, batch.first_sequence + 1, transaction, 0)
        self._appended(entry)
        self._go_on(i, c)

    def answer_duplicate(self, i: int, c: str) -> None:
        self._must(self.state.duplicate_of(self._waiting(i, c)) is not None)
        self._go_on(i, c)

    def refuse(self, i: int, c: str) -> None:
        batch = self._waiting(i, c)
        guard = self._verified_or_free(i, c, batch)
        self._must(self.state.duplicate_of(batch) is None)
        try:
            self.state.check(batch, guard)
        except Refusal:
            self._again(i, c)
        else:
            raise OtherAction

    def ask(self, i: int, c: str) -> None:
        batch = self._waiting(i, c)
        self._must(self.state.must_verify(batch) and self.asking[i, c].phase == "none")
        self._must(self.state.duplicate_of(batch) is None)
        self.asking[i, c] = Asking("asked", self.state.start_verification(batch, self.now))

    def verified(self, i: int, c: str) -> None:
        coordinator = self.coordinator[i]
        self._must(self.asking[i, c].phase == "asked")
        self._must(coordinator.epoch == self._batch(i, c).epoch, Environment)
        added = coordinator.phase == "idle" and self.version == 2
        self._must(coordinator.phase == "ongoing" or added, Environment)
        transaction = (self.client[i] if c == "new" else self.old[i]).transaction
        self.coordinator[i] = evolve(coordinator, phase="ongoing", transaction=transaction)
        self.asking[i, c] = evolve(self.asking[i, c], phase="verified")

    def denied(self, i: int, c: str) -> None:
        coordinator = self.coordinator[i]
        self._must(self.asking[i, c].phase == "asked")
        passed = coordinator.epoch != self._batch(i, c).epoch
        never = self.version == 1 and coordinator.phase == "idle"
        self._must(passed or never, Environment)
        self._again(i, c)

    def ask_fails(self, i: int) -> None:
        client = self.client[i]
        self._must(self.count.breaks < self.bounds.breaks, Bound)
        self._must(self.asking[i, "new"].phase == "asked")
        self._must(self.old[i].drained, Environment)
        self.old[i] = Left(client.epoch, client.transaction, client.arrived + 2, client.sent)
        self.client[i] = evolve(client, arrived=client.heard)
        self.asking[i, "new"] = Asking()
        self.count.breaks += 1

    # Markers

    def _marker(self, i: int) -> Entry:
        at = self.coordinator[i]
        return Entry(at.phase, i, at.epoch, 0, at.transaction, self.coordinator_epoch)

    def _marker_of(self, entry: Entry) -> Marker:
        return Marker(entry.producer, entry.epoch, entry.coordinator, self.version)

    def _end(self, entry: Entry) -> None:
        marker = self._marker_of(entry)
        self.state.check(marker)
        self.state.take(marker, len(self.log), self.now)
        self._appended(entry)

    def write_marker(self, i: int) -> None:
        at = self.coordinator[i]
        self._must(at.ending and at.marker == 0)
        marker = self._marker(i)
        self._end(marker)
        self.coordinator[i] = evolve(at, marker=len(self.log))
        if "late" in self.bounds.faults and self.count.copies < self.bounds.copies:
            self.sent |= {marker}

    def lose_answer(self, i: int) -> None:
        self._must("unheard" in self.bounds.faults, Environment)
        self._must(self.count.copies < self.bounds.copies, Bound)
        self._must(self.coordinator[i].marker != 0)
        self.coordinator[i] = evolve(self.coordinator[i], marker=0)
        self.count.copies += 1

    def late_marker(self, i: int, choice: int) -> None:
        late = sorted((one for one in self.sent if one.producer == i), key=str)
        if choice >= len(late):
            raise NoSuchChoice
        self._must(self.count.copies < self.bounds.copies, Bound)
        self._end(late[choice])
        self.count.copies += 1

    def complete(self, i: int) -> None:
        marker = self.coordinator[i].marker
        self._must(marker != 0)
        self._must(marker <= self.high_watermark, Environment)
        self.coordinator[i] = evolve(self.coordinator[i], phase="idle", marker=0, transaction=0)

    def drop_marker(self, i: int) -> None:
        at = self.coordinator[i]
        self._must(self.count.drops < self.bounds.drops, Bound)
        self._must(at.ending and at.marker == 0)
        self.coordinator[i] = evolve(at, phase="idle", transaction=0)
        self.count.drops += 1

    def new_coordinator(self) -> None:
        self._must(self.coordinator_epoch < self.bounds.coordinators, Bound)
        if self.count.copies < self.bounds.copies:
            self.sent |= {self._marker(i) for i in self.ids if self.coordinator[i].ending}
        for i in self.ids:
            self.coordinator[i] = evolve(self.coordinator[i], marker=0)
        self.coordinator_epoch += 1

    # Producers

    def _leave_behind(self, i: int) -> None:
        client = self.client[i]
        self._must(self.old[i].drained, Environment)
        if client.arrived < client.sent:
            self.old[i] = Left(client.epoch, client.transaction, client.arrived + 1, client.sent)
            self.asking[i, "old"] = self.asking[i, "new"]
            self.asking[i, "new"] = Asking()

    def begin(self, i: int) -> None:
        self._must(self.client[i].phase == "ready")
        self._must(self.begun < self.bounds.transactions, Bound)
        if self.version == 1:
            self._must(self.coordinator[i].phase == "idle", Environment)
            self.coordinator[i] = evolve(
                self.coordinator[i], phase="ongoing", transaction=self.begun + 1
            )
        self.begun += 1
        self.client[i] = evolve(self.client[i], phase="in", transaction=self.begun)

    def send(self, i: int) -> None:
        client = self.client[i]
        self._must(client.phase == "in")
        self._must(client.sent < self.bounds.batches, Bound)
        self._must(client.sent - client.heard < self.bounds.in_flight, Environment)
        self.client[i] = evolve(client, sent=client.sent + 1)

    def hear(self, i: int) -> None:
        client = self.client[i]
        self._must(client.heard < client.arrived)
        wanted = "data", i, client.epoch, client.heard + 1
        replicated = self.log[: self.high_watermark]
        there = [(e.kind, e.producer, e.epoch, e.sequence) for e in replicated]
        self._must(wanted in there, Environment)
        self.client[i] = evolve(client, heard=client.heard + 1)

    def reconnect(self, i: int) -> None:
        client = self.client[i]
        self._must(self.count.breaks < self.bounds.breaks, Bound)
        self._must(client.phase == "in" and client.heard < client.sent)
        self._leave_behind(i)
        self.client[i] = evolve(client, arrived=client.heard)
        self.count.breaks += 1

    def end_txn(self, i: int, outcome: str) -> None:
        client, at = self.client[i], self.coordinator[i]
        everything = client.heard == client.sent
        self._must(client.phase == "in" and self.version > 0)
        self._must(outcome == "abort" or (everything and client.sent > 0), Environment)
        self._must(at.epoch == client.epoch, Environment)
        empty = at.phase == "idle" and self.version == 2
        self._must(at.phase == "ongoing" or empty, Environment)
        self._leave_behind(i)
        raised = 1 if self.version == 2 else 0
        phase = "idle" if empty else outcome
        self.coordinator[i] = evolve(at, phase=phase, epoch=at.epoch + raised)
        self.decision[client.transaction - 1] = outcome
        if raised:
            self.client[i] = OneProducer("ready", client.epoch + 1)
        else:
            phase = "ready" if everything else "starting"
            self.client[i] = evolve(client, phase=phase, transaction=0)

    def fence(self, i: int) -> None:
        client, at = self.client[i], self.coordinator[i]
        self._must("fence" in self.bounds.faults, Environment)
        self._must(client.phase == "in" and at.phase == "ongoing")
        self._leave_behind(i)
        self.coordinator[i] = evolve(at, phase="abort", epoch=at.epoch + 1)
        self.decision[client.transaction - 1] = "abort"
        self.client[i] = evolve(client, phase="starting", transaction=0)

    def init_producer_id(self, i: int) -> None:
        at = self.coordinator[i]
        self._must(self.client[i].phase == "starting")
        self._must(at.phase == "idle", Environment)
        self.coordinator[i] = evolve(at, epoch=at.epoch + 1)
        self.client[i] = OneProducer("ready", at.epoch + 1)

    def day_passes(self, i: int) -> None:
        producer, client = self.state.producers.get(i), self.client[i]
        self._must(self.count.days < self.bounds.days, Bound)
        self._must(producer is not None and not self._idle(producer))
        self._must(client.heard == client.sent or client.phase != "in", Environment)
        quiet = not self.coordinator[i].ending and not self.sent
        self._must(self.old[i].drained and quiet, Environment)
        self.now += DAY_MS
        self.count.days += 1

    def expire(self, i: int) -> None:
        self._must(self.state.expire(i, self.now, DAY_MS))

    # Looking

    def _remembered(self, i: int) -> Value:
        one = self.state.producers.get(i)
        if one is None:
            return Rec.of(known=False, epoch=0, coordinator=0, seen=(), first=0, idle=False)
        # As the last stable offset takes it, which is of no variable
        opened = {id: first for first, id in self.state.opened.items()}
        return Rec.of(
            known=True,
            epoch=one.epoch,
            coordinator=max(0, one.coordinator_epoch),
            seen=tuple([batch.first_sequence + 1 for batch in one.seen]),
            first=opened.get(i, NONE) + 1,
            idle=self._idle(one),
        )

    def _idle(self, producer: Producer) -> bool:
        assert producer.heard_ms is not None
        return self.now - producer.heard_ms >= DAY_MS

    def _guard(self, i: int) -> Value:
        one = self.state.verifications.get(i)
        return Rec.of(epoch=one.epoch if one else 0, lowest=one.lowest + 1 if one else 0)

    def _asking(self, i: int) -> Value:
        found = {c: self.asking[i, c] for c in CONNECTIONS}
        return Rec.of(
            **{
                c: Rec.of(phase=a.phase, guarded=self.state.is_guarded(i, a.guard))
                for c, a in found.items()
            }
        )

    def load(self, state: Mapping[str, Value]) -> None:
        """Times are days: whoever is idle was heard a day ago."""
        self.now = DAY_MS
        self.log = [Entry(**dict(one.items())) for one in state["log"]]
        self.high_watermark = state["highWatermark"]
        known = zip(self.ids, state["producers"], strict=True)
        producers = {i: self._loaded(one) for i, one in known if one["known"]}
        self.state = ProducerState(producers, self.window)
        for one in state["unreplicated"]:
            self.state.unreplicated[one["first"] - 1] = one["last"] - 1
        for i in self.ids:
            guard, asking = state["guard"][i - 1], state["asking"][i - 1]
            made = Guard()
            if guard["epoch"]:
                waits = guard["epoch"], guard["lowest"] - 1, self.version
                self.state.verifications[i] = Verification(made, *waits, self.now)
            for c in CONNECTIONS:
                held = made if asking[c]["guarded"] else None
                self.asking[i, c] = Asking(asking[c]["phase"], held)
            self.client[i] = OneProducer(**dict(state["client"][i - 1].items()))
            self.old[i] = Left(**dict(state["old"][i - 1].items()))
            self.coordinator[i] = Coordinator(**dict(state["coordinator"][i - 1].items()))
        self.coordinator_epoch, self.begun = state["coordinatorEpoch"], state["begun"]
        self.sent = frozenset([Entry(**dict(one.items())) for one in state["sent"]])
        self.decision = list(state["decision"])
        self.count = Count(**dict(state["count"].items()))

    def _loaded(self, known: Any) -> Producer:
        producer = Producer(
            known["epoch"],
            known["coordinator"] or NONE,
            known["first"] - 1,
            0 if known["idle"] else self.now,
        )
        producer.seen.extend([SeenBatch(s - 1, s - 1, NONE) for s in known["seen"]])
        return producer


def _rec(one: Any) -> Rec:
    return Rec.of(**asdict(one))


ProducerStates.projection = {
    "log": lambda c: tuple(map(_rec, c.log)),
    "highWatermark": lambda c: c.high_watermark,
    "producers": lambda c: tuple([c._remembered(i) for i in c.ids]),
    "unreplicated": lambda c: frozenset(
        [Rec.of(first=a + 1, last=b + 1) for a, b in c.state.unreplicated.items()]
    ),
    "guard": lambda c: tuple([c._guard(i) for i in c.ids]),
    "asking": lambda c: tuple([c._asking(i) for i in c.ids]),
    "client": lambda c: tuple([_rec(c.client[i]) for i in c.ids]),
    "old": lambda c: tuple([_rec(c.old[i]) for i in c.ids]),
    "coordinator": lambda c: tuple([_rec(c.coordinator[i]) for i in c.ids]),
    "coordinatorEpoch": lambda c: c.coordinator_epoch,
    "sent": lambda c: frozenset(map(_rec, c.sent)),
    "decision": lambda c: tuple(c.decision),
    "begun": lambda c: c.begun,
    "count": lambda c: _rec(c.count),
}

MODULE = Module(binding=ProducerStates, machines=("producer_state",))
