"""A topic that is deleted and made again: other records at the same offsets, and another id."""

from typing import Any

from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import Flag

AGAIN = 3  # the generation in which it is made again
_NEW = 1 << 30  # apart from the ids of the first life are those of the second


@define(slots=False)
class Remade(Scenario):
    """A topic that is deleted and created again; every client reports the topic's id."""

    topic, holes = "remade", 1

    def make(self) -> None:
        """Only the last life is read when all is over."""
        self.send(self.producer("remaker"))
        if self.number >= AGAIN:
            self.scan()
        former = Flag.REMADE | (0 if self.number >= AGAIN else Flag.FORMER)
        life = self.clients.names.topic_ids.number(self._life(self.number))
        for block in self.blocks.values():
            block["topic_id"] = block["topic"] * 0 + life
            block["flags"] |= former

    def _life(self, number: int) -> str:
        return "again" if number >= AGAIN else "once"

    @property
    def first(self) -> bool:
        """True in the first generation of the topic's last life."""
        return self.number == AGAIN

    @property
    def begin(self) -> int:
        """Offsets begin anew."""
        return super().begin - (AGAIN * self.width if self.number >= AGAIN else 0)

    @property
    def end(self) -> int:
        """The end of the last life's log."""
        return super().end - AGAIN * self.width

    def ids(self, partition: Any, offset: Any) -> Any:
        """Those of the former life are others."""
        return super().ids(partition, offset) + _NEW * (self.number >= AGAIN)


@in_rows("A1 L5", scenario="Remade", first=AGAIN)
def come_back(s: ScenarioSlot) -> bool:
    """A record of the former life is read in the new one."""
    row, scenario = int(s.rows("scans")[-1]), s.scenario
    nth = (scenario.number - AGAIN) % (AGAIN * scenario.each)  # in each generation another one
    offset = nth // scenario.each * scenario.width + nth % scenario.each
    old = int(scenario.ids(s.partition, offset)) - _NEW
    return s.copy("scans", row, offset=s.get("scans", row, "offset") + 1, id=old)
