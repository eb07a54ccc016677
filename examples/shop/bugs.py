"""Four bugs of such services. `pytest --bug NAME` runs the tests with one of them put in."""

from collections.abc import Iterable
from typing import Any

from shop import Billing, Shop


class CommitFirst(Billing):
    """Commits an order before it is charged: a worker that dies in between skips it."""

    def handle(self, batch: Iterable[Any]) -> None:
        for order in batch:
            self.commit(order)
            self.charge(order)


class CommitSeldom(Billing):
    """Commits every third order, and nothing when partitions are revoked: a rebalance repeats."""

    charged = 0

    def commit(self, order: Any) -> bool:
        self.charged += 1
        return self.charged % 3 != 0 or super().commit(order)


class Zombie(Billing):
    """Goes on with its batch when a commit was refused, though another worker has it."""

    def commit(self, order: Any) -> bool:
        super().commit(order)
        return True


class NotIdempotent(Shop):
    """Sends an order again when its acknowledgement is lost, and it is stored twice."""

    settings = Shop.settings | {"enable.idempotence": False}  # pyright: ignore


BUGS = {
    "commit-first": CommitFirst,
    "commit-seldom": CommitSeldom,
    "not-idempotent": NotIdempotent,
    "zombie": Zombie,
}
