"""The quick pre-checks over one table in this process, without Spark."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from traces.engines import local
from traces.engines.kernel import chosen, judge
from traces.engines.local import rows_of
from traces.engines.precheck import quick
from traces.engines.precheck.quick import COVERED, GROUPED, PRODUCED, SEED, Doubts, answers
from traces.engines.precheck.sides import Unsure, bearing
from traces.engines.precheck.summarise import Summariser
from traces.engines.precheck.summary import Summaries, SummaryKind
from traces.model.columns import Columns
from traces.model.context import Context
from traces.model.table import from_arrow

__all__ = ["doubts", "find"]


def doubts(ops: Any, contexts: Mapping[int, Context], seed: int = SEED) -> Doubts:
    """The doubts left by the fingerprints and the order of this table."""
    columns = [from_arrow(batch) for batch in ops.to_batches()]
    sent = list(Summariser(seed)(columns))
    summaries = Summaries.of(sent)
    if len(summaries.kind(SummaryKind.UNSURE)) > quick.MOST_UNSURE:
        return Doubts(disorder=set(contexts))
    unsure = unsure_of(summaries)
    read = list(Summariser(seed, unsure)(columns))
    return Doubts.of(answers(Summaries.of([*sent, *read]), contexts, quick.FEW_RECORDS))


def unsure_of(summaries: Summaries) -> Unsure:
    """The records whose sends nobody answered."""
    mine = summaries.kind(SummaryKind.UNSURE)
    return Unsure.of(mine["run"], mine["id"])


def find(
    ops: Any, contexts: Mapping[int, Context], seed: int = SEED, foreign: bool = False
) -> list[dict[str, Any]]:
    """The findings of all checks that are covered, by exact checks where there is doubt.

    Raises `BadInput` where `foreign` rows in doubt are not of one run.
    """
    left, columns = doubts(ops, contexts, seed), from_arrow(ops)
    if left.disorder:
        return local.find(ops, contexts, COVERED, foreign=foreign)
    left = left.widened()
    found = left.settled()
    if left.partitions:
        rows = np.flatnonzero(bearing(columns, ("run", "topic", "partition"), left.partitions))
        doubtful = {name: column[rows] for name, column in columns.items()}
        found += _judged(doubtful, "partition", left.checks, contexts, foreign)
    for scope, names, key, keys in (
        ("group", GROUPED, "group", left.groups),
        ("producer", PRODUCED, "tid", left.producers),
    ):
        runs = {run for run, _ in keys}
        mine = _of_runs(columns, runs) if key else columns
        if runs:
            found += _judged(mine, scope, set(names), contexts, foreign)
    return found


def _of_runs(columns: Columns, runs: set[int]) -> Columns:
    rows = np.flatnonzero(np.isin(columns["run"], list(runs)))
    return {name: column[rows] for name, column in columns.items()}


def _judged(
    columns: Columns, scope: str, checks: set[str], contexts: Mapping[int, Context], foreign: bool
) -> list[dict[str, Any]]:
    mine = chosen(checks).get(scope, [])
    return judge(rows_of(columns, scope), scope, mine, contexts, foreign=foreign)
