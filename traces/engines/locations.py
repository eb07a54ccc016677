"""Group findings by offset and time: a few places of a partition, for any number of findings.

A place is a set of stretches of offsets that findings touch. Two findings are in one place if their
offsets are the same or adjacent, and so on from finding to finding. A truncated tail is one place,
two losses far apart are two. Findings without offsets (an owner too many) are grouped by time
alone.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from traces.checks.rows import Rows
from traces.model.arrow import pa
from traces.model.columns import Bools
from traces.model.context import INFORMATION, SUBJECT_BITS, Clause, Ints
from traces.model.schema import NONE, Op

LOCATION: dict[str, Any] = {
    "topic": pa.int32(),
    "partition": pa.int32(),
    "group": pa.int32(),
    "clock": pa.int32(),  # of its times; NONE where several told them
    "broken": pa.int64(),  # so many findings that nothing permits,
    "allowed": pa.int64(),  # that a setting permits,
    "slow": pa.int64(),  # and that are no matter of safety
    "since": pa.int64(),  # when the first event of the earliest finding began,
    "until": pa.int64(),  # when that of the latest one was over,
    "reported": pa.int64(),  # and when the last event of all was
    "starts": pa.list_(pa.int64()),  # of each stretch the first offset
    "ends": pa.list_(pa.int64()),  # and the last
}
MOST = 64  # stretches of one partition; where there are more, the smallest holes are closed
_APART_NS = 1_000_000_000  # findings without offsets, so long after each other, are two


def locations(rows: Rows, lines: Ints, clauses: Ints) -> Iterator[dict[str, Any]]:
    """The places of these findings, each a line of up to four rows (-1 where there are fewer).

    An undecided finding has none.
    """
    if not len(lines):
        return
    kind = clauses >> SUBJECT_BITS
    lines, kind = lines[kind != Clause.UNKNOWN], kind[kind != Clause.UNKNOWN]
    table = {name: _column(rows, name, lines) for name in _COLUMNS}
    of = lines >= 0
    located = of & (table["topic"] != NONE) & (table["partition"] != NONE)
    last = lines.shape[1] - 1 - np.argmax(located[:, ::-1], axis=1)
    at = np.arange(len(lines))
    topic = np.where(located.any(axis=1), table["topic"][at, last], NONE)
    partition = np.where(located.any(axis=1), table["partition"][at, last], NONE)
    keys, number = np.unique(np.stack([topic, partition], 1), axis=0, return_inverse=True)
    for key, one in enumerate(keys[:MOST].tolist()):
        mine = np.flatnonzero(number.reshape(-1) == key)
        few = {name: column[mine] for name, column in table.items()} | {"kind": kind[mine]}
        here = (few["topic"] == one[0]) & (few["partition"] == one[1]) & (few["offset"] >= 0)
        yield from _of_partition(one, few, here & of[mine], of[mine])


_COLUMNS = ("topic", "partition", "offset", "group", "clock", "op", "inv", "ret")


def _column(rows: Rows, name: str, lines: Ints) -> Ints:
    out = np.full(lines.shape, NONE, np.int64)
    there = lines >= 0
    out[there] = rows.few(name, lines[there])
    return out


def _of_partition(
    key: list[int], table: dict[str, Ints], here: Bools, of: Bools
) -> Iterator[dict[str, Any]]:
    since, until, reported = _times(table, of)
    points = np.unique(table["offset"][here])
    first = _begins(points, 1)
    at = np.searchsorted(points[first], table["offset"], side="right") - 1
    stretch = np.where(here, at, NONE)
    number = _linked(stretch, len(first))
    loose = number == NONE
    if loose.any():
        starts = np.unique(since[loose])
        begins = starts[_begins(starts, _APART_NS)]
        number[loose] = len(first) + np.searchsorted(begins, since[loose], side="right")
    lasts = points[np.r_[first[1:], len(points)] - 1] if len(first) else points
    for one in np.unique(number).tolist():
        mine = number == one
        inside = np.unique(stretch[mine])
        inside = inside[inside >= 0]
        known = mine & (since != NONE)
        yield {
            "topic": key[0],
            "partition": key[1],
            "group": _agreed(table["group"][mine]),
            "clock": _agreed(table["clock"][mine]),
            **_counted(table["kind"][mine]),
            "since": int(since[known].min()) if known.any() else NONE,
            "until": int(until[known].max()) if known.any() else NONE,
            "reported": int(reported[known].max()) if known.any() else NONE,
            "starts": points[first[inside]].tolist(),
            "ends": lasts[inside].tolist(),
        }


def _counted(kind: Ints) -> dict[str, int]:
    broken, slow = kind == Clause.NOT, np.isin(kind, INFORMATION)
    sorts = {"broken": broken, "allowed": ~(broken | slow), "slow": slow}
    return {name: int(np.count_nonzero(some)) for name, some in sorts.items()}


def _times(table: dict[str, Ints], of: Bools) -> tuple[Ints, Ints, Ints]:
    """The times at which each finding's first event began and ended, and at which its last one did.

    A record that a scan found was written before it: its times count only if there are no others.
    """
    begun = np.where(table["inv"] != NONE, table["inv"], table["ret"])
    ended = np.where(table["ret"] != NONE, table["ret"], table["inv"])
    timed = of & (begun != NONE)
    early = timed & (table["op"] != Op.SCAN)
    timed &= early | ~_any(early)[:, np.newaxis]
    begun = np.where(timed, begun, np.iinfo(np.int64).max)
    at, first = np.arange(len(begun)), begun.argmin(axis=1)
    since, until = begun[at, first], ended[at, first]
    some = _any(timed)
    reported = np.where(timed, ended, NONE).max(axis=1)
    return np.where(some, since, NONE), np.where(some, until, NONE), reported


def _any(table: Bools) -> Bools:
    return np.count_nonzero(table, axis=1) > 0


def _begins(values: Ints, touching: int) -> Ints:
    """The first index of each stretch of ascending values: after the widest gaps, MOST at most."""
    gaps = np.diff(values)
    wide = np.flatnonzero(gaps > touching)
    if len(wide) >= MOST:
        wide = np.sort(wide[np.argsort(-gaps[wide], kind="stable")[: MOST - 1]])
    return np.r_[0, wide + 1] if len(values) else wide


def _linked(stretch: Ints, size: int) -> Ints:
    """For each finding a number that it shares with all that touch it, directly or by others."""
    root = np.arange(size)
    first: Ints = stretch.max(axis=1, initial=NONE)
    pairs = [np.stack([first, column], 1)[column >= 0] for column in stretch.T]
    for one, other in np.unique(np.concatenate(pairs), axis=0).tolist() if pairs else ():
        low, high = sorted((int(root[one]), int(root[other])))
        root[root == high] = low
    return np.where(first >= 0, root.take(first, mode="clip") if size else first, NONE)


def _agreed(values: Ints) -> int:
    known = np.unique(values[values != NONE])
    return int(known[0]) if len(known) == 1 else NONE
