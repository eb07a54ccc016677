"""Two groups that are made again in each generation: one is deleted, and the other has expired.

Each life begins with generation 1 and without offsets. The deletions are recorded. Nobody tells of
the other group's ends, so nobody could tell where its offsets went, and nobody asks for them.
"""

from typing import Any

import numpy as np
from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import NOWHERE, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.context import Ints
from traces.model.schema import NONE, Detail, Op

DELETED, EXPIRED = GROUPS = ("renewed", "expired")
_HALVES = ((3, 7), (10, 12))  # of each generation of the group: first phase, phase of the poll


@define(slots=False)
class Renewed(Scenario):
    """In each life two members share the partitions, and exchange them once."""

    topic = "renewed"

    def make(self) -> None:
        """Two generations of each group, and the end of one."""
        self.send(self.producer("renewer"))
        for group in GROUPS:
            self.member(f"{group}-2", group)  # never in the group, unless an anomaly has it
            members = [self.member(f"{group}-{n}", group) for n in range(2)]
            for half, (phase, polled) in enumerate(_HALVES):
                owner = (self.partitions // 2 + self.number + half) % 2
                me = {name: np.array([one[name] for one in members])[owner] for name in members[0]}
                self._owner(group, half, (phase, polled), me | {"generation": half + 1})
        deleted = self.clients.names.groups.number(DELETED)
        deletes = {"process": self.process("deletes-groups"), "partition": NOWHERE}
        self.call("deleted", Op.DELETE_GROUPS, 15, deletes, group=deleted)
        self.scan()

    def _owner(
        self, group: str, half: int, phases: tuple[int, int], fields: dict[str, Any]
    ) -> None:
        """Each member is answered what is committed, reads half of the records, and gives up."""
        (phase, polled), middle = phases, self.each // 2
        me = fields | {"partition": self.partitions}
        self.call(f"{group}-assigned-{half}", Op.ASSIGNED, phase, me)
        if half:
            self.call(f"{group}-told-1", Op.COMMITTED, phase + 1, me, offset=self.begin + middle)
        elif group == DELETED:
            self.call(f"{group}-told-0", Op.COMMITTED, phase + 1, me, offset=NONE)
            me_each = me | {"inv": self.at(phase + 2, self.partitions)}
            reset = {"offset": self.begin, "detail": Detail.RESETS["no_offset"]}
            self.call("reset", Op.RESET, phase + 2, me_each, **reset)
        reached = self.begin + (self.each if half else middle)
        records = self.records((self.nth >= middle) == bool(half))
        reader = {name: value[records["partition"]] for name, value in _arrays(fields).items()}
        self.poll(f"{group}-polls-{half}", polled, me, reader | records, (0, reached))
        self.call(f"{group}-commits-{half}", Op.COMMIT, polled + 1, me, offset=reached)
        self.call(f"{group}-revoked-{half}", Op.REVOKED, polled + 2, me)

    @property
    def sent(self) -> Ints:
        """The members are there before the records: they begin at the end of the log."""
        return self.at(6, self.nth * self.size + self.partition)


def _arrays(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}


def _any(s: ScenarioSlot) -> str:
    return str(s.random.choice(GROUPS))


@in_rows("G1", scenario="Renewed", first=1)
def two_owners_again(s: ScenarioSlot) -> bool:
    """A partition has two owners in a generation of a later life of a group."""
    group = _any(s)
    other = s.scenario.member(f"{group}-2", group)
    revoked, assigned = f"{group}-revoked-0", f"{group}-assigned-0"
    s.copy(revoked, s.one(revoked), **other)
    return s.copy(assigned, s.one(assigned), **other)


@in_rows("G4", scenario="Renewed", first=1)
def unfenced_again(s: ScenarioSlot) -> bool:
    """In a later life of a group a commit of an old generation is taken."""
    group = _any(s)
    answer, commits = f"{group}-told-1", f"{group}-commits-0"
    inv = s.get(answer, s.one(answer), "ret") + 1
    return s.copy(commits, s.one(commits), inv=inv, ret=inv + 500)


@in_rows("G7", scenario="Renewed", first=1)
def forgotten(s: ScenarioSlot) -> bool:
    """Nothing is said to be committed, though members were there since it was."""
    answer = f"{_any(s)}-told-1"
    return s.put(answer, s.one(answer), offset=NONE)


@in_rows("G7", scenario="Renewed", first=1)
def deleted_comes_back(s: ScenarioSlot) -> bool:
    """A group is answered an offset that it committed before it was deleted."""
    answer = f"{DELETED}-told-0"
    s.drop("reset", s.one("reset"))
    return s.put(answer, s.one(answer), offset=s.scenario.begin)
