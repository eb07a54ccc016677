"""A group whose offsets go with transactions: committed, aborted, committed again."""

from typing import Any

from attrs import define

from traces.generate.anomalies.registry import anomaly
from traces.generate.scenarios.scenario import NOWHERE, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.schema import NONE, Op, Txn

_GROUP = "exact"


@define(slots=False)
class Exactly(Scenario):
    """What the group is answered about its offsets, after each transaction."""

    topic = "exact"

    def make(self) -> None:
        """The first transaction moves to the middle, the second in vain to the end, the third."""
        self.send(self.producer("feeder"))
        me: dict[str, Any] = self.member("taker", _GROUP)
        me |= {"generation": 1, "partition": self.partitions}
        if self.number == 0:
            self.call("owned", Op.ASSIGNED, 1, me, inv=self.at(0))
            self.call("nothing", Op.COMMITTED, 1, me, offset=NONE)
        middle, end = self.begin + self.each // 2, self.begin + self.each
        self.poll("polls", 2, me, self.records(), (0, end))
        steps = ((middle, True, middle), (end, False, middle), (end, True, end))
        for n, (offset, commits, answer) in enumerate(steps):
            self._moves(3 * self.number + n, 3 + 4 * n, offset, commits)
            self.call(f"answer-{n}", Op.COMMITTED, 6 + 4 * n, me, offset=answer)
        self.scan()

    def _moves(self, ordinal: int, phase: int, offset: int, commits: bool) -> None:
        tid = self.clients.names.transactional_ids.number("mover")
        me: dict[str, Any] = {"process": self.producer("mover"), "tid": tid, "pid": 7_000 + tid}
        me |= {"pepoch": 0, "partition": NOWHERE}
        if ordinal == 0:
            self.call("inits", Op.INIT_PRODUCER, 1, me)
        end, asked = Op.TXN_COMMIT if commits else Op.TXN_ABORT, self.at(phase + 2)
        state = Txn.COMMITTED if commits else Txn.ABORTED
        me |= {"txn": ordinal, "txn_state": int(state), "end_inv": asked}
        self.call(f"begins-{ordinal}", Op.TXN_BEGIN, phase, me)
        self.call(f"ends-{ordinal}", end, phase + 2, me)
        group = self.clients.names.groups.number(_GROUP)
        moved = {"partition": self.partitions, "offset": offset, "group": group}
        self.call(f"moves-{ordinal}", Op.TXN_OFFSETS, phase + 1, me, **moved, timestamp=asked + 500)


@anomaly("T9", scenario="Exactly")
def answered_what_was_aborted(s: ScenarioSlot) -> bool:
    """The group is where a transaction would have taken it that was aborted."""
    return s.put("answer-1", s.one("answer-1"), offset=s.get("answer-2", s.partition, "offset"))


@anomaly("T9", scenario="Exactly")
def answered_without_what_was_committed(s: ScenarioSlot) -> bool:
    """A committed transaction did not move the group."""
    return s.put("answer-2", s.one("answer-2"), offset=s.get("answer-1", s.partition, "offset"))
