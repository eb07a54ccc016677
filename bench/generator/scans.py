"""The final reading of all partitions, a piece for each generation."""

from typing import Any

import numpy as np

from bench.generator.chunk import Chunk
from bench.generator.plan import PLACES, PRODUCERS, TICK, payload, placed
from bench.generator.rows import Block
from traces.schema import NONE, Flag, Isolation, Op


def scanning(chunk: Chunk) -> list[Block]:
    """The piece of the final reading that holds this chunk."""
    log = chunk.log
    rows = np.flatnonzero(log["scanned"])
    place, id = log["place"][rows], log["scanned_id"][rows]
    found = _scan(chunk, place) | {
        "op": int(Op.SCAN),
        "offset": log["offset"][rows],
        "id": id,
        "hash": payload(id),
        "epoch": log["scanned_epoch"][rows],
        "order": rows,
        "flags": Flag.FINAL,
    }
    return [found, *_around(chunk)]


def _scan(chunk: Chunk, place: Any, step: int = 0) -> dict[str, Any]:
    process = PRODUCERS + 8 + place % 8
    inv = chunk.plan.end + TICK * ((chunk.number + 1) * (PLACES + 16) + place + step)
    isolation = {"isolation": int(Isolation.READ_UNCOMMITTED)}
    return placed(place) | isolation | {"process": process, "inv": inv, "ret": inv + 8_000}


def _around(chunk: Chunk) -> list[Block]:
    """Where the reading begins and where it ends."""
    place, out, plan = np.arange(PLACES), list[Block](), chunk.plan
    if chunk.number == 0:
        start = {"isolation": NONE, "order": place}
        for op, step, offset in (
            (Op.EARLIEST, -PLACES - 16, 0),
            (Op.ASSIGN, -PLACES - 8, chunk.scan_from),
        ):
            call = _scan(chunk, place, step) | start | {"op": int(op), "offset": offset}
            call["inv"] = plan.end + TICK * (PLACES + 16 + step) + place * 0
            call["ret"] = call["inv"] + 8_000
            out.append(call)
    if chunk.number == plan.chunks - 1:
        end = {"offset": chunk.carried.offset, "order": 1 << 40}
        out.append(_scan(chunk, place) | end | {"op": int(Op.SCAN_END), "flags": Flag.FINAL})
        latest = _scan(chunk, place) | end | {"op": int(Op.LATEST), "isolation": NONE}
        latest["inv"] = plan.end + TICK * (chunk.number + 3) * (PLACES + 16) + place * 0
        out.append(latest | {"ret": latest["inv"] + 8_000})
    return out
