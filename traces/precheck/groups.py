"""Owners and commits of groups: one owner at a time, and no commit beyond what was read."""

from collections.abc import Iterator

import numpy as np

from traces.precheck.doubt import LOG, Doubt
from traces.precheck.ranges import log_start
from traces.precheck.summary import Summaries, SummaryKind
from traces.schema import NONE


def owners(summaries: Summaries) -> Iterator[Doubt]:
    """A partition has one owner in a generation."""
    for _, mine in summaries.kind(SummaryKind.OWNER).groups("k0", "k1"):
        if len(np.unique(mine["k2"])) > 1:
            yield "G1", NONE


def positions(summaries: Summaries) -> Iterator[Doubt]:
    """Nobody commits beyond the highest position that some member of the group had been told."""
    for _, mine in summaries.kind(SummaryKind.POSITION).groups("k0"):
        reach, ended = log_start(summaries), NONE
        rows = mine.sorted("k1", "k2")
        columns = (rows[f"v{n}"].tolist() for n in range(6))
        for highest, need, begun, last, when, group in zip(*columns, strict=True):
            if begun < ended or (
                need > reach and need > _committed_by_others(summaries, when, group)
            ):
                yield "G6", NONE
            reach, ended = max(reach, highest), last


def _committed_by_others(summaries: Summaries, when: int, group: int) -> int:
    """The highest position that some member of a group had been told by a certain time."""
    position = summaries.kind(SummaryKind.POSITION)
    before = (position["v5"] == group) & (position["v3"] <= when) & (position["v3"] != NONE)
    return int(position["v0"][before].max(initial=NONE))


def covered_commits(summaries: Summaries) -> Iterator[Doubt]:
    """A group has not committed beyond the last record that it was given."""
    pieces, reach = summaries.kind(SummaryKind.PIECE), summaries.kind(SummaryKind.REACH)
    for (group,), mine in reach.groups("k0"):
        given = pieces["v3"][pieces["v6"] // 2 == group]
        if int(mine["v0"].max()) > int(given.max(initial=NONE)) + 1:
            yield LOG, NONE
