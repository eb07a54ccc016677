"""A log in memory under a group coordinator, and topics that it knows."""

from collections.abc import Sequence

from attrs import define, field

from refimpl.errors import Refusal
from refimpl.groups.config import GroupConfig
from refimpl.groups.coordinator import GroupCoordinator, State
from refimpl.groups.registry import new_coordinator
from refimpl.groups.topics import TopicDescription
from refimpl.storage.consumer_protocol import Subscription
from refimpl.storage.coordinator_records import (
    GROUP_RECORDS,
    CoordinatorRecord,
    read_record,
    write_record,
)
from refimpl.storage.schema import INT16, Uuid, write

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
    """Keys and values as bytes, in batches, as on disk."""

    batches: list[list[tuple[bytes, bytes | None]]] = field(
        factory=list[list[tuple[bytes, bytes | None]]]
    )
    high_watermark: int = 0
    #: With what it refuses, as long as it does
    refuses: Refusal | None = None

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return sum(map(len, self.batches))

    def append(self, now: int, records: Sequence[CoordinatorRecord]) -> int:
        if self.refuses is not None:
            raise self.refuses
        self.batches.append([write_record(one) for one in records])
        return self.end - 1

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        """Three records at a time."""
        pairs = [pair for batch in self.batches for pair in batch][offset : offset + 3]
        found = [(offset + at, read_record(GROUP_RECORDS, *pair)) for at, pair in enumerate(pairs)]
        return found, offset + len(pairs)


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
    while coordinator.state is State.LOADING:
        coordinator.load(now)
    return coordinator
