"""Lives of groups: one without members may be deleted, or expire (KIP-211)."""

from enum import Enum

import numpy as np

from traces.checks.rows import Rows
from traces.model.columns import Bools
from traces.model.context import UNSET, Clause, Ints, clause
from traces.model.lives import ALWAYS, ANY
from traces.model.schema import NONE, Op, Outcome

MADE_AGAIN = "the group was deleted, or has expired, while nobody is known to have been in it"


LEAST_RETENTION_NS = 60_000_000_000  # offsets.retention.minutes is one at least


class Apart(Enum):
    """A change that a group may have gone through between two calls."""

    MEMBERS = 1  # its generations may have begun again
    BEGUN = 2  # it may have begun to read the topic again, its generations as well
    OFFSETS = 3  # its offsets of the topic may have been deleted, or have expired


def _retention(p: Rows) -> int:
    reported = p.context.group_retention_ns
    return LEAST_RETENTION_NS if reported == UNSET else reported


def life(p: Rows, rows: Ints) -> Ints:
    """The number of times that the group of each row had been without members, if known."""
    lives, out = p.context.lives, np.zeros(len(rows), np.int64)
    if lives is None:
        return out
    for group in np.unique(p.group[rows]):
        mine = (p.group[rows] == group) & ~lives.is_vague(p.group[rows])
        out[mine] = np.searchsorted(lives.periods(int(group))[1], p.inv[rows[mine]], side="right")
    return out


def parted(p: Rows, one: Ints, two: Ints, how: "Apart", groups: Ints | None = None) -> Bools:
    """Between which of these rows of a group, one after the other, it may have been made again.

    The group is that of the second row, if `groups` tells no other.
    """
    lives, out = p.context.lives, np.zeros(len(one), bool)
    groups = p.group[two] if groups is None else groups
    if lives is None:
        return out
    for group in np.unique(groups):
        mine = np.flatnonzero(groups == group)
        begin, end = _periods(p, int(group), how)
        out[mine] = lives.is_vague(groups[mine]) | (p.clock[one[mine]] != p.clock[two[mine]])
        since, until = p.inv[one[mine]], p.ret[two[mine]]
        if how is Apart.BEGUN and not lives.has_members(int(group)):
            out[mine] |= (since == NONE) | (until - since >= _retention(p))
            continue
        out[mine] |= (since == NONE) | (until == NONE)
        at = np.searchsorted(end, since, side="right")
        there = at < len(end)
        out[mine[there]] |= begin[at[there]] < until[there]
    return out


def forgot(p: Rows, one: Ints, two: Ints, groups: Ints) -> Bools:
    """Between which of these rows what the group had committed was deleted, or has expired."""
    lives, out = p.context.lives, np.zeros(len(one), bool)
    dropped = p.where(Op.DELETE_OFFSETS)
    dropped = dropped[p.outcome[dropped] != Outcome.FAIL]
    for at, group in enumerate(groups.tolist()):  # what finds nothing committed is little
        since, until = int(p.inv[one[at]]), int(p.ret[two[at]])
        mine = dropped[p.group[dropped] == group]
        open_end = (p.outcome[mine] != Outcome.OK) | (p.ret[mine] == NONE)
        out[at] = bool(((open_end | (p.ret[mine] >= since)) & (p.inv[mine] <= until)).any())
        if lives is not None and NONE not in (since, until):
            asked, answered = lives.deletions(group)
            out[at] |= bool(((answered >= since) & (asked <= until)).any())
            out[at] |= _has_expired(p, group, since, until)
    return out


def _has_expired(p: Rows, group: int, since: int, until: int) -> bool:
    """True if the group was without members for as long as brokers keep offsets."""
    retention = p.context.group_retention_ns
    if retention == UNSET:
        return False
    begin, end = _periods(p, group, Apart.OFFSETS)
    lasted = np.minimum(end, until) - np.where(begin == ALWAYS, since, begin)
    return bool(((lasted >= retention) & (end > since)).any())


def altered(p: Rows, one: Ints, two: Ints) -> Bools:
    """Between which of these rows an administrator set the group's offset, or may have."""
    set_, out = p.where(Op.ALTER_OFFSETS), np.zeros(len(one), bool)
    set_ = set_[p.outcome[set_] != Outcome.FAIL]
    for at in range(len(one) if len(set_) else 0):
        mine = set_[p.group[set_] == p.group[two[at]]]
        open_end = (p.outcome[mine] != Outcome.OK) | (p.ret[mine] == NONE)
        late = open_end | (p.ret[mine] >= p.inv[one[at]])
        out[at] = bool((late & (p.inv[mine] <= p.ret[two[at]])).any())
    return out


def stays(p: Rows, group: int, rows: Ints, apart: bool) -> Ints | None:
    """Numbers for these rows of a group: the same for those between which nobody set its offsets.

    `apart`: nor was it without members. None where nobody can tell.
    """
    moved = p.where(Op.ALTER_OFFSETS)
    moved = moved[(p.outcome[moved] != Outcome.FAIL) & (p.group[moved] == group)]
    number = np.searchsorted(np.sort(p.inv[moved]), p.inv[rows], side="right")
    lives = p.context.lives
    if lives is None or not apart:
        return number
    if lives.is_vague(np.array([group]))[0]:
        return None
    if not lives.has_members(group):
        return number
    _, end = _periods(p, group, Apart.BEGUN)
    return number * (len(end) + 1) + np.searchsorted(end, p.inv[rows], side="right")


def in_time(p: Rows, pairs: Ints) -> tuple[Ints, Ints]:
    """Two rows of each pair, the one that began earlier first."""
    one, two = pairs[:, 0], pairs[:, 1]
    back = p.inv[one] > p.inv[two]
    return np.where(back, two, one), np.where(back, one, two)


def unless_parted(
    p: Rows, clauses: Ints, one: Ints, two: Ints, how: Apart, groups: Ints | None = None
) -> Ints:
    """These clauses; undecided where the group may have been made again between two rows."""
    unknown = clause(Clause.UNKNOWN, p.group[two] if groups is None else groups)
    return np.where(parted(p, one, two, how, groups), unknown, clauses)


def _periods(p: Rows, group: int, how: Apart) -> tuple[Ints, Ints]:
    lives = p.context.lives
    assert lives is not None
    topic = ANY if how is Apart.MEMBERS else int(p.columns["topic"][0])
    return lives.periods(group, topic, offsets=how is Apart.OFFSETS)
