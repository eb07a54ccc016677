"""Groups whose offsets go with transactions: committed and aborted, and of two owners in turn."""

from typing import Any

from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import NOWHERE, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import NONE, Op, Outcome, Txn

_GROUP, _SWAPPED = "exact", "swapped"


@define(slots=False)
class Exactly(Scenario):
    """A group that asks for its committed offsets after each transaction."""

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
            mine = {"offset": offset, **me}
            self._moves("mover", 3 * self.number + n, 3 + 4 * n, mine, commits=commits)
            self.call(f"answer-{n}", Op.COMMITTED, 6 + 4 * n, me, offset=answer)
        self._swapped()
        self.scan()

    def _swapped(self) -> None:
        """Every partition goes to another member, and its former owner's last offsets are refused.

        That member's worker is late: its consumer has given the partition up.
        """
        owners: list[dict[str, Any]] = [
            self.member(f"owner-{half}", _SWAPPED)
            | {"generation": 2 * self.number + half, "partition": self.partitions}
            for half in range(2)
        ]
        for half, me in enumerate(owners):
            self.call(f"given-{half}", Op.ASSIGNED, 2 + 4 * half, me)
            ordinal = self.number if half else 2 * self.number
            mine = me | {"offset": self.begin}
            self._moves(f"swap-{half}", ordinal, 3 + 4 * half, mine, commits=True)
        late = owners[0] | {"offset": self.begin, "outcome": int(Outcome.FAIL)}
        self._moves("swap-0", 2 * self.number + 1, 11, late, commits=False)

    def _moves(
        self, producer: str, ordinal: int, phase: int, moved: dict[str, Any], *, commits: bool
    ) -> None:
        """A transaction of a producer's that carries what a member of a group has read."""
        tid = self.clients.names.transactional_ids.number(producer)
        me: dict[str, Any] = {"process": self.producer(producer), "tid": tid, "pid": 7_000 + tid}
        me |= {"pepoch": 0, "partition": NOWHERE}
        if ordinal == 0:
            self.call(f"{producer}-inits", Op.INIT_PRODUCER, 1, me)
        end, asked = Op.TXN_COMMIT if commits else Op.TXN_ABORT, self.at(phase + 2)
        state = Txn.COMMITTED if commits else Txn.ABORTED
        me |= {"txn": ordinal, "txn_state": int(state), "end_inv": asked}
        self.call(f"{producer}-begins-{ordinal}", Op.TXN_BEGIN, phase, me)
        self.call(f"{producer}-ends-{ordinal}", end, phase + 2, me)
        name = f"{producer}-late" if "outcome" in moved else f"{producer}-moves-{ordinal}"
        # A call for each partition, as each has an outcome of its own.
        fields = {**moved, **me, "partition": self.partitions, "timestamp": asked + 500}
        self.call(name, Op.TXN_OFFSETS, phase + 1, fields, inv=self.at(phase + 1, self.partitions))


@in_rows("G12", scenario="Exactly")
def of_a_former_owner(s: ScenarioSlot) -> bool:
    """The offsets of a member are taken whose partition has been another one's since."""
    return s.put("swap-0-late", s.one("swap-0-late"), outcome=int(Outcome.OK))


@in_rows("T9", scenario="Exactly")
def answered_what_was_aborted(s: ScenarioSlot) -> bool:
    """The group is where a transaction would have taken it that was aborted."""
    return s.put("answer-1", s.one("answer-1"), offset=s.get("answer-2", s.partition, "offset"))


@in_rows("T9", scenario="Exactly")
def answered_without_what_was_committed(s: ScenarioSlot) -> bool:
    """A committed transaction did not move the group."""
    return s.put("answer-2", s.one("answer-2"), offset=s.get("answer-1", s.partition, "offset"))
