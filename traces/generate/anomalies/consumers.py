"""Anomalies about records that members of a group are given or process."""

import numpy as np

from traces.generate.anomalies.registry import in_rows
from traces.generate.anomalies.slot import Slot
from traces.generate.plan import TICK
from traces.model.schema import Isolation, Op


@in_rows("C1 G8")
def skipped(s: Slot) -> bool:
    """The group is never given a record between two that it is."""
    v = s.one(s.usual())
    return v is not None and s.hide(v, "polled", "processed")


@in_rows("L7")
def changed(s: Slot) -> bool:
    """A reader is given other bytes than were sent."""
    if (v := s.one(s.usual())) is None:
        return False

    def act() -> None:
        s.chunk.altered.append(int(s.chunk.entry[v]))

    s.chunk.stored.append(act)
    return s.note(v)


@in_rows("G8", group=0)
def unprocessed(s: Slot) -> bool:
    """Given, committed, and never processed."""
    v = s.one(s.usual())
    return v is not None and s.hide(v, "processed")


@in_rows("C2 G9", stage="due")
def gone_back(s: Slot) -> bool:
    """The next poll begins with the last record of the one before."""
    rows, log = s.polled(), s.log
    ends = np.flatnonzero(log["window"][rows[1:]] > log["window"][rows[:-1]])
    if not len(ends):
        return False
    at = int(s.chunk.random.choice(ends))
    _given_again(s, rows[at], int(rows[at + 1]))
    return s.note_entry(int(rows[at]))


def _given_again(s: Slot, what: int, before: int) -> None:
    log = s.log
    record = {n: int(log[n][what]) for n in ("offset", "epoch")} | {"id": int(log["id"][what])}
    _poll(s, record, before)


def _poll(s: Slot, record: dict[str, int], before: int) -> None:
    """One more record in a poll, before another one."""
    inv = int(s.chunk.at(s.log["window"][before], 0))
    more = {"isolation": int(Isolation.READ_COMMITTED), "order": 4 * before + 1}
    s.member_row(Op.POLL, inv, **record, **more, ret=inv + 8_000)


@in_rows("G9 G10", stage="due", group=1, first=1)
def given_again(s: Slot) -> bool:
    """After a rebalance the group is given, and processes, a record once more."""
    if not len(s.polled()) or s.tp not in s.chunk.carried.last:
        return False
    first, record = int(s.polled()[0]), s.chunk.carried.last[s.tp]
    _poll(s, record, first)
    inv = int(s.chunk.at(s.log["window"][first], 8))
    s.member_row(Op.PROCESS, inv, **record, order=4 * first + 1, ret=inv + 8_000)
    s.witness |= {"id": record["id"], "offset": record["offset"]}
    return True


@in_rows("G10 G8", stage="due", first=1)
def resumed_late(s: Slot) -> bool:
    """The new owner begins above the committed offset."""
    if len(s.polled()) < 3:
        return False
    first = int(s.polled()[0])
    s.log["polled"][first] = s.log["processed"][first] = False
    return s.note_entry(first)


@in_rows("C3", stage="due", last=0)
def elsewhere(s: Slot) -> bool:
    """A reader was given the second record as its start, and began at the first."""
    rows = s.entries()
    rows = rows[s.log["scanned"][rows]]
    s.chunk.scan_from[s.tp] = s.log["offset"][rows[1]]
    return s.note_entry(int(rows[0]))


@in_rows("C4 G9", stage="due")
def not_assigned(s: Slot) -> bool:
    """A member is given a record after the partition was revoked from it."""
    if not len(s.polled()):
        return False
    last = int(s.polled()[-1])
    record = {n: int(s.log[n][last]) for n in ("offset", "id", "epoch")}
    inv = int(s.chunk.at(s.chunk.plan.windows, 14))
    s.member_row(Op.POLL, inv, **record, isolation=int(Isolation.READ_COMMITTED))
    s.report(s.chunk.lines[-1], int(s.chunk.carried.offset[s.tp]))
    return s.note_entry(last)


@in_rows("G13", stage="due", group=0)
def committed_before_processing(s: Slot) -> bool:
    """The application is done with a record only after it has committed it."""
    if not len(s.polled()):
        return False
    row = int(s.chunk.random.choice(s.polled()))
    s.log["processed"][row] = False
    record = {n: int(s.log[n][row]) for n in ("offset", "id", "epoch")}
    s.member_row(Op.PROCESS, int(s.chunk.at(s.chunk.plan.windows, 10)), **record)
    return s.note_entry(row)


@in_rows("C8", stage="due")
def stands_still(s: Slot) -> bool:
    """A reader of its own is given one record, and then nothing, though there is more."""
    rows = s.polled()
    if len(rows) < 2:
        return False
    record = {n: int(s.log[n][rows[0]]) for n in ("offset", "id", "epoch")}
    process = s.chunk.clients.reader(f"still-{s.chunk.number}-{s.number}#0")
    inv, end = int(s.chunk.at(s.chunk.plan.windows, 2)), int(s.chunk.carried.offset[s.tp])
    everything = {"isolation": int(Isolation.READ_UNCOMMITTED)}
    s.row(process, Op.POLL, inv, **s.here, **record, **everything)
    s.report(s.chunk.lines[-1], end)
    for step in range(1, 4):
        times = {"inv": inv + step * TICK, "ret": inv + step * TICK + 500}
        s.report({"process": process} | times | s.here | everything, end)
    return s.note_entry(int(rows[0]))
