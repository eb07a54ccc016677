"""A share group (KIP-932): two members share the records, and a client asks for its start.

The first member accepts two records of four. It releases one, which the other member then accepts,
and rejects one after holding it for longer.
"""

from typing import Any

import numpy as np
from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import Detail, Op

_GROUP = "sharing"
_ACCEPT, _RELEASE, _REJECT, _RENEW = (
    Detail.ACKS[ack] for ack in ("accept", "release", "reject", "renew")
)


@define(slots=False)
class Sharing(Scenario):
    """Records are lent, acknowledged and lent again."""

    topic = "shared"

    def make(self) -> None:
        """Each phase but the first is one member's or the administrator's."""
        settings = {"lock_ms": 30_000, "delivery_limit": 5, "isolation": "read_committed"}
        self.clients.share_groups[_GROUP] = settings
        one, two = (self._sharer(f"sharer-{n}") for n in range(2))
        kind = self.nth % 4
        released, rejected = kind == 1, kind == 2
        ack = np.select([released, rejected], [_RELEASE, _REJECT], _ACCEPT)
        self.send(self.producer("lender"))
        self._asked("start", 2, self.begin)
        self.call("acquired", Op.ACQUIRE, 3, one, detail=1, **self.records())
        self.call("renewed", Op.ACKNOWLEDGE, 4, one, detail=_RENEW, **self.records(rejected))
        self.call("acknowledged", Op.ACKNOWLEDGE, 5, one, detail=ack, **self.records())
        self._asked("moved", 6, self.begin + 1)
        self.call("again", Op.ACQUIRE, 7, two, detail=2, **self.records(released))
        self.call("accepted", Op.ACKNOWLEDGE, 8, two, detail=_ACCEPT, **self.records(released))
        self._asked("done", 9, self.begin + self.each)
        self.scan()

    def _sharer(self, name: str) -> dict[str, int]:
        names = self.clients.names
        fields = {"group": names.groups.number(_GROUP), "member": names.members.number(f"{name}#0")}
        return {"process": self.process(name)} | fields

    def _asked(self, name: str, phase: int, offset: int) -> None:
        who: dict[str, Any] = {"process": self.process("share-admin")}
        who |= {"group": self.clients.names.groups.number(_GROUP)}
        self.call(name, Op.COMMITTED, phase, who, partition=self.partitions, offset=offset)


def _lent_again(s: ScenarioSlot, row: int, phase: int) -> bool:
    """The second member is given a record that the first one was given."""
    two = {name: s.get("again", 0, name) for name in ("process", "member")}
    inv = s.scenario.at(phase, 10 + s.partition)
    return s.copy("acquired", row, detail=2, inv=inv, ret=inv + 500, **two)


def _kept(s: ScenarioSlot) -> int:
    """A record that the first member accepts, and that is not the first of all."""
    return int(s.rows("acquired")[3])


@in_rows("S1", scenario="Sharing")
def lent_to_two(s: ScenarioSlot) -> bool:
    """Another member is given a record while the first one holds it."""
    return _lent_again(s, _kept(s), 3)


@in_rows("S2", scenario="Sharing")
def lent_after_it_was_accepted(s: ScenarioSlot) -> bool:
    """A record is given to another member although it had been accepted."""
    return _lent_again(s, _kept(s), 6)


@in_rows("S3", scenario="Sharing")
def counted_again(s: ScenarioSlot) -> bool:
    """A released record is delivered with the same count."""
    return s.put("again", s.one("again"), detail=1)


@in_rows("S4", scenario="Sharing")
def left_over(s: ScenarioSlot) -> bool:
    """A record is given back at the end, and nobody is given it again."""
    return s.put("accepted", s.one("accepted"), detail=_RELEASE)


@in_rows("S5", scenario="Sharing")
def start_back(s: ScenarioSlot) -> bool:
    """The share group starts lower than it did."""
    return s.put("done", s.one("done"), offset=s.scenario.begin)
