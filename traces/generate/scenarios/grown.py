"""A topic to which partitions are added; its producer is told, and sends each key by the number."""

from typing import Any

import numpy as np
from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.keyed import KEYS, PARTITIONER, keys_by_partition
from traces.generate.scenarios.scenario import NOWHERE, SCENARIO_PARTITIONS, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.context import Ints
from traces.model.schema import Flag, Op

GROWS = 3  # the generation in which it gets the rest of its partitions
_BEFORE = SCENARIO_PARTITIONS // 2


@define(slots=False)
class Grown(Scenario):
    """Each record is in the partition of its key, by the number of partitions of its time."""

    topic = "grown"

    def make(self) -> None:
        """An administrator adds partitions before the records of a generation are sent."""
        grower = self.producer("grower", partitioner=PARTITIONER)
        if self.number in (0, GROWS):
            self._learns("learns", grower, Op.METADATA, 3, len(self.written))
        if self.number == GROWS:
            adds = self.process("adds-partitions")
            self._learns("describes", adds, Op.METADATA, 1, _BEFORE)
            self._learns("adds", adds, Op.CREATE_PARTITIONS, 2, SCENARIO_PARTITIONS)
        self.send(grower, key=self._keys(0), detail=self._keys(1), flags=int(Flag.LEFT))
        self.scan()

    def _keys(self, what: int) -> Ints:
        """Keys, or their hashes: with half of the partitions one has the keys of two."""
        table = keys_by_partition()[what]
        if self.number >= GROWS:
            return table[self.partition, self.nth % KEYS]
        return table[self.partition + _BEFORE * (self.nth % 2), self.nth % KEYS]

    def _learns(self, name: str, who: int, op: Op, step: int, number: int) -> None:
        """A call whose caller knows this number of partitions."""
        about: dict[str, Any] = {"inv": self.at(0, step), "partition": NOWHERE}
        self.add(f"{name}-number", Op.PARTITIONS, who, **about, offset=number)
        self.blocks[f"{name}-number"]["topic"][:] = self.number_of_topic
        self.add(name, op, who, **about, order=1)

    @property
    def written(self) -> Ints:
        """Half of them are there before the others."""
        return self.partitions[: _BEFORE if self.number < GROWS else None]

    @property
    def offset(self) -> Ints:
        """Later partitions begin later."""
        return self.begin + self.nth - self._since[self.partition] * self.width

    @property
    def end(self) -> Ints:
        """The end of the log of each partition."""
        return (self.plan.chunks - self._since) * self.width

    @property
    def _since(self) -> Ints:
        return GROWS * (self.partitions >= _BEFORE)


@in_rows("P6", scenario="Grown", first=GROWS)
def by_the_old_number(s: ScenarioSlot) -> bool:
    """A producer that was told of more partitions sends a record by the old number."""
    keys, hashes = keys_by_partition()
    other = (s.partition + _BEFORE) % SCENARIO_PARTITIONS
    there, nth = s.one("sends"), int(s.random.integers(KEYS))
    return s.put("sends", there, key=int(keys[other, nth]), detail=int(hashes[other, nth]))


@in_rows("P6", scenario="Grown", last=GROWS - 1)
def wrong_by_any_number(s: ScenarioSlot) -> bool:
    """A record is where its key belongs neither by the old number of partitions nor by the new."""
    keys, hashes = keys_by_partition()
    nth, s.partition = divmod(s.partition, _BEFORE)  # one that is there: in each another record
    other = int(s.random.choice(np.arange(1 - s.partition, SCENARIO_PARTITIONS, _BEFORE)))
    key = int(s.random.integers(KEYS))
    there = int(s.rows("sends")[nth])
    return s.put("sends", there, key=int(keys[other, key]), detail=int(hashes[other, key]))
