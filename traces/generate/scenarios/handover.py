"""Groups: one whose partitions change hands, one of static members, and one that only waits."""

from typing import Any

import numpy as np
from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import NOWHERE, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import NONE, Op, Outcome

_TIMEOUT_MS = 10_000


@define(slots=False)
class HandOver(Scenario):
    """Partitions that change hands: the owner, the owner before, and one that is fenced."""

    topic = "handed"

    def make(self) -> None:
        """Two generations of the group that reads, one of each other."""
        self.send(self.producer("hander"))
        for half in range(2):
            self._owner(half, 2 + 6 * half)
        self._static()
        self._waiting()
        self.scan()

    def _owner(self, half: int, phase: int) -> None:
        """One member gets its committed offset, reads half of the records, commits and gives up."""
        middle = self.each // 2
        me: dict[str, Any] = self.member(
            f"handed-{half}", "handed", session_timeout_ms=_TIMEOUT_MS
        ) | {"generation": 2 * self.number + half, "partition": self.partitions}
        committed = self.begin + half * middle
        known = committed if half or self.number else NONE
        mine = self.records((self.nth >= middle) == bool(half))
        self.call(f"assigned-{half}", Op.ASSIGNED, phase, me)
        self.call(f"told-{half}", Op.COMMITTED, phase + 1, me, offset=known)
        offset = self.begin + (self.each if half else middle)
        self.poll(f"polls-{half}", phase + 2, me, mine, (0, offset))
        self.call(f"commits-{half}", Op.COMMIT, phase + 3, me, offset=offset)
        self.call(
            f"revoked-{half}", Op.REVOKED, phase + 4, me, inv=self.at(phase + 4, self.partitions)
        )

    def _static(self) -> None:
        """A member of each name is replaced in its generation, and its last commit is refused."""
        names = [f"static-{partition}" for partition in range(self.size)]
        instance = np.array([self.clients.names.instances.number(name) for name in names])
        who = [[self.member(f"{name}-{n}", "static") for name in names] for n in range(2)]
        fields = {"generation": self.number, "instance": instance, "partition": self.partitions}
        for n, phase in enumerate((3, 6)):
            me = {key: np.array([one[key] for one in who[n]]) for key in who[n][0]} | fields
            self.call(f"joined-{n}", Op.ASSIGNED, phase, me)
            self.call(f"stays-{n}", Op.COMMIT, phase + 1, me, offset=0)
            if n == 0:
                self.call("refused", Op.COMMIT, 9, me, offset=0, outcome=int(Outcome.FAIL))

    def _waiting(self) -> None:
        """A member of a group of its own, to which nothing happens until after the end."""
        me: dict[str, Any] = self.member(
            f"idle-{self.number}", f"idle-{self.number}", session_timeout_ms=_TIMEOUT_MS
        )
        self.call("subscribed", Op.SUBSCRIBE, 2, me, partition=NOWHERE, topic=self.number_of_topic)
        me |= {"generation": 1, "partition": self.partitions}
        self.call("owned", Op.ASSIGNED, 3, me)
        self.call("left", Op.REVOKED, 0, me, inv=self.afterwards(0, 60))


@in_rows("G2", scenario="HandOver")
def given_up_late(s: ScenarioSlot) -> bool:
    """The old owner is still giving the partition up when the new one has read it."""
    read = s.get("polls-1", s.one("polls-1"), "ret")
    return s.put("revoked-0", s.one("revoked-0"), ret=read + 1_000)


@in_rows("G7", scenario="HandOver")
def reported_otherwise(s: ScenarioSlot) -> bool:
    """The new owner receives a committed offset that nobody committed."""
    row = s.one("told-1")
    return s.put("told-1", row, offset=s.get("told-1", row, "offset") - 1)


@in_rows("G11", scenario="HandOver")
def both_of_one_name(s: ScenarioSlot) -> bool:
    """The commit of a static member that was replaced is taken."""
    return s.put("refused", s.one("refused"), outcome=int(Outcome.OK))


@in_rows("G3", scenario="HandOver")
def without_an_owner(s: ScenarioSlot) -> bool:
    """Nobody is assigned a partition of the subscription, and it stays so."""
    return s.drop("owned", s.one("owned")) and s.drop("left", s.one("left"))
