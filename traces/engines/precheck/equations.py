"""Compare stored, read and processed records: by window, and by record where one is unsure."""

from collections.abc import Iterator

import numpy as np
from attrs import define, field

from traces.engines.precheck import sides
from traces.engines.precheck.doubt import LOG, Doubt
from traces.engines.precheck.ranges import Range
from traces.engines.precheck.summary import Summaries, SummaryKind
from traces.model.context import Context, Ints
from traces.model.schema import NONE

_COMMITTED_ONLY = 1


@define
class Windows:
    """Sums of one side, window by window."""

    window: Ints
    values: Ints  # three rows: how many, and the halves of the hashes

    @classmethod
    def of(cls, summaries: Summaries) -> "Windows":
        """Sums of all parts of a file and all windows."""
        window, number = np.unique(summaries["window"], return_inverse=True)
        values = np.zeros((3, len(window)), np.int64)
        for row, name in enumerate(("pairs", "low", "high")):
            np.add.at(values[row], number, summaries[name])
        return cls(window, values)

    def less(self, *others: "Windows") -> list[int]:
        """Windows in which this is not the sum of the others."""
        sides_ = (self, *others)
        window, number = np.unique(np.concatenate([s.window for s in sides_]), return_inverse=True)
        signed = [self.values, *(-other.values for other in others)]
        total = np.zeros((3, len(window)), np.int64)
        for row in range(3):
            np.add.at(total[row], number, np.concatenate([values[row] for values in signed]))
        return window[np.any(total != 0, axis=0)].tolist()


_NOTHING = Windows(np.empty(0, np.int64), np.empty((3, 0), np.int64))


@define
class Equations:
    """The sides of one partition, and where they do not agree."""

    summaries: Summaries
    context: Context
    _sides: dict[tuple[int, int], Windows] = field(init=False)
    _seen: list[tuple[int, int, int, int]] = field(init=False)  # id, who, side, offset

    def __attrs_post_init__(self) -> None:
        windows = self.summaries.kind(SummaryKind.WINDOW).groups("side", "who")
        self._sides = {(side, who): Windows.of(mine) for (side, who), mine in windows}
        seen = self.summaries.kind(SummaryKind.SEEN)
        columns = (seen[name].tolist() for name in ("id", "who", "side", "offset"))
        self._seen = list(zip(*columns, strict=True))

    def doubts(self, ranges: list[Range]) -> Iterator[Doubt]:
        """Windows in which an equation does not hold, and records that break one."""
        yield from self._final()
        yield from self._given(ranges)
        yield from self._undone_groups()
        yield from self._unsure()

    def _side(self, side: int, who: int = NONE) -> Windows:
        return self._sides.get((side, who), _NOTHING)

    def _whos(self, side: int) -> list[int]:
        summed = {who for one, who in self._sides if one == side}
        return sorted(summed | {who for _, who, one, _ in self._seen if one == side})

    def _final(self) -> Iterator[Doubt]:
        """Compare the final scan with the acknowledged records."""
        kept, undone = self._side(sides.KEPT), self._side(sides.UNDONE)
        finals = self._whos(sides.FINAL)
        for who in finals:
            expected = (kept, undone) if who == sides.WHOLE else (kept,)
            for window in self._side(sides.FINAL, who).less(*expected):
                yield LOG, window
        blind = sides.WHOLE not in finals and len(undone.window)
        unread = not finals and (len(kept.window) or self._whos(sides.GIVEN))
        if blind or unread:
            yield LOG, NONE

    def _given(self, ranges: list[Range]) -> Iterator[Doubt]:
        """Compare the records given to a group with those acknowledged and committed.

        Only up to the last window that it read. Then compare those it processed with those it was
        given.
        """
        kept, undone = self._side(sides.KEPT), self._side(sides.UNDONE)
        for who in self._whos(sides.GIVEN):
            expected = (kept,) if who % 2 == _COMMITTED_ONLY else (kept, undone)
            last = max((s.last for s in ranges if s.who == who), default=NONE) >> sides.WINDOW_BITS
            for window in self._side(sides.GIVEN, who).less(*expected):
                if window <= last:
                    yield LOG, window
        for who in self._whos(sides.DONE):
            given = (self._side(sides.GIVEN, who), self._side(sides.GIVEN, who + 1))
            for window in self._side(sides.DONE, who).less(*given):
                yield LOG, window

    def _undone_groups(self) -> Iterator[Doubt]:
        """Find groups that record their processing, and processed none of the records given."""
        done = set(self._whos(sides.DONE))
        for who in self._whos(sides.GIVEN):
            group = who // 2
            recorded = who >= 0 and int(self.context.processes[group]) == 1
            if recorded and 2 * group not in done:
                yield LOG, NONE

    def _unsure(self) -> Iterator[Doubt]:
        """Records whose sends nobody answered: each read in one place, once by each reader."""
        sent = self.summaries.kind(SummaryKind.UNSURE)
        must: dict[int, bool] = {}
        undone: dict[int, bool] = {}
        flags = (sent[name].tolist() for name in ("id", "needed", "undone"))
        for id, needed, aborted in zip(*flags, strict=True):
            must[id] = must.get(id, False) or bool(needed)
            undone[id] = undone.get(id, False) or bool(aborted)
        seen: dict[int, list[tuple[int, int, int]]] = {}
        for id, who, side, offset in self._seen:
            seen.setdefault(id, []).append((who, side, offset))
        for id, needed in must.items():
            if needed and not any(side == sides.FINAL for _, side, _ in seen.get(id, [])):
                yield LOG, NONE
        for id, reads in seen.items():
            if id not in must or not self._once(reads, undone[id]):
                for offset in {offset for _, _, offset in reads}:
                    yield LOG, offset >> sides.WINDOW_BITS

    def _once(self, reads: list[tuple[int, int, int]], undone: bool) -> bool:
        """True if a record was read at one offset, once by every reader that came so far."""
        if len({offset for _, _, offset in reads}) > 1:
            return False
        offset = reads[0][2]
        count: dict[tuple[int, int], int] = {}
        for who, side, _ in reads:
            count[side, who] = count.get((side, who), 0) + 1
        finals = [who for who in self._whos(sides.FINAL) if not (undone and who == sides.VISIBLE)]
        if any(count.get((sides.FINAL, who), 0) != 1 for who in finals):
            return False
        if undone and any(who % 2 == _COMMITTED_ONLY for _, who in count):
            return False
        for who in self._whos(sides.GIVEN):
            wanted = int(not (undone and who % 2 == _COMMITTED_ONLY))
            behind = offset >> sides.WINDOW_BITS > self._last_window(who)
            given = count.get((sides.GIVEN, who), 0)
            if given != wanted and not (behind and not given):
                return False
        return self._processed(count)

    def _processed(self, count: dict[tuple[int, int], int]) -> bool:
        groups = {who // 2 for side, who in count if side != sides.FINAL and who >= 0}
        for group in groups:
            given = sum(count.get((sides.GIVEN, 2 * group + n), 0) for n in range(2))
            recorded = int(self.context.processes[group]) == 1
            if recorded and count.get((sides.DONE, 2 * group), 0) != given:
                return False
        return True

    def _last_window(self, who: int) -> int:
        summed = int(self._side(sides.GIVEN, who).window.max(initial=NONE))
        mine = [o for _, one, side, o in self._seen if (side, one) == (sides.GIVEN, who)]
        return max(summed, max(mine, default=NONE) >> sides.WINDOW_BITS)
