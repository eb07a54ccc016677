"""A member of a group, as tests of either protocol use it."""

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tests.refimpl.edge.patience import PATIENCE_S

confluent: Any = import_module("confluent_kafka")


class Member:
    """A consumer of librdkafka, and what it was given."""

    def __init__(self, cluster: Any, group: str, topic: str, **configs: Any) -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.client = confluent.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        self.client.subscribe([topic])
        self.seen: list[bytes] = []

    def poll(self) -> None:
        message = self.client.poll(0.05)
        if message is not None and message.error() is None:
            self.seen.append(message.value())

    def owned(self) -> set[int]:
        return {one.partition for one in self.client.assignment()}

    def commit(self) -> None:
        self.client.commit(asynchronous=False)

    def close(self) -> None:
        self.client.close()


def until(members: Sequence[Any], holds: Callable[[], bool]) -> None:
    """Poll all in turn until it holds; the limit is there for a failure to be told.

    On failure all are closed: one that is not goes on in threads of its own, and other tests hear
    of it.
    """
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            state = [(one.owned(), one.seen) for one in members]
            for one in members:
                one.close()
            raise AssertionError(state)
        for one in members:
            one.poll()
