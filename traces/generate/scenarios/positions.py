"""Readers and their positions: one that changes the replica it reads from, one out of range.

The first pauses in between, and reports its replica's high watermark and last stable offset. Long
after the end a client asks for the last stable offset again. The second never commits: it has
nothing to begin at, and then seeks beyond the end of the log.
"""

from typing import Any

import numpy as np
from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import COMMITTED, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import NONE, Detail, Op


@define(slots=False)
class Positions(Scenario):
    """Consumers' positions: the brokers that they fetch from, and the reasons why they move."""

    topic, holes = "near", 1

    def make(self) -> None:
        """Send the generation's records in one transaction, and read them."""
        fields = self.transaction("keeper", self.number, 0, 2)
        self.send(**fields)
        self._reader()
        self._late()
        self._lost()
        self.scan()

    def _reader(self) -> None:
        me = {"process": self.process("near"), "partition": self.partitions}
        if self.number == 0:
            self.call("begins", Op.ASSIGN, 3, me, offset=0)
        middle = self.each // 2
        for n, (phase, end) in enumerate(((4, middle), (7, self.each))):
            some, who = self.records((self.nth < middle) == (n == 0)), me | {"node": n + 1}
            self.poll(f"near-{n}", phase, who, some, (0, self.begin + end))
            fields = who | {"isolation": COMMITTED, "offset": self.begin + end, "order": 1 << 40}
            self.call(f"stable-{n}", Op.LAST_STABLE, phase, fields, epoch=1)
        self.call("pauses", Op.PAUSE, 5, me)
        self.call("resumes", Op.RESUME, 6, me)

    def _late(self) -> None:
        me = {
            "process": self.process("patient"),
            "partition": self.partitions,
            "node": 1,
            "epoch": 1,
        }
        fields = {"isolation": COMMITTED, "offset": self.end, "inv": self.afterwards(0, 60)}
        self.call("late", Op.LAST_STABLE, 0, me, **fields)
        self.call("late-end", Op.MARK, 0, me, **fields)
        self.call("late-start", Op.LOG_START, 0, me, **(fields | {"offset": 0}))

    def _lost(self) -> None:
        me: dict[str, Any] = self.member("fresh", "fresh")
        me |= {"generation": self.number, "partition": self.partitions}
        why, end = Detail.RESETS, self.begin + self.each
        self.call("assigned", Op.ASSIGNED, 3, me)
        self.call("nothing", Op.COMMITTED, 4, me, offset=NONE)
        self.call("started", Op.RESET, 5, me, offset=0, detail=why["no_offset"])
        self.call("sought", Op.SEEK, 6, me, offset=self.end + 1_000)
        me |= {"inv": self.at(7, self.partitions)}  # a call for each has a reason of its own
        self.call("returned", Op.RESET, 7, me, offset=end, detail=why["out_of_range"])
        del me["inv"]
        self.call("gave-up", Op.REVOKED, 8, me)


@in_rows("C5 C1 C2 L7", scenario="Positions")
def read_again_at_another_replica(s: ScenarioSlot) -> bool:
    """A reader that changes to another replica is given a record again in the place of the next."""
    before, after = s.rows("near-0"), s.rows("near-1")
    last = before[np.argmax(s.scenario.blocks["near-0"]["offset"][before])]
    first = after[np.argmin(s.scenario.blocks["near-1"]["offset"][after])]
    again = {name: s.get("near-0", last, name) for name in ("offset", "id")}
    return s.put("near-1", first, **again)


@in_rows("T11", scenario="Positions")
def still_open(s: ScenarioSlot) -> bool:
    """Readers of committed records wait for a transaction that should have ended."""
    return s.put("late", s.one("late"), offset=s.get("sends", s.one("sends"), "offset"))


@in_rows("C6", scenario="Positions")
def reset_out_of_a_good_position(s: ScenarioSlot) -> bool:
    """The client says that the log has not the offset that it sought, but it has."""
    return s.put("sought", s.one("sought"), offset=s.get("returned", s.one("returned"), "offset"))


@in_rows("C6", scenario="Positions")
def truncated_without_a_cause(s: ScenarioSlot) -> bool:
    """The client says that the log was cut."""
    return s.put("returned", s.one("returned"), detail=Detail.RESETS["truncation"])
