"""The final scan: everything that the log holds, read once more when all clients have stopped.

It is what makes a loss decidable. Each partition is read by assignment from its earliest offset to
the end that it had when the scan began; a scan that does not get there is no final one.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import define, field, frozen

from traces.record.confluent_consumer import ConfluentConsumer
from traces.record.confluent_words import offsets_of
from traces.record.ids import IdOf
from traces.record.process import Process, now
from traces.record.wrapper import ClientOptions

#: Records in a line; a partition that holds more has several lines, and the last tells its end.
MOST_RECORDS = 100_000
AT_ONCE = 10_000

Partitions = Mapping[str, int]
Progress = Callable[[int], None]


@frozen
class Library:
    """The parts of confluent-kafka that a scan needs; loaded when it is called for."""

    consumer: Any
    admin: Any
    partition: Any
    resource: Any
    eof: int


@define
class PartitionScan:
    """One partition on the way to its end."""

    name: str
    begin: int
    end: int
    at: int = 0
    records: list[dict[str, Any]] = field(factory=list[dict[str, Any]])

    @property
    def done(self) -> bool:
        return self.at >= self.end


@define
class Scan:
    """One reading of all partitions, in one isolation.

    A partition whose leader is gone, or goes, is left out: then the run is not complete.
    """

    library: Library
    client: Any
    process: Process
    isolation: str
    id_of: IdOf | None
    hashes: bool
    stalled_after_s: float
    progress: Progress
    topic_ids: Mapping[str, str]
    #: Partitions that are not asked for, because they have no leader
    headless: Collection[str] = ()
    #: Another way to make a record of a message, for a run whose ids no client can tell
    record_of: Callable[[Any], dict[str, Any]] | None = None
    _partitions: dict[str, PartitionScan] = field(factory=dict[str, PartitionScan])
    _began: int = 0
    _unlisted: list[str] = field(factory=list[str])

    def run(self, topics: Partitions) -> list[str]:
        """Read it all; returns the partitions whose end was not reached."""
        # A wrapper without a journal of its own: it knows how a message becomes a record.
        reader = ConfluentConsumer(
            self.client, ClientOptions(self.process, self.id_of, {}, self.hashes), {}
        )
        self._list(self.client, topics)
        self._read(self.client, reader)
        self.process.end()
        return [*self._unlisted, *(p.name for p in self._partitions.values() if not p.done)]

    @property
    def _lives(self) -> dict[str, Any]:
        """The ids of the topics that are read, if the cluster tells them."""
        return {"topic_ids": dict(self.topic_ids)} if self.topic_ids else {}

    def _list(self, client: Any, topics: Partitions) -> None:
        make = self.library.partition
        invoked = now()
        for topic, count in topics.items():
            for number in range(count):
                name = f"{topic}:{number}"
                if name in self.headless:
                    continue
                try:
                    begin, end = client.get_watermark_offsets(make(topic, number), timeout=30)
                except Exception:  # of a library that is loaded when it is called for
                    self._unlisted.append(name)
                else:
                    self._partitions[name] = PartitionScan(name, begin, end, at=begin)
        about = {"isolation": self.isolation, **self._lives}
        for query, side in (("earliest", "begin"), ("latest", "end")):
            listed = {name: getattr(p, side) for name, p in self._partitions.items()}
            self.process.note("list_offsets", invoked, query=query, offsets=listed, **about)

    def _read(self, client: Any, reader: ConfluentConsumer) -> None:
        partitions = [
            self.library.partition(*_topic_partition(p.name), p.begin)
            for p in self._partitions.values()
        ]
        invoked = now()
        client.assign(partitions)
        self.process.note(
            "assign",
            invoked,
            partitions=list(self._partitions),
            offsets=offsets_of(partitions),
            **self._lives,
        )
        self._began = now()
        left = set(self._partitions)
        for name in [name for name in left if self._partitions[name].done]:
            self._end(self._partitions[name])
            left.discard(name)
        moved = now()
        while left and now() - moved < self.stalled_after_s * 1e9:
            for message in next_messages(client):
                partition = self._take(message, reader)
                if partition is not None:
                    moved = now()
                    if partition.done and partition.name in left:
                        self._end(partition)
                        left.discard(partition.name)

    def _take(self, message: Any, reader: ConfluentConsumer) -> PartitionScan | None:
        """One message, or the news that there are no more just now; control records end so."""
        error = message.error()
        if error is not None and error.code() != self.library.eof:
            return None
        partition = self._partitions[f"{message.topic()}:{message.partition()}"]
        if partition.done:
            return partition
        if error is not None:
            partition.at = max(partition.at, message.offset())
            return partition
        if message.offset() < partition.end:
            partition.records.append((self.record_of or reader.record_of)(message))
            self.progress(1)
            if len(partition.records) == MOST_RECORDS:
                self._write(partition, {})
        partition.at = message.offset() + 1
        return partition

    def _end(self, partition: PartitionScan) -> None:
        reached = {"partitions": [partition.name], "offsets": {partition.name: partition.end}}
        self._write(partition, reached)

    def _write(self, partition: PartitionScan, more: Mapping[str, Any]) -> None:
        about = {"isolation": self.isolation, **self._lives, **more}
        self.process.note("scan", self._began, **about, records=partition.records)
        partition.records = []


def next_messages(client: Any) -> list[Any]:
    """The messages that have come: waits for one, and takes those that are there with it. Asked for
    many at once the client would wait for all of them, until the time is over."""
    first: list[Any] = client.consume(1, 1.0)
    return [*first, *client.consume(AT_ONCE, 0.0)] if first else first


def _topic_partition(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition(":")
    return topic, int(number)
