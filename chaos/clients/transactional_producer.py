"""A transactional producer: transactions over several partitions, one after the other.

Two of them share each transactional id. The one that takes over fences the other, which does not
know it and goes on: a zombie.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field

from chaos.clients.leaders import Leaders
from chaos.clients.transactions import DEAD, IDLE, READY, Transaction, TransactionManager
from chaos.sim.addresses import OUTPUTS, RECEIPTS, TICK, Restart, Tick
from chaos.sim.simulation import Simulation
from chaos.sim.transaction_messages import BASE, STRIDE
from refimpl.messages.broker import MetadataResponse, TopicPartition

BACK_OFF_MS = 100
TICK_MS = 10


def outputs_of(simulation: Simulation) -> tuple[TopicPartition, ...]:
    """The partitions that transactions of this run write to."""
    lone = simulation.settings.lone
    return tuple(one for one in OUTPUTS if lone or one.topic != RECEIPTS)


@define(eq=False)
class TransactionNumbers:
    """Gives each transaction of a run its number."""

    count: int = 0

    def __call__(self) -> int:
        """The next number."""
        self.count += 1
        return self.count


def version_of(simulation: Simulation, rng: Random) -> int:
    """The version of transactions that a new instance has: at most the cluster's."""
    settings = simulation.settings
    drawn = rng.choice(settings.transactional_clients)
    return min(int(drawn), max(settings.transaction_version, 1))


@define(eq=False)
class TransactionalProducer:
    """One of two producers of a transactional id."""

    id: int
    simulation: Simulation
    rng: Random
    leaders: Leaders
    transactional_id: str
    numbers: Callable[[], int]
    #: True if its instance is the newest, as far as it knows
    active: bool = False
    up: bool = True
    paused_until: int = 0
    stopped: bool = False
    next_ms: int = 0
    #: The next process does not begin an instance: its transaction has nobody
    abandons: bool = False
    manager: TransactionManager = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Have a manager, which has no instance yet."""
        about = self.id, self.simulation, self.rng, self.leaders, self.transactional_id
        self.manager = TransactionManager(*about, self._ended)

    @property
    def busy(self) -> bool:
        """True if a transaction is under way, or an instance asks for its epoch."""
        return self.up and self.manager.state not in (IDLE, READY, DEAD)

    def handle(self, message: Any) -> None:
        """A tick, an answer, or the order to start."""
        kind = message.__class__
        if kind is Tick:
            timeline = self.simulation.timeline
            timeline.at(timeline.now + TICK_MS, self.id, TICK)
            if self.up:
                self._tick(timeline.now)
        elif kind is Restart:
            self._restart()
        elif self.up:
            if type(message.body) is MetadataResponse:
                self.leaders.told(message.body)
            else:
                self.manager.take(message)

    def _tick(self, now: int) -> None:
        manager = self.manager
        if manager.state == DEAD:
            manager.stop()
            self.active = manager.error != "PRODUCER_FENCED" or self.rng.random() < 0.5
            self.next_ms = now + BACK_OFF_MS
        manager.tick(now)
        if now < self.next_ms or self.stopped or not self.active:
            return
        if manager.state == IDLE:
            manager.start(version_of(self.simulation, self.rng))
        elif manager.state == READY:
            manager.begin(self._transaction())

    def take_over(self) -> None:
        """Begin an instance of our own, whatever the other producer does."""
        if not self.stopped:
            self.up, self.active = True, True
            self.manager.start(version_of(self.simulation, self.rng))

    def _transaction(self) -> Transaction:
        settings, rng = self.simulation.settings, self.rng
        number = self.numbers()
        outputs = outputs_of(self.simulation)
        chosen = [one for one in outputs if rng.random() < 0.7] or [rng.choice(outputs)]
        value = BASE + number * STRIDE
        batches: dict[TopicPartition, list[tuple[int, ...]]] = {}
        for name in chosen:
            batches[name] = []
            for _ in range(1 + int(rng.random() * 2)):
                count = 1 + int(rng.random() * settings.batch_records)
                batches[name].append(tuple(range(value, value + count)))
                value += count
        hold_ms = int(rng.random() * 40)
        if rng.random() < 0.2:  # about as long as the transaction may take
            hold_ms = int(settings.transaction_timeout_ms * (0.7 + 0.6 * rng.random()))
        return Transaction(number, batches, rng.random() < 0.75, hold_ms)

    def _ended(self, transaction: Transaction, committed: bool | None) -> None:
        pause_ms = self.simulation.settings.transaction_ms
        if self.rng.random() < 0.1:  # long enough for the id to expire
            pause_ms += int(1.5 * self.simulation.settings.id_expiration_ms * self.rng.random())
        self.next_ms = self.simulation.timeline.now + pause_ms

    # The process

    def crash(self, *, abandons: bool) -> None:
        """The process ends, whatever it was about."""
        self.up, self.abandons = False, abandons
        self.manager.stop()

    def _restart(self) -> None:
        if self.up:
            return
        self.up, self.paused_until = True, 0
        self.active = self.active and not self.abandons
        self.next_ms = self.simulation.timeline.now
