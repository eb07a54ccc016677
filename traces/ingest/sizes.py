"""How many partitions producers knew of, from what they sent and told, piece by piece."""

from collections.abc import Iterable

import numpy as np

from traces.columns import Bools, IntColumns, calls
from traces.schema import NONE, Op, Outcome
from traces.sizes import Ints, Sizes

_NAMES = ("process", "topic", "seq", "number", "told", "added", "clock", "inv")


def sizes(columns: IntColumns) -> dict[str, list[int]]:
    """Where a process in this piece first shows that it knows of so many partitions, or tells it.

    What a send says of its own partition counts for those that follow.
    """
    told = calls(columns, Op.PARTITIONS) & (columns["outcome"] == Outcome.OK)
    sent = calls(columns, Op.SEND) & (columns["partition"] != NONE)
    rows = np.flatnonzero((told | sent) & (columns["topic"] != NONE))
    if not len(rows):
        return {}
    number = np.where(told, columns["offset"], columns["partition"] + 1)
    adding = columns["seq"][calls(columns, Op.CREATE_PARTITIONS)]
    found = (
        *(columns["process"], columns["topic"], columns["seq"] + np.where(told, 0, 1), number),
        *(told, told & np.isin(columns["seq"], adding), columns["clock"], columns["inv"]),
    )
    table = np.stack([np.asarray(column, np.int64) for column in found], axis=1)[rows]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    return dict(zip(_NAMES, table[_news(table)].T.tolist(), strict=True))


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
    """What all pieces together show.

    Who adds partitions is told how many there were, or asks for it before.
    """
    tables = [np.array([*piece.values()], np.int64).T for piece in pieces if piece]
    if not tables:
        return Sizes()
    table = np.concatenate(tables)
    added: list[tuple[int, ...]] = []
    for process, topic, seq, number, _, _, clock, inv in table[table[:, 5] == 1].tolist():
        earlier = (table[:, 0] == process) & (table[:, 1] == topic) & (table[:, 2] < seq)
        told = table[earlier & (table[:, 4] == 1)]
        before = int(told[np.argmax(told[:, 2]), 3]) if len(told) else number - 1
        if inv != NONE:
            added.append((topic, clock, inv, before))
    return Sizes(table[:, :5], np.array(added, np.int64))
