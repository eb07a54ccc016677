"""The lives of groups: when nobody is known to have been a member of one.

A group without members may be deleted, and expires: then it begins anew, with generation 1 and
without offsets. Only of a group that somebody was in all the time is it sure that it is the same.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

Ints = NDArray[np.int64]
ALWAYS, NEVER = -(1 << 62), 1 << 62  # before all times, and after them
ANY = -1  # a group's members, whatever they subscribed to


def _none() -> Ints:
    return np.empty(0, np.int64)


@frozen(eq=False, slots=False)
class GroupLives:
    """Periods in which groups had no members, as far as anybody tells.

    Each line of `idle` is a group, a topic or `ANY`, from when to when none of the group's members
    is known to have subscribed to the topic, or to have been there at all, and 1 if its generations
    go on afterwards: then only offsets may have been deleted meanwhile. Each line of
    `deleted` is a group, and from when to when an answered deletion of it ran; `vague` are groups
    of whose members not all times are told, or by several clocks.
    """

    idle: Ints = field(factory=_none, converter=lambda t: np.asarray(t, np.int64).reshape(-1, 5))
    deleted: Ints = field(factory=_none, converter=lambda t: np.asarray(t, np.int64).reshape(-1, 3))
    vague: Ints = field(factory=_none, converter=lambda t: np.asarray(t, np.int64))

    @cached_property
    def _idle(self) -> Mapping[tuple[int, int, bool], tuple[Ints, Ints]]:
        found: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
        for group, topic, begin, end, goes_on in self.idle.tolist():
            found.setdefault((group, topic, True), []).append((begin, end))
            anew = found.setdefault((group, topic, False), [])
            if not goes_on:
                anew.append((begin, end))
        return {key: _columns(sorted(periods)) for key, periods in found.items()}

    def periods(self, group: int, topic: int = ANY, offsets: bool = False) -> tuple[Ints, Ints]:
        """When each period began and ended in which the group may have been made again, in order.

        `offsets`: or in which its offsets may have been deleted. They do not touch. A group that
        has no members at all never had any: whoever assigns partitions by itself.
        """
        nobody = (np.array([ALWAYS]), np.array([NEVER]))
        return self._idle.get((group, topic, offsets), nobody)

    def has_members(self, group: int) -> bool:
        """True if anybody tells of members of a group."""
        begin, _ = self.periods(group, offsets=True)
        return len(begin) > 1

    def deletions(self, group: int) -> tuple[Ints, Ints]:
        """When each answered deletion of a group was asked for, and answered."""
        mine = self.deleted[self.deleted[:, 0] == group]
        return mine[:, 1], mine[:, 2]

    def is_vague(self, groups: Ints) -> NDArray[np.bool_]:
        """Of which of these groups nobody knows when it had members."""
        return np.isin(groups, self.vague)


def _columns(periods: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    begin, end = np.array(periods, np.int64).reshape(-1, 2).T
    return begin, end


def without(present: Iterable[tuple[int, int]], away: Iterable[tuple[int, int]]) -> Any:
    """The periods that none of these covers, in order, together with those that are `away`."""
    out: list[tuple[int, int]] = []
    reached = ALWAYS
    for begin, end in sorted(present):
        if begin > reached:
            out.append((reached, begin))
        reached = max(reached, end)
    out.append((reached, NEVER))
    joined: list[tuple[int, int]] = []
    for begin, end in sorted([*out, *away]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
