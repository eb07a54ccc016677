"""The times at which a member commits its positions, and receives a high watermark."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from traces.generate.plan import TOPIC_PARTITIONS
from traces.model.columns import firsts
from traces.model.context import Ints
from traces.model.schema import NONE

EVERY = 8  # rounds


def commits(log: Mapping[str, Any], owner: Ints, committed: Ints, last: int) -> dict[str, Ints]:
    """Every eighth round a member commits its positions, and in the last one."""
    given = np.flatnonzero(log["polled"])
    starts = np.searchsorted(log["tp"][given], np.arange(TOPIC_PARTITIONS + 1))
    tps: list[Ints] = []
    windows: list[Ints] = []
    offsets: list[Ints] = []
    for tp in range(TOPIC_PARTITIONS):
        mine = given[starts[tp] : starts[tp + 1]]
        rounds = np.arange(1 + int(owner[tp]) % EVERY, last, EVERY)
        upto = np.searchsorted(log["window"][mine], rounds, side="right") - 1
        known = upto >= 0
        upto, rounds = upto[known], rounds[known]
        position = np.r_[log["offset"][mine[upto]], log["offset"][mine[-1:]]] + 1
        if not len(mine):
            position = committed[tp : tp + 1]
            position = position[position != NONE]
        offsets.append(position)
        windows.append(np.r_[rounds, last][len(rounds) + 1 - len(position) :])
        tps.append(np.full(len(position), tp))
    every = (tps, windows, offsets)
    return {
        name: np.concatenate(several)
        for name, several in zip(("tp", "window", "offset"), every, strict=True)
    }


def marks(log: Mapping[str, Any], last: int) -> dict[str, Ints]:
    """The high watermark that each poll reports for the partitions of its records.

    The last poll, which is empty, reports that of all partitions together.
    """
    rows = np.flatnonzero(log["polled"] & (log["window"] < last))
    rows = rows[np.lexsort((log["offset"][rows], log["window"][rows], log["tp"][rows]))]
    first = firsts(log["tp"][rows], log["window"][rows])
    rows = rows[np.r_[first[1:], True][: len(rows)]]
    tp, window, offset = (log[name][rows] for name in ("tp", "window", "offset"))
    span = int(offset.max(initial=0)) + 1  # a record that is given late lowers no high watermark
    highest = np.maximum.accumulate(tp * span + offset) - tp * span
    return {"tp": tp, "window": window, "offset": highest + 1}
