"""Anomalies about transactions: torn, overlapping, read too early or by the wrong ones."""

import numpy as np

from traces.generate.anomalies.registry import in_rows
from traces.generate.anomalies.slot import Slot
from traces.generate.plan import TICK, TRANSACTIONAL
from traces.model.columns import firsts
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome, Txn


@in_rows("T1 L3 L4 P2")
def torn(s: Slot) -> bool:
    """One record of a committed transaction is missing."""
    mine = s.rows[len(s.rows) // 6 : -len(s.rows) // 6]
    v = s.rely(s.one(s.followed(mine[s.m["txn_state"][mine] == Txn.COMMITTED])))
    return v is not None and s.hide(v, "polled", "processed", "scanned")


@in_rows("T8")
def overlapping(s: Slot) -> bool:
    """Two processes of one transactional id write at the same time, and both commit."""
    if (two := s.pair()) is None:
        return False
    (a, b), name = two, f"twins-{s.chunk.number}-{s.number}"
    one, other = int(s.m["inv"][a]), int(s.m["inv"][b])
    first = s.taken_over(a, f"{name}#0", name, other + 3_000)
    s.init(first, name, one - 5_000)
    second = s.taken_over(b, f"{name}#1", name, other + 6_000, epoch=1)
    s.init(second, name, other - 4_500, epoch=1)
    return s.note(b)


@in_rows("T5 T2")
def own_read(s: Slot) -> bool:
    """A transaction reads its own record before it commits."""
    v = s.one(_nothing_open_below(s, s.usual()))
    if v is None:
        return False
    name, inv = f"own-{s.chunk.number}-{s.number}", int(s.m["inv"][v])
    process = s.taken_over(v, f"{name}#0", name, inv + 6_000)
    s.init(process, name, inv - 5_000)
    s.m["flags"][v] |= Flag.MIXED
    _reads(s, process, name, v, inv + 2_000, inv + 6_000, Isolation.READ_COMMITTED)
    return s.note(v)


def _nothing_open_below(s: Slot, rows: Ints) -> Ints:
    end = np.maximum.accumulate(s.m["end_inv"][s.rows])
    return rows[end[np.searchsorted(s.rows, rows)] <= s.m["inv"][rows]]


def _reads(
    s: Slot, process: int, tid: str, what: int, inv: int, end: int, isolation: Isolation
) -> None:
    number = s.chunk.clients.names.transactional_ids.number(tid)
    mine = s.transaction(process, number, end) | {"isolation": int(isolation)}

    def act() -> None:
        at = {"offset": int(s.m["offset"][what]), "id": int(s.m["id"][what])}
        s.polls(process, inv, **mine, **s.here, **at, flags=Flag.MIXED)

    s.chunk.stored.append(act)


@in_rows("T6", once=True)
def circle(s: Slot) -> bool:
    """Two transactions each read records of the other one."""
    if (two := s.pair()) is None:
        return False
    inv, name = int(s.m["inv"][two[1]]), f"circle-{s.chunk.number}-{s.number}"
    for step, (v, other) in enumerate((two, two[::-1])):
        mine = f"{name}-{step}"
        process = s.taken_over(v, f"{mine}#0", mine, inv + 7_000)
        s.init(process, mine, int(s.m["inv"][v]) - 5_000)
        s.m["flags"][v] |= Flag.MIXED
        when = inv + 4_000 + 1_000 * step
        _reads(s, process, mine, other, when, inv + 7_000, Isolation.READ_UNCOMMITTED)
    return s.note(two[0])


@in_rows("T10 G9")
def consumed_twice(s: Slot) -> bool:
    """Two committed transactions of one group consume one record."""
    if (v := s.one(s.usual())) is None:
        return False
    chunk, names = s.chunk, s.chunk.clients.names
    begin, end = chunk.at(chunk.plan.windows, 1), chunk.at(chunk.plan.windows, 6)
    for step in range(2):
        name = f"copy-{chunk.number}-{s.number}-{step}"
        process, tid = (
            chunk.clients.consumer(f"{name}#0", "copy"),
            names.transactional_ids.number(name),
        )
        mine = s.transaction(process, tid, end)
        s.init(process, name, begin)
        s.row(process, Op.TXN_BEGIN, begin + TICK, **mine)
        s.row(process, Op.TXN_COMMIT, end, **mine)

        def act(process: int = process, mine: dict[str, int] = mine) -> None:
            at = {"offset": int(s.m["offset"][v]), "id": int(s.m["id"][v]), "group": 2}
            isolation = int(Isolation.READ_COMMITTED)
            poll = mine | s.here | at | {"isolation": isolation}
            s.polls(process, begin + 2 * TICK, **poll)

        chunk.stored.append(act)
    return s.note(v)


@in_rows("T4 T7", rare=True)
def aborted_read(s: Slot) -> bool:
    """A reader of committed records is given one of an aborted transaction."""
    if (v := s.one(s.rows[s.m["txn_state"][s.rows] == Txn.ABORTED])) is None:
        return False

    def act() -> None:
        entry = s.chunk.entry[v]
        s.log["polled"][entry] = s.log["processed"][entry] = True
        s.log["held"][entry] = s.m["ret"][v]

    s.chunk.stored.append(act)
    return s.note(v)


@in_rows("T2", stage="due")
def leaked(s: Slot) -> bool:
    """Readers are given a record of a transaction that has not asked to commit yet."""
    found = _early(s)
    if not found:
        return False
    entry, window = found[int(s.chunk.random.integers(len(found)))]
    s.log["window"][entry] = window
    return s.note_entry(entry)


@in_rows("T2 T3", stage="due")
def beyond_stable(s: Slot) -> bool:
    """As `leaked`, and the record behind it as well."""
    log, m = s.log, s.m
    for entry, window in _early(s):
        after = entry + 1
        if after >= len(log["tp"]) or log["tp"][after] != s.tp:
            continue
        sender = log["message"][after]
        usual = sender != NONE and m["txn"][sender] == NONE and m["outcome"][sender] == Outcome.OK
        if usual and (m["ret"][sender] - s.chunk.base) // s.chunk.plan.window + 1 <= window:
            log["window"][entry] = log["window"][after] = window
            return s.note_entry(after)
    return False


def _early(s: Slot) -> list[tuple[int, int]]:
    """First records of committed transactions, and earlier polls that could bring them."""
    log, m, rows = s.log, s.m, s.entries()
    rows = rows[len(rows) // 6 : -len(rows) // 6]
    rows = rows[log["record"][rows] & (log["message"][rows] != NONE)]
    sender = log["message"][rows]
    rows = rows[(m["txn_state"][sender] == Txn.COMMITTED) & (m["process"][sender] < TRANSACTIONAL)]
    sender = log["message"][rows]
    order = np.lexsort((rows, m["txn"][sender], m["process"][sender]))
    first = order[firsts(m["process"][sender[order]], m["txn"][sender[order]])]
    rows = np.sort(rows[first])
    sender = log["message"][rows]
    ready = (m["ret"][sender] - s.chunk.base) // s.chunk.plan.window + 1
    window = np.maximum(ready, log["window"][rows - 1])
    early = (window < log["window"][rows]) & (s.chunk.at(window, 1) < m["end_inv"][sender])
    return list(zip(rows[early].tolist(), window[early].tolist(), strict=True))
