"""A member of a group, as tests of either protocol use it."""

from importlib import import_module
from typing import Any

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
