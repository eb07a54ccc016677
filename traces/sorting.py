"""Sorting by several integer columns, as fast as integers allow."""

import numpy as np
from numpy.typing import NDArray

from traces.context import Ints

_SMALL = 2_000  # below this numpy's own sort by comparison is the faster one
_DIGIT = 16


def order_by(*keys: NDArray[np.integer]) -> Ints:
    """The rows in the order of these keys, the first before all others; equal rows stay put.

    It says what `np.lexsort(keys[::-1])` says. numpy sorts 16-bit integers by counting, in a
    thirtieth of the time that it needs for wide ones, so wide ones are sorted digit by digit.
    """
    if len(keys[0]) < _SMALL:
        return np.lexsort(keys[::-1])
    order: Ints | None = None
    for key in reversed(keys):
        now = key if order is None else key[order]
        if bool(np.all(now[1:] >= now[:-1])):
            continue
        for digit in _digits(key):
            step = np.argsort(digit if order is None else digit[order], kind="stable")
            order = step if order is None else order[step]
    return np.arange(len(keys[0])) if order is None else order


def _digits(key: NDArray[np.integer]) -> list[NDArray[np.uint16]]:
    """The digits of a key, the last first, counted from its lowest value."""
    low, high = int(key.min()), int(key.max())
    above = key.astype(np.int64).view(np.uint64) - np.uint64(low % 2**64)
    shifts = range(0, (high - low).bit_length(), _DIGIT)
    return [(above >> np.uint64(shift)).astype(np.uint16) for shift in shifts]
