"""Facts that follow from a history: stored records, visible records, clients' positions."""

from bisect import bisect_left
from typing import Any

from traces.second_checker.history import COMMITTED, History
from traces.second_checker.rows import PartitionName, Row, before

READS = ("poll", "scan")
MOVES = ("assigned", "revoked", "lost", "seek", "forget")


def reads(h: History, partition: PartitionName) -> list[Row]:
    """Every record of the partition that anybody was given, whatever became of the call."""
    return [r for r in h.rows(partition, *READS) if r.id is not None and r.offset is not None]


def reads_of(h: History, partition: PartitionName, id: object) -> list[Row]:
    """Every delivery of one record."""
    return [r for r in h.of(partition, id, *READS) if r.offset is not None]


def reads_at(h: History, partition: PartitionName, offset: int) -> list[Row]:
    """Every record that anybody was given at one offset."""
    return [r for r in h.at(partition, offset, *READS) if r.id is not None]


def happened(h: History, row: Row) -> bool:
    """True if a call happened: it was answered so, or a reader has shown it since."""
    return row.ok or (row.outcome == "info" and h.state(row) == COMMITTED)


def acknowledged(h: History, row: Row) -> bool:
    """True if the sender of a record knows its offset."""
    return row.op == "send" and happened(h, row) and row.offset is not None


def stays(h: History, row: Row) -> bool:
    """True if readers of committed records may see the row's record, once it is in the log."""
    return h.state(row) in (None, COMMITTED)


def final(h: History, partition: PartitionName) -> list[Row]:
    """The final scan; every successful poll of a Jepsen history counts as part of it."""
    ops = ("poll",) if h.jepsen else ("scan",)
    return [
        r for r in h.rows(partition, *ops) if r.ok and r.id is not None and r.offset is not None
    ]


def in_final(h: History, partition: PartitionName, id: object) -> bool:
    """True if the final scan has the record anywhere in the partition."""
    ops = ("poll",) if h.jepsen else ("scan",)
    return any(r.ok and r.offset is not None for r in h.of(partition, id, *ops))


def where(h: History, send: Row) -> int | None:
    """The offset that one call is known to have got.

    That is the acknowledged one. Else it is the lowest at which its record was read, if no other
    call can have put it there: every other attempt to send the record, here or to an unknown
    partition, certainly failed. If this call failed itself, there must be no other.
    """
    if acknowledged(h, send):
        return send.offset
    attempts = h.of(send.partition, send.id, "send")
    if send.outcome != "fail":
        attempts = [row for row in attempts if row.outcome != "fail"]
    if len(attempts) != 1:
        return None
    seen = [r.offset for r in reads_of(h, send.partition, send.id) if r.offset is not None]
    return min(seen, default=None)


def log_start(h: History, partition: PartitionName) -> int:
    """The highest answer to a question for the earliest offset, 0 without any."""
    return max((r.offset for r in h.rows(partition, "earliest") if r.ok and r.offset), default=0)


def kept_from(h: History, partition: PartitionName) -> int:
    """The highest start that the log read last can have had: as reported, or lower.

    Deletion removes the head of a log and keeps the rest. So nothing is deleted above the first
    record that a final scan found, though an earlier leader of the partition may have begun higher.
    """
    reported = log_start(h, partition)
    there = [] if h.jepsen else [r.offset for r in final(h, partition) if r.offset is not None]
    return min([reported, *there])


def compacted(h: History, partition: PartitionName) -> bool:
    """True if compaction may remove records of this partition."""
    policy = h.topic(partition.rpartition(":")[0]).get("cleanup_policy")
    return h.compacted if h.jepsen else "compact" in (policy or "")


def superseded(h: History, send: Row) -> bool:
    """True if compaction may have removed a record: without a key, or for a later one, or by age.

    By age only if the age at which tombstones are removed is reported; otherwise it is unknown.
    """
    if not compacted(h, send.partition):
        return False
    if send.record.get("key") is None:
        return True
    return followed(h, send) or (_retention_ms(h, send) is not None and expired(h, send))


def _may_be_superseded(h: History, send: Row) -> bool:
    """As `superseded`, also if the age of removed tombstones is unknown."""
    return superseded(h, send) or (compacted(h, send.partition) and expired(h, send))


def followed(h: History, send: Row) -> bool:
    """True if another record of the key is known to be above, by its sender or by any reader."""
    own, key = where(h, send), send.record.get("key")
    if own is None:
        own = min(
            (o for o, id in _of_keys(h, send.partition).get(key, ()) if id == send.id), default=-1
        )
    known = _of_keys(h, send.partition).get(key, ())
    if not known:  # nobody tells the offset of any record of the key: one of them is the last
        sent = [s for s in h.rows(send.partition, "send") if s.outcome != "fail"]
        return send.id != max(s.id for s in sent if s.record.get("key") == key)
    return any(o > own and id != send.id for o, id in known)


def expired(h: History, send: Row) -> bool:
    """True if a tombstone may have been old enough to be removed, as far as is known."""
    retention = _retention_ms(h, send)
    if send.record.get("tombstone") is not True:
        return False
    return retention is None or age(h, send) >= retention


def _retention_ms(h: History, send: Row) -> int | None:
    return h.topic(send.partition.rpartition(":")[0]).get("delete_retention_ms")


def age(h: History, send: Row) -> float:
    """The most ms between an append and the end of the final scan."""
    returned = [r.ret for r in h.rows(send.partition, "scan_end") if r.ok]
    if send.inv is None or not returned or None in returned:
        return float("inf")
    return (max(t for t in returned if t is not None) - send.inv) // 1_000_000


def _of_keys(h: History, partition: PartitionName) -> dict[Any, set[tuple[int, Any]]]:
    """The known offsets of each key's records, acknowledged or read, with their ids."""
    if ("keys", partition) not in h.cache:
        found: dict[Any, set[tuple[int, Any]]] = {}
        for row in h.rows(partition, "send"):
            key, id = row.record.get("key"), row.id
            if key is not None and id is not None:
                offsets = {r.offset for r in reads_of(h, partition, id)}
                offsets |= {row.offset} if acknowledged(h, row) else set()
                found.setdefault(key, set()).update((o, id) for o in offsets if o is not None)
        h.cache["keys", partition] = found
    return h.cache["keys", partition]


def over_before_the_end(h: History, call: Row) -> bool:
    """True if a call was surely over when the final scan of its partition began."""
    ends = [] if h.jepsen else [r for r in h.rows(call.partition, "scan_end") if r.ok]
    return bool(ends) and call.ok and all(before(call, end) for end in ends)


def visible(h: History, partition: PartitionName, early: bool = False) -> list[int]:
    """Offsets, in order, whose record a reader of committed records must be given if it passes.

    The final scan gives the records; without one, acknowledgements and reads do. A record counts
    only if its sender is known, or if a reader of committed records has read it. A read that is
    `early`, before the final scan began, must find records even if they had been replaced: those in
    the scan were there all the time.
    """
    cached = ("visible", partition, early)
    if cached not in h.cache:
        start = log_start(h, partition)
        source = [] if h.jepsen else final(h, partition)
        if not source:
            acks = [s for s in h.rows(partition, "send") if acknowledged(h, s) and s.id is not None]
            source = acks + reads(h, partition)
        records = {(r.offset, r.id) for r in source if r.offset is not None and r.offset >= start}
        held = early and bool(final(h, partition))
        h.cache[cached] = sorted(
            {offset for offset, id in records if _seen(h, partition, id, offset, held)}
        )
    return h.cache[cached]


def _seen(h: History, partition: PartitionName, id: object, offset: int, held: bool) -> bool:
    """True if the record at an offset must be visible.

    That is so if all sends that may have put it there are visible, or those acknowledged there.
    """
    sends = [s for s in h.of(partition, id, "send") if s.outcome != "fail"]
    if not sends:
        failed = bool(h.of(partition, id, "send"))
        committed = (
            r.line.get("isolation") == "read_committed" for r in reads_of(h, partition, id)
        )
        return not failed and (h.jepsen or any(committed))
    shown = [
        s for s in sends if (h.jepsen or stays(h, s)) and (held or not _may_be_superseded(h, s))
    ]
    if len(shown) == len(sends):
        return True
    here = [s for s in sends if acknowledged(h, s) and s.offset == offset]
    return bool(here) and all(s in shown for s in here)


def first_visible(h: History, call: Row, low: int, high: int) -> int | None:
    """The first offset visible to a call from `low` up to, not including, `high`."""
    offsets = visible(h, call.partition, over_before_the_end(h, call))
    at = bisect_left(offsets, low)
    return offsets[at] if at < len(offsets) and offsets[at] < high else None


def moves(h: History, partition: PartitionName, process: str) -> list[Row]:
    """Everything after which a client's position is not where its last read left it."""
    ops = ("forget",) if h.jepsen else (*MOVES, "assign", "reset")
    key = ("moves", partition, process)
    if key not in h.cache:
        h.cache[key] = [r for r in _of_process(h, partition, process) if r.op in ops]
    return h.cache[key]


def _of_process(h: History, partition: PartitionName, process: str) -> list[Row]:
    if ("of", partition) not in h.cache:
        found: dict[str, list[Row]] = {}
        for row in h.by_partition[partition]:
            found.setdefault(row.process, []).append(row)
        h.cache["of", partition] = found
    return h.cache["of", partition].get(process, [])


def reads_by(h: History, partition: PartitionName, process: str) -> list[Row]:
    """The reads of one client in a partition, in its order."""
    return [r for r in _of_process(h, partition, process) if r.op in READS and r.offset is not None]


def shaken(h: History, read: Row) -> bool:
    """True if the partition may have moved during the call, which may hold reads before and after.

    A client is notified of a rebalance inside a poll, so that line is before the poll's in the
    file.
    """
    if h.jepsen:
        return read.partition in (read.line.get("_shaken") or ())
    own = [m for m in moves(h, read.partition, read.process) if m.n < read.n]
    return bool(own) and not _surely_before(own[-1], read)


def _surely_before(move: Row, read: Row) -> bool:
    return move.inv is not None and read.inv is not None and move.inv < read.inv


def shares(h: History, group: str | None) -> bool:
    """True if a group is a share group, which commits nothing: by its settings, or by its calls."""
    if group in (h.meta.get("share_groups") or {}):
        return True
    acting = (
        r for rows in h.by_partition.values() for r in rows if r.op in ("acquire", "acknowledge")
    )
    return any(row.group == group for row in acting)


def same_instance(one: Row, two: Row) -> bool:
    """True if two processes are one static member (KIP-345), which may return unnoticed."""
    name = one.line.get("instance")
    return name is not None and name == two.line.get("instance")
