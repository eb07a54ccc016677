"""Spark's `xxhash64` of integers, in numpy, so that both may add up the same fingerprints."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Words = NDArray[np.uint64]
SPARK_SEED = 42
_P1, _P2, _P3 = (
    np.uint64(prime) for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_AT_ONCE = 1 << 15  # rows that stay in the processor's cache


def pair_hash(ids: Integers, offsets: Integers, seed: int) -> Words:
    """`xxhash64(seed, id, offset)`, row by row."""
    out = np.empty(len(ids), np.uint64)
    start = _mixed(np.array([seed], np.int64).view(np.uint64), np.uint64(SPARK_SEED))
    for at in range(0, len(ids), _AT_ONCE):
        piece = slice(at, at + _AT_ONCE)
        one = _mixed(_words(ids[piece]), start)
        out[piece] = _mixed(_words(offsets[piece]), one)
    return out


def _words(values: Integers) -> Words:
    return values.astype(np.int64).view(np.uint64)


def _mixed(words: Words, seed: Words | np.uint64) -> Words:
    """One word into the hash."""
    words = words * _P2
    _rotate(words, 31)
    words *= _P1
    words ^= seed + (_P5 + np.uint64(8))
    _rotate(words, 27)
    words *= _P1
    words += _P4
    words ^= words >> np.uint64(33)
    words *= _P2
    words ^= words >> np.uint64(29)
    words *= _P3
    words ^= words >> np.uint64(32)
    return words


def _rotate(words: Words, bits: int) -> None:
    high = words << np.uint64(bits)
    words >>= np.uint64(64 - bits)
    words |= high
