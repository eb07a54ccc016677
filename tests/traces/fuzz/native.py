"""Operations as a run in trace format v1, with a final scan of their logs."""

from random import Random
from typing import Any

from tests.traces.fixture import Line, meta
from tests.traces.fuzz.operations import Operation

Lines = dict[str, list[Line]]


def trace(random: Random, operations: list[Operation]) -> tuple[Lines, dict[str, Any]]:
    """One file per process, and the settings that promise the most."""
    lines: Lines = {}
    for number, one in enumerate(operations):
        process = f"{'p' if one.process % 100 < 10 or one.f == 'txn' else 'c'}{one.process}#0"
        for op, fields in _calls(number, one):
            mine = lines.setdefault(process, [])
            line: Line = {"process": process, "seq": len(mine), "op": op, "outcome": "ok"}
            mine.append(line | {"invoked_ns": one.inv, "returned_ns": one.ret} | fields)
    keys = sorted({k for one in operations for k in _keys(one)} | {1})
    end = max((one.ret for one in operations), default=0) + 100
    asked = {"query": "earliest", "offsets": {f"t{key}:0": 0 for key in keys}}
    scan = "scan-read_uncommitted#0"
    first: Line = {"process": scan, "seq": 0, "op": "list_offsets", "outcome": "ok"}
    lines[scan] = [first | {"invoked_ns": end, "returned_ns": end} | asked]
    for isolation in ("read_uncommitted", "read_committed"):
        _scan(random, lines, operations, keys, end, isolation)
    for mine in lines.values():
        last = {k: mine[-1][k] for k in ("process", "invoked_ns", "returned_ns")}
        mine.append(last | {"seq": len(mine), "op": "close", "outcome": "ok"})
    return lines, _meta(lines, keys)


def _keys(one: Operation) -> list[int]:
    polled = [key for s in one.steps if s[0] == "poll" for key in s[1]]
    return [*polled, *(s[1] for s in one.steps if s[0] == "send"), *one.listed]


def _record(key: int, offset: int | None, value: Any) -> Line:
    where = {} if offset is None else {"offset": offset}
    return {"topic": f"t{key}", "partition": 0, "id": f"{key}-{value}", **where}


def _calls(number: int, one: Operation) -> list[tuple[str, Line]]:
    sent = [_record(s[1], s[2], s[3]) for s in one.steps if s[0] == "send"]
    polled = [
        _record(key, offset, value)
        for s in one.steps
        if s[0] == "poll"
        for key, several in s[1].items()
        for offset, value in several
    ]
    plain = "read_committed" if one.process % 2 else "read_uncommitted"
    isolation = one.more.get("isolation", plain)
    if one.f == "assign":
        return [("assign", {"partitions": [f"t{key}:0" for key in one.listed]})]
    if one.f == "poll":
        return [("poll", {"outcome": one.kind, "records": polled, "isolation": isolation})]
    if one.f == "send":
        return [("send", {"outcome": one.kind, "records": sent})]
    txn = {"txn": number, "transactional_id": f"x{one.process}"}
    outcome = "info" if one.kind == "info" else "ok"
    calls: list[tuple[str, Line]] = [("txn_begin", {"outcome": "ok", **txn})]
    if sent:
        calls.append(("send", {"outcome": outcome, "records": sent, **txn}))
    if polled:
        calls.append(("poll", {"records": polled, "isolation": isolation, **txn}))
    end = "txn_abort" if one.kind == "fail" else "txn_commit"
    calls.append((end, {"outcome": outcome, **txn}))
    asked = min(max(one.more.get("end-txn-time", one.ret), one.inv), one.ret)
    for op, fields in calls:
        if op in ("txn_begin", "send"):
            fields["returned_ns"] = asked
        if op == "txn_begin":
            fields["returned_ns"] = one.inv
        if op in ("poll", end):
            fields["invoked_ns"] = asked
    return calls


def _scan(
    random: Random,
    lines: Lines,
    operations: list[Operation],
    keys: list[int],
    end: int,
    isolation: str,
) -> None:
    """Reads what any operation has shown; what is committed by what a producer was answered."""
    process = f"scan-{isolation}#0"
    undone = {
        s[3]
        for o in operations
        if o.f == "txn" and o.kind != "ok"
        for s in o.steps
        if s[0] == "send"
    }
    for n, key in enumerate(keys):
        held: dict[int, Any] = {}
        for one in operations:
            for offset, value in _reads(one, key):
                if isolation == "read_uncommitted" or value not in undone:
                    held.setdefault(offset, value)
        if held and random.random() < 0.15:
            del held[random.choice(sorted(held))]
        if held and random.random() < 0.1:
            held[random.choice(sorted(held))] = random.randint(1, 9)
        records = [_record(key, offset, held[offset]) for offset in sorted(held)]
        mine = lines.setdefault(process, [])
        times = {"invoked_ns": end + 10 * n, "returned_ns": end + 10 * n + 5}
        scanned = {"partitions": [f"t{key}:0"], "offsets": {f"t{key}:0": max(held, default=-1) + 1}}
        call = {"process": process, "seq": len(mine), "op": "scan", "outcome": "ok"}
        mine.append({**call, **times, **scanned, "isolation": isolation, "records": records})


def _reads(one: Operation, key: int) -> list[tuple[int, Any]]:
    """The offsets and values that an operation shows of a partition."""
    read = [tuple(r) for s in one.steps if s[0] == "poll" for r in s[1].get(key, ())]
    sent = [(s[2], s[3]) for s in one.steps if s[0] == "send" and s[1] == key]
    return [*read, *((o, v) for o, v in sent if o is not None)]


def _meta(lines: Lines, keys: list[int]) -> dict[str, Any]:
    settings = meta()
    topic = settings["topics"]["t"] | {"partitions": 1}
    names = {process.partition("#")[0] for process in lines}
    producer = settings["producers"]["p0"]
    return settings | {
        "topics": {f"t{key}": topic for key in keys},
        "producers": {name: producer for name in names if name.startswith("p")},
        "consumers": {},
        "processes": list(lines),
    }
