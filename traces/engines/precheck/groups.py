"""Owners and commits of groups: one owner at a time, and no commit beyond what was read."""

from collections.abc import Iterator

import numpy as np

from traces.engines.precheck import summarise
from traces.engines.precheck.doubt import LOG, Doubt
from traces.engines.precheck.ranges import log_start
from traces.engines.precheck.summary import FIELDS, Summaries, SummaryKind
from traces.model.context import UNSET, Context
from traces.model.schema import NONE


def owners(summaries: Summaries) -> Iterator[Doubt]:
    """A partition has one owner in a generation."""
    for _, mine in summaries.kind(SummaryKind.OWNER).groups("group", "generation"):
        if len(np.unique(mine["process"])) > 1:
            yield "G1", NONE


def positions(summaries: Summaries) -> Iterator[Doubt]:
    """Nobody commits beyond the highest position that it had itself; others may vouch for it."""
    for _, mine in summaries.kind(SummaryKind.POSITION).groups("process"):
        reach, ended = log_start(summaries), NONE
        rows = mine.sorted("seq", "idx")
        columns = (rows[name].tolist() for name in FIELDS[SummaryKind.POSITION].values)
        for highest, need, begun, last in zip(*columns, strict=True):
            if begun < ended or need > reach:
                yield "G6", NONE
            reach, ended = max(reach, highest), last


def covered_commits(summaries: Summaries) -> Iterator[Doubt]:
    """A group has not committed beyond the last record that it was given."""
    pieces, reach = summaries.kind(SummaryKind.PIECE), summaries.kind(SummaryKind.REACH)
    for (group,), mine in reach.groups("group"):
        given = pieces["last"][pieces["who"] // 2 == group]
        if int(mine["highest"].max()) > int(given.max(initial=NONE)) + 1:
            yield LOG, NONE


def commits_of_share_groups(summaries: Summaries, context: Context) -> Iterator[Doubt]:
    """A share group commits no positions, so what it is said to have committed counts nowhere."""
    committing = summaries.kind(SummaryKind.REACH)["group"]
    settings = (context.lock, context.delivery_limit, context.share_committed_only)
    known = any(bool(np.any(setting[committing] != UNSET)) for setting in settings)
    reasons = summaries.kind(SummaryKind.DOUBT)["reason"]
    if known or (len(committing) and bool(np.any(reasons == summarise.SHARED))):
        yield from ((LOG, NONE), ("G5", NONE), ("G6", NONE))
