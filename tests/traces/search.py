"""A search for breaches without any check: all choices of rows that could be a witness.

What a choice of rows says is judged by the predicates of the second checker, so whatever is found
here and not by a check was overlooked by it.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from traces.second_checker.base import PREDICATES, SHAPES, NotBroken
from traces.second_checker.history import History
from traces.second_checker.rows import Row

Choices = list[list[Row]]


def broken_somewhere(history: History, id: str) -> list[Row] | None:
    """The first choice of rows that breaks the promise, as the formula has it."""
    for rows in candidates(history, id):
        try:
            PREDICATES[id](history, rows)
        except NotBroken:
            continue
        return rows
    return None


def candidates(history: History, id: str) -> Iterator[list[Row]]:
    """Every choice of rows that could be a witness by its shape."""
    combined = _COMBINED.get(id, _all)
    for shape in SHAPES[id].split(" / "):
        words = shape.split()
        for rows in _GATHERED.get(id, _by_partition)(history):
            choices = [[row for row in rows if row.op in word.split("|")] for word in words]
            yield from combined(choices)


def _by_partition(history: History) -> Iterator[list[Row]]:
    yield from (rows for partition, rows in sorted(history.by_partition.items()) if partition)


def _all(choices: Choices) -> Iterator[list[Row]]:
    yield from (list(chosen) for chosen in product(*choices))


def _with_calls_of_no_partition(history: History) -> Iterator[list[Row]]:
    ops = ("init_producer", "txn_begin", "txn_commit", "send")
    yield [
        Row(line, {}, line["op"], "", n, 0)
        for mine in history.by_process.values()
        for n, line in mine
        if line["op"] in ops
    ]
    yield from _by_partition(history)


def _by_topic(history: History) -> Iterator[list[Row]]:
    """The rows of all partitions of a topic, and a row of its first for each subscription."""
    for topic in sorted({partition.rpartition(":")[0] for partition in history.by_partition}):
        partitions = sorted(p for p in history.by_partition if p.rpartition(":")[0] == topic)
        rows = [row for partition in partitions for row in history.by_partition[partition]]
        yield rows + [
            Row(line, {}, "subscribe", partitions[0], n, 0)
            for mine in history.by_process.values()
            for n, line in mine
            if line["op"] == "subscribe"
        ]


def _by_record_of_several_lives(history: History) -> Iterator[list[Row]]:
    yield from history.lives.values()


def _of_one_record(choices: Choices) -> Iterator[list[Row]]:
    """All rows have one id."""
    for id in {row.id for row in choices[0]}:
        yield from _all([[row for row in rows if row.id == id] for rows in choices])


def _of_one_record_and_one_offset(choices: Choices) -> Iterator[list[Row]]:
    """The second row is of the first one's record, the third one at its offset."""
    sends, seconds, thirds = choices
    for sent in sends:
        own = [row for row in seconds if row.id == sent.id]
        there = [row for row in thirds if row.offset == sent.offset]
        yield from ([sent, *pair] for pair in product(own, there))


_COMBINED: dict[str, Callable[[Choices], Iterator[list[Row]]]] = {
    **dict.fromkeys(("L8", "L15"), _of_one_record_and_one_offset),
    "P5": _of_one_record,
}
_GATHERED: dict[str, Callable[[History], Iterator[Any]]] = {
    **dict.fromkeys(("P3", "P4", "P7", "T8"), _with_calls_of_no_partition),
    "G3": _by_topic,
    "A1": _by_record_of_several_lives,
}
