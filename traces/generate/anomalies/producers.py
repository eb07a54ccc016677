"""Anomalies about producers: their order, and who may write in whose name."""

from traces.generate.anomalies.registry import in_rows
from traces.generate.anomalies.slot import Slot
from traces.generate.plan import TICK
from traces.model.schema import Flag, Op, Outcome, Txn


@in_rows("P1", rare=True)
def reordered(s: Slot) -> bool:
    """Two records of one producer, in flight together, are stored the wrong way round."""
    process = s.m["process"]
    if (two := s.pair(lambda a, b: process[a] == process[b])) is None:
        return False
    a, b = two
    s.m["key"][a], s.m["key"][b] = s.m["key"][b], s.m["key"][a]
    s.m["ret"][a] = max(int(s.m["ret"][a]), int(s.m["inv"][b]) + TICK)
    return s.note(b)


@in_rows("P3")
def zombie(s: Slot) -> bool:
    """A producer writes after its successor was initialised."""
    if (v := s.one(s.usual())) is None:
        return False
    name, inv = f"zombie-{s.chunk.number}-{s.number}", int(s.m["inv"][v])
    old = s.taken_over(v, f"{name}#0", name, inv + 6_000)
    s.init(old, name, inv - 5_000)
    s.init(s.chunk.clients.producer(f"{name}#1"), name, inv - 2_500, epoch=1)
    return s.note(v)


@in_rows("P4")
def same_epoch(s: Slot) -> bool:
    """A second initialisation gets no newer epoch."""
    name = f"again-{s.chunk.number}-{s.number}"
    process = s.chunk.clients.producer(f"{name}#0")
    for step in (0, 2_000):
        s.init(process, name, s.chunk.base + step, epoch=3)
    return True


@in_rows("P7")
def fenced_by_nobody(s: Slot) -> bool:
    """A producer that no other has followed hears that it is fenced."""
    name, clients = f"fenced-{s.chunk.number}-{s.number}", s.chunk.clients
    process, base = clients.producer(f"{name}#0"), s.chunk.base
    clients.producers[name]["transaction_timeout_ms"] = 10_000
    s.init(process, name, base)
    mine = s.transaction(process, clients.names.transactional_ids.number(name), base + 2_000)
    mine |= {"txn_state": int(Txn.UNKNOWN)}
    s.row(process, Op.TXN_BEGIN, base + 1_000, **mine)
    refused = {"outcome": int(Outcome.INFO), "flags": Flag.FENCED}
    s.row(process, Op.TXN_COMMIT, base + 2_000, **mine, **refused)
    return True
