"""The producers of a run, each with a thread of its own, all recorded."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from attrs import define, field

from chaos.real.campaign.plan import AGAIN, CONFIGURED, Plan
from traces.record import recorded

KEYS = 5
ONE_LIFE, LIFE_S = 20, 30.0
DELIVERY_MS = 300_000
"""librdkafka's default. After a time-out its idempotent producer takes another epoch, and repeats
in it what may be stored: that would be its duplicate, and no broker's."""
FLUSH_S = 120.0
#: The settings of each producer, by its name in a plan.
PRODUCERS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"acks": "all", "enable.idempotence": False},
    "idempotent": {"acks": "all", "enable.idempotence": True},
    "acks-1": {"acks": "1", "enable.idempotence": False},
}


def common(plan: Plan, bootstrap: str) -> dict[str, Any]:
    """Settings of all clients of librdkafka: they find another leader soon."""
    return {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 1_000,
        "socket.timeout.ms": max(2_000, plan.clients.timeout_ms + 500),
    }


@define(eq=False)
class Writer:
    """One producer; it writes to all topics that clients without transactions write to."""

    name: str
    plan: Plan
    bootstrap: str
    folder: Path
    counts: Counter[str] = field(factory=Counter[str])
    _stopping: Event = field(factory=Event)
    _producer: Any = field(default=None, init=False)
    _thread: Any = field(default=None, init=False)
    failed: str = field(default="", init=False)

    def start(self) -> None:
        """Make the client, and begin to write."""
        library: Any = import_module("confluent_kafka")
        conf = {**common(self.plan, self.bootstrap), **PRODUCERS[self.name]}
        conf |= {"request.timeout.ms": self.plan.clients.timeout_ms}
        conf |= {"delivery.timeout.ms": DELIVERY_MS}
        conf |= {"linger.ms": self.plan.clients.linger_ms, "client.id": self.name}
        self._producer = recorded(library.Producer, self.folder, conf, name=self.name)
        self._thread = Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and wait until everything is answered."""
        self._stopping.set()
        self._thread.join()
        self.counts["unanswered"] += self._producer.flush(FLUSH_S)
        self._producer.close()

    def _run(self) -> None:
        try:
            self._writes()
        except Exception as failure:  # such as a fatal error; the run reports it
            self.failed = f"{self.name}: {failure!r}"

    def _writes(self) -> None:
        rng, number = Random(f"{self.plan.seed}/{self.name}"), 0
        topics = [topic for topic in self.plan.topics if topic != AGAIN]
        failure: Any = import_module("confluent_kafka").KafkaException
        while not self._stopping.is_set():
            number += 1
            topic = rng.choice(topics)
            partition = rng.randrange(self.plan.topics[topic].partitions)
            value = f"{self.name} {number}".encode()
            key = {"key": b"k%d" % rng.randrange(KEYS)} if self.plan.topics[topic].keys else {}
            if topic == CONFIGURED:  # it is compacted for a while, and may lose nothing by that
                key = {"key": value}
            with suppress(BufferError, failure):  # the topic may be away just now
                report = self._delivered
                self._producer.produce(topic, value, partition=partition, on_delivery=report, **key)
            self._producer.poll(0)
            time.sleep(self.plan.clients.pause_ms / 1000)

    def _delivered(self, error: Any, message: Any) -> None:
        self.counts["acknowledged" if error is None else "not acknowledged"] += 1


def written_in_one_life(plan: Plan, bootstrap: str, topic: str, name: str) -> int:
    """Write to a topic by a producer of its own, unrecorded; the number of acknowledged records."""
    library: Any = import_module("confluent_kafka")
    conf = {**common(plan, bootstrap), **PRODUCERS["idempotent"], "client.id": name}
    producer, acknowledged = library.Producer(conf), Counter[bool]()

    def delivered(error: Any, _: Any) -> None:
        acknowledged[error is None] += 1

    for number in range(ONE_LIFE):
        partition = number % plan.topics[topic].partitions
        value = f"{name} {number}".encode()
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    producer.flush(LIFE_S)
    return acknowledged[True]
