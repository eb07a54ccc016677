"""One who consumes and produces in transactions, and one who asks for offsets by time."""

from typing import Any

import numpy as np
from attrs import define

from traces.generate.scenarios.scenario import MS, Scenario
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Op


@define(slots=False)
class Copying(Scenario):
    """Half of the records are what a transaction makes of the other half."""

    topic, holes = "copying", 1

    @property
    def made(self) -> Any:
        """Mask of the records that the transaction wrote."""
        return self.nth >= self.each // 2

    @property
    def sent(self) -> Ints:
        """The copies come when the transaction has read its input."""
        return self.at(np.where(self.made, 6, 1), self.nth * self.size + self.partition)

    def make(self) -> None:
        """The copier goes on behind its own records of the generation before."""
        fields = self.transaction("worker", self.number, 3, 8)
        source = self.producer("source")
        ours = {name: np.where(self.made, fields[name], NONE) for name in ("tid", "txn", "end_inv")}
        ours |= {name: np.where(self.made, fields[name], NONE) for name in ("pid", "pepoch")}
        ours |= {"process": np.where(self.made, fields["process"], source)}
        ours |= {"txn_state": np.where(self.made, fields["txn_state"], 0)}
        self.send(**ours, flags=np.where(self.made, Flag.MIXED, 0))
        self._reads(fields)
        self._by_time()
        self.scan()

    def _reads(self, fields: dict[str, Any]) -> None:
        me = fields | self.member("worker", "copying")
        if self.number == 0:
            mine = {name: me[name] for name in ("process", "group", "member")}
            self.call("begins", Op.ASSIGN, 2, mine, partition=self.partitions, offset=0)
        before, now = self.records(self.made), self.records(~self.made)
        before["offset"] = before["offset"] - self.width
        before |= self.known(before["partition"], before["offset"])
        several = [before, now] if self.number else [now]
        given = {name: np.concatenate([one[name] for one in several]) for name in now}
        end = self.begin + self.each // 2
        self.poll("polls", 4, me | {"flags": Flag.MIXED}, given, (0, end))

    def _by_time(self) -> None:
        clock, middle = {"process": self.process("clock")}, self.each // 2
        asked = self.sent[self.nth == middle] // MS
        fields = {"partition": self.partitions, "offset": self.begin + middle, "timestamp": asked}
        self.call("by-time", Op.LIST_OFFSETS, 10, clock, inv=self.at(10, self.partitions), **fields)
