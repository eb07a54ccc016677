"""Periods in which groups had members, by these and administrators, piece by piece.

A member is in its group from an assignment until it loses its partitions, gives up the last of
them, unsubscribes, or ends. One that gave them up and is assigned others in a later generation was
there in between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
from attrs import define, field, frozen

from traces.model.columns import IntColumns, calls
from traces.model.lives import ANY, NEVER, GroupLives, without
from traces.model.schema import NONE, Op, Outcome

_NAMES = (
    *("process", "seq", "op", "topic", "partition", "group", "generation", "member"),
    *("inv", "ret", "clock"),
)
_MOVES = (Op.SUBSCRIBE, Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.CLOSE, Op.CRASH, Op.DELETE_GROUPS)
Moves = dict[str, list[int]]
Period = tuple[int, int]


def moves(columns: IntColumns) -> Moves:
    """The rows of a piece by which members come and go, and groups are deleted."""
    rows = np.flatnonzero(calls(columns, *_MOVES) & (columns["outcome"] == Outcome.OK))
    return {name: columns[name][rows].tolist() for name in _NAMES} if len(rows) else {}


@frozen
class _Row:
    """One of those rows."""

    process: int
    seq: int
    op: int
    topic: int
    partition: int
    group: int
    generation: int
    member: int
    inv: int
    ret: int
    clock: int


@define
class _Stay:
    """A member's time in its group."""

    since: int
    generation: int
    member: int
    held: set[tuple[int, int]] = field(factory=set[tuple[int, int]])
    left: int = NONE  # when it gave up the last of its partitions


@define
class _Member:
    """A process as a member of one group: its times there, and those of each topic."""

    group: int
    last: int  # the last sign of the process
    stay: _Stay | None = None
    stays: list[Period] = field(factory=list[Period])
    topics: dict[int, list[Period]] = field(factory=dict[int, list[Period]])
    _about: dict[int, int] = field(factory=dict[int, int])  # since when, topics of this stay

    def see(self, call: Sequence[_Row]) -> None:
        """One call of the process."""
        one = call[0]
        if one.op == Op.ASSIGNED:
            self._assigned(one, {(r.topic, r.partition) for r in call if r.topic != NONE})
        elif one.op == Op.SUBSCRIBE:
            self._subscribed(one, {r.topic for r in call if r.topic != NONE})
        elif one.op in (Op.REVOKED, Op.LOST):
            self._gave_up(one, {(r.topic, r.partition) for r in call if r.topic != NONE})
        elif one.op in (Op.CLOSE, Op.CRASH):
            self.end(max(one.inv, self.last))

    def _assigned(self, one: _Row, held: set[tuple[int, int]]) -> None:
        stay = self.stay
        if stay is not None and not _goes_on(stay, one):
            self.end(one.inv)
            stay = None
        if stay is None:
            stay = self.stay = _Stay(one.inv, one.generation, one.member)
        stay.generation, stay.member = max(stay.generation, one.generation), one.member
        stay.held, stay.left = stay.held | held, NONE
        for topic in {topic for topic, _ in held}:
            self._about.setdefault(topic, one.inv)

    def _subscribed(self, one: _Row, topics: set[int]) -> None:
        if not topics:
            self.end(one.inv)
        for topic in set(self._about) - topics:
            self._leave(topic, one.inv)
        self._about |= {topic: one.inv for topic in topics if topic not in self._about}

    def _gave_up(self, one: _Row, what: set[tuple[int, int]]) -> None:
        if self.stay is None:
            return
        self.stay.held -= what
        if one.op == Op.LOST:
            self.end(one.inv)
        elif what and not self.stay.held:
            self.stay.left = one.inv

    def _leave(self, topic: int, when: int) -> None:
        self.topics.setdefault(topic, []).append((self._about.pop(topic), when))

    def end(self, when: int) -> None:
        """It is a member no longer."""
        if self.stay is None:
            return
        self.stays.append((self.stay.since, when if self.stay.left == NONE else self.stay.left))
        self.stay = None

    def finish(self) -> None:
        """The file has come to its end."""
        self.end(self.last)
        for topic in [*self._about]:
            self._leave(topic, NEVER)

    def of(self, topic: int) -> Iterator[Period]:
        """When it was there, subscribed to a topic."""
        for since, until in self.stays:
            for begin, end in self.topics.get(topic, ()):
                if max(since, begin) < min(until, end):
                    yield max(since, begin), min(until, end)


def _goes_on(stay: _Stay, one: _Row) -> bool:
    """True if a member that is assigned partitions was in the group since its last assignment."""
    if stay.left == NONE and one.generation == stay.generation:
        return True
    known = NONE not in (one.generation, stay.generation)
    return known and one.generation > stay.generation and stay.member in (one.member, NONE)


def lives(pieces: Iterable[Moves], last: Mapping[int, int], holed: Iterable[int]) -> GroupLives:
    """Periods in which each group had no members; `last` are the processes' last times.

    A process whose file has gaps is known to be there only at the times of its assignments.
    """
    lines = (zip(*piece.values(), strict=True) for piece in pieces if piece)
    rows = [_Row(*values) for line in lines for values in line]
    rows.sort(key=lambda row: (row.process, row.seq))
    found, torn = dict[int, list[_Member]](), set(holed)
    for process, mine in groupby(rows, key=lambda row: row.process):
        for member in _members([*mine], last.get(process, NONE), process in torn):
            found.setdefault(member.group, []).append(member)
    deleted = [(r.group, r.inv, r.ret) for r in rows if r.op == Op.DELETE_GROUPS and _timed(r)]
    groups, vague = {r.group for r in rows} - {NONE}, _vague(rows)
    given: dict[int, list[_Row]] = {}
    for row in rows:
        if row.op == Op.ASSIGNED and _timed(row) and row.generation != NONE:
            given.setdefault(row.group, []).append(row)
    idle: list[tuple[int, ...]] = []
    for group in sorted(groups):
        away = [(begin, end) for of, begin, end in deleted if of == group]
        members = found.get(group, [])
        reported = [(r.inv, r.generation, r.process) for r in given.get(group, ())]
        stays = {ANY: [stay for member in members for stay in member.stays]}
        for topic in sorted({topic for member in members for topic in member.topics}):
            stays[topic] = [stay for member in members for stay in member.of(topic)]
        for topic, present in stays.items():
            for begin, end in without(present, away):
                goes_on = _generations_go_on(reported, end) and not any(
                    begin <= asked and answered <= end for asked, answered in away
                )
                idle.append((group, topic, begin, end, int(goes_on)))
    return GroupLives(idle, deleted, sorted(group for group in vague if group != NONE))


def _generations_go_on(reported: list[tuple[int, int, int]], when: int) -> bool:
    """True if the first generation after a time is newer than all before.

    It must also exceed the number of its members: so many joins can have made it in a group that
    begins again.
    """
    before = max((generation for inv, generation, _ in reported if inv < when), default=NONE)
    later = [one for one in reported if one[0] >= when]
    if before == NONE or not later:
        return False
    _, first, _ = min(later)
    return first > max(before, len({process for _, of, process in later if of == first}))


def _members(rows: list[_Row], last: int, torn: bool) -> Iterator[_Member]:
    """The membership of one process in each group that it names."""
    members: dict[int, _Member] = {}
    for _, call in groupby(rows, key=lambda row: row.seq):
        mine = [*call]
        one = mine[0]
        if not _timed(one):
            continue
        if one.op in (Op.CLOSE, Op.CRASH):
            for member in members.values():
                member.see(mine)
        elif one.group != NONE and one.op != Op.DELETE_GROUPS:
            member = members.setdefault(one.group, _Member(one.group, last))
            member.see(mine)
            if torn:
                member.end(one.ret)
    for member in members.values():
        member.finish()
        yield member


def _timed(row: _Row) -> bool:
    ended = row.op in (Op.CLOSE, Op.CRASH)
    return row.inv != NONE and (row.ret != NONE or ended)


def _vague(rows: list[_Row]) -> list[int]:
    """Groups with a member whose times are not all known, or are of several clocks.

    A move that does not report its group may be one in any group of its process; an assignment that
    does not report its member, of another one than before.
    """
    of: dict[int, set[int]] = {}
    for row in rows:
        of.setdefault(row.process, set()).add(row.group)
    named = {row.process for row in rows if row.op == Op.ASSIGNED and row.member != NONE}
    clocks: dict[int, set[int]] = {}
    for row in rows:
        known = _timed(row) and (row.group != NONE or row.op in (Op.CLOSE, Op.CRASH))
        known &= row.op != Op.ASSIGNED or row.member != NONE or row.process not in named
        for group in of[row.process] if row.group == NONE else (row.group,):
            clocks.setdefault(group, set()).add(row.clock if known else NONE)
    return [group for group, reported in clocks.items() if NONE in reported or len(reported) > 1]
