"""The second checker's predicates, and its opinions of a witness."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from traces.second_checker.history import History
from traces.second_checker.rows import Row

Event = Mapping[str, Any]
Predicate = Callable[[History, list[Row]], None]
PREDICATES: dict[str, Predicate] = {}
# The calls that a witness consists of, in their order; `a|b` is either, ` / ` is between several.
SHAPES: dict[str, str] = {}


@frozen
class Confirmed:
    """The witness breaks the promise in the whole history, not only by itself."""


@frozen
class Refuted:
    """The witness breaks nothing: two checkers disagree, so one of them is wrong."""

    reason: str


@frozen
class Undecided:
    """The second checker has nothing to say about it."""

    reason: str


class NotBroken(Exception):
    """A condition of a breach that is not met."""


def predicate(id: str, shape: str) -> Callable[[Predicate], Predicate]:
    """Register the negation of a promise; it raises `NotBroken` where the promise is kept.

    `shape` says of which calls a breach consists, so that one can be searched for.
    """

    def register(function: Predicate) -> Predicate:
        PREDICATES[id], SHAPES[id] = function, shape
        return function

    return register


def must(condition: object, unless: str) -> None:
    """A condition of the breach."""
    if not condition:
        raise NotBroken(unless)


def known(unless: str, *numbers: int | None) -> list[int]:
    """These numbers, none of which may be missing."""
    must(None not in numbers, unless)
    return [number for number in numbers if number is not None]


def ops(rows: list[Row], *expected: str) -> None:
    """Require that the rows of the witness are these calls, in order; `a|b` is either."""
    found = [row.op for row in rows]
    fits = len(found) == len(expected) and all(
        op in words.split("|") for op, words in zip(found, expected, strict=True)
    )
    must(fits, f"a witness of {', '.join(expected)} was expected, not of {', '.join(found)}")


def nobody_else(h: History, row: Row) -> None:
    """Require that every process that may have sent the row's record was recorded."""
    must(not h.anybody(row.partition), "somebody who was not recorded may have sent it, too")


def one_partition(rows: list[Row]) -> str:
    """The one partition that all rows are about."""
    must(len({row.partition for row in rows}) == 1, "the events are about different partitions")
    return rows[0].partition
