"""A group that declares `commit_order: transaction`: read, process and move within transactions."""

from typing import Any

from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.scenarios.scenario import NOWHERE, Scenario, ScenarioBlock
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import NONE, Op, Txn


@define(slots=False)
class Processed(Scenario):
    """One member, whose first transaction of a generation is aborted: it is given all again."""

    topic = "inputs"

    def make(self) -> None:
        """In vain all records of the generation, then its first half, then the second."""
        self.send(self.producer("collector"))
        self.producer("transformer", transaction_timeout_ms=10_000)
        tid = self.clients.names.transactional_ids.number("transformer")
        self.identity = {"tid": tid, "pid": 7_000 + tid, "pepoch": 0}
        self.me: dict[str, Any] = self.member("transformer", "transformers")
        self.me |= {"generation": 1, "partition": self.partitions}
        if self.first:
            who = self.identity | {"process": self.me["process"], "partition": NOWHERE}
            self.call("inits", Op.INIT_PRODUCER, 0, who)
            self.call("assigned", Op.ASSIGNED, 0, self.me, inv=self.at(0, 1))
            self.call("nothing", Op.COMMITTED, 0, self.me, inv=self.at(0, 2), offset=NONE)
        begin, middle, end = self.begin, self.begin + self.each // 2, self.begin + self.each
        self._transaction("undone", 0, 2, (begin, end), commits=False)
        self.call("after-undone", Op.COMMITTED, 5, self.me, inv=self.at(5, 2), offset=self._known)
        self.call("goes-back", Op.SEEK, 5, self.me, inv=self.at(5, 3), offset=begin)
        self._transaction("half", 1, 6, (begin, middle), commits=True)
        self.call("after-half", Op.COMMITTED, 9, self.me, inv=self.at(9, 2), offset=middle)
        self.call("goes-on", Op.SEEK, 9, self.me, inv=self.at(9, 3), offset=middle)
        self._transaction("whole", 2, 10, (middle, end), commits=True)
        self.call("after-whole", Op.COMMITTED, 13, self.me, inv=self.at(13, 2), offset=end)
        self.scan()

    @property
    def _known(self) -> int:
        """The offset that is committed before the generation's first transaction."""
        return NONE if self.first else self.begin

    def _transaction(
        self, name: str, nth: int, phase: int, read: tuple[int, int], *, commits: bool
    ) -> None:
        """One transaction: its input is read and processed, and the group's offset goes with it."""
        begin, upto = read
        state = Txn.COMMITTED if commits else Txn.ABORTED
        mine: ScenarioBlock = self.me | self.identity
        mine |= {
            "txn": 3 * self.number + nth,
            "txn_state": int(state),
            "end_inv": self.at(phase + 3),
        }
        alone = {key: mine[key] for key in ("process", "txn", "txn_state", "end_inv")}
        alone |= self.identity | {"partition": NOWHERE}
        records = self.records((begin <= self.offset) & (self.offset < upto))
        self.call(f"{name}-begins", Op.TXN_BEGIN, phase, alone)
        self.poll(f"{name}-reads", phase + 1, mine, records, (0, self.begin + self.each))
        self.call(
            f"{name}-works", Op.PROCESS, phase + 1, self.me | records, inv=self.at(phase + 1, 1)
        )
        self.call(f"{name}-moves", Op.TXN_OFFSETS, phase + 2, mine, offset=upto)
        self.call(f"{name}-ends", Op.TXN_COMMIT if commits else Op.TXN_ABORT, phase + 3, alone)


@in_rows("T10", scenario="Processed")
def consumed_by_both(s: ScenarioSlot) -> bool:
    """The member goes back by one record after a commit, and its next transaction commits too."""
    last, first = int(s.rows("half-reads")[-1]), int(s.rows("whole-reads")[0])
    later = {name: s.get("whole-reads", first, name) for name in ("txn", "end_inv", "inv", "ret")}
    s.put("goes-on", s.one("goes-on"), offset=s.get("half-reads", last, "offset"))
    order = s.get("whole-reads", first, "order") - 1
    return s.copy("half-reads", last, order=order, **later)


@in_rows("G8", scenario="Processed")
def moved_past_unprocessed(s: ScenarioSlot) -> bool:
    """A committed transaction takes the group past a record that nobody has processed."""
    offset = s.get("half-works", s.one("half-works"), "offset")
    for block in ("undone-works", "half-works"):
        rows = s.rows(block)
        [row] = rows[s.scenario.blocks[block]["offset"][rows] == offset]
        s.drop(block, int(row))
    return True


@in_rows("T9", scenario="Processed", first=1)
def reported_aborted_offset(s: ScenarioSlot) -> bool:
    """A fetch reports the offset of a transaction that was aborted."""
    end = s.get("after-whole", s.one("after-whole"), "offset")
    return s.put("after-undone", s.one("after-undone"), offset=end)
