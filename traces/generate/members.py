"""Write the calls of the members of both groups of a generation."""

from typing import Any

import numpy as np

from traces.generate.chunk import Chunk
from traces.generate.plan import (
    LEADER,
    PRODUCERS,
    TICK,
    TOPIC_PARTITIONS,
    epochs,
    payload,
    topic_partition,
)
from traces.generate.rows import Block
from traces.model.context import Ints
from traces.model.schema import Isolation, Op

_READ = {"isolation": int(Isolation.READ_COMMITTED), "node": LEADER}


def consuming(chunk: Chunk) -> list[Block]:
    """The rows of the members of both groups."""
    log, tp = chunk.log, chunk.log["tp"]
    second = tp >= TOPIC_PARTITIONS // 2  # of the group that commits first
    order = np.arange(len(tp))
    polls = np.flatnonzero(log["polled"])
    done = np.flatnonzero(log["processed"])
    poll = _given(chunk, polls, 0) | _READ | {"op": int(Op.POLL), "order": 4 * order[polls] + 2}
    poll["hash"] = payload(poll["id"]) + np.isin(polls, chunk.altered)
    process = _given(chunk, done, np.where(second[done], 8, 4))
    process |= {"op": int(Op.PROCESS), "order": 4 * order[done] + 2}
    return [poll, process, *_rounds(chunk), *_hand_over(chunk)]


def _given(chunk: Chunk, rows: Ints, step: Any) -> dict[str, Any]:
    log, tp = chunk.log, chunk.log["tp"][rows]
    inv = chunk.at(log["window"][rows], 0) + step * TICK
    return membered(chunk, tp) | {
        "offset": log["offset"][rows],
        "id": log["polled_id"][rows],
        "epoch": log["epoch"][rows],
        "inv": inv,
        "ret": inv + 8_000,
    }


def membered(chunk: Chunk, tp: Ints) -> dict[str, Any]:
    """The fields of a member that each of its rows has."""
    owner = chunk.owner[tp]
    return topic_partition(tp) | {
        "process": owner,
        "group": tp // (TOPIC_PARTITIONS // 2),
        "member": owner - PRODUCERS,
        "generation": chunk.number,
    }


def _rounds(chunk: Chunk) -> list[Block]:
    """The commits, and the reports of each poll on the partitions of its records."""
    commits, marks = chunk.commits, chunk.marks
    tp = commits["tp"]
    commit = membered(chunk, tp) | {"op": int(Op.COMMIT), "offset": commits["offset"]}
    commit["inv"] = (
        chunk.at(commits["window"], 0) + np.where(tp >= TOPIC_PARTITIONS // 2, 4, 8) * TICK
    )
    commit["inv"] += np.where(commits["window"] == chunk.plan.windows, TICK, 0)
    commit |= {"ret": commit["inv"] + 8_000, "order": tp}
    mark = membered(chunk, marks["tp"]) | _READ
    mark |= {"op": int(Op.MARK), "offset": marks["offset"], "order": 1 << 40}
    mark["epoch"] = epochs(chunk.number)[marks["tp"]]
    mark["inv"] = chunk.at(marks["window"], 0)
    mark["ret"] = mark["inv"] + 8_000
    return [commit, mark, mark | {"op": int(Op.LOG_START), "offset": 0}]


def _hand_over(chunk: Chunk) -> list[Block]:
    tp, last = np.arange(TOPIC_PARTITIONS), chunk.plan.windows

    def call(op: Op, window: int, step: int, **fields: Any) -> dict[str, Any]:
        inv = np.full(TOPIC_PARTITIONS, chunk.at(window, step))
        row = membered(chunk, tp) | {"op": int(op), "inv": inv, "ret": inv + 8_000}
        return row | {"order": tp} | fields

    return [
        call(Op.ASSIGNED, 0, 0),
        call(Op.COMMITTED, 0, 4, offset=chunk.carried.committed),
        call(Op.MARK, last, 0, offset=chunk.carried.offset, epoch=epochs(chunk.number), **_READ),
        call(Op.LOG_START, last, 0, offset=0, epoch=epochs(chunk.number), **_READ),
        call(Op.REVOKED, last, 12),
    ]
