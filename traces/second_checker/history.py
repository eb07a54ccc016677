"""The whole history, restricted to the partitions that a witness touches, as plain Python objects.

Nothing is shared with the checks that are judged here but the reading of a line of JSON or EDN:
what a line means is read from the format again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import define, field

from traces.second_checker.rows import (
    MESSAGES,
    REPORTS,
    PartitionName,
    Row,
    TraceLine,
    rows_of,
)
from traces.second_checker.topics import Topics

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
UnitKey = tuple[str, int]
Settings = Mapping[str, Any]


@define(eq=False)
class History:
    """Rows by partition, by record and by process, and the outcomes of transactions."""

    meta: Settings
    jepsen: bool = False
    compacted: bool = False  # of a Jepsen history, which cannot tell it
    partitions: frozenset[PartitionName] | None = None  # None: all
    lines: dict[str, dict[int, list[tuple[int, TraceLine]]]] = field(
        factory=dict[str, dict[int, list[tuple[int, TraceLine]]]]
    )
    states: dict[UnitKey, str] = field(factory=dict[UnitKey, str])
    asked: dict[UnitKey, tuple[int | None, str]] = field(
        factory=dict[UnitKey, tuple[int | None, str]]
    )  # the first request to commit: when, and by which clock
    committed_units: set[UnitKey] = field(factory=set[UnitKey])
    answered: dict[UnitKey, int | None] = field(factory=dict[UnitKey, int | None])
    ended: dict[str, int | None] = field(factory=dict[str, int | None])  # when a process left
    last_call: dict[str, int] = field(factory=dict[str, int])  # the last time it tells
    holed: set[str] = field(factory=set[str])  # processes of which lines are missing
    open_state: dict[str, str] = field(factory=dict[str, str])
    by_partition: dict[PartitionName, list[Row]] = field(
        factory=lambda: defaultdict[PartitionName, list[Row]](list)
    )
    by_id: dict[tuple[PartitionName, Any], list[Row]] = field(
        factory=lambda: defaultdict[tuple[PartitionName, Any], list[Row]](list)
    )
    by_offset: dict[tuple[PartitionName, int], list[Row]] = field(
        factory=lambda: defaultdict[tuple[PartitionName, int], list[Row]](list)
    )
    lives: dict[tuple[str, Any], list[Row]] = field(
        factory=lambda: defaultdict[tuple[str, Any], list[Row]](list)
    )  # records of topics that were deleted and made again, by topic and id
    topics: Topics = field(factory=Topics)
    sent_to: set[str] = field(factory=set[str])  # topics that somebody sends to, all of them
    by_process: dict[str, list[tuple[int, TraceLine]]] = field(
        factory=lambda: defaultdict[str, list[tuple[int, TraceLine]]](list)
    )
    cache: dict[Any, Any] = field(factory=dict[Any, Any])

    def wants(self, partition: PartitionName) -> bool:
        """True if this partition is among those looked at."""
        return self.partitions is None or partition in self.partitions

    def add(self, line: TraceLine, n: int) -> None:
        """Keep what a line says of the partitions that are looked at."""
        self.topics.see(line)
        if line["op"] == "send":
            self.sent_to |= {record["topic"] for record in line.get("records") or ()}
        trimmed = self._trimmed(line)
        if trimmed is None:
            return
        process = trimmed["process"]
        self.by_process[process].append((n, trimmed))
        self.lines.setdefault(process, {}).setdefault(trimmed["seq"], []).append((n, trimmed))
        for row in rows_of(trimmed, n):
            for partition in self._where(row):
                self._index(row if partition == row.partition else _moved(row, partition))

    def _trimmed(self, line: TraceLine) -> TraceLine | None:
        """The line without records of other partitions; nothing if nothing else is left of it."""
        records = line.get("records")
        if self.partitions is None or not records:
            return line
        kept = [r for r in records if any(True for _ in self._near(r))]
        if len(kept) == len(records):
            return line
        reports = REPORTS.get(line["op"], {}).keys()
        if not kept and line["op"] in MESSAGES and reports.isdisjoint(line):
            return None
        return line | {"records": kept}

    def _near(self, record: TraceLine) -> Iterator[PartitionName]:
        """The partitions among those looked at in which the record is, or may be."""
        topic, number = record["topic"], record.get("partition")
        if number is not None:
            partition = f"{topic}:{number}"
            if self.wants(partition):
                yield partition
        elif self.partitions is not None:
            yield from (one for one in self.partitions if one.rpartition(":")[0] == topic)
        else:
            count = self.topic(topic).get("partitions") or 1
            yield from (f"{topic}:{number}" for number in range(count))

    def _where(self, row: Row) -> Iterable[PartitionName]:
        """The partitions to keep a row in; a send that has none is kept in each of its topic."""
        if row.record.get("topic") is not None:
            return (
                self._near(row.record) if row.op == "send" else filter(self.wants, (row.partition,))
            )
        return (row.partition,) if self.wants(row.partition) else ()

    def _index(self, row: Row) -> None:
        self.by_partition[row.partition].append(row)
        if row.record.get("topic") is not None:
            if row.id is not None:
                self.by_id[row.partition, row.id].append(row)
            if row.offset is not None:
                self.by_offset[row.partition, row.offset].append(row)

    def forget_former_lives(self) -> None:
        """Keep of each topic that was made again only the rows about its last life."""
        newest = self.topics.newest()
        for index in (self.by_id, self.by_offset):
            for key, rows in index.items():
                topic = key[0].rpartition(":")[0]
                if topic in newest:
                    if index is self.by_id:
                        self.lives[topic, key[1]] += rows
                    rows[:] = [row for row in rows if self.life(row) == newest[topic]]
        for partition, rows in self.by_partition.items():
            if (last := newest.get(partition.rpartition(":")[0])) is not None:
                rows[:] = [row for row in rows if self.life(row) == last]

    def life(self, row: Row) -> str | None:
        """The life of its topic that a row is of: reported, or by its time between others."""
        if row.life is not None or row.inv is None:
            return row.life
        ended = float("inf") if row.ret is None else row.ret
        topic = row.partition.rpartition(":")[0] or row.partition
        return self.topics.life(topic, row.line.get("clock", "host"), row.inv, ended)

    def rows(self, partition: PartitionName, *ops: str) -> list[Row]:
        """All rows of some calls about one partition; the rows of a process are in its order."""
        key = (partition, ops)
        if key not in self.cache:
            self.cache[key] = [row for row in self.by_partition[partition] if row.op in ops]
        return self.cache[key]

    def of(self, partition: PartitionName, id: Any, *ops: str) -> list[Row]:
        """All rows of some calls about one record in one partition."""
        return [row for row in self.by_id.get((partition, id), ()) if row.op in ops]

    def at(self, partition: PartitionName, offset: int, *ops: str) -> list[Row]:
        """All rows of some calls about whatever is at one offset."""
        return [row for row in self.by_offset.get((partition, offset), ()) if row.op in ops]

    def state(self, row: Row) -> str | None:
        """The outcome of the transaction that a row belongs to; None outside of any."""
        state = row.line.get("_state")
        if state is not None:
            return (
                None if state == "none" else self.states.get((row.process, row.line["seq"]), state)
            )
        txn = row.line.get("txn")
        if txn is None:
            return None if row.line.get("transactional_id") is None else UNKNOWN
        unit = (row.process, txn)
        return self.states.get(unit, self.open_state.get(row.process, UNKNOWN))

    def commit_asked(self, row: Row) -> tuple[int | None, str] | None:
        """When the commit of a row's transaction was first requested, and by which clock."""
        if "_asked" in row.line:
            when = row.line["_asked"]
            return None if when is None else (when, "host")
        txn = row.line.get("txn")
        return None if txn is None else self.asked.get((row.process, txn))

    def sure(self, row: Row) -> bool:
        """True if the end of a row's transaction was answered, not only proved by readers."""
        return (row.process, row.line.get("txn", -1)) in self.committed_units

    def topic(self, name: str) -> Settings:
        """The configuration of a topic."""
        topics: dict[str, Settings] = self.meta.get("topics") or {}
        return topics.get(name) or {}

    def strangers(self, partition: PartitionName) -> bool:
        """True if a process that was not recorded may have sent to the partition's topic."""
        topic = partition.rpartition(":")[0]
        said = self._senders(topic)
        over = self.meta.get("complete") is True and topic in self.sent_to
        return not self.jepsen and (not over if said is None else said != "all")

    def anybody(self, partition: PartitionName) -> bool:
        """True if such a process may have sent records that recorded processes sent, too."""
        return self._senders(partition.rpartition(":")[0]) == "some"

    def _senders(self, topic: str) -> str | None:
        return self.topic(topic).get("senders") or self.meta.get("senders")

    def producer(self, process: str) -> Settings:
        """The configuration of a producer, by its name or by its name up to `#`."""
        named: dict[str, Settings] = self.meta.get("producers") or {}
        return named.get(process) or named.get(process.partition("#")[0]) or {}

    def consumer(self, process: str) -> Settings:
        """The configuration of a consumer, by its name or by its name up to `#`."""
        named: dict[str, Settings] = self.meta.get("consumers") or {}
        return named.get(process) or named.get(process.partition("#")[0]) or {}

    def members(self, group: str) -> list[Settings]:
        """The configurations of the consumers of a group."""
        named: dict[str, Settings] = self.meta.get("consumers") or {}
        return [one for one in named.values() if one.get("group") == group]


def _moved(row: Row, partition: PartitionName) -> Row:
    record = {k: v for k, v in row.record.items() if k != "offset"} | {"no_partition": True}
    return Row(row.line, record, row.op, partition, row.n, row.i)
