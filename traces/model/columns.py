"""Questions about columns of whole numbers, answered for all rows at once.

They know nothing of Kafka: what they are given decides what they say.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.model.context import Ints
from traces.model.schema import NONE, Op
from traces.model.sorting import order_by

Bools = NDArray[np.bool_]
Column = NDArray[np.integer[Any]]
Columns = Mapping[str, Column]  # as narrow as they came
IntColumns = Mapping[str, Ints]
MutableColumns = dict[str, Ints]


def calls(columns: Columns, *ops: Op) -> Bools:
    """The rows of these calls."""
    return _mask(ops)[columns["op"]]


@cache
def _mask(ops: tuple[Op, ...]) -> Bools:
    """For each number of a call, true if it is one of these."""
    wanted = np.zeros(128, bool)
    wanted[list(ops)] = True
    wanted.flags.writeable = False
    return wanted


def lookup(keys: Ints, wanted: Ints) -> Ints:
    """The place of each wanted value in sorted, distinct `keys`, -1 for a value that is missing."""
    if not len(keys):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def numbered(values: Ints) -> Ints:
    """The values by small numbers that keep their order."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low <= 4 * len(values):
        return values - low
    order = order_by(values)
    numbers = np.empty(len(values), np.int64)
    numbers[order] = np.cumsum(firsts(values[order])) - 1
    return numbers


def distinct(values: Ints) -> Ints:
    """The values, sorted, each once."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low > 16 * len(values):
        return np.unique(values)
    there = np.zeros(high - low + 1, bool)
    there[values - low] = True
    return np.flatnonzero(there) + low


def differing(groups: Ints, values: Ints) -> Bools:
    """Mask of the rows in a group whose rows do not all have the same value."""
    group = numbered(groups)
    some = np.zeros(int(group.max(initial=NONE)) + 1, np.int64)
    some[group] = values
    odd = values != some[group]
    if not odd.any():
        return odd
    mixed = np.zeros(len(some), bool)
    mixed[group[odd]] = True
    return mixed[group]


def repeated(*keys: Ints) -> Bools:
    """Mask of the rows that share all these values with another row."""
    group = numbered(keys[0])
    for key in keys[1:]:
        number = numbered(key)
        group = numbered(group * (int(number.max(initial=0)) + 1) + number)
    return (np.bincount(group) > 1)[group] if len(group) else np.empty(0, bool)


def firsts(*sorted_columns: NDArray[np.integer[Any]]) -> Bools:
    """Mask of the first rows of groups, in rows sorted by these columns."""
    if not len(sorted_columns[0]):
        return np.empty(0, bool)
    changes = np.zeros(len(sorted_columns[0]), bool)
    changes[0] = True
    for column in sorted_columns:
        changes[1:] |= column[1:] != column[:-1]
    return changes


def running_max(values: Ints) -> tuple[Ints, Ints]:
    """The highest value so far at each place, and where it stands."""
    best = np.maximum.accumulate(values)
    return best, np.maximum.accumulate(np.where(firsts(best), np.arange(len(values)), 0))


def last_before(flags: Bools) -> Ints:
    """For each row, the last row before it that is flagged, -1 where there is none."""
    at = last_upto(flags)
    before = np.full_like(at, -1)
    before[1:] = at[:-1]
    return before


def last_upto(flags: Bools) -> Ints:
    """For each row, the last flagged row up to and including it, -1 where there is none."""
    return np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1))
