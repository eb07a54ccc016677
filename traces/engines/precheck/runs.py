"""Numbers that must not fall: of one process in its order, and of all in the order of the log."""

from collections.abc import Iterator

import numpy as np

from traces.engines.precheck import order, sides
from traces.engines.precheck.doubt import LOG, Doubt
from traces.engines.precheck.summary import Summaries, SummaryKind
from traces.model.columns import firsts, lookup
from traces.model.context import Ints
from traces.model.schema import NONE

CHECKS = (
    (order.SENT, "P1"),
    (order.MARKED, "L11"),
    (order.EARLIEST, "L20"),
    (order.LATEST, "L20"),
    (order.EPOCHS, "L12"),
)


def runs_of(summaries: Summaries, sort: int) -> Summaries:
    """Runs of one sort."""
    runs = summaries.kind(SummaryKind.RUN)
    return runs.where(runs["sort"] == sort)


def doubts(summaries: Summaries, senders_known: bool) -> Iterator[Doubt]:
    """Checks of whose numbers some may fall."""
    for sort, check in CHECKS:
        mine = runs_of(summaries, sort)
        columns = [mine[n] for n in ("process", "seq", "idx", "first", "last")]
        if sort == order.SENT:
            unsure = stored_unsure(summaries, senders_known)
            columns = [np.r_[a, b] for a, b in zip(columns, unsure, strict=True)]
        if not bool(np.all(mine["in_order"])) or _falls(*columns):
            yield check, NONE
            if sort == order.EARLIEST:  # then nobody knows where the log starts
                yield LOG, NONE
    yield from _epochs(runs_of(summaries, order.EPOCHS).sorted("beside_first", "beside_last"))
    yield from _commits(runs_of(summaries, order.COMMITTED))


def stored_unsure(summaries: Summaries, senders_known: bool) -> list[Ints]:
    """The sends that nobody answered, at the lowest offset where their record was read.

    Only those that alone can have put it there; where an answered one can have, too, the equations
    do not hold.
    """
    sent, seen = (
        summaries.kind(SummaryKind.UNSURE).sorted("id", "idx"),
        summaries.kind(SummaryKind.SEEN),
    )
    new = firsts(sent["id"])
    sent = sent.where(new & np.r_[new[1:], True][: len(new)] & senders_known)
    seen = seen.where(seen["side"] != sides.DONE).sorted("id", "offset")
    lowest = seen.where(firsts(seen["id"]))
    at = lookup(lowest["id"], sent["id"])
    known = at >= 0
    return [sent[n][known] for n in ("process", "seq", "idx")] + [lowest["offset"][at[known]]] * 2


def _falls(process: Ints, seq: Ints, idx: Ints, first: Ints, last: Ints) -> bool:
    """True if one process has a run that begins below the end of the run before it."""
    rows = np.lexsort((idx, seq, process))
    same = process[rows][1:] == process[rows][:-1]
    return bool(np.any(same & (first[rows][1:] < last[rows][:-1])))


def _epochs(scanned: Summaries) -> Iterator[Doubt]:
    """Leader epochs grow along the log, and several readers agree."""
    ends, epoch = np.maximum.accumulate(scanned["beside_last"]), scanned["first"]
    overlap = scanned["beside_first"][1:] <= ends[:-1]
    if bool(np.any((epoch[1:] < epoch[:-1]) | (overlap & (epoch[1:] != epoch[:-1])))):
        yield "L12", NONE


def _commits(commits: Summaries) -> Iterator[Doubt]:
    """Commits of one generation do not fall, in the order of their times."""
    if not bool(np.all(commits["in_order"])):
        yield "G5", NONE
    for _, mine in commits.groups("sub"):
        several = len(np.unique(mine["process"])) > 1
        by = ("beside_first", "beside_last") if several else ("seq", "idx")
        mine = mine.sorted(*by)
        overlap = mine["beside_first"][1:] < mine["beside_last"][:-1] + several
        if bool(np.any(overlap)) or bool(np.any(mine["first"][1:] < mine["last"][:-1])):
            yield "G5", NONE
