"""Anomalies about the log: records lost, doubled, replaced, made up, and in another order."""

import numpy as np

from traces.generate.anomalies.registry import in_rows
from traces.generate.anomalies.slot import Slot
from traces.generate.plan import TICK
from traces.model.schema import NONE, Outcome


@in_rows("L3 L4 P2")
def lost(s: Slot) -> bool:
    """Nobody is ever given an acknowledged record, though others behind it are read."""
    v = s.rely(s.one(s.followed(s.usual())))
    return v is not None and s.hide(v, "polled", "processed", "scanned")


@in_rows("L4 P2")
def lost_at_the_end(s: Slot) -> bool:
    """An acknowledged record was read, and is missing at the end."""
    v = s.rely(s.one(s.followed(s.usual())))
    return v is not None and s.hide(v, "scanned")


@in_rows("L2")
def duplicate(s: Slot) -> bool:
    """A record is stored a second time."""
    if (v := s.one(s.usual())) is None:
        return False
    again: dict[str, float] = {
        "tp": s.tp,
        "key": s.m["key"][v] + 0.25,
        "id": s.m["id"][v],
        "message": v,
    }
    s.chunk.extra.append(again)
    return s.note(v)


@in_rows("L1 G8", rare=True)
def inconsistent(s: Slot) -> bool:
    """The group is given another record at the offset than the final scan."""
    if (two := s.pair()) is None:
        return False
    s.vanish(two[0])

    def act() -> None:
        s.log["polled_id"][s.chunk.entry[two[1]]] = s.m["id"][two[0]]

    s.chunk.stored.append(act)
    return s.note(two[1])


@in_rows("L15 L1 L4 G8 P2", rare=True)
def truncated(s: Slot) -> bool:
    """The group was given an acknowledged record, and later another is at its offset."""
    process = s.m["process"]
    left = set(s.followed(s.usual()).tolist())
    if (two := s.pair(lambda a, b: b in left and process[a] != process[b])) is None:
        return False
    s.rely(two[1])
    s.vanish(two[0])

    def act() -> None:
        s.log["scanned_id"][s.chunk.entry[two[1]]] = s.m["id"][two[0]]

    s.chunk.stored.append(act)
    return s.note(two[1])


@in_rows("L5")
def phantom(s: Slot) -> bool:
    """A record that nobody sent."""
    if (v := s.one(s.usual())) is None:
        return False
    id = s.chunk.plan.messages + 1_000 * s.chunk.number + s.number
    s.chunk.extra.append({"tp": s.tp, "key": s.m["key"][v] + 0.25, "id": id, "message": NONE})
    s.witness["id"] = id
    return True


@in_rows("L6")
def denied(s: Slot) -> bool:
    """A send that certainly failed was stored."""
    if (v := s.one(s.usual())) is None:
        return False
    s.m["outcome"][v] = Outcome.FAIL
    return s.note(v)


@in_rows("L8 L1")
def wrong_offset_answered(s: Slot) -> bool:
    """The acknowledgement has the offset of the next record."""
    if (two := s.pair()) is None:
        return False

    def act() -> None:
        s.m["acked"][two[0]] = s.m["offset"][two[1]]

    s.chunk.stored.append(act)
    return s.note(two[0])


@in_rows("L9", rare=True)
def overtaken(s: Slot) -> bool:
    """A send that began after another was acknowledged is stored before it."""
    process = s.m["process"]
    two = s.pair(lambda a, b: not np.any(process[a + 1 : b + 1] == process[a]))
    if two is None:
        return False
    a, b = two
    s.m["ret"][b] = s.m["inv"][b] + 10
    s.m["inv"][a] = s.m["inv"][b] + 20
    s.m["ret"][a] = s.m["inv"][a] + 5 * TICK
    return s.note(a)


@in_rows("L10 L9")
def read_before_sent(s: Slot) -> bool:
    """Read before its send began; by then higher offsets had been acknowledged."""
    if (v := s.one(s.usual())) is None:
        return False
    name = f"late-{s.chunk.number}-{s.number}#0"
    s.m["process"][v] = s.chunk.clients.producer(name)
    s.m["pid"][v] = 1_000_000 + s.m["process"][v]
    s.m["inv"][v] = s.chunk.at(s.chunk.plan.windows, 2)
    s.m["ret"][v] = s.m["inv"][v] + 500

    def act() -> None:
        s.log["held"][s.chunk.entry[v]] = s.chunk.base

    s.chunk.stored.append(act)
    return s.note(v)


@in_rows("L12")
def older_leader(s: Slot) -> bool:
    """The final scan shows an older leader epoch behind a newer one."""
    if (v := s.one(s.usual())) is None:
        return False

    def act() -> None:
        s.log["scanned_epoch"][s.chunk.entry[v]] -= 1

    s.chunk.stored.append(act)
    return s.note(v)
