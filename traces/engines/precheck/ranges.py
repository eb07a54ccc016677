"""Join the pieces that each client read from one position on, across all files."""

from collections.abc import Iterator

import numpy as np
from attrs import define, field

from traces.engines.precheck import order, sides
from traces.engines.precheck.doubt import LOG, Doubt
from traces.engines.precheck.summary import FIELDS, Summaries, SummaryKind
from traces.model.schema import NONE, Op


@define
class Range:
    """The records that one client read from one position on."""

    begun: int
    start: int = NONE
    first: int = NONE
    last: int = NONE
    who: int = 0
    count: int = 0
    when: int = NONE  # its first read returned
    doubts: list[Doubt] = field(factory=list[Doubt])

    def go_on(self, first: int, last: int, forth: bool, who: int) -> None:
        """The client's next piece, which should lie behind all before it."""
        if self.first == NONE:
            self.first, self.who = first, who
        elif first <= self.last or who != self.who:
            self.doubts.append((LOG, first >> sides.WINDOW_BITS))
        if not forth or self.begun in (Op.REVOKED, Op.LOST):
            self.doubts.append((LOG, NONE))
        self.last = max(last, self.last)


def ranges_of(summaries: Summaries) -> list[Range]:
    """The pieces of the files as ranges; a client goes on where its last piece ended."""
    ranges: list[Range] = []
    for _, pieces in summaries.kind(SummaryKind.PIECE).groups("process"):
        mine = pieces.sorted("seq", "idx")
        one_range = Range(order.GOES_ON)
        ranges.append(one_range)
        for begun, position, first, last, forth, count, who, when in zip(
            *(mine[name].tolist() for name in FIELDS[SummaryKind.PIECE].values), strict=True
        ):
            if begun not in (order.GOES_ON, Op.COMMITTED):
                one_range = Range(begun, position if begun in order.SOUGHT else NONE)
                ranges.append(one_range)
            elif begun == Op.COMMITTED and one_range.first == NONE:
                one_range.start = position
            if count:
                one_range.count += count
                one_range.when = when if one_range.first == NONE else one_range.when
                one_range.go_on(first, last, bool(forth), who)
    return [one_range for one_range in ranges if one_range.first != NONE]


def readers(summaries: Summaries, ranges: list[Range]) -> Iterator[Doubt]:
    """Find ranges of one reader that overlap, leave a gap, or begin before their position."""
    start = log_start(summaries)
    for who in {one_range.who for one_range in ranges}:
        mine = sorted((s for s in ranges if s.who == who), key=lambda s: (s.first, s.last))
        below = NONE
        for one_range in mine:
            position = max(one_range.start, start) if one_range.start != NONE else NONE
            early = one_range.begun in order.SOUGHT and one_range.first < position
            gap = below != NONE and known_start(summaries, one_range) <= below
            if one_range.first <= below or gap or early:
                yield LOG, one_range.first >> sides.WINDOW_BITS
            below = max(below, one_range.last)


def known_start(summaries: Summaries, one_range: Range) -> int:
    """The lowest offset at which a client may have begun: its position, or the group's commit."""
    if one_range.start != NONE or one_range.who < 0 or one_range.when == NONE:
        return one_range.start
    runs = summaries.kind(SummaryKind.RUN)
    mine = runs.where((runs["sort"] == order.COMMITTED) & (runs["sub"] >> 32 == one_range.who // 2))
    before = (mine["beside_last"] != NONE) & (mine["beside_last"] <= one_range.when)
    return int(mine["last"][before].max(initial=NONE))


def log_start(summaries: Summaries) -> int:
    """The start of the log, as `traces.checks.partition` sees it."""
    runs = summaries.kind(SummaryKind.RUN)
    answers = runs.where(runs["sort"] == order.EARLIEST)
    return int(np.r_[answers["first"], answers["last"]].max(initial=0))
