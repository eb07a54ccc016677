"""Group coordinators, in processor seconds: loading, commits, and groups that settle.

    python bench/bench_groups.py

A coordinator loads a log of a million offsets, and one of a hundred thousand commits of the same
thousand partitions, a batch each. It takes commits. All of it is in Kafka's files on a disk in
memory. Then members without a network: groups of 10 settle, and 100 members join one group.
"""

import sys
from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any

from attrs import define, field
from rich.console import Console
from rich.table import Table

from refimpl.coordinator.operation import Answer, SetTimer, TimerKey, TransactionalWrite
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.groups.config import GroupConfig
from refimpl.groups.offsets import OFFSET_COMMIT, WITH_TOPIC_ID
from refimpl.groups.registry import new_coordinator
from refimpl.groups.shard import GroupCoordinator
from refimpl.groups.topics import TopicDescription
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.consumer_protocol import Subscription
from refimpl.records.coordinators import (
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from refimpl.records.schema import INT16, Uuid, write
from refimpl.records.transactional import Entry
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.replica.files import PartitionReplicaLog

OFFSETS, REPEATED, COMMITS = 1_000_000, 100_000, 20_000
GROUPS, SIZE, JOINED, PARTITIONS = 50, 10, 100, 12
TOPIC = Uuid(b"t" * 16)
BATCH = 1_000
CONFIG = GroupConfig(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)


class World:
    """One topic."""

    version = 0

    def names(self) -> Sequence[str]:
        return ("t",)

    def by_name(self, name: str) -> TopicDescription | None:
        return TopicDescription(TOPIC, "t", [frozenset()] * PARTITIONS) if name == "t" else None

    def by_id(self, topic_id: Uuid) -> TopicDescription | None:
        return self.by_name("t") if topic_id == TOPIC else None


def in_files() -> PartitionReplicaLog:
    """A new log."""
    log = LogDir.open(MemoryDisk(), 0).create(("__consumer_offsets", 0), bytes(16), 0)
    return PartitionReplicaLog(log, lambda: 0)


@define(eq=False)
class FileLog:
    """A partition's log in Kafka's files, on a disk in memory, that is replicated at once."""

    log: PartitionReplicaLog = field(factory=in_files)

    @property
    def start(self) -> int:
        return self.log.start

    @property
    def end(self) -> int:
        return self.log.end

    @property
    def high_watermark(self) -> int:
        return self.log.end

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        assert transaction is None
        return self.log.append(1, self.log.keyed_batch(records, now)).last_offset

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, Entry]], int]:
        return self.log.keyed_records(offset, self.log.slice(offset, size), self.end)


@define(eq=False)
class Members:
    """A coordinator, whose timers are due as soon as nobody has anything to say."""

    log: FileLog = field(factory=FileLog)
    answers: dict[int, Any] = field(factory=dict[int, Any])
    timers: dict[TimerKey, int] = field(factory=dict[TimerKey, int])
    requests: int = 0
    coordinator: GroupCoordinator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.coordinator = loaded(self.log)

    def ask(self, request: Any) -> int:
        """Ask, and answer by which token an answer comes."""
        self.requests += 1
        self.take(self.coordinator.handle(0, self.requests, request))
        return self.requests

    def take(self, outputs: Sequence[Any]) -> None:
        for output in (*outputs, *self.coordinator.committed(self.log.end)):
            match output:
                case Answer(token, body):
                    self.answers[token] = body
                case SetTimer(key, None):
                    self.timers.pop(key, None)
                case SetTimer(key, int(at_ms)):
                    self.timers[key] = at_ms
                case _:
                    pass


def loaded(log: FileLog) -> GroupCoordinator:
    """A coordinator that has read a log."""
    ids = iter(range(sys.maxsize))
    coordinator = new_coordinator(0, log, CONFIG, World(), lambda: str(next(ids)))
    while coordinator.state is CoordinatorState.LOADING:
        coordinator.load(0)
    return coordinator


def offsets(count: int, places: int) -> Iterator[CoordinatorRecord]:
    """Commits of so many partitions over and over, ten of each group."""
    for number in range(count):
        place = number % places
        key = OffsetCommitKey(f"group-{place // 10}", "t", place % 10)
        value = OffsetCommitValue(
            offset=number, leader_epoch=3, metadata="", commit_timestamp=1, topic_id=TOPIC
        )
        yield CoordinatorRecord(OFFSET_COMMIT, key, value, WITH_TOPIC_ID)


def load(count: int, places: int, batch: int) -> tuple[int, float]:
    """The load of commits of so many partitions, in batches: records, CPU seconds."""
    log, some = FileLog(), list[CoordinatorRecord]()
    for record in offsets(count, places):
        some.append(record)
        if len(some) == batch:
            log.append(0, some)
            some = []
    start = process_time()
    coordinator = loaded(log)
    spent = process_time() - start
    assert sum(map(len, coordinator.shard.store.partitions.values())) == places
    return count, spent


def commit() -> tuple[int, float]:
    """Commits of one partition each: requests, CPU seconds."""
    members = Members()
    start = process_time()
    for number in range(COMMITS):
        name = TopicPartition("t", number % PARTITIONS)
        one = m.CommittedPartition(name, number, topic_id=TOPIC)
        members.ask(m.OffsetCommitRequest(f"g{number % 100}", "", -1, None, [one]))
    spent = process_time() - start
    assert all(body.partitions[0][1] is None for body in members.answers.values())
    return COMMITS, spent


def settle_classic(groups: int, size: int) -> tuple[int, float]:
    """Members join one after the other, until each group is stable: members, CPU seconds."""
    start, members = process_time(), Members()
    for group in range(groups):
        _settle_classic(members, f"g{group}", size)
    spent = process_time() - start
    known = members.coordinator.shard.store.groups.current.values()
    assert all(one.state == "Stable" for one in known)
    return groups * size, spent


def _settle_classic(members: Members, group: str, size: int) -> None:
    metadata = INT16.packing.pack(0) + write(Subscription(topics=("t",)), 0)
    protocols = (("range", metadata),)

    def join(member: str) -> int:
        return members.ask(
            m.JoinGroupRequest(
                group,
                10_000,
                10_000,
                member,
                None,
                "consumer",
                protocols,
                "client",
                requires_known_member_id=False,
            )
        )

    join("")
    members.take(members.coordinator.due(0, TimerKey("join", group)))
    for _ in range(1, size):
        join("")
    # Whoever was answered already is told by a heartbeat to join again.
    known = list(members.coordinator.shard.store.groups.current[group].members)
    while members.coordinator.shard.store.groups.current[group].state == "PreparingRebalance":
        for member in known:
            if members.coordinator.shard.store.groups.current[group].members[member].join is None:
                join(member)
    value = members.coordinator.shard.store.groups.current[group]
    given = [(one, b"assigned") for one in value.members]
    for member in (value.leader, *(one for one in value.members if one != value.leader)):
        assignments = given if member == value.leader else ()
        members.ask(m.SyncGroupRequest(group, value.generation, member, assignments=assignments))


def settle_consumer(groups: int, size: int) -> tuple[int, float]:
    """Members of consumer groups beat until all are at the target: members, CPU seconds."""
    start, members = process_time(), Members()
    for group in range(groups):
        _settle_consumer(members, f"k{group}", size)
    return groups * size, process_time() - start


def _settle_consumer(members: Members, group: str, size: int) -> None:
    epochs = dict.fromkeys(map(str, range(size)), 0)
    owned: dict[str, Any] = dict.fromkeys(epochs, ())
    while True:
        before = dict(epochs)
        for member, epoch in before.items():
            joins = epoch == 0
            token = members.ask(
                m.ConsumerGroupHeartbeatRequest(
                    group,
                    member,
                    epoch,
                    None,
                    None,
                    60_000 if joins else -1,
                    ("t",) if joins else None,
                    topic_partitions=() if joins else owned[member],
                )
            )
            answer = members.answers[token]
            assert answer.error is None, answer
            epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                owned[member] = answer.assignment
        taken = sum(len(one.partitions) for parts in owned.values() for one in parts)
        if epochs == before and len(set(epochs.values())) == 1 and taken == PARTITIONS:
            return


def main() -> None:
    """Measure, and print."""
    table = Table("", "number", "CPU s", "per CPU s", title="Group coordinators")
    for name, (count, spent) in (
        ("offsets loaded", load(OFFSETS, OFFSETS, BATCH)),
        ("commits of 1,000 partitions loaded", load(REPEATED, 1000, 1)),
        ("commits of one partition, in files", commit()),
        (f"{GROUPS} classic groups of {SIZE} settle", settle_classic(GROUPS, SIZE)),
        (f"{GROUPS} consumer groups of {SIZE} settle", settle_consumer(GROUPS, SIZE)),
        (f"{JOINED} members join a classic group", settle_classic(1, JOINED)),
        (f"{JOINED} members join a consumer group", settle_consumer(1, JOINED)),
    ):
        table.add_row(name, f"{count:,}", f"{spent:.2f}", f"{count / spent:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
