"""How many partitions producers knew of, from what they sent and told, piece by piece."""

from collections.abc import Iterable

import numpy as np

from traces.model.columns import Bools, IntColumns, calls
from traces.model.schema import NONE, Flag, Op, Outcome
from traces.model.sizes import Ints, Sizes

MOST_SENDS = 2_000
_NAMES = ("process", "topic", "seq", "number", "told", "added", "clock", "inv")


def sizes(columns: IntColumns) -> dict[str, list[int]]:
    """Where a process in this piece first shows that it knows of so many partitions, or tells it.

    What a send says of its own partition counts for those that follow.
    """
    reported = calls(columns, Op.PARTITIONS) & (columns["outcome"] == Outcome.OK)
    sent = calls(columns, Op.SEND) & (columns["partition"] != NONE)
    rows = np.flatnonzero((reported | sent) & (columns["topic"] != NONE))
    if not len(rows):
        return {}
    number = np.where(reported, columns["offset"], _fewest(columns, rows))
    adding = columns["seq"][calls(columns, Op.CREATE_PARTITIONS)]
    found = (
        *(columns["process"], columns["topic"], columns["seq"] + np.where(reported, 0, 1), number),
        *(reported, reported & np.isin(columns["seq"], adding), columns["clock"], columns["inv"]),
    )
    table = np.stack([np.asarray(column, np.int64) for column in found], axis=1)[rows]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    return dict(zip(_NAMES, table[_news(table)].T.tolist(), strict=True))


def _fewest(columns: IntColumns, rows: Ints) -> Ints:
    """For each row the fewest partitions with which its process can have sent it, and all before.

    A key lies where its hash says, if the producer has put it there by itself: then the number is
    one that fits. The first few sends of a process to a topic tell it, as long as it is not all.
    """
    out = np.asarray(columns["partition"] + 1, np.int64)
    left = columns["flags"] & Flag.LEFT != 0
    keyed = rows[left[rows] & (columns["key"][rows] != NONE) & (columns["detail"][rows] != NONE)]
    keyed = keyed[(columns["op"][keyed] == Op.SEND) & (columns["outcome"][keyed] == Outcome.OK)]
    for topic in np.unique(columns["topic"][keyed]).tolist():
        mine = keyed[columns["topic"][keyed] == topic]
        top, known = int(out[mine].max()), 1
        for row in mine[np.argsort(columns["seq"][mine], kind="stable")][:MOST_SENDS].tolist():
            hashed, partition = int(columns["detail"][row]) & 0xFFFFFFFF, int(out[row]) - 1
            fitting = (
                n for n in range(max(known, partition + 1), top + 1) if hashed % n == partition
            )
            known = max(known, next(fitting, top + 1))
            out[row] = max(int(out[row]), known)
            if known > top:
                break
    return out


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
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    table = table[_news(table)]
    added: list[tuple[int, ...]] = []
    for process, topic, seq, number, _, _, clock, inv in table[table[:, 5] == 1].tolist():
        earlier = (table[:, 0] == process) & (table[:, 1] == topic) & (table[:, 2] < seq)
        reported = table[earlier & (table[:, 4] == 1)]
        before = int(reported[np.argmax(reported[:, 2]), 3]) if len(reported) else number - 1
        if inv != NONE:
            added.append((topic, clock, inv, before))
    return Sizes(table[:, :5], np.array(added, np.int64))
