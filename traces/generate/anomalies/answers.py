"""Anomalies about what brokers answer: watermarks, ends of logs, offsets for times."""

import numpy as np

from traces.generate.anomalies.registry import in_rows
from traces.generate.anomalies.slot import Slot
from traces.generate.plan import TICK
from traces.model.schema import NONE, Op, Outcome, Txn


@in_rows("L11", stage="ready")
def watermark_back(s: Slot) -> bool:
    """A consumer receives a higher high watermark than afterwards."""
    marks = s.chunk.marks
    mine = np.flatnonzero(marks["tp"] == s.tp)
    if len(mine) < 2:
        return False
    later = int(marks["offset"][mine[1]])
    marks["offset"][mine[0]] = later + 1
    s.witness["offset"] = later
    return True


@in_rows("C7", stage="ready")
def stale(s: Slot) -> bool:
    """An empty poll reports a high watermark below an acknowledged record."""
    mine = s.rows[s.m["written"][s.rows] & (s.m["outcome"][s.rows] == Outcome.OK)]
    mine = mine[s.m["txn_state"][mine] != Txn.ABORTED]
    last = int(s.m["offset"][mine].max(initial=NONE))
    if last == NONE:
        return False
    process = s.chunk.clients.reader(f"late-{s.chunk.number}-{s.number}#0")
    inv = int(s.chunk.at(s.chunk.plan.windows, 2))
    s.report({"process": process, "inv": inv, "ret": inv + 500} | s.here, last)
    s.witness["offset"] = last
    return True


@in_rows("L20", stage="due")
def end_back(s: Slot) -> bool:
    """One client receives a lower log end offset than before."""
    process = s.chunk.clients.reader(f"asker-{s.chunk.number}-{s.number}#0")
    inv, end = int(s.chunk.at(s.chunk.plan.windows, 2)), int(s.chunk.carried.offset[s.tp])
    for step in range(2):
        s.row(process, Op.LATEST, inv + step * TICK, **s.here, offset=end - step)
    s.witness["offset"] = end - 1
    return True


@in_rows("L16")
def wrong_for_time(s: Slot) -> bool:
    """A query by time is answered with the second record of that time or later."""
    if (v := s.one(s.usual())) is None:
        return False
    process = s.chunk.clients.reader(f"asker-{s.chunk.number}-{s.number}#0")
    inv = s.chunk.plan.end + s.chunk.number * TICK

    def act() -> None:
        mine = s.rows[s.m["offset"][s.rows] != NONE]
        kept = (s.m["outcome"][mine] != Outcome.FAIL) & (s.m["txn_state"][mine] != Txn.ABORTED)
        late = mine[kept & (s.m["timestamp"][mine] >= s.m["timestamp"][v])]
        right, asked = int(s.m["offset"][late].min()), int(s.m["timestamp"][v])
        for step in range(2):
            answer = {"timestamp": asked, "offset": right + step}
            s.row(process, Op.LIST_OFFSETS, inv + step * 1_000, **s.here, **answer)
        s.witness["offset"] = right + 1

    s.chunk.stored.append(act)
    return True
