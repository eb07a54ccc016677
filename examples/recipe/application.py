"""The application: a shop that sends orders, and a worker that processes them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer

from examples.recipe.steps import Settings
from highwater import Kafka, Trace

TOPIC, GROUP = "orders", "billing"
DELIVERY_MS = 4_000
"""delivery.timeout.ms: how long a send may take, with all its retries."""
PATIENCE_S = 30.0
#: What makes clients of a test hear of a new leader, or of a broker that is back, in no time
PROMPT = {
    "log_level": 0,
    "topic_metadata_refresh_fast_interval_ms": 20,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 50,
}


class DiedError(Exception):
    """The process of the worker is at its end."""


@define(eq=False)
class Shop:
    """Sends orders; `kept` are those that it takes for stored, `refused` those that it was told
    are not, or may not be."""

    kafka: Kafka
    trace: Trace
    settings: Settings
    producer: Any = field(init=False)
    sent: set[str] = field(factory=set[str], init=False)
    acknowledged: set[str] = field(factory=set[str], init=False)
    failed: set[str] = field(factory=set[str], init=False)

    def __attrs_post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        conf = self.kafka.conf(
            **PROMPT,
            **self.settings.producer,
            delivery_timeout_ms=DELIVERY_MS,
            retry_backoff_ms=20,
            retry_backoff_max_ms=50,
            linger_ms=0,
        )
        self.producer = self.trace.record(Producer, conf)

    def send(self, *orders: int, wait: bool = True) -> None:
        """Send orders one by one; without `wait` their answers are awaited later."""
        for order in (f"order {number}" for number in orders):
            self.sent.add(order)
            self.producer.produce(TOPIC, order, partition=0, on_delivery=self._told)
            if wait:
                self.wait()

    def wait(self) -> None:
        """Wait for the answers. After a fatal error a producer is of no use, and another begins."""
        try:
            self.producer.flush(PATIENCE_S)
        except KafkaException:
            self.producer.flush(PATIENCE_S)
            self._begin()

    def _told(self, error: Any, message: Any) -> None:
        (self.failed if error else self.acknowledged).add(message.value().decode())

    @property
    def kept(self) -> set[str]:
        """What the shop tells its customers it has: without a callback, all that it sent."""
        return self.acknowledged if self.settings.callback else self.sent

    @property
    def refused(self) -> set[str]:
        """What its customers are told to order again."""
        return self.failed if self.settings.callback else set()


@define(eq=False)
class Worker:
    """Processes orders; it dies at order `dies_at`, "processing" it or "between" its two deeds."""

    kafka: Kafka
    trace: Trace
    settings: Settings
    processed: Counter[str] = field(factory=Counter[str], init=False)

    def work(
        self, dies_at: str = "", when: str = "", meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Process what there is, up to the end of the log, in a process of its own.

        At that end `meanwhile` is called once, and what it sent is processed as well.
        """
        order = "commit_then_process" if self.settings.commit_first else "process_then_commit"
        conf = self.kafka.conf(
            **PROMPT,
            group_id=GROUP,
            auto_offset_reset=self.settings.reset,
            enable_auto_commit=False,
            enable_partition_eof=True,
            fetch_wait_max_ms=20,
        )
        consumer = self.trace.record(Consumer, conf, name="worker", commit_order=order)
        consumer.subscribe([TOPIC])
        try:
            while (message := consumer.poll(PATIENCE_S)) is not None:
                if not message.error():
                    dies = when if message.value().decode() == dies_at else ""
                    self._take(consumer, message, dies)
                elif meanwhile is None:
                    break
                else:
                    meanwhile()
                    meanwhile = None
        except DiedError:
            pass
        finally:
            consumer.close()  # commits nothing: automatic commits are off

    def _take(self, consumer: Any, message: Any, dies: str) -> None:
        """Process and commit, in the order that the settings say."""

        def commit() -> None:
            consumer.commit(message=message, asynchronous=False)

        def process() -> None:
            if dies == "processing":
                raise DiedError
            consumer.processed(message)
            self.processed[message.value().decode()] += 1

        first, second = (commit, process) if self.settings.commit_first else (process, commit)
        first()
        if dies == "between":
            raise DiedError
        second()
