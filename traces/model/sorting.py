"""Sorting by several integer columns, as fast as integers allow."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.model.context import Ints

_SMALL = 2_000  # below this numpy's own sort by comparison is the faster one
DIGIT = 16  # bits


def order_by(*keys: NDArray[np.integer[Any]]) -> Ints:
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
        for digit in digits_of(key, int(key.min()), int(key.max())):
            step = np.argsort(digit if order is None else digit[order], kind="stable")
            order = step if order is None else order[step]
    return np.arange(len(keys[0])) if order is None else order


def digits_of(
    key: NDArray[np.integer[Any]], low: int, high: int
) -> Iterator[NDArray[np.unsignedinteger[Any]]]:
    """The digits of integers counted from `low`, the last first; up to `high` there are so many."""
    unsigned = np.dtype(f"u{key.dtype.itemsize}")
    above = key.view(unsigned) - unsigned.type(low % 2 ** (8 * unsigned.itemsize))
    bits = (high - low).bit_length()
    for shift in range(0, bits, DIGIT):
        digit = above >> unsigned.type(shift) if shift else above
        yield digit.astype(np.uint8 if bits - shift <= DIGIT // 2 else np.uint16, copy=False)
