"""The common part of tests of consumers: they read until enough is there, and hear of changes."""

from collections.abc import Callable
from typing import Any

from highwater import Consumer, ConsumerRecord


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """So many records."""
    return until(consumer, lambda found: len(found) >= count)


def until(consumer: Consumer, enough: Callable[[list[ConsumerRecord]], bool]) -> list[Any]:
    found: list[ConsumerRecord] = []
    for _ in range(200):
        found += consumer.poll(0.2)
        if enough(found):
            return found
    raise AssertionError(f"{len(found)} records: {found[:5]}")


class Listener:
    """Notes all that it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: list[Any]) -> None:
        self.heard.append(("assigned", [one.partition for one in partitions]))

    def on_partitions_revoked(self, partitions: list[Any]) -> None:
        self.heard.append(("revoked", [one.partition for one in partitions]))

    def on_partitions_lost(self, partitions: list[Any]) -> None:
        self.heard.append(("lost", [one.partition for one in partitions]))
