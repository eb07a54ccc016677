"""Write the calls of the producers of a generation."""

import numpy as np

from traces.generate.chunk import Chunk
from traces.generate.plan import (
    PRODUCERS,
    TOPIC_PARTITIONS,
    TRANSACTIONAL,
    payload,
    topic_partition,
)
from traces.generate.rows import Block
from traces.model.columns import firsts
from traces.model.schema import NONE, Op, Txn

_SENT = (
    *("process", "inv", "ret", "outcome", "id", "txn", "txn_state", "end_inv", "flags"),
    *("timestamp", "pid", "pepoch", "tid", "sequence"),
)


def producing(chunk: Chunk) -> list[Block]:
    """The rows of those that send."""
    m, carried = chunk.m, chunk.carried
    written = np.flatnonzero(m["written"] & (m["process"] < PRODUCERS))
    pair = (m["process"][written] * TOPIC_PARTITIONS + m["tp"][written]).astype(np.int16)
    order = np.argsort(pair, kind="stable")
    counts = np.bincount(pair, minlength=PRODUCERS * TOPIC_PARTITIONS)
    rank = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    m["sequence"] = np.where(m["written"], 0, NONE)
    m["sequence"][written[order]] = rank + np.repeat(carried.sequence, counts)
    carried.sequence += counts
    sends = {name: m[name] for name in _SENT} | {"offset": m["acked"], "op": int(Op.SEND)}
    sends["hash"] = payload(m["id"])
    return [sends | topic_partition(m["tp"]), *_boundaries(chunk), *_inits(chunk)]


def _inits(chunk: Chunk) -> list[Block]:
    if chunk.number:
        return []
    who = np.arange(TRANSACTIONAL)
    inv = np.full(TRANSACTIONAL, chunk.base)
    named = {"tid": who, "pid": 1_000 + who, "pepoch": 0, "op": int(Op.INIT_PRODUCER)}
    return [named | {"process": who, "inv": inv, "ret": inv + 1_000}]


def _boundaries(chunk: Chunk) -> list[Block]:
    """The beginning and the end of each transaction of the regular producers."""
    m = chunk.m
    rows = np.flatnonzero((m["txn"] != NONE) & (m["process"] < TRANSACTIONAL))
    rows = rows[np.argsort(m["process"][rows].astype(np.int16), kind="stable")]
    first = rows[firsts(m["process"][rows], m["txn"][rows])]
    shared = {name: m[name][first] for name in ("process", "txn", "tid", "pid", "pepoch")}
    shared |= {"txn_state": m["txn_state"][first], "end_inv": m["end_inv"][first]}
    ends = np.where(m["txn_state"][first] == Txn.ABORTED, Op.TXN_ABORT, Op.TXN_COMMIT)
    begin, end = m["inv"][first] - 3_000, m["end_inv"][first]
    return [
        shared | {"op": int(Op.TXN_BEGIN), "inv": begin, "ret": begin + 1_000},
        shared | {"op": ends, "inv": end, "ret": end + 900},
    ]
