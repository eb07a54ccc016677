"""The number of partitions that a producer knew of when it chose one.

Partitions can be added, and a producer learns of it when it asks for metadata again. So the number
at the end says what it may have known at most; what it had used itself, or told, says the least.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

Ints = NDArray[np.int64]
MANY = 1 << 40  # more than any topic has


@frozen(eq=False, slots=False)
class Sizes:
    """The knowledge of producers, a line each: process, topic, place in its program, number, told.

    A number that was `told` (1) was known there; one that was not (0) is the least. Each line of
    `added` is a topic to which partitions were added, the clock, when that was asked for, and how
    many there were at most before.
    """

    known: Ints = field(
        factory=lambda: np.empty((0, 5), np.int64),
        converter=lambda table: np.asarray(table, np.int64).reshape(-1, 5),
    )

    added: Ints = field(
        factory=lambda: np.empty((0, 4), np.int64),
        converter=lambda table: np.asarray(table, np.int64).reshape(-1, 4),
    )

    @cached_property
    def _of(self) -> Mapping[tuple[int, int], Ints]:
        found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for process, topic, seq, number, reported in self.known.tolist():
            found.setdefault((process, topic), []).append((seq, number, reported))
        return {key: np.array(sorted(lines), np.int64) for key, lines in found.items()}

    def bounds(self, process: int, topic: int, seq: Ints) -> tuple[Ints, Ints]:
        """The least and the most partitions that the process may have known at these places."""
        lines = self._of.get((process, topic))
        if lines is None:
            return np.ones(len(seq), np.int64), np.full(len(seq), MANY)
        least = np.r_[1, _at_least(lines)]
        reported = lines[lines[:, 2] == 1]
        most = np.r_[np.minimum.accumulate(reported[::-1, 1])[::-1], MANY]
        before = np.searchsorted(lines[:, 0], seq, side="right")
        return least[before], most[np.searchsorted(reported[:, 0], seq, side="left")]

    def before_added(self, topic: int, clock: Ints, ret: Ints) -> Ints:
        """The most that anybody can have known who was done by these times."""
        most = np.full(len(ret), MANY)
        for _, of, asked, number in self.added[self.added[:, 0] == topic].tolist():
            over = (clock == of) & (ret >= 0) & (ret < asked)
            most[over] = np.minimum(most[over], number)
        return most


def _at_least(lines: Ints) -> Ints:
    """After each line the fewest partitions; a number that is told replaces those before.

    For a topic that is made anew may have fewer.
    """
    out, least = np.empty(len(lines), np.int64), 1
    for at, (_, number, reported) in enumerate(lines.tolist()):
        least = number if reported else max(least, number)
        out[at] = least
    return out
