"""A Kafka that somebody else runs, for the tests of the pytest plugin.

It does what can be done to any Kafka. Whatever only brokers of ours can do leaves the test at once.
"""

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from threading import Thread
from typing import Any, NoReturn, Self

from refimpl.edge.testing.cluster import Cluster
from refimpl.edge.testing.kafka import Kafka, unmatched

_admin: Any = import_module("aiokafka.admin")
_structs: Any = import_module("aiokafka.structs")
_consumer: Any = import_module("aiokafka.consumer.consumer")  # not where tests may replace it

PATIENCE_S = 30


class RealKafka:
    """A cluster by its address. `skip` ends the test, and is told the name of what it asked for."""

    #: It has none: whatever is random there is not ours
    seed = None

    def __init__(self, bootstrap: str, skip: Callable[[str], NoReturn]) -> None:
        self.bootstrap_servers = self.bootstrap = bootstrap
        self.brokers = 0
        self._skip = skip
        self._made: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="highwater", daemon=True)

    def connect(self) -> Self:
        """Connect. Raises KafkaError of aiokafka, for an address where no Kafka is."""
        self._thread.start()
        try:
            self._run(self._connect())
        except BaseException:
            self._end()
            raise
        return self

    def __enter__(self) -> Self:
        """As it is connected."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the topics that the test has made."""
        try:
            self._run(self._leave())
        finally:
            self._end()

    def __str__(self) -> str:
        """Its address."""
        return f"the Kafka at {self.bootstrap_servers}"

    def __getattr__(self, name: str) -> Any:
        """End the test: only brokers of ours have this."""
        if name.startswith("_") or not (hasattr(Kafka, name) or name in _OF_CLUSTER):
            raise AttributeError(f"kafka has no {name!r}")
        return self._skip(name)

    conf = Kafka.conf

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
        assignments: object = None,
        **settings: Any,
    ) -> str:
        """As `Kafka.create_topic`. Raises KafkaError of aiokafka where the topic exists already."""
        if assignments is not None:
            self._skip("create_topic(assignments=…)")
        replicas = replicas or min(3, self.brokers)
        if replicas > self.brokers:
            self._skip(f"create_topic(replicas={replicas})")
        named = {key.replace("_", "."): str(value) for key, value in settings.items()}
        topic = _admin.NewTopic(
            name, partitions, replicas, topic_configs={**(configs or {}), **named}
        )
        self._run(self._create(topic))
        self._made.append(name)
        return name

    def values(self, topic: str, partition: int | None = None) -> list[bytes | None]:
        """As `Kafka.values`."""
        return self._run(self._values(topic, partition))

    def unmatched(
        self, source: str, target: str, *, by: Callable[[Any], Any] = lambda value: value
    ) -> tuple[list[Any], list[Any]]:
        """As `Kafka.unmatched`."""
        return unmatched(self.values(source), self.values(target), by)

    def unmet(self) -> list[str]:
        """Nothing: who asks for a rule or a cue does not come so far."""
        return []

    forget = unmet

    def recover(self) -> None:
        """Nothing is broken."""

    # In the loop

    async def _connect(self) -> None:
        self._admin = _admin.AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        await self._admin.start()
        found = await self._admin.describe_cluster()
        self.brokers = len(found["brokers"])

    async def _leave(self) -> None:
        if self._made:
            await self._admin.delete_topics(self._made)
        await self._admin.close()

    async def _create(self, topic: Any) -> None:
        answer = await self._admin.create_topics([topic])
        for name, code, *why in answer.topic_errors:
            if code:
                raise ValueError(f"topic {name!r}: {why[0] if why else f'error {code}'}")
        async with asyncio.timeout(PATIENCE_S):
            while not await self._has_leaders(topic.name):
                await asyncio.sleep(0.01)

    async def _has_leaders(self, name: str) -> bool:
        found = await self._admin.describe_topics([name])
        return all(
            one["error_code"] == 0
            and one["partitions"]
            and all(p["error_code"] == 0 and p["leader"] >= 0 for p in one["partitions"])
            for one in found
        )

    async def _values(self, topic: str, partition: int | None) -> list[bytes | None]:
        reader = _consumer.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, auto_offset_reset="earliest"
        )
        await reader.start()
        try:
            known = await reader._client.fetch_all_metadata()
            numbers = sorted(known.partitions_for_topic(topic) or ())
            if not numbers or partition not in (None, *numbers):
                raise LookupError(f"there is no {topic!r}, or no partition {partition} of it")
            wanted = [
                _structs.TopicPartition(topic, one) for one in numbers if partition in (None, one)
            ]
            reader.assign(wanted)
            ends = await reader.end_offsets(wanted)
            found: dict[int, list[bytes | None]] = {one.partition: [] for one in wanted}
            for one in wanted:
                await reader.seek_to_beginning(one)
            async with asyncio.timeout(PATIENCE_S):
                while [one for one in wanted if await reader.position(one) < ends[one]]:
                    for one, records in (await reader.getmany(timeout_ms=100)).items():
                        fits = (r.value for r in records if r.offset < ends[one])
                        found[one.partition] += fits
            return [value for number in sorted(found) for value in found[number]]
        finally:
            await reader.stop()

    # Between threads

    def _run(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


#: What an instance of `Cluster` has besides its methods
_OF_CLUSTER = frozenset(("hosts", "network", "controller", "rules", "cues")) | frozenset(
    name for name in dir(Cluster) if not name.startswith("_")
)
