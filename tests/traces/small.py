"""Traces of a few calls, written down one by one."""

from typing import Any

from tests.traces.fixture import Line, meta

Call = tuple[str, str, dict[str, Any]]
Lines = dict[str, list[Line]]
PARTITION = "t:0"


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
        last = max(line.get("returned_ns") or 0 for line in mine) + 1000
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
