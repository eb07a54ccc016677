"""Members of a group among the clients of a run: real consumers that process and then commit."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, field

from traces.record import recorded

GROUP = "members"
AT_ONCE, POLL_SECONDS = 500, 0.01
SESSION_MS, HEARTBEAT_MS = 6_000, 500
"""A member whose answer was lost is waited for as long as a session lasts."""


@define(eq=False)
class Members:
    """Consumers of librdkafka that subscribe to a topic in one group of either protocol."""

    #: The module confluent_kafka
    library: Any
    topic: str
    protocol: str
    #: The configuration of all clients of the run
    common: Mapping[str, Any]
    folder: Path
    consumers: list[Any] = field(factory=list[Any])
    _numbers: Iterator[int] = field(factory=count)

    def join(self) -> None:
        """One more subscribes."""
        conf = {**self.common, "group.id": GROUP, "group.protocol": self.protocol}
        conf |= {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        if self.protocol == "classic":
            conf |= {"partition.assignment.strategy": "range"}
            conf |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        name, order = f"member{next(self._numbers)}", "process_then_commit"
        consumer = recorded(self.library.Consumer, self.folder, conf, name=name, commit_order=order)
        consumer.subscribe([self.topic])
        self.consumers.append(consumer)

    def work(self) -> None:
        """Each member reads its records, processes them, and commits without waiting."""
        for consumer in self.consumers:
            polled = consumer.consume(AT_ONCE, POLL_SECONDS)
            records = [one for one in polled if one.error() is None]
            if records:
                consumer.processed(*records)
                ends = {one.partition(): one.offset() + 1 for one in records}
                offsets = [self.library.TopicPartition(self.topic, *end) for end in ends.items()]
                consumer.commit(offsets=offsets, asynchronous=True)

    def commit_again(self) -> None:
        """Each member commits its position; otherwise a failed or lost commit would not be
        repeated."""
        for consumer in self.consumers:
            if read := self._read(consumer):
                consumer.commit(offsets=read, asynchronous=True)

    def replace_one(self, rng: Random) -> None:
        """One leaves, and another one joins."""
        self.consumers.pop(rng.randrange(len(self.consumers))).close()
        self.join()

    def have_read(self) -> dict[int, int]:
        """Each partition's next position, by its assigned member."""
        read = [one for consumer in self.consumers for one in self._read(consumer)]
        return {one.partition: one.offset for one in read}

    def have_committed(self, ends: Sequence[int]) -> bool:
        """True if the group has committed every partition's end offset."""
        asked = [self.library.TopicPartition(self.topic, number) for number in range(len(ends))]
        try:
            committed = self.consumers[0].committed(asked, timeout=10)
        except self.library.KafkaException:  # no coordinator yet
            return False
        return [max(one.offset, 0) for one in committed] == list(ends)

    def close(self) -> None:
        """All leave."""
        for consumer in self.consumers:
            consumer.close()

    def _read(self, consumer: Any) -> list[Any]:
        return [one for one in consumer.position(consumer.assignment()) if one.offset >= 0]
