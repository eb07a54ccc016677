"""Promises about logs, producers, transactions and readers, by plain loops over the formulas.

Written from the formulas and the page of the format alone, for runs in trace format v1 in which
acks are all, elections clean, producers idempotent and files whole, and nothing is compacted: there
every breach is a violation.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, product
from typing import Any

from attrs import define, frozen

from tests.traces.fixture import Line

Lines = dict[str, list[Line]]
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@frozen(eq=False)
class Row:
    """A record of a line."""

    line: Line
    partition: str
    offset: int | None
    id: Any

    def __getattr__(self, name: str) -> Any:
        return self.line.get(name)


def before(a: Row, b: Row) -> bool:
    return a.line["returned_ns"] < b.line["invoked_ns"]


@define(slots=False)
class Promises:
    """One run."""

    lines: Lines

    @cached_property
    def rows(self) -> list[Row]:
        return [
            Row(line, f"{r['topic']}:{r['partition']}", r.get("offset"), r["id"])
            for mine in self.lines.values()
            for line in mine
            for r in line.get("records", ())
        ]

    def of(self, partition: str, *ops: str) -> list[Row]:
        return [row for row in self.rows if row.partition == partition and row.op in ops]

    @cached_property
    def ends(self) -> dict[tuple[str, int], Line]:
        return {
            (line["process"], line["txn"]): line
            for mine in self.lines.values()
            for line in mine
            if line["op"] in ("txn_commit", "txn_abort")
        }

    def state(self, row: Row) -> str | None:
        """The outcome of a row's transaction, by its producer or by readers of it."""
        if row.txn is None:
            return None
        end = self.ends[row.process, row.txn]
        if end["op"] == "txn_abort":
            return ABORTED
        if end["outcome"] == "ok":
            return COMMITTED
        mine = {
            r.id
            for r in self.rows
            if (r.process, r.txn) == (row.process, row.txn) and r.op == "send"
        }
        shown = any(
            r.id in mine and r.isolation == "read_committed" and r.outcome == "ok"
            for r in self.rows
            if r.op in ("poll", "scan")
        )
        return COMMITTED if shown else UNKNOWN

    def kept(self, row: Row) -> bool:
        return self.state(row) in (None, COMMITTED)

    def happened(self, row: Row) -> bool:
        return row.outcome == "ok" or (row.outcome == "info" and self.state(row) == COMMITTED)

    def acknowledged(self, row: Row) -> bool:
        return row.op == "send" and self.happened(row) and row.offset is not None

    def where(self, row: Row) -> int | None:
        """The acknowledged offset; or the lowest read, of who alone can have put it there."""
        if self.acknowledged(row):
            return row.offset
        attempts = [s for s in self.of(row.partition, "send") if s.id == row.id]
        if row.outcome != "fail":
            attempts = [s for s in attempts if s.outcome != "fail"]
        seen = [r.offset for r in self.of(row.partition, "poll", "scan") if r.id == row.id]
        return min((o for o in seen if o is not None), default=None) if len(attempts) == 1 else None

    def broken(self) -> set[str]:
        """The checks whose promise is broken somewhere."""
        partitions = sorted({row.partition for row in self.rows})
        return {id for partition in partitions for id, holds in self._all(partition) if holds}

    def _all(self, partition: str) -> Iterator[tuple[str, bool]]:
        sends, reads = self.of(partition, "send"), self.of(partition, "poll", "scan")
        yield from self._log(sends, reads)
        yield from self._order(sends, reads)
        yield from self._transactions(sends, reads)
        yield from self._readers(partition, sends, reads)

    def _log(self, sends: list[Row], reads: list[Row]) -> Iterator[tuple[str, bool]]:
        acks = [s for s in sends if self.acknowledged(s)]
        log = {(r.offset, r.id) for r in [*acks, *reads]}
        yield "L1", any(a[0] == b[0] and a[1] != b[1] for a, b in product(log, log))
        shown = {(r.offset, r.id) for r in reads}
        wrong = {
            (s.offset, s.id)
            for s in acks
            if any(o == s.offset for o, _ in shown) and (s.offset, s.id) not in shown
        }
        left = log - wrong
        yield "L2", any(a[1] == b[1] and a[0] != b[0] for a, b in product(left, left))
        yield "L8", any(id == r.id for _, id in wrong for r in reads)
        given = {r.id for r in reads if r.outcome == "ok"}
        final = {r.id for r in reads if r.op == "scan"}
        frontier = max((r.offset or 0 for r in reads if r.outcome == "ok"), default=-1)
        for s in sends:
            own = self.where(s)
            if self.happened(s) and self.kept(s) and own is not None and own <= frontier:
                yield "L3", s.id not in given
            if s.outcome == "ok" and self.kept(s):
                yield "L4", s.id not in final
            if self.state(s) == COMMITTED and s.outcome != "fail":
                yield "T1", s.id not in final
        for r in reads:
            mine = [s for s in sends if s.id == r.id]
            yield "L5", not mine
            yield "L6", bool(mine) and all(s.outcome == "fail" for s in mine)
            yield "L10", bool(mine) and all(before(r, s) for s in mine)
        for s, early, late in product(acks, reads, reads):
            same = early.id == s.id and early.offset == s.offset == late.offset
            yield "L15", same and late.id != s.id and before(early, late)

    def _order(self, sends: list[Row], reads: list[Row]) -> Iterator[tuple[str, bool]]:
        for a, b in product(sends, sends):
            one, two = self.where(a), self.where(b)
            if one is not None and two is not None:
                yield "L9", a.outcome == "ok" and before(a, b) and two < one
        for process in self.lines:
            mine = [self.where(s) for s in sends if s.process == process]
            known = [o for o in mine if o is not None]
            yield "P1", any(b < a for a, b in pairwise(known))

    def _transactions(self, sends: list[Row], reads: list[Row]) -> Iterator[tuple[str, bool]]:
        for r in reads:
            mine = [s for s in sends if s.id == r.id]
            if r.isolation != "read_committed" or not mine:
                continue
            states = [self.state(s) for s in mine]
            yield "T4", all(state == ABORTED for state in states)
            waited = [s for s in mine if self.state(s) in (COMMITTED, UNKNOWN)]
            asked = [self._asked(s) for s in waited]
            unbound = None in states or not asked
            yield "T2", not unbound and all(r.returned_ns < when for when in asked)
        for r, s in product(reads, sends):
            committed = self.acknowledged(s) and self.state(s) == COMMITTED
            if r.isolation != "read_committed" or not committed:
                continue
            yield "T3", (s.offset or 0) < (r.offset or 0) and r.returned_ns < self._asked(s)
        for r in self.rows:
            mine = [s for s in sends if s.id == r.id]
            possible = [s for s in mine if s.outcome != "fail"] or mine
            if r in reads and r.txn is not None and len(possible) == 1:
                (s,) = possible
                own = (s.process, s.txn) == (r.process, r.txn)
                yield "T5", own and r.isolation == "read_committed"

    def _asked(self, row: Row) -> int:
        return self.ends[row.process, row.txn]["invoked_ns"]

    def _readers(
        self, partition: str, sends: list[Row], reads: list[Row]
    ) -> Iterator[tuple[str, bool]]:
        visible = {r.offset for r in reads if r.op == "scan" and self._visible(r, sends, reads)}
        for process, mine in self.lines.items():
            position: int | None = None
            for line in mine:
                if line["op"] == "assign" and partition in line["partitions"]:
                    position = None
                rows = [r.offset or 0 for r in reads if r.line is line and r.process == process]
                steps = list(pairwise(rows))
                if position is not None and rows:
                    steps.insert(0, (position, rows[0]))
                yield "C2", any(b <= a for a, b in steps)
                yield "C1", any(a < o < b for a, b in steps for o in visible if o is not None)
                if rows and line["outcome"] == "ok":
                    position = rows[-1]

    def _visible(self, row: Row, sends: list[Row], reads: list[Row]) -> bool:
        mine = [s for s in sends if s.id == row.id]
        possible = [s for s in mine if s.outcome != "fail"]
        if not mine:
            return any(r.id == row.id and r.isolation == "read_committed" for r in reads)
        # Any of them may have put it there, but where an answer tells which did.
        here = [s for s in possible if s.outcome == "ok" and s.offset == row.offset]
        return bool(possible) and all(self.kept(s) for s in here or possible)
