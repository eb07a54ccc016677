"""A log in memory under a group coordinator, and topics that it knows."""

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from refimpl.coordinator.operation import Answer, TimerKey, TransactionalWrite
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.errors import Refusal
from refimpl.groups.config import GroupConfig
from refimpl.groups.registry import new_coordinator
from refimpl.groups.shard import EXPIRE, GroupCoordinator
from refimpl.groups.topics import TopicDescription
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.consumer_protocol import Subscription
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    read_record,
    write_record,
)
from refimpl.records.schema import INT16, Uuid, write
from refimpl.records.transactional import Entry, InTransaction, TransactionEnd

NOW = 10**12
HOUR_MS = 3_600_000
CONFIG = GroupConfig(
    offsets_retention_minutes=60, initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0
)
IDS = {"t": Uuid(b"t" * 16), "u": Uuid(b"u" * 16)}
METADATA = INT16.packing.pack(0) + write(Subscription(topics=("t",)), 0)


def refusal(kafka_error: str) -> Refusal:
    """One by which a log takes nothing."""
    return type("Refused", (Refusal,), {"kafka_error": kafka_error})()


@define(eq=False)
class Log:
    """Keys and values as bytes, in batches, as on disk; a marker is a batch without any."""

    batches: list[list[tuple[bytes, bytes | None]]] = field(
        factory=list[list[tuple[bytes, bytes | None]]]
    )
    high_watermark: int = 0
    #: The transactions of batches, by their numbers
    transactions: dict[int, TransactionalWrite] = field(factory=dict[int, TransactionalWrite])
    #: With what it refuses, as long as it does
    refuses: Refusal | None = None

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return sum(len(self._entries(number)) for number in range(len(self.batches)))

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        if self.refuses is not None:
            raise self.refuses
        if transaction is not None:
            self.transactions[len(self.batches)] = transaction
        self.batches.append([write_record(one) for one in records])
        return self.end - 1

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, Entry]], int]:
        """Three records at a time."""
        entries = [one for number in range(len(self.batches)) for one in self._entries(number)]
        found = list(enumerate(entries))[offset : offset + 3]
        return found, offset + len(found)

    def _entries(self, number: int) -> Sequence[Entry]:
        records = [read_record(GROUP_RECORDS, *pair) for pair in self.batches[number]]
        write = self.transactions.get(number)
        if write is None:
            return records
        producer_id = write.writer.producer_id
        if write.marker is not None:
            return [TransactionEnd(producer_id, write.marker.committed)]
        return [InTransaction(one, producer_id) for one in records]


@define
class World:
    """Two topics of three partitions."""

    version: int = 0

    def names(self) -> Sequence[str]:
        return tuple(IDS)

    def by_name(self, name: str) -> TopicDescription | None:
        return TopicDescription(IDS[name], name, [frozenset()] * 3) if name in IDS else None

    def by_id(self, topic_id: Uuid) -> TopicDescription | None:
        name = next((name for name, id in IDS.items() if id == topic_id), None)
        return None if name is None else self.by_name(name)


def elected(log: Log) -> GroupCoordinator:
    """A coordinator that has yet to read its log."""
    ids = iter(range(10**6))
    return new_coordinator(0, log, CONFIG, World(), lambda: f"id{next(ids)}")


def loaded(log: Log, now: int = 0) -> GroupCoordinator:
    """A coordinator that has read a log."""
    coordinator = elected(log)
    for _ in range(log.end + 1):  # it ends, also where a bug keeps it from reading on
        if coordinator.state is CoordinatorState.LOADING:
            coordinator.load(now)
    assert coordinator.state is CoordinatorState.ACTIVE
    return coordinator


def topic_deleted(
    coordinator: GroupCoordinator, now: int, topic: str, topic_id: Uuid
) -> Sequence[Any]:
    """The metadata no longer has a topic."""
    return coordinator.operate(now, lambda shard: shard.topic_deleted(topic, topic_id))


def answers(outputs: Sequence[Any]) -> dict[int, Any]:
    return {one.token: one.body for one in outputs if isinstance(one, Answer)}


@define(eq=False)
class Conversation:
    """A coordinator under whom everything is committed at once."""

    log: Log = field(factory=Log)
    coordinator: GroupCoordinator = field(init=False)
    now: int = NOW

    def __attrs_post_init__(self) -> None:
        self.coordinator = loaded(self.log, NOW)

    def replicated(self, outputs: Sequence[Any] = ()) -> Any:
        """The answer, once all followers have everything."""
        self.log.high_watermark = self.log.end
        outputs = [*outputs, *self.coordinator.committed(self.log.end)]
        return answers(outputs).get(1)

    def ask(self, request: Any) -> Any:
        return self.replicated(self.coordinator.handle(self.now, 1, request))

    def commit(self, *partitions: m.CommittedPartition, **claims: Any) -> Sequence[str | None]:
        """Commit, and return the error of each partition."""
        asked = m.OffsetCommitRequest("g", "", -1, None, partitions)._replace(**claims)
        return [error for _, error in self.ask(asked).partitions]

    def offsets(self) -> dict[TopicPartition, int]:
        found = self.ask(m.OffsetFetchRequest("g", None)).partitions
        return {one.partition: one.offset for one in found}

    def due(self, at_ms: int, key: TimerKey = EXPIRE) -> Any:
        self.now = at_ms
        return self.replicated(self.coordinator.due(at_ms, key))

    def delete_topic(self, topic: str, topic_id: Uuid) -> None:
        self.replicated(topic_deleted(self.coordinator, self.now, topic, topic_id))

    def last_record(self) -> Any:
        return read_record(GROUP_RECORDS, *self.log.batches[-1][-1])

    def join(self, kind: str = "consumer", metadata: bytes = METADATA) -> str:
        """The one member of a classic group in its first generation, which is Stable."""
        protocols = (("range", metadata),)
        join = m.JoinGroupRequest("g", 10_000, 10_000, "", None, kind, protocols)
        self.ask(join._replace(requires_known_member_id=False))
        joined = self.due(self.now, TimerKey("join", "g"))
        sync = m.SyncGroupRequest("g", 1, joined.member_id)
        self.ask(sync._replace(assignments=((joined.member_id, b"a"),)))
        return joined.member_id
