"""All summaries of one partition, put together: what they vouch for, and what they do not.

The equations hold block by block, the pieces of each reader follow each other without overlap, and
no run falls: then no check that is covered here can find anything in the partition. A partition
for which that is not so is *doubtful*, which says nothing yet: the exact checks will.
"""

from collections.abc import Iterator

import numpy as np
from attrs import define, field

from traces.context import Context, Ints
from traces.schema import NONE, Op
from traces.tiers import order, sides, summarise
from traces.tiers.summary import Kind, Told

LOG = "log"  # what is stored, what is read of it, and by whom
MIXED = "mixed"  # transactions that send and poll
_COMMITTED_ONLY = 1
_OWN = {summarise.MIXES: MIXED, summarise.DUMPED: "L12", summarise.PAUSED: "C4"}
Doubt = tuple[str, int]


@define
class Blocks:
    """Sums of one side, block by block."""

    block: Ints
    values: Ints  # three rows: how many, and the halves of the hashes

    @classmethod
    def of(cls, told: Told) -> "Blocks":
        """Sums of all parts of a file and all blocks."""
        block, number = np.unique(told["k0"], return_inverse=True)
        values = np.zeros((3, len(block)), np.int64)
        for row, name in enumerate(("v0", "v1", "v2")):
            np.add.at(values[row], number, told[name])
        return cls(block, values)

    def less(self, *others: "Blocks") -> Ints:
        """Blocks in which this is not the sum of the others."""
        sides_ = (self, *others)
        block, number = np.unique(np.concatenate([s.block for s in sides_]), return_inverse=True)
        signed = [self.values, *(-other.values for other in others)]
        total = np.zeros((3, len(block)), np.int64)
        for row in range(3):
            np.add.at(total[row], number, np.concatenate([values[row] for values in signed]))
        return block[np.any(total != 0, axis=0)]


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


@define
class Place:
    """The summaries of one partition."""

    told: Told
    context: Context
    doubts: list[Doubt] = field(factory=list[Doubt])
    _sides: dict[tuple[int, int], Blocks] = field(factory=dict[tuple[int, int], Blocks])
    _known: list[Stint] | None = None
    _seen: list[tuple[int, int, int, int]] = field(factory=list[tuple[int, int, int, int]])

    def doubt(self, what: str, block: int = NONE) -> None:
        """The exact checks have to look at this, in a block or everywhere."""
        self.doubts.append((what, block))

    def look(self) -> list[Doubt]:
        """Everything that is doubtful."""
        if self.context.jepsen:  # other rules, and small
            self.doubt(LOG)
            self.doubt(MIXED)
            return self.doubts
        for (side, who), blocks in self.told.kind(Kind.BLOCK).groups("k1", "k2"):
            self._sides[side, who] = Blocks.of(blocks)
        seen = self.told.kind(Kind.SEEN)
        columns = (seen[name].tolist() for name in ("k0", "k1", "k2", "v0"))
        self._seen = list(zip(*columns, strict=True))
        self._doubtful_rows()
        stints = self._stints()
        self._final()
        self._given(stints)
        self._unsure()
        self._readers(stints)
        self._runs()
        self._groups()
        return self.doubts

    def _doubtful_rows(self) -> None:
        for reason in np.unique(self.told.kind(Kind.DOUBT)["k0"]).tolist():
            self.doubt(_OWN.get(reason, LOG))
        if bool(np.any(self.told.kind(Kind.COUNT)["k0"] == summarise.MIXED)):
            self.doubt(MIXED)

    def _side(self, side: int, who: int = NONE) -> Blocks:
        empty = Blocks(np.empty(0, np.int64), np.empty((3, 0), np.int64))
        return self._sides.get((side, who), empty)

    def _whos(self, side: int) -> list[int]:
        summed = {who for one, who in self._sides if one == side}
        return sorted(summed | {who for _, who, one, _ in self._seen if one == side})

    def _final(self) -> None:
        """What the final reading holds is what was acknowledged."""
        kept, undone = self._side(sides.KEPT), self._side(sides.UNDONE)
        finals = self._whos(sides.FINAL)
        for who in finals:
            expected = (kept, undone) if who == sides.WHOLE else (kept,)
            for block in self._side(sides.FINAL, who).less(*expected).tolist():
                self.doubt(LOG, block)
        blind = sides.WHOLE not in finals and len(undone.block)
        unread = not finals and (len(kept.block) or self._whos(sides.GIVEN))
        if blind or unread:
            self.doubt(LOG)

    def _given(self, stints: list[Stint]) -> None:
        """What a group was given is what was acknowledged and committed, up to where it came."""
        kept, undone = self._side(sides.KEPT), self._side(sides.UNDONE)
        for who in self._whos(sides.GIVEN):
            expected = (kept,) if who % 2 == _COMMITTED_ONLY else (kept, undone)
            last = max((s.last for s in stints if s.who == who), default=NONE) >> sides.BLOCK_BITS
            differs = self._side(sides.GIVEN, who).less(*expected)
            for block in differs[differs <= last].tolist():
                self.doubt(LOG, block)
        for who in self._whos(sides.DONE):
            given = (self._side(sides.GIVEN, who), self._side(sides.GIVEN, who + 1))
            for block in self._side(sides.DONE, who).less(*given).tolist():
                self.doubt(LOG, block)
        self._undone_groups()

    def _undone_groups(self) -> None:
        """A group that tells what it processed, and was given what it did not."""
        done = set(self._whos(sides.DONE))
        for who in self._whos(sides.GIVEN):
            group = who // 2
            recorded = who >= 0 and int(self.context.processes[group]) == 1
            if recorded and 2 * group not in done:
                self.doubt(LOG)

    def _unsure(self) -> None:
        """Records whose sends nobody answered: each read in one place, once by each reader."""
        sent = self.told.kind(Kind.UNSURE)
        must: dict[int, bool] = {}
        undone: dict[int, bool] = {}
        flags = (sent[name].tolist() for name in ("k0", "v1", "v2"))
        for id, needed, aborted in zip(*flags, strict=True):
            must[id] = must.get(id, False) or bool(needed)
            undone[id] = undone.get(id, False) or bool(aborted)
        seen: dict[int, list[tuple[int, int, int]]] = {}
        for id, who, side, offset in self._seen:
            seen.setdefault(id, []).append((who, side, offset))
        for id, needed in must.items():
            finals = [one for one in seen.get(id, []) if one[1] == sides.FINAL]
            if needed and not finals:
                self.doubt(LOG)
        for id, reads in seen.items():
            block = reads[0][2] >> sides.BLOCK_BITS
            if id not in must or not self._once(reads, undone[id]):
                for offset in {offset for _, _, offset in reads}:
                    self.doubt(LOG, offset >> sides.BLOCK_BITS)
                if id not in must:
                    self.doubt(LOG, block)

    def _once(self, reads: list[tuple[int, int, int]], undone: bool) -> bool:
        """Whether a record was read as one that is stored once, by all who came that far."""
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
            behind = offset >> sides.BLOCK_BITS > self._last_block(who)
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

    def _last_block(self, who: int) -> int:
        summed = int(self._side(sides.GIVEN, who).block.max(initial=NONE))
        mine = [o for _, one, side, o in self._seen if (side, one) == (sides.GIVEN, who)]
        return max(summed, max(mine, default=NONE) >> sides.BLOCK_BITS)

    def _stints(self) -> list[Stint]:
        """What each client read between its moves."""
        if self._known is None:
            self._known = self._put_together()
        return self._known

    def _put_together(self) -> list[Stint]:
        """The pieces of the files as stints; a client goes on where its last piece ended."""
        stints: list[Stint] = []
        for _, pieces in self.told.kind(Kind.PIECE).groups("k0"):
            mine = pieces.sorted("k1", "k2")
            names = ("v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7")
            stint = Stint(order.GOES_ON)
            stints.append(stint)
            for begun, told, first, last, forth, count, who, when in zip(
                *(mine[name].tolist() for name in names), strict=True
            ):
                if begun not in (order.GOES_ON, Op.COMMITTED):
                    stint = Stint(begun, told if begun in order.SOUGHT else NONE)
                    stints.append(stint)
                elif begun == Op.COMMITTED and stint.first == NONE:
                    stint.told = told
                if count:
                    stint.count += count
                    stint.when = when if stint.first == NONE else stint.when
                    self._go_on(stint, first, last, bool(forth), who)
        return [stint for stint in stints if stint.first != NONE]

    def _go_on(self, stint: Stint, first: int, last: int, forth: bool, who: int) -> None:
        if stint.first == NONE:
            stint.first, stint.who = first, who
        elif first <= stint.last or who != stint.who:
            self.doubt(LOG, first >> sides.BLOCK_BITS)
        if not forth or stint.begun in (Op.REVOKED, Op.LOST):
            self.doubt(LOG)
        stint.last = max(last, stint.last)

    def _readers(self, stints: list[Stint]) -> None:
        """Stints of one account lie side by side, and each begins where it was told to."""
        start = self._start
        for who in {stint.who for stint in stints}:
            mine = sorted((s for s in stints if s.who == who), key=lambda s: (s.first, s.last))
            below = NONE
            for stint in mine:
                told = max(stint.told, start) if stint.told != NONE else NONE
                early = stint.begun in order.SOUGHT and stint.first < told
                gap = below != NONE and self._known_start(stint) <= below
                if stint.first <= below or gap or early:
                    self.doubt(LOG, stint.first >> sides.BLOCK_BITS)
                below = max(below, stint.last)

    def _known_start(self, stint: Stint) -> int:
        """The least offset at which a client may have begun, for all that was told or committed."""
        if stint.told != NONE or stint.who < 0 or stint.when == NONE:
            return stint.told
        runs = self.told.kind(Kind.RUN)
        mine = runs.where((runs["k1"] == order.COMMITTED) & (runs["k2"] >> 32 == stint.who // 2))
        before = (mine["v7"] != NONE) & (mine["v7"] <= stint.when)
        return int(mine["v3"][before].max(initial=NONE))

    @property
    def _start(self) -> int:
        """The start of the log, as `traces.checks.partition` sees it."""
        runs = self.told.kind(Kind.RUN)
        answers = runs.where(runs["k1"] == order.EARLIEST)
        return int(np.r_[answers["v2"], answers["v3"]].max(initial=0))

    def _runs(self) -> None:
        runs = self.told.kind(Kind.RUN)
        for sort, check in (
            (order.SENT, "P1"),
            (order.MARKED, "L11"),
            (order.EARLIEST, "L20"),
            (order.LATEST, "L20"),
            (order.EPOCHS, "L12"),
        ):
            mine = runs.where(runs["k1"] == sort)
            columns = [mine[n] for n in ("k0", "v0", "v1", "v2", "v3")]
            if sort == order.SENT:
                columns = [np.r_[a, b] for a, b in zip(columns, self._placed_unsure(), strict=True)]
            if not bool(np.all(mine["v4"])) or _falls(*columns):
                self.doubt(check)
                if sort == order.EARLIEST:  # then nobody knows where the log starts
                    self.doubt(LOG)
        epochs = runs.where(runs["k1"] == order.EPOCHS).sorted("v6", "v7")
        ends, epoch = np.maximum.accumulate(epochs["v7"]), epochs["v2"]
        overlap = epochs["v6"][1:] <= ends[:-1]  # several readers, who have to agree
        if bool(np.any((epoch[1:] < epoch[:-1]) | (overlap & (epoch[1:] != epoch[:-1])))):
            self.doubt("L12")
        self._commits(runs.where(runs["k1"] == order.COMMITTED))

    def _placed_unsure(self) -> list[Ints]:
        """The sends that nobody answered, at the lowest offset where their record was read."""
        sent, lowest = self.told.kind(Kind.UNSURE), dict[int, int]()
        for id, _, side, offset in self._seen:
            if side != sides.DONE:
                lowest[id] = min(offset, lowest.get(id, offset))
        place = np.array([lowest.get(id, NONE) for id in sent["k0"].tolist()], np.int64)
        known = place != NONE
        return [sent[n][known] for n in ("k1", "k2", "v0")] + [place[known]] * 2

    def _commits(self, commits: Told) -> None:
        """Commits of one generation do not fall, in the order of their times."""
        if not bool(np.all(commits["v4"])):
            self.doubt("G5")
        for _, mine in commits.groups("k2"):
            several = len(np.unique(mine["k0"])) > 1
            mine = mine.sorted("v6", "v7") if several else mine.sorted("v0", "v1")
            overlap = mine["v6"][1:] < mine["v7"][:-1] + several
            if bool(np.any(overlap)) or bool(np.any(mine["v2"][1:] < mine["v3"][:-1])):
                self.doubt("G5")

    def _groups(self) -> None:
        for _, mine in self.told.kind(Kind.OWNER).groups("k0", "k1"):
            if len(np.unique(mine["k2"])) > 1:
                self.doubt("G1")
        positions = self.told.kind(Kind.POSITION)
        for _, mine in positions.groups("k0"):
            reach, ended = self._start, NONE
            rows = mine.sorted("k1", "k2")
            columns = (rows[f"v{n}"].tolist() for n in range(6))
            for told, need, begun, last, when, group in zip(*columns, strict=True):
                if begun < ended or (need > reach and need > self._told_others(when, group)):
                    self.doubt("G6")
                reach, ended = max(reach, told), last
        self._covered_commits()

    def _told_others(self, when: int, group: int) -> int:
        """The highest position that some member of a group had been told by a certain time."""
        told = self.told.kind(Kind.POSITION)
        before = (told["v5"] == group) & (told["v3"] <= when) & (told["v3"] != NONE)
        return int(told["v0"][before].max(initial=NONE))

    def _covered_commits(self) -> None:
        """A group has not committed beyond the last record that it was given."""
        pieces, reach = self.told.kind(Kind.PIECE), self.told.kind(Kind.REACH)
        for (group,), mine in reach.groups("k0"):
            given = pieces["v3"][pieces["v6"] // 2 == group]
            if int(mine["v0"].max()) > int(given.max(initial=NONE)) + 1:
                self.doubt(LOG)

    def seen(self) -> Iterator[tuple[str, int]]:
        """How much each covered check would have looked at."""
        counts = self.told.kind(Kind.COUNT)
        total = {what: int(mine["v0"].sum()) for (what,), mine in counts.groups("k0")}
        yield from _looked_at(total)
        runs = self.told.kind(Kind.RUN)
        for check, sorts in (
            ("P1", (order.SENT,)),
            ("L11", (order.MARKED,)),
            ("L12", (order.EPOCHS,)),
            ("L20", (order.EARLIEST, order.LATEST)),
            ("G5", (order.COMMITTED,)),
        ):
            more = len(self._placed_unsure()[0]) if check == "P1" else 0
            yield check, int(runs["v5"][np.isin(runs["k1"], sorts)].sum()) + more
        owners = self.told.kind(Kind.OWNER)
        yield (
            "G1",
            len({tuple(k) for k in np.stack([owners[f"k{n}"] for n in range(3)], 1).tolist()}),
        )
        yield "G6", int(self.told.kind(Kind.REACH)["v1"].sum())
        yield from self._seen_of_readers()

    def _seen_of_readers(self) -> Iterator[tuple[str, int]]:
        stints = self._stints()
        pieces = self.told.kind(Kind.PIECE)
        read = int(pieces["v5"].sum())
        for check in ("C1", "C2"):
            yield check, read - len(stints)
        yield "C3", sum(s.begun in order.SOUGHT and s.told != NONE for s in stints)
        moved = [s for s in stints if s.begun != order.GOES_ON and s.who > sides.WHOLE]
        yield "C4", sum(stint.count for stint in moved)
        own = [s for s in stints if s.who >= 0 and s.begun not in order.SOUGHT]
        yield "G10", sum(self._known_start(stint) != NONE for stint in own)
        covered = set(self.told.kind(Kind.REACH)["k0"].tolist())
        yield "G8", sum(s.count for s in stints if s.who >= 0 and s.who // 2 in covered)


def _falls(process: Ints, seq: Ints, idx: Ints, first: Ints, last: Ints) -> bool:
    """Whether, of runs of one process in its order, one begins below where another has ended."""
    rows = np.lexsort((idx, seq, process))
    same = process[rows][1:] == process[rows][:-1]
    return bool(np.any(same & (first[rows][1:] < last[rows][:-1])))


def _looked_at(total: dict[int, int]) -> Iterator[tuple[str, int]]:
    of = [total.get(what, 0) for what in range(summarise.KINDS_OF_COUNTS)]
    log, mixed = of[summarise.ACKED] + of[summarise.READS], of[summarise.MIXED_POLLS]
    yield from (("L1", log), ("L2", log), ("L3", of[summarise.SURE]), ("L4", of[summarise.TOLD]))
    yield from (("L5", of[summarise.READS]), ("L6", of[summarise.SENDS]))
    yield from (("L8", of[summarise.ACKED]), ("L15", of[summarise.ACKED]))
    yield from (("T1", of[summarise.WHOLE]), ("T5", mixed), ("T6", of[summarise.MIXED] + mixed))
    yield "T4", of[summarise.COMMITTED_READS] if of[summarise.ABORTED] else 0
    yield from (("G9", of[summarise.POLLS]), ("T10", of[summarise.IN_TXN]))
