"""What each client read from one position on, its pieces of all files put together."""

from collections.abc import Iterator

import numpy as np
from attrs import define, field

from traces.schema import NONE, Op
from traces.tiers import order, sides
from traces.tiers.doubt import LOG, Doubt
from traces.tiers.summary import Kind, Told


@define
class Stint:
    """What one client read from one position on."""

    begun: int
    told: int = NONE
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
            self.doubts.append((LOG, first >> sides.BLOCK_BITS))
        if not forth or self.begun in (Op.REVOKED, Op.LOST):
            self.doubts.append((LOG, NONE))
        self.last = max(last, self.last)


def stints_of(told: Told) -> list[Stint]:
    """The pieces of the files as stints; a client goes on where its last piece ended."""
    stints: list[Stint] = []
    for _, pieces in told.kind(Kind.PIECE).groups("k0"):
        mine = pieces.sorted("k1", "k2")
        stint = Stint(order.GOES_ON)
        stints.append(stint)
        for begun, position, first, last, forth, count, who, when in zip(
            *(mine[f"v{n}"].tolist() for n in range(8)), strict=True
        ):
            if begun not in (order.GOES_ON, Op.COMMITTED):
                stint = Stint(begun, position if begun in order.SOUGHT else NONE)
                stints.append(stint)
            elif begun == Op.COMMITTED and stint.first == NONE:
                stint.told = position
            if count:
                stint.count += count
                stint.when = when if stint.first == NONE else stint.when
                stint.go_on(first, last, bool(forth), who)
    return [stint for stint in stints if stint.first != NONE]


def readers(told: Told, stints: list[Stint]) -> Iterator[Doubt]:
    """Stints of one account lie side by side, and each begins where it was told to."""
    start = log_start(told)
    for who in {stint.who for stint in stints}:
        mine = sorted((s for s in stints if s.who == who), key=lambda s: (s.first, s.last))
        below = NONE
        for stint in mine:
            position = max(stint.told, start) if stint.told != NONE else NONE
            early = stint.begun in order.SOUGHT and stint.first < position
            gap = below != NONE and known_start(told, stint) <= below
            if stint.first <= below or gap or early:
                yield LOG, stint.first >> sides.BLOCK_BITS
            below = max(below, stint.last)


def known_start(told: Told, stint: Stint) -> int:
    """The least offset at which a client may have begun, for all that was told or committed."""
    if stint.told != NONE or stint.who < 0 or stint.when == NONE:
        return stint.told
    runs = told.kind(Kind.RUN)
    mine = runs.where((runs["k1"] == order.COMMITTED) & (runs["k2"] >> 32 == stint.who // 2))
    before = (mine["v7"] != NONE) & (mine["v7"] <= stint.when)
    return int(mine["v3"][before].max(initial=NONE))


def log_start(told: Told) -> int:
    """The start of the log, as `traces.checks.partition` sees it."""
    runs = told.kind(Kind.RUN)
    answers = runs.where(runs["k1"] == order.EARLIEST)
    return int(np.r_[answers["v2"], answers["v3"]].max(initial=0))
