"""The registry of brokers: their incarnations, and which of them are alive.

Specs: `up` in DurableIsr; `alive` and `registered` in AlterPartition. There is one registry for all
partitions. Times are the caller's: the registry only compares them.
"""

from attrs import define, field

from refimpl.errors import StaleBrokerEpoch
from refimpl.machines import controller_errors as errors


@define
class BrokerRegistry:
    """The controller's view of the brokers.

    `epochs` is the broker epoch of each registration: a number that grows with every start of a
    broker, its incarnation. `alive` are those that are not fenced, `leaving` those in a controlled
    shutdown. `heard` is the time of each broker's last heartbeat, in the caller's milliseconds.
    """

    epochs: dict[int, int] = field(factory=dict[int, int])
    alive: frozenset[int] = frozenset()
    leaving: frozenset[int] = frozenset()
    heard: dict[int, int] = field(factory=dict[int, int])

    @property
    def active(self) -> frozenset[int]:
        """The brokers that may join an ISR or be elected: alive, and not shutting down
        (KIP-841).
        """
        return self.alive - self.leaving if self.leaving else self.alive

    def register(self, broker: int, incarnation: int) -> None:
        """Register a broker process; it stays fenced until it has caught up with the metadata.

        The same process may register again, and keeps its state (KAFKA-16952). An older process is
        refused. A newer one is refused until the one before is fenced.
        """
        here = self.epochs.get(broker, -1)
        if incarnation < here:
            raise StaleBrokerEpoch(broker, incarnation, here)
        if incarnation == here:
            return
        if broker in self.alive:
            raise errors.DuplicateRegistration(broker, incarnation, here)
        self.epochs[broker] = incarnation
        self.leaving = self.leaving - {broker}

    def check(self, broker: int, incarnation: int) -> None:
        """Refuse a broker that is not registered in this incarnation (KIP-380)."""
        if broker not in self.epochs:
            raise errors.BrokerNotRegistered(broker)
        if incarnation != self.epochs[broker]:
            raise StaleBrokerEpoch(broker, incarnation, self.epochs[broker])

    def heartbeat(self, broker: int, incarnation: int, now: int) -> bool:
        """Record a heartbeat; True if the broker is fenced, and has to be unfenced."""
        self.check(broker, incarnation)
        self.heard[broker] = now
        return broker not in self.alive

    def silent(self, now: int, session_ms: int) -> tuple[int, ...]:
        """The live brokers whose last heartbeat is longer ago than a session lasts."""
        return tuple(
            broker for broker in sorted(self.alive) if now - self.heard.get(broker, 0) > session_ms
        )

    def unfence(self, broker: int) -> None:
        """Unfence a registered broker that has caught up with the metadata."""
        if broker not in self.epochs:
            raise errors.BrokerNotRegistered(broker)
        if broker in self.alive:
            raise errors.AlreadyUnfenced(broker)
        if broker in self.leaving:
            raise errors.ShuttingDown(broker, self.epochs[broker])
        self.alive = self.alive | {broker}

    def fence(self, broker: int) -> None:
        """Fence a broker that is gone, or whose session is over."""
        if broker not in self.alive:
            raise errors.AlreadyFenced(broker)
        self.alive = self.alive - {broker}

    def shut_down(self, broker: int, incarnation: int) -> None:
        """Begin a broker's controlled shutdown: it is not elected any more.

        This is final for the incarnation: an earlier request to let it into an ISR must not be
        accepted later.
        """
        self.check(broker, incarnation)
        self.leaving = self.leaving | {broker}
