"""The topic of `traces.ingest.topic` as a real consumer reads it (confluent-kafka, when asked)."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from time import monotonic
from typing import Any
from uuid import uuid4

from attrs import define, field

from traces.ingest.topic import Message
from traces.model.problems import BadInput, Problem

AT_ONCE, SECONDS = 10_000, 1.0
REFRESH_S = 30  # how often it is asked whether the topic has grown
PATIENCE_S = 30
_SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # What was deleted before it was read is an error and never skipped.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
}


@define
class KafkaTopic:
    """All partitions of one topic, read by assignment: nothing is committed to Kafka."""

    bootstrap: str
    name: str
    settings: Mapping[str, str] = field(factory=dict[str, str])
    _consumer: Any = None
    _kafka: Any = None
    _known: set[int] = field(factory=set[int])
    _asked: float = 0.0

    def start(self, offsets: Mapping[int, int]) -> Iterable[int]:
        """Read on from these offsets, other partitions from their start; answers with all."""
        self._kafka = _library()
        group = f"highwater-ingest-{uuid4().hex}"
        given = {"bootstrap.servers": self.bootstrap, "group.id": group, **self.settings}
        self._consumer = self._kafka.Consumer({**given, **_SETTINGS})
        self._known = self._partitions()
        self._consumer.assign(
            [self._topic_partition(partition, offsets) for partition in self._known]
        )
        return self._known

    def read(self) -> list[Message]:
        """The next messages, in the order of each partition; none if nothing came for a while."""
        if monotonic() - self._asked > REFRESH_S and (new := self._partitions() - self._known):
            self._consumer.incremental_assign(
                [self._topic_partition(partition, {}) for partition in new]
            )
            self._known |= new
        found = self._consumer.consume(AT_ONCE, SECONDS)
        return [self._message(one) for one in found]

    def close(self) -> None:
        """Leave."""
        if self._consumer is not None:
            self._consumer.close()

    def _partitions(self) -> set[int]:
        self._asked = monotonic()
        try:
            metadata = self._consumer.list_topics(self.name, timeout=PATIENCE_S).topics[self.name]
        except self._kafka.KafkaException as error:
            raise self._bad(error.args[0].str()) from error
        if metadata.error is not None:
            raise self._bad(metadata.error.str())
        return set(metadata.partitions)

    def _topic_partition(self, partition: int, offsets: Mapping[int, int]) -> Any:
        begin = offsets.get(partition, self._kafka.OFFSET_BEGINNING)
        return self._kafka.TopicPartition(self.name, partition, begin)

    def _message(self, one: Any) -> Message:
        error = one.error()
        if error is None:
            return Message(one.partition(), one.offset(), one.key(), one.value())
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            return Message(one.partition(), one.offset(), end=True)
        raise self._bad(f"partition {one.partition()}: {error.str()}")

    def _bad(self, message: str) -> BadInput:
        return BadInput([Problem(f"topic {self.name}", None, "", message)], 1)


def _library() -> Any:
    """confluent-kafka, which is nobody's dependency."""
    try:
        return import_module("confluent_kafka")
    except ModuleNotFoundError as missing:
        message = "needs the package `confluent-kafka`, which is not installed"
        raise BadInput([Problem("--kafka", None, "", message)], 1) from missing
