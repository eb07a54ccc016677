"""The numbers of partitions that producers knew of, by their sends and reports, piece by piece."""

from collections.abc import Iterable, Iterator

import numpy as np

from traces.model.columns import Bools, IntColumns, calls
from traces.model.schema import NONE, Flag, Op, Outcome
from traces.model.sizes import Ints, Sizes

MOST_SENDS = 100  # keyed ones of a process to a topic, the first of which tell its number
_NAMES = ("process", "topic", "seq", "number", "told", "added", "clock", "inv")
_KEYED = ("of_process", "of_topic", "of_seq", "hash", "partition", "of_clock", "of_inv")


def sizes(columns: IntColumns) -> dict[str, list[int]]:
    """The row in which a process of this piece first shows that it knows of so many partitions.

    What a send says of its own partition counts for those that follow. The first sends with a key
    are kept beside, for they say more together with those of the other pieces.
    """
    reported = calls(columns, Op.PARTITIONS) & (columns["outcome"] == Outcome.OK)
    sent = calls(columns, Op.SEND) & (columns["partition"] != NONE)
    rows = np.flatnonzero((reported | sent) & (columns["topic"] != NONE))
    if not len(rows):
        return {}
    number = np.where(reported, columns["offset"], columns["partition"] + 1)
    call = columns["process"].astype(np.int64) * (int(columns["seq"].max()) + 1) + columns["seq"]
    adding = call[calls(columns, Op.CREATE_PARTITIONS)]
    found = (
        *(columns["process"], columns["topic"], columns["seq"] + np.where(reported, 0, 1), number),
        *(reported, reported & np.isin(call, adding), columns["clock"], columns["inv"]),
    )
    table = np.stack([np.asarray(column, np.int64) for column in found], axis=1)[rows]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    named: dict[str, list[int]] = {}
    named.update(zip(_NAMES, table[_news(table)].T.tolist(), strict=True))
    named.update(zip(_KEYED, _keyed(columns, rows).T.tolist(), strict=True))
    return named


def _keyed(columns: IntColumns, rows: Ints) -> Ints:
    """The first sends with a key that a process has put to a partition of a topic by its hash."""
    left = columns["flags"][rows] & Flag.LEFT != 0
    left &= (columns["key"][rows] != NONE) & (columns["detail"][rows] != NONE)
    left &= (columns["op"][rows] == Op.SEND) & (columns["outcome"][rows] == Outcome.OK)
    names = ("process", "topic", "seq", "detail", "partition", "clock", "inv")
    table = np.stack([np.asarray(columns[name][rows[left]], np.int64) for name in names], axis=1)
    return _first(table)


def _first(table: Ints) -> Ints:
    """Of keyed sends the first few of each process and topic, in the order of its program."""
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    if not len(table):
        return table
    starts = np.r_[True, (table[1:, :2] != table[:-1, :2]).any(axis=1)]
    since = np.maximum.accumulate(np.where(starts, np.arange(len(table)), 0))
    return table[np.arange(len(table)) - since < MOST_SENDS]


def _fewest(table: Ints, keyed: Ints) -> Iterator[list[int]]:
    """Lines that say more: the fewest partitions with which a process can have sent these, and all
    before.

    A key lies where its hash says: then the number is one that fits, of those up to the most that
    the process has shown.
    """
    numbers: dict[tuple[int, int], tuple[int, int]] = {}
    for process, topic, seq, detail, partition, clock, inv in _first(keyed).tolist():
        if (process, topic) not in numbers:
            mine = (table[:, 0] == process) & (table[:, 1] == topic)
            numbers[process, topic] = int(table[mine, 3].max(initial=0)), 1
        top, known = numbers[process, topic]
        if known > top:
            continue
        hashed = detail & 0xFFFFFFFF
        fitting = (n for n in range(max(known, partition + 1), top + 1) if hashed % n == partition)
        known = max(known, next(fitting, top + 1))
        numbers[process, topic] = top, known
        yield [process, topic, seq + 1, known, 0, 0, clock, inv]


def _news(table: Ints) -> Bools:
    """Lines that were told, and those that show more than all before them."""
    key = table[:, 0] * (int(table[:, 1].max()) + 1) + table[:, 1]
    starts = np.r_[True, key[1:] != key[:-1]]
    group = np.cumsum(starts)
    most = int(table[:, 3].max()) + 1
    reached = np.maximum.accumulate(group * most + table[:, 3])
    more = np.r_[True, reached[1:] > reached[:-1]]
    return more | (table[:, 4] == 1)


def sizes_known(pieces: Iterable[dict[str, list[int]]]) -> Sizes:
    """The sizes that all pieces show together.

    Who adds partitions is told how many there were, or asks for it before.
    """
    pieces = [piece for piece in pieces if piece]
    if not pieces:
        return Sizes()
    table, keyed = (
        np.concatenate([np.array([piece[name] for name in names], np.int64).T for piece in pieces])
        for names in (_NAMES, _KEYED)
    )
    more = np.array([*_fewest(table, keyed)], np.int64).reshape(-1, len(_NAMES))
    table = np.concatenate([table, more])
    table = table[np.lexsort((table[:, 3], table[:, 2], table[:, 1], table[:, 0]))]
    table = table[_news(table)]
    added: list[tuple[int, ...]] = []
    for process, topic, seq, number, _, _, clock, inv in table[table[:, 5] == 1].tolist():
        earlier = (table[:, 0] == process) & (table[:, 1] == topic) & (table[:, 2] < seq)
        reported = table[earlier & (table[:, 4] == 1)]
        before = int(reported[np.argmax(reported[:, 2]), 3]) if len(reported) else number - 1
        if inv != NONE:
            added.append((topic, clock, inv, before))
    return Sizes(table[:, :5], np.array(added, np.int64))
