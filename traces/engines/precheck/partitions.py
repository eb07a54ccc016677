"""Judge the summaries of one partition: the checks they clear, and the doubts they leave.

The equations must hold window by window, each reader's pieces follow each other without overlap,
and no run fall. Then no check that is covered here can find anything in the partition. Otherwise
the partition is *doubtful*, and the exact checks decide.
"""

from collections.abc import Iterator

import numpy as np
from attrs import define, field

from traces.engines.precheck import groups, order, runs, sides, summarise
from traces.engines.precheck.doubt import LOG, MIXED, Doubt
from traces.engines.precheck.equations import Equations
from traces.engines.precheck.ranges import Range, known_start, ranges_of, readers
from traces.engines.precheck.summary import FIELDS, Summaries, SummaryKind
from traces.model.context import Context, Senders
from traces.model.schema import NONE

_OWNER = FIELDS[SummaryKind.OWNER].keys
_OWN = {summarise.MIXES: MIXED, summarise.DUMPED: "L12", summarise.PAUSED: "C4"}


@define
class PartitionSummaries:
    """The summaries of one partition."""

    summaries: Summaries
    context: Context
    topic: int
    _ranges: list[Range] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._ranges = ranges_of(self.summaries)

    def doubts(self) -> Iterator[Doubt]:
        """Everything that the exact checks have to look at, in a window or everywhere."""
        if self.context.jepsen:  # other rules, and small
            yield from ((LOG, NONE), (MIXED, NONE))
            return
        yield from _doubtful_rows(self.summaries)
        for one_range in self._ranges:
            yield from one_range.doubts
        yield from Equations(self.summaries, self.context).doubts(self._ranges)
        yield from readers(self.summaries, self._ranges)
        yield from runs.doubts(self.summaries, self._senders_known)
        yield from groups.owners(self.summaries)
        yield from groups.positions(self.summaries)
        yield from groups.covered_commits(self.summaries)
        yield from groups.commits_of_share_groups(self.summaries, self.context)

    @property
    def _senders_known(self) -> bool:
        senders = int(self.context.senders[self.topic])
        return self.context.senders_known and senders > Senders.ANYBODY

    def seen(self) -> Iterator[tuple[str, int]]:
        """The number of things that each covered check would have looked at."""
        counts = self.summaries.kind(SummaryKind.COUNT)
        total = {what: int(mine["rows"].sum()) for (what,), mine in counts.groups("what")}
        yield from _looked_at(total)
        yield from _seen_of_runs(self.summaries, self._senders_known)
        owners = self.summaries.kind(SummaryKind.OWNER)
        owners = owners.where(self.context.classic[owners["group"]] != 0)
        yield "G1", len(set(zip(*(owners[name].tolist() for name in _OWNER), strict=True)))
        yield "G6", int(self.summaries.kind(SummaryKind.REACH)["commits"].sum())
        yield from self._seen_of_readers()

    def _seen_of_readers(self) -> Iterator[tuple[str, int]]:
        ranges = self._ranges
        read = int(self.summaries.kind(SummaryKind.PIECE)["records"].sum())
        for check in ("C1", "C2"):
            yield check, read - len(ranges)
        yield "C3", sum(s.begun in order.SOUGHT and s.start != NONE for s in ranges)
        moved = [s for s in ranges if s.begun != order.GOES_ON and s.who > sides.WHOLE]
        yield "C4", sum(one_range.count for one_range in moved)
        own = [s for s in ranges if s.who >= 0 and s.begun not in order.SOUGHT]
        yield "G10", sum(known_start(self.summaries, one_range) != NONE for one_range in own)
        covered = set(self.summaries.kind(SummaryKind.REACH)["group"].tolist())
        yield "G8", sum(s.count for s in ranges if s.who >= 0 and s.who // 2 in covered)


def _doubtful_rows(summaries: Summaries) -> Iterator[Doubt]:
    reasons = set(summaries.kind(SummaryKind.DOUBT)["reason"].tolist())
    for reason in sorted(reasons - {summarise.SHARED}):
        yield _OWN.get(reason, LOG), NONE
    if bool(np.any(summaries.kind(SummaryKind.COUNT)["what"] == summarise.MIXED)):
        yield MIXED, NONE


def _seen_of_runs(summaries: Summaries, senders_known: bool) -> Iterator[tuple[str, int]]:
    for sort, check in (*runs.CHECKS, (order.COMMITTED, "G5")):
        yield check, int(runs.runs_of(summaries, sort)["rows"].sum())
    yield "P1", len(runs.stored_unsure(summaries, senders_known)[0])


def _looked_at(total: dict[int, int]) -> Iterator[tuple[str, int]]:
    of = [total.get(what, 0) for what in range(summarise.KINDS_OF_COUNTS)]
    log, mixed = of[summarise.ACKED] + of[summarise.READS], of[summarise.MIXED_POLLS]
    yield from (
        ("L1", log),
        ("L2", log),
        ("L3", of[summarise.SURE]),
        ("L4", of[summarise.ANSWERED]),
    )
    yield from (("L5", of[summarise.READS]), ("L6", of[summarise.SENDS]))
    yield from (("L8", of[summarise.ACKED]), ("L15", of[summarise.ACKED]))
    yield from (("T1", of[summarise.WHOLE]), ("T5", mixed), ("T6", of[summarise.MIXED] + mixed))
    yield "T4", of[summarise.COMMITTED_READS] if of[summarise.ABORTED] else 0
    yield from (("G9", of[summarise.POLLS]), ("T10", of[summarise.IN_TXN]))
