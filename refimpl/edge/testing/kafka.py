"""A cluster for one test: what tests need besides `BlockingCluster`, and what makes them honest.

with Kafka(brokers=3, topics={"orders": 1}) as kafka:
    kafka.when("written", topic="orders", count=3, do=lambda e: kafka.kill(e.broker, expire=True))
    ...  # kafka.bootstrap_servers is what clients connect to

At the end of the block a rule or a cue that met nothing is an `UnmetError`: the test believed in
something that did not happen. The pytest plugin and `KafkaTest`, for unittest, are made of this.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import SystemRandom
from types import TracebackType
from typing import Any, Self, cast

from refimpl.edge.server.arguments import Setting
from refimpl.edge.server.cues import Cue
from refimpl.edge.server.faults import Rule
from refimpl.edge.testing import lookups
from refimpl.edge.testing.blocking import BlockingCluster
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import INTERNAL_TOPICS
from refimpl.storage.format.batch import decode_records
from refimpl.storage.replica.memory_records import whole

#: What tests would otherwise wait or pay for: a follower that is idle hears of a new topic with its
#: next fetch, and each partition that groups are kept in costs every broker a log
QUICK: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "replica.fetch.wait.max.ms": "20",
}
SEEDS = 1 << 31
_ALL = 1 << 31


class UnmetError(AssertionError):
    """A rule or a cue met nothing, or what a cue had to do failed."""


class Kafka(BlockingCluster):
    """A cluster of real brokers in this process, for one test."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int] | None = None,
        configs: Mapping[str, Setting] | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        """`topics` are made at the start, each with so many partitions; `settings` are those of
        `Cluster`."""
        self._topics = _counts({} if topics is None else topics)
        given: Any = {"offsets_topic": True, **settings}
        super().__init__(
            brokers=brokers,
            configs={**QUICK, **(configs or {})},
            seed=SystemRandom().randrange(SEEDS) if seed is None else seed,
            **given,
        )

    def __enter__(self) -> Self:
        """Start, and return when all brokers serve and the topics are there."""
        super().__enter__()
        try:
            for name, partitions in self._topics.items():
                self.create_topic(name, partitions)
        except BaseException as error:
            super().__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End. Raises UnmetError, unless something else went wrong."""
        unmet = self.unmet()
        super().__exit__(kind, error, trace)
        if error is None and unmet:
            raise UnmetError("\n".join(unmet)) from self._cause()

    def __str__(self) -> str:
        """The seed and settings that make it again."""
        return f"{self.brokers} broker{'s' if self.brokers > 1 else ''}, seed {self.seed}"

    # What tests ask for

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""
        return self.bootstrap

    def conf(self, **more: Any) -> dict[str, Any]:
        """Settings of a client of confluent-kafka, with underscores for dots."""
        named = {_dotted(name): value for name, value in more.items()}
        return {"bootstrap.servers": self.bootstrap_servers, **named}

    def create_topic(  # pyright: ignore[reportIncompatibleMethodOverride]  # it answers the name
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        configs: Mapping[str, Setting] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        **settings: Any,
    ) -> str:
        """Make a topic, and return its name when it can be written to. Raises ClusterError.

        It has three replicas where there are three brokers. `settings` are its own by Kafka's
        names, with underscores for dots: `min_insync_replicas=2`.
        """
        replicas = replicas or min(3, self.brokers)
        named = {key.replace("_", "."): _text(value) for key, value in settings.items()}
        configs = {**(configs or {}), **named}
        self._call("create_topic", name, partitions, replicas, configs, assignments)
        return name

    def topics(self) -> list[str]:
        """The topics that there are, but for those of brokers themselves."""
        known = self.controller.controller.metadata.topics
        return sorted(name for name in known if name not in INTERNAL_TOPICS)

    def values(self, topic: str, partition: int | None = None) -> list[bytes | None]:
        """The values that are committed in a topic, partition by partition, in their order.

        Raises ClusterError where there is no such topic or partition.
        """
        return self._run(self._values, topic, partition)

    def _values(self, topic: str, partition: int | None) -> list[bytes | None]:
        metadata = self._cluster.controller.controller.metadata
        lookups.partition(metadata, topic, partition or 0)
        of_topic = sorted(one.partition for one in metadata.partitions if one.topic == topic)
        numbers = of_topic if partition is None else [partition]
        return [value for number in numbers for value in self._of_partition(topic, number)]

    def _of_partition(self, topic: str, number: int) -> Iterable[bytes | None]:
        leader = self._cluster.leader(topic, number)
        if leader is None:
            raise LookupError(f"{topic}-{number} has no leader")
        one = self._cluster.hosts[leader].node.partitions[TopicPartition(topic, number)]
        log, end = one.log, one.replica.high_watermark
        if log.start >= end:
            return
        for header, batch in whole(log.slice(log.start, _ALL, end).data):
            if not header.is_control:
                yield from (r.value for r in decode_records(batch) if log.start <= r.offset < end)

    def unmatched(
        self, source: str, target: str, *, by: Callable[[Any], Any] = lambda value: value
    ) -> tuple[list[Any], list[Any]]:
        """The records that an application lost and repeated on the way from one topic to another.

        By `by` of their values: records of `source` without one in `target`, and with several.
        """
        return unmatched(self.values(source), self.values(target), by)

    # What did not happen

    def unmet(self) -> list[str]:
        """A sentence for each rule or cue that met nothing, each cue whose deed failed, and each
        call of `aio` that nobody awaited."""
        complaints = (_complaint(one) for one in self._asked_for())
        return [*filter(None, complaints), *(f"aio.{one}" for one in self.forgotten())]

    def _asked_for(self) -> list[Rule | Cue]:
        return [*self._cluster.rules, *self._cluster.cues.all]

    def _cause(self) -> BaseException | None:
        return next((one.error for one in self._cluster.cues.all if one.error is not None), None)

    def forget(self) -> list[str]:
        """End all faults, rules and cues, as before the next test; answers what was unmet."""
        unmet = self.unmet()
        self.heal()
        self._cluster.rules.clear()
        self._cluster.cues.all.clear()
        return unmet

    def recover(self) -> None:
        """Heal, start every broker that is down, and return when all that is in the leaders' logs
        is committed: a consumer that reads to the end misses nothing."""
        self.heal()
        for number, host in self.hosts.items():
            if not host.up:
                self.restart(number)
        self.until(self._is_committed)

    def _is_committed(self) -> bool:
        led = [
            one
            for host in self._cluster.hosts.values()
            for one in host.node.partitions.values()
            if one.replica.leads and one.name.topic not in INTERNAL_TOPICS
        ]
        return all(one.replica.high_watermark == one.log.end for one in led)


def unmatched(
    given: Iterable[Any], made: Iterable[Any], by: Callable[[Any], Any]
) -> tuple[list[Any], list[Any]]:
    """The given records without a result, and those with several."""
    times = Counter(by(value) for value in made)
    keys = [by(value) for value in given]
    return [one for one in keys if not times[one]], [one for one in keys if times[one] > 1]


def _counts(topics: Any) -> dict[str, int]:
    if not isinstance(topics, Mapping):
        raise ValueError(f"topics: numbers by name, as {{'orders': 3}}, expected; found {topics}")
    return dict(cast("Mapping[str, int]", topics))


def _dotted(name: str) -> str:
    """librdkafka's name: of its own, some have underscores."""
    kept = name == "log_level" or name.endswith("_cb") or name.startswith("on_")
    return name if kept else name.replace("_", ".")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _complaint(one: Rule | Cue) -> str | None:
    error = getattr(one, "error", None)
    if isinstance(one, Cue) and error is not None:
        return f"{one}: what it had to do failed: {type(error).__name__}: {error}"
    if one.met or not one.required:
        return None
    if isinstance(one, Rule):
        if one.seen:
            return f"{one} met nothing: {one.seen} such requests came, all of them let pass"
        return f"{one} met nothing: no such request came"
    return f"{one} met nothing: that did not happen"


class KafkaTest:
    """A mixin for `unittest.TestCase`: each test has a cluster of its own, `self.kafka`.

    class TestOrders(KafkaTest, unittest.TestCase):
        kafka_settings = {"brokers": 3, "topics": {"orders": 1}}
    """

    kafka_settings: Mapping[str, Any] = {}
    kafka: Kafka

    def setUp(self) -> None:
        """Start the cluster; it ends after the test, and says what was unmet."""
        case: Any = self
        self.kafka = case.enterContext(Kafka(**self.kafka_settings))
        super_case: Any = super()
        super_case.setUp()
