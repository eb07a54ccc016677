"""Partition ownership over time, from the assignments that members recorded."""

from collections.abc import Iterator, Mapping

import numpy as np
from attrs import define, field, frozen

from traces.model.columns import Bools
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Op

_ENDS = {
    Op.REVOKED: "revoked",
    Op.LOST: "lost",
    Op.CRASH: "crashed",
    Op.CLOSE: "closed",
}


@frozen
class Owned:
    """One member held one partition from `start` to `end`, and then this happened."""

    group: int
    topic: int
    partition: int
    process: int
    generation: int
    start: int
    end: int
    ending: str


def ownership(
    columns: Mapping[str, Ints], at: Ints, timed: Bools, end: int, *, whole_lists: bool
) -> list[Owned]:
    """All times of ownership, by start.

    `whole_lists` says that what a member is assigned is all that it then has, as in histories in
    which nothing is ever revoked.
    """
    wanted = timed & np.isin(columns["op"], (Op.ASSIGNED, *_ENDS))
    member = np.isin(columns["process"], columns["process"][columns["op"] == Op.ASSIGNED])
    rows = np.flatnonzero(wanted & member)
    order = np.lexsort((columns["idx"][rows], columns["seq"][rows], columns["process"][rows]))
    book = _Book(columns, at, end, whole_lists)
    for row in rows[order].tolist():
        book.take(row)
    return sorted(book.all(), key=lambda one: (one.start, one.group, one.topic, one.partition))


@define
class _Book:
    """The assignments that are held now, and those that ended."""

    columns: Mapping[str, Ints]
    at: Ints
    end: int
    whole_lists: bool
    _held: dict[tuple[int, int, int], int] = field(factory=dict[tuple[int, int, int], int])
    _done: list[Owned] = field(factory=list[Owned])
    _call: tuple[int, int] = (NONE, NONE)

    def take(self, row: int) -> None:
        """One partition of one callback, or the end of a process."""
        process, seq, op, topic, partition, flags = (
            int(self.columns[name][row])
            for name in ("process", "seq", "op", "topic", "partition", "flags")
        )
        new_call, self._call = (process, seq) != self._call, (process, seq)
        if op == Op.ASSIGNED:
            if new_call and self.whole_lists:
                self._give_up(process, row, "reassigned")
            if topic != NONE:
                self._close((process, topic, partition), row, "assigned again")
                self._held[process, topic, partition] = row
        elif topic != NONE:
            self._close((process, topic, partition), row, _ENDS[Op(op)])
        elif not flags & Flag.EMPTY:
            self._give_up(process, row, _ENDS[Op(op)])

    def all(self) -> Iterator[Owned]:
        """Everything that was ever held; what nobody ended lasts to the end."""
        yield from self._done
        for row in self._held.values():
            yield self._owned(row, self.end, "")

    def _give_up(self, process: int, row: int, ending: str) -> None:
        for key in [key for key in self._held if key[0] == process]:
            self._close(key, row, ending)

    def _close(self, key: tuple[int, int, int], row: int, ending: str) -> None:
        begun = self._held.pop(key, None)
        if begun is not None:
            inv = int(self.columns["inv"][row])
            self._done.append(self._owned(begun, inv if inv != NONE else int(self.at[row]), ending))

    def _owned(self, row: int, end: int, ending: str) -> Owned:
        group, topic, partition, process, generation = (
            int(self.columns[name][row])
            for name in ("group", "topic", "partition", "process", "generation")
        )
        start = int(self.at[row])
        return Owned(group, topic, partition, process, generation, start, max(start, end), ending)
