"""The final scan of all partitions, a piece for each generation."""

from typing import Any

import numpy as np

from traces.generate.chunk import Chunk
from traces.generate.plan import PRODUCERS, TICK, TOPIC_PARTITIONS, payload, topic_partition
from traces.generate.rows import Block
from traces.model.schema import NONE, Flag, Isolation, Op


def scanning(chunk: Chunk) -> list[Block]:
    """The piece of the final scan that holds this chunk."""
    log = chunk.log
    rows = np.flatnonzero(log["scanned"])
    tp, id = log["tp"][rows], log["scanned_id"][rows]
    found = _scan(chunk, tp) | {
        "op": int(Op.SCAN),
        "offset": log["offset"][rows],
        "id": id,
        "hash": payload(id),
        "epoch": log["scanned_epoch"][rows],
        "order": rows,
        "flags": Flag.FINAL,
    }
    return [found, *_around(chunk)]


def _scan(chunk: Chunk, tp: Any, step: int = 0) -> dict[str, Any]:
    process = PRODUCERS + 8 + tp % 8
    inv = chunk.plan.end + TICK * ((chunk.number + 1) * (TOPIC_PARTITIONS + 16) + tp + step)
    isolation = {"isolation": int(Isolation.READ_UNCOMMITTED)}
    return topic_partition(tp) | isolation | {"process": process, "inv": inv, "ret": inv + 8_000}


def _around(chunk: Chunk) -> list[Block]:
    """The calls before the first scan and after the last one."""
    tp, out, plan = np.arange(TOPIC_PARTITIONS), list[Block](), chunk.plan
    if chunk.number == 0:
        start = {"isolation": NONE, "order": tp}
        for op, step, offset in (
            (Op.EARLIEST, -TOPIC_PARTITIONS - 16, 0),
            (Op.ASSIGN, -TOPIC_PARTITIONS - 8, chunk.scan_from),
        ):
            call = _scan(chunk, tp, step) | start | {"op": int(op), "offset": offset}
            call["inv"] = plan.end + TICK * (TOPIC_PARTITIONS + 16 + step) + tp * 0
            call["ret"] = call["inv"] + 8_000
            out.append(call)
    if chunk.number == plan.chunks - 1:
        end = {"offset": chunk.carried.offset, "order": 1 << 40}
        out.append(_scan(chunk, tp) | end | {"op": int(Op.SCAN_END), "flags": Flag.FINAL})
        latest = _scan(chunk, tp) | end | {"op": int(Op.LATEST), "isolation": NONE}
        latest["inv"] = plan.end + TICK * (chunk.number + 3) * (TOPIC_PARTITIONS + 16) + tp * 0
        out.append(latest | {"ret": latest["inv"] + 8_000})
    return out
