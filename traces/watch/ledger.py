"""The findings so far, each once, with the first few witnesses of each check."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import define, field, frozen

from traces.checks.base import Check
from traces.checks.rows import Rows
from traces.engines.kernel import EVENT
from traces.model.context import Context, Ints
from traces.verdicts.verdict import WITNESSES
from traces.watch.finality import EARLY, final
from traces.watch.windows import WindowKey

WitnessRow = dict[str, int]


@frozen
class ReportedFinding:
    """One violation, reported as soon as it was final."""

    check: Check
    events: tuple[WitnessRow, ...]


@define
class Ledger:
    """The violations of a run so far."""

    witnesses: dict[str, list[ReportedFinding]] = field(factory=dict[str, list[ReportedFinding]])
    _known: dict[str, set[tuple[Any, ...]]] = field(factory=dict[str, set[tuple[Any, ...]]])

    def count(self, check: str) -> int:
        """The least number of findings: old rows are not judged again before the end."""
        return len(self._known.get(check, ()))

    def clear(self) -> None:
        """The configuration is another, and with it what it permits."""
        self.witnesses, self._known = {}, {}

    def judge(
        self, key: WindowKey, rows: Rows, checks: list[Check], strict: bool, strong: bool
    ) -> list[ReportedFinding]:
        """Run these checks on the rows of one key, and return the new findings."""
        new: list[ReportedFinding] = []
        for check in checks:
            for found in check.function(rows):
                if len(found.rows):
                    sure = final(check, rows, found.rows, found.clause, strict, strong)
                    new += self._new(key, check, rows, found.rows[sure])
        return new

    def _new(
        self, key: WindowKey, check: Check, rows: Rows, found: Ints
    ) -> Iterator[ReportedFinding]:
        early = EARLY[check.id]
        known = self._known.setdefault(check.id, set())
        shown = self.witnesses.setdefault(check.id, [])
        named = [getattr(rows, column)[found[:, early.row]].tolist() for column in early.named_by]
        for line, name in zip(found, zip(*named, strict=True), strict=True):
            if (whole := (key, *name)) in known:
                continue
            known.add(whole)
            finding = ReportedFinding(
                check, tuple(_event(rows, int(row)) for row in line if row >= 0)
            )
            if len(shown) < WITNESSES:
                shown.append(finding)
            yield finding


def _event(rows: Rows, row: int) -> WitnessRow:
    return {name: int(getattr(rows, name)[row]) for name in EVENT}


def view(kind: type[Rows], columns: dict[str, Ints], context: Context) -> Rows:
    """The rows of one key, in each process's own order, as its checks see them."""
    order = np.lexsort((columns["idx"], columns["seq"], columns["process"]))
    return kind({n: c[order].astype(np.int64) for n, c in columns.items()}, context)
