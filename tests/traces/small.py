"""Traces of a few calls, written down one by one."""

from typing import Any

from tests.traces.fixture import Line, meta

Call = tuple[str, str, dict[str, Any]]
Lines = dict[str, list[Line]]
PARTITION = "t:0"
TID: dict[str, Any] = {"transactional_id": "x"}
TXN: dict[str, Any] = {**TID, "txn": 0}
#: Where the log begins, as its last reader asked.
STARTS: Call = ("scan#0", "list_offsets", {"query": "earliest", "offsets": {PARTITION: 0}})


def record(id: int | str, offset: int | None = None, **more: Any) -> Line:
    """A record of the one partition."""
    where = {} if offset is None else {"offset": offset}
    return {"topic": "t", "partition": 0, "id": id, **where, **more}


def trace(*calls: Call, **settings: Any) -> tuple[Lines, dict[str, Any]]:
    """A run of these calls, each (process, op, fields), one after the other, ten ticks apart.

    Every process closes. `settings` replace those of the producer `p`.
    """
    lines: Lines = {}
    for n, (process, op, fields) in enumerate(calls, 1):
        mine = lines.setdefault(process, [])
        line: Line = {"process": process, "seq": len(mine), "op": op, "outcome": "ok"}
        times = {"invoked_ns": 10 * n, "returned_ns": 10 * n + 5}
        mine.append(line | times | fields)
    for process, mine in lines.items():
        last = max(line.get("returned_ns", 0) for line in mine) + 1000
        end = {"process": process, "seq": len(mine), "op": "close", "outcome": "ok"}
        mine.append(end | {"invoked_ns": last, "returned_ns": last + 1})
    whole = meta()
    whole["topics"]["t"]["partitions"] = 1
    producer = whole["producers"]["p0"] | settings
    names = {process.partition("#")[0] for process in lines}
    whole["producers"] = {name: producer for name in names if name.startswith("p")}
    whole["consumers"] = {name: whole["consumers"]["c0"] for name in names if name.startswith("c")}
    if any(op == "acquire" for _, op, _ in calls):
        whole["share_groups"] = {"s": {"delivery_limit": 5, "isolation": "read_committed"}}
    whole["processes"] = list(lines)
    return lines, whole


def scan(*records: Line, end: int, isolation: str = "read_uncommitted") -> Call:
    """The final scan of the partition."""
    about = {"partitions": [PARTITION], "offsets": {PARTITION: end}, "isolation": isolation}
    return "scan#0", "scan", {"records": list(records), **about}


def sent(process: str, id: int, offset: int | None = None, **more: Any) -> Call:
    """A send of one record."""
    return process, "send", {"records": [record(id, offset)], **more}


def keyed(process: str, id: int, offset: int | None, key: str, **more: Any) -> Call:
    """A send of one record with a key and a value."""
    return process, "send", {"records": [record(id, offset, key=key, tombstone=False)], **more}


def polled(process: str, *records: dict[str, Any], **more: Any) -> Call:
    """A poll for committed records."""
    return process, "poll", {"records": list(records), "isolation": "read_committed", **more}


def aborted_and_sent_again(
    at: int, again: int | None, txn: dict[str, Any] | None = None
) -> list[Call]:
    """A record sent in a transaction that was aborted, and outside of any.

    A reader of committed records passed over one at offset 1.
    """
    txn = TXN if txn is None else txn
    ids = {0: 2, 1: 1, 2: 3, at: 1}
    return [
        ("p0#0", "txn_begin", txn),
        sent("p0#0", 1, at, **txn),
        ("p0#0", "txn_abort", txn),
        sent("p1#0", 1, again, outcome="ok" if again else "info"),
        sent("p1#0", 2, 0),
        sent("p1#0", 3, 2),
        polled("c0#0", record(2, 0)),
        polled("c0#0", record(3, 2)),
        scan(*(record(ids[offset], offset) for offset in sorted(ids)), end=max(ids) + 1),
    ]
