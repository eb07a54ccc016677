"""Incidents: findings of several checks that have one cause are told once.

Findings of one partition whose offsets touch are about the same stretch of its log: a loss shows as
L1, L3, L4, L15 and P1 of one truncated tail. Two stretches with a hole between them are two
incidents, unless the hole is small beside them. In other partitions an incident has the same cause
only where a fault was recorded beside both. What clients of a group did is told apart from what the
log did, but for breaches about the same offsets.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from traces.model.schema import NONE

LOG, CLIENTS = "log", "clients"
MARGIN_NS = 10_000_000_000  # a fault is beside what happened so long before or after it
_MOMENT_NS = 1_000_000_000  # what a group does so soon after each other it does at one time
_HOLE = 4  # a hole is small if what lies beside it is so many times as wide
#: What an operator asks first, and so what an incident is called by.
_FIRST = (
    *("L4", "L3", "L18", "T1", "L2", "L5", "L6", "T4", "P2", "L14", "L7", "L1", "L15"),
    *("G8", "C1", "G10", "G6", "G9", "C2"),
)

Ranges = tuple[tuple[int, int], ...]


@frozen
class FaultSpan:
    """Something that was done to the cluster on purpose, and when it was undone if that is told."""

    at: int
    what: str
    until: int | None = None

    def distance(self, *instants: int) -> int:
        """The distance to the nearest of these."""
        last = self.at if self.until is None else max(self.at, self.until)
        return min(max(self.at - one, one - last, 0) for one in instants)


@frozen
class FoundIn:
    """Findings of one check in one place: so many, in these offsets, at this time."""

    check: str
    partition: tuple[str, int] | None
    ranges: Ranges = ()
    group: str = ""
    broken: int = 0
    allowed: int = 0
    since: int = NONE
    until: int = NONE
    reported: int = NONE

    @property
    def side(self) -> str:
        return CLIENTS if self.check[0] in "CGS" else LOG

    @property
    def subject(self) -> tuple[str, str]:
        """The side at fault: the log, or a group."""
        return self.side, self.group if self.side == CLIENTS else ""


@frozen
class Incident:
    """Everything that was found of one cause."""

    found: tuple[FoundIn, ...]
    faults: tuple[FaultSpan, ...] = ()  # beside it, the nearest first

    @property
    def violated(self) -> bool:
        return any(one.broken for one in self.found)

    @property
    def checks(self) -> Mapping[str, int]:
        """The number of breaches by promise, the one that gives the title first."""
        counts: dict[str, int] = {}
        for one in sorted(self.found, key=lambda one: (not one.broken, _rank(one.check))):
            number = one.broken or one.allowed
            if one.broken or not any(o.broken for o in self.found if o.check == one.check):
                counts[one.check] = counts.get(one.check, 0) + number
        return counts

    @property
    def main(self) -> str:
        """The check whose sentence says best what happened."""
        return next(iter(self.checks))

    @property
    def partitions(self) -> Mapping[tuple[str, int], Ranges]:
        """The offsets in each partition, if findings have any."""
        where: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for one in self.found:
            if one.partition is not None:
                where.setdefault(one.partition, []).extend(one.ranges)
        return {key: _joined(ranges) for key, ranges in sorted(where.items())}

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups whose members did it."""
        return tuple(sorted({one.group for one in self.found if one.side == CLIENTS and one.group}))

    @property
    def since(self) -> int:
        """When it began: the first event of the first finding."""
        return min((one.since for one in self.found if one.since != NONE), default=NONE)

    @property
    def until(self) -> int:
        """When the last of what it is about happened."""
        return max((one.until for one in self.found), default=NONE)

    @property
    def reported(self) -> int:
        """When the last event of a finding was over."""
        return max((one.reported for one in self.found), default=NONE)

    @property
    def size(self) -> int:
        return self.checks[self.main]


def incidents(found: Iterable[FoundIn], faults: Iterable[FaultSpan] = ()) -> list[Incident]:
    """The incidents behind these findings: violated ones first, then by size."""
    made = [Incident(tuple(some)) for some in _touching(list(found))]
    happened = sorted(faults, key=lambda fault: fault.at)
    made = _of_one_fault(_joined_sides(made), happened)
    made = [evolve(one, faults=_beside(one, happened)) for one in made]
    return sorted(made, key=_order)


def _order(one: Incident) -> tuple[object, ...]:
    return not one.violated, _rank(one.main), -one.size, one.since, tuple(one.partitions)


def _rank(check: str) -> tuple[int, str, int]:
    rank = _FIRST.index(check) if check in _FIRST else len(_FIRST)
    return rank, check[0], int(check[1:])


# -------------------------------------------------------------------------- in one partition


@frozen
class _Piece:
    """A stretch of offsets of one finding."""

    first: int
    last: int
    owner: int


def _touching(found: Sequence[FoundIn]) -> list[list[FoundIn]]:
    """Findings of one partition and one side whose offsets touch; others by whose they are."""
    root = list(range(len(found)))
    by_key: dict[object, list[int]] = {}
    for number, one in enumerate(found):
        by_key.setdefault((one.partition, one.subject), []).append(number)
    for numbers in by_key.values():
        pieces = [_Piece(*r, owner=n) for n in numbers for r in found[n].ranges]
        reach = None
        for piece in sorted(pieces, key=lambda piece: (piece.first, piece.last)):
            if reach is not None and _near(reach, piece):
                _union(root, reach.owner, piece.owner)
                reach = evolve(reach, last=max(reach.last, piece.last))
            else:
                reach = piece
        loose = [n for n in numbers if not found[n].ranges]
        for one, other in pairwise(sorted(loose, key=lambda n: (found[n].since, n))):
            if found[other].since - max(found[one].until, found[one].reported) <= _MOMENT_NS:
                _union(root, one, other)
    sets: dict[int, list[FoundIn]] = {}
    for number, one in enumerate(found):
        sets.setdefault(_top(root, number), []).append(one)
    return list(sets.values())


def _near(reach: _Piece, piece: _Piece) -> bool:
    """True if no hole is between two stretches, or one that is small beside the wider of them."""
    widest = max(reach.last - reach.first, piece.last - piece.first) + 1
    return piece.first - reach.last - 1 <= widest // _HOLE


def _top(root: list[int], number: int) -> int:
    while root[number] != number:
        number = root[number]
    return number


def _union(root: list[int], one: int, other: int) -> None:
    low, high = sorted((_top(root, one), _top(root, other)))
    root[high] = low


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Stretches in order, those that touch or have a small hole between them as one."""
    out: list[_Piece] = []
    for first, last in sorted(ranges):
        piece = _Piece(first, last, 0)
        if out and _near(out[-1], piece):
            out[-1] = evolve(out[-1], last=max(out[-1].last, last))
        else:
            out.append(piece)
    return tuple((one.first, one.last) for one in out)


# -------------------------------------------------------------------------- over partitions


def _joined_sides(made: Sequence[Incident]) -> list[Incident]:
    """Findings of clients join those of the log at the same offsets, if both are breaches or
    neither is: a repeated delivery that is allowed says nothing of a loss."""
    out = [one for one in made if one.found[0].side == LOG]
    for other in made:
        if other.found[0].side == LOG:
            continue
        home = next((n for n, one in enumerate(out) if _same(one, other)), None)
        if home is None:
            out.append(other)
        else:
            out[home] = evolve(out[home], found=(*out[home].found, *other.found))
    return out


def _same(one: Incident, other: Incident) -> bool:
    if one.found[0].side != LOG or one.violated != other.violated:
        return False
    mine, theirs = one.partitions, other.partitions
    return any(
        first <= end and start <= last
        for key in mine.keys() & theirs.keys()
        for first, last in mine[key]
        for start, end in theirs[key]
    )


def _of_one_fault(made: Sequence[Incident], faults: Sequence[FaultSpan]) -> list[Incident]:
    """Incidents of several partitions with the same faults beside them are one; so are those of a
    group at one time, for a rebalance concerns all its partitions.

    A second incident of the same partition stays another one: the first to happen go together.
    """
    happened, episodes = sorted(made, key=_when), _episodes(faults)
    moments = _moments(happened)
    merged: dict[object, Incident] = {}
    turns: dict[object, int] = {}
    for number, one in enumerate(happened):
        episode = _episode(one, episodes)
        cause = moments[number] if episode is None else ("fault", episode)
        if cause is None or not one.partitions:
            merged[number] = one
            continue
        sort = (one.found[0].subject, one.violated, cause)
        turn = turns[sort, tuple(one.partitions)] = turns.get((sort, tuple(one.partitions)), 0) + 1
        same = merged.get((sort, turn))
        together = one if same is None else evolve(same, found=(*same.found, *one.found))
        merged[sort, turn] = together
    return list(merged.values())


def _when(one: Incident) -> tuple[object, ...]:
    return one.since, tuple(one.partitions)


def _moments(happened: Sequence[Incident]) -> list[tuple[str, int] | None]:
    """For what a group's members did a number that those share which happened at one time."""
    out: list[tuple[str, int] | None] = []
    ends: dict[str, int] = {}
    for number, one in enumerate(happened):
        side, group = one.found[0].subject
        if side == LOG or one.since == NONE:
            out.append(None)
            continue
        last = ends.get(group)
        before = next((o for o in reversed(out) if o and o[0] == group), None)
        near = last is not None and one.since - last <= _MOMENT_NS
        out.append(before if near and before else (group, number))
        ends[group] = max(last or 0, one.until, one.reported)
    return out


def _episodes(faults: Sequence[FaultSpan]) -> list[list[FaultSpan]]:
    """Faults that follow each other closely: a broker that is stopped, killed, started."""
    out: list[list[FaultSpan]] = []
    for fault in faults:
        if out and fault.at - out[-1][-1].at <= MARGIN_NS:
            out[-1].append(fault)
        else:
            out.append([fault])
    return out


def _episode(one: Incident, episodes: Sequence[Sequence[FaultSpan]]) -> int | None:
    """The number of the episode that it is beside."""
    near = [(_distance(one, faults), n) for n, faults in enumerate(episodes)]
    distance, number = min(near, default=(MARGIN_NS + 1, 0))
    return number if one.since != NONE and distance <= MARGIN_NS else None


def _distance(one: Incident, faults: Sequence[FaultSpan]) -> int:
    return min(fault.distance(one.since, one.until) for fault in faults)


def _beside(one: Incident, faults: Sequence[FaultSpan]) -> tuple[FaultSpan, ...]:
    """The faults that were made shortly before, during or after it, the nearest first."""
    if one.since == NONE:
        return ()
    near = [
        (fault.distance(one.since, one.until, one.reported), fault.at, number, fault)
        for number, fault in enumerate(faults)
        if _during(one, fault) or fault.distance(one.since, one.until, one.reported) <= MARGIN_NS
    ]
    return tuple(fault for *_, fault in sorted(near, key=lambda item: item[:3]))


def _during(one: Incident, fault: FaultSpan) -> bool:
    return one.since <= fault.at <= max(one.until, one.reported)
