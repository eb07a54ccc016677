"""Logs that lose something on purpose: a compacted one, and one whose head is deleted."""

from typing import ClassVar

from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import COMMITTED, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import Flag, Op


@define(slots=False)
class Compacted(Scenario):
    """Half of the records are replaced by the other half, and one key is deleted.

    The leader stamps the records, and the cleaner has been there when all delays are over.
    """

    topic, holes = "compacted", 1
    settings: ClassVar = {
        "cleanup_policy": "compact",
        "message_timestamp_type": "LogAppendTime",
        "min_compaction_lag_ms": 1_000,
        "delete_retention_ms": 1_000,
    }

    def make(self) -> None:
        """The first key of each half is the one that is deleted."""
        middle = self.each // 2
        key = self.ids(self.partition, self.begin + self.nth % middle)
        flags = (self.nth == middle) * (Flag.TOMBSTONE - Flag.VALUED) + Flag.VALUED
        self.send(self.producer("keyer"), key=key, flags=flags)
        last = (self.nth > middle) & (self.nth >= self.each - middle)
        self.scan(last, late=10)


@in_rows("L17", scenario="Compacted")
def stamped_back(s: ScenarioSlot) -> bool:
    """The leader's clock was set back when it stamped a record."""
    row = int(s.rows("scans")[1])
    return s.put("scans", row, timestamp=s.get("scans", row - 1, "timestamp") - 5)


@in_rows("L18 L4 L3", scenario="Compacted")
def removed(s: ScenarioSlot) -> bool:
    """The last record of a key is gone."""
    return s.drop("scans", s.one("scans", end=-1))


@in_rows("L19 L2", scenario="Compacted")
def moved(s: ScenarioSlot) -> bool:
    """A record is found at another offset than before."""
    row = int(s.rows("scans")[-1])
    return s.put("scans", row, offset=s.get("scans", row, "offset") + 1)


@define(slots=False)
class Deleted(Scenario):
    """Half of the records of each generation are deleted, so the log start moves."""

    topic = "deleted"

    def make(self) -> None:
        """One client reads before and after, and another one asks for the log start."""
        middle = self.each // 2
        start, before = self.begin + middle, max(0, self.begin - self.each + middle)
        me = {"process": self.process("watcher"), "partition": self.partitions}
        if self.first:
            self.call("begins", Op.ASSIGN, 0, me, offset=0)
        self.send(self.producer("leaver"))
        me |= {"node": 1}
        self.poll("early", 2, me, self.records(self.nth < middle), (before, start))
        end = self.begin + self.each
        self.poll("late", 6, me, self.records(self.nth >= middle), (start, end))
        fields = {"isolation": COMMITTED, "epoch": 1, "offset": start}
        self.call("low", Op.LOG_START, 8, me | fields)
        self.call("high", Op.MARK, 8, me | fields, offset=end)
        janitor = {"process": self.process("janitor"), "partition": self.partitions}
        self.call("deletes", Op.DELETE_RECORDS, 4, janitor, offset=start)
        surveyor = {"process": self.process("surveyor"), "partition": self.partitions}
        self.call("asked", Op.EARLIEST, 10, surveyor, offset=start)
        kept = self.end - self.each + middle
        late = {"process": self.process(f"auditor-{self.number}"), "partition": self.partitions}
        self.add("checked", Op.EARLIEST, inv=self.afterwards(14, 1), offset=kept, **late)
        self.scan(self.offset >= kept, start=kept)


@in_rows("A2", scenario="Deleted")
def not_deleted(s: ScenarioSlot) -> bool:
    """The log starts below records that had been deleted."""
    return s.put("checked", s.one("checked"), offset=s.get("checked", s.partition, "offset") - 1)


@in_rows("L13", scenario="Deleted")
def log_start_back(s: ScenarioSlot) -> bool:
    """A leader reports a lower log start than before."""
    return s.put("low", s.one("low"), offset=s.get("low", s.partition, "offset") - 1)
