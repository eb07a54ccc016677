"""A shop: orders are taken, kept in Kafka, and charged.

KAFKA=localhost:9092 python shop.py take "order 1" "order 2"
KAFKA=localhost:9092 python shop.py charge
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

TOPIC, GROUP = "orders", "billing"
#: A commit is refused with one of these when another worker has the partition now
LOST = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._STATE,
}


class NotTakenError(Exception):
    """Orders may not be stored: their customers are told."""


class Shop:
    """Takes orders."""

    settings: Mapping[str, Any] = {"acks": "all", "enable.idempotence": True}

    def __init__(self, servers: str, **more: Any) -> None:
        self.producer = Producer({"bootstrap.servers": servers, **self.settings, **more})

    def take(self, *orders: str) -> None:
        """Return when the orders are stored. Raises NotTakenError."""
        failed: list[str] = []

        def stored(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failed.append(f"{message.value().decode()}: {error.name()}")

        for order in orders:
            self.producer.produce(TOPIC, order, on_delivery=stored)
        self.producer.flush()
        if failed:
            raise NotTakenError(", ".join(failed))


class Billing:
    """Charges orders, each at least once: `charge` is called with the record of an order."""

    settings: Mapping[str, Any] = {"auto.offset.reset": "earliest", "enable.auto.commit": False}

    def __init__(self, servers: str, charge: Callable[[Any], None], **more: Any) -> None:
        self.charge = charge
        group = {"bootstrap.servers": servers, "group.id": GROUP}
        self.consumer = Consumer({**group, **self.settings, **more})
        self.consumer.subscribe([TOPIC])

    def work(self, until: Callable[[], bool] = lambda: False) -> None:
        """Charge what comes, batch by batch."""
        while not until():
            self.handle(self.consumer.consume(10, 0.1))

    def handle(self, batch: Iterable[Any]) -> None:
        """Charge a batch. What another worker has taken over meanwhile is left to that one."""
        for order in batch:
            if order.error() is not None:
                if order.error().code() in LOST:
                    continue
                raise KafkaException(order.error())
            self.charge(order)
            if not self.commit(order):
                return

    def commit(self, order: Any) -> bool:
        """Commit what is charged, and say whether the partition is still ours."""
        try:
            self.consumer.commit(message=order, asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() in LOST:
                return False
            raise
        return True

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()


def main(servers: str, verb: str, *orders: str) -> None:
    """The command line."""
    if verb == "take":
        Shop(servers).take(*orders)
    elif verb == "charge":
        Billing(servers, lambda order: print("charged", order.value().decode(), flush=True)).work()
    else:
        sys.exit(f"expected take or charge, found {verb}")


if __name__ == "__main__":
    main(os.environ["KAFKA"], *sys.argv[1:])
