"""The faults: what happens while the shop sends orders 1 to 6, or while the worker reads them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from attrs import define, field

from examples.recipe.application import TOPIC, Shop, Worker
from highwater import Kafka

LAG_MS = 31_000
"""More than replica.lag.time.max.ms."""


class Brokers(Kafka):
    """A cluster that may lose a machine for good."""

    lost: int | None = None

    def recover(self) -> None:
        """As ever, but for the machine that is lost."""
        self.heal()
        for number, host in self.hosts.items():
            if not host.up and number != self.lost:
                self.restart(number)
        self.until(self._is_committed)

    def die(self, *brokers: int) -> None:
        """Brokers end, and the controller knows at once."""
        for broker in brokers:
            self.kill(broker, expire=True)


@define(eq=False)
class Play:
    """What takes part in one run."""

    kafka: Brokers
    shop: Shop
    worker: Worker
    replicas: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.replicas = list(self.kafka.partition(TOPIC, 0).replicas)

    def begin(self) -> None:
        """The worker waits for an order, which is sent, processed and committed."""
        self.worker.work(meanwhile=lambda: self.shop.send(0))

    def fall_behind(self, followers: list[int]) -> None:
        """Followers hear nothing of the others any more, until they are in sync no longer."""
        for broker in followers:
            self.kafka.cut(broker, "brokers")
        left = [broker for broker in self.replicas if broker not in followers]
        while self.kafka.isr(TOPIC, 0) != frozenset(left):
            for broker in left:
                self.kafka.advance(LAG_MS, broker=broker)
            with suppress(TimeoutError):  # a fetch was on its way, and came after that time
                self.kafka.until(
                    lambda: self.kafka.isr(TOPIC, 0) == frozenset(left), timeout_ms=200
                )


def nothing(play: Play) -> None:
    """Nothing goes wrong."""
    play.begin()
    play.shop.send(*range(1, 7))


def late(play: Play) -> None:
    """The group starts for the first time after the orders were sent."""
    play.shop.send(*range(1, 7))


def leader_dies(play: Play) -> None:
    """The leader dies with the third record in its log, which nobody else has; it comes back."""
    play.begin()

    def die(event: Any) -> None:
        play.kafka.die(event.broker)

    play.kafka.when("written", topic=TOPIC, count=3, do=die)
    play.shop.send(*range(1, 7))


def machine_lost(play: Play) -> None:
    """The leader's machine is lost after the third order, for good."""
    play.begin()
    play.shop.send(1, 2, 3)
    play.kafka.lost = play.replicas[0]
    play.kafka.die(play.replicas[0])
    play.shop.send(4, 5, 6)


def cut_off(play: Play) -> None:
    """The leader is cut off from its followers, and dies before they are missed."""
    play.begin()
    play.kafka.cut(play.replicas[0], "brokers")
    written = play.kafka.when("written", topic=TOPIC, count=3)
    play.shop.send(1, 2, 3, wait=False)
    play.kafka.met(written)
    if play.shop.settings.acks == "1":
        play.shop.wait()
    play.kafka.die(play.replicas[0])
    play.kafka.heal()
    play.shop.send(4, 5, 6)


def last_dies(play: Play) -> None:
    """Both followers fall behind; the leader, alone in sync, dies when they are well again."""
    play.begin()
    play.fall_behind(play.replicas[1:])
    play.shop.send(1, 2, 3, wait=False)
    play.shop.wait()
    play.kafka.die(play.replicas[0])
    play.kafka.heal()
    play.shop.send(4, 5, 6, wait=False)
    play.shop.wait()


def two_die(play: Play) -> None:
    """One follower falls behind; the two that are in sync die when it is well again."""
    play.begin()
    play.fall_behind(play.replicas[2:])
    play.shop.send(1, 2, 3)
    play.kafka.die(*reversed(play.replicas[:2]))
    play.kafka.heal()
    play.shop.send(4, 5, 6, wait=False)
    play.shop.wait()


def unanswered(play: Play) -> None:
    """The connection breaks in place of an acknowledgement."""
    play.begin()
    play.kafka.disconnect("Produce", count=1)
    play.shop.send(*range(1, 7))


def refused(play: Play) -> None:
    """Two requests of the producer are refused for a reason that passes."""
    play.begin()
    play.kafka.fail("Produce", "NOT_ENOUGH_REPLICAS", count=2)
    play.shop.send(*range(1, 7))


def worker_fails(play: Play) -> None:
    """The worker dies while it processes the third order."""
    play.begin()
    play.shop.send(*range(1, 7))
    play.worker.work("order 3", "processing")


def worker_dies(play: Play) -> None:
    """The worker dies between processing the third order and committing it, in either order."""
    play.begin()
    play.shop.send(*range(1, 7))
    play.worker.work("order 3", "between")


FAULTS: Mapping[str, Callable[[Play], None]] = {
    "none": nothing,
    "late start": late,
    "leader dies": leader_dies,
    "machine lost": machine_lost,
    "leader cut off": cut_off,
    "last in sync dies": last_dies,
    "two in sync die": two_die,
    "answer lost": unanswered,
    "send refused": refused,
    "worker fails": worker_fails,
    "worker dies": worker_dies,
}
