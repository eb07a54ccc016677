"""A Jepsen history in the words of trace format v1, for the second checker.

An operation becomes a line per step. Fields that only such a history has begin with an underscore.
`_state` and `_asked` are the outcome of the operation as a transaction, and the time its end was
requested. `_shaken` has the partitions that moved while it ran.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from traces.second_checker.forms import forms
from traces.second_checker.history import ABORTED, COMMITTED, UNKNOWN
from traces.second_checker.rows import TraceLine

_Map = dict[Any, Any]


def edn_lines(path: Path) -> Iterator[TraceLine]:
    """One line per step of each operation, in the order in which operations were completed."""
    opened: dict[int, tuple[int, _Map]] = {}
    sticky: dict[int, TraceLine] = {}
    listed: dict[int, set[Any]] = {}
    for number, line in _maps(path):
        process, kind = line.get(":process"), line.get(":type")
        if type(process) is not int:
            continue
        if kind == ":invoke":
            opened[process] = number, line
            continue
        _, began = opened.pop(process)
        yield from _steps(number, began, line, sticky.setdefault(process, {}), listed)
    for number, began in opened.values():
        never = {k: v for k, v in began.items() if k != ":time"} | {":type": ":info"}
        yield from _steps(number, began, never, sticky.setdefault(began[":process"], {}), listed)


def _maps(path: Path) -> Iterator[tuple[int, _Map]]:
    """The operations, each with its place in the file."""
    yield from enumerate(forms(path.read_text(encoding="utf-8-sig", errors="replace")))


def _steps(
    number: int, began: _Map, ended: _Map, sticky: TraceLine, listed: dict[int, set[Any]]
) -> Iterator[TraceLine]:
    """The lines of one operation."""
    call = _call(number, began, ended, sticky)
    f, process = ended[":f"], ended[":process"]
    value = ended.get(":value")
    value = began.get(":value") if value is None else value
    if f in (":send", ":poll", ":txn"):
        steps: list[list[Any]] = value or []
        for step in steps:
            polled = step[1:] if step[0] == ":poll" else []
            listed.setdefault(process, set()).update(*polled)
        yield from _messages(call, ended, steps)
    elif f in (":assign", ":subscribe"):
        if call["outcome"] != "fail":
            old, new = listed.get(process, set()), set(value or [])
            gone = old | new if ended.get(":seek-to-beginning?") is True else old - new
            yield call | {"op": "forget", "partitions": _partitions(gone)}
            listed[process] = new
        yield (
            call
            | {"op": f[1:], "_listed": _partitions(value or [])}
            | ({"partitions": _partitions(value or [])} if f == ":assign" else {})
        )
    elif f == ":list-offsets":
        asked: _Map = began.get(":value") or {}
        answers: _Map = value or {}
        for key, offset in answers.items():
            when: TraceLine = {"query": asked.get(key), "offsets": {f"{key}:0": offset}}
            yield call | {"op": "list_offsets"} | when
    for name, op, more in (
        (":committed", "commit", {}),
        (":hw", "mark", {}),
        (":log-start-offsets", "list_offsets", {"query": "earliest"}),
    ):
        if offsets := ended.get(name):
            yield call | {"op": op, "offsets": {f"{k}:0": o for k, o in offsets.items()}} | more
    if assigned := ended.get(":assigned"):
        yield call | {"op": "assigned", "partitions": _partitions(assigned)}


def _call(number: int, began: _Map, ended: _Map, sticky: TraceLine) -> TraceLine:
    """The fields that all lines of an operation share."""
    for name in ("group", "generation"):
        if (value := ended.get(f":{name}")) is not None:
            sticky[name] = str(value) if name == "group" else value
    outcome, transactional = ended[":type"][1:], ended[":f"] == ":txn"
    state = {"ok": COMMITTED, "fail": ABORTED}.get(outcome, UNKNOWN)
    index = ended.get(":index", began.get(":index"))
    times = {"invoked_ns": began.get(":time"), "returned_ns": ended.get(":time")}
    producer = {
        "producer_id": ended.get(":producer-id"),
        "producer_epoch": ended.get(":producer-epoch"),
    }
    isolation = ended.get(":isolation")
    return {
        "process": str(ended[":process"]),
        "seq": number if index is None else index,
        "outcome": outcome,
        "_state": state if transactional or state == UNKNOWN else "none",
        "_asked": ended.get(":end-txn-time", began.get(":time")) if transactional else None,
        "isolation": None if isolation is None else isolation.lstrip(":"),
        **times,
        **producer,
        **sticky,
    }


def _messages(call: TraceLine, ended: _Map, steps: list[Any]) -> Iterator[TraceLine]:
    log: list[_Map] = ended.get(":rebalance-log") or []
    shaken = {f"{key}:0" for entry in log for key in entry.get(":keys", ())}
    stamp = {"timestamp": ended.get(":timestamp"), "key": ended.get(":record-key")}
    for step in steps:
        if step[0] == ":send":
            read: Any = step[2]
            offset, id = cast("list[Any]", read) if type(read) is list else (None, read)
            record = {"topic": str(step[1]), "partition": 0, "offset": offset, "id": id} | stamp
            yield call | {"op": "send", "records": [_known(record)]}
        else:
            polled: _Map = step[1] if len(step) > 1 else {}
            records = [
                {"topic": str(key), "partition": 0, "offset": offset, "id": id}
                for key, several in polled.items()
                for offset, id in several
            ]
            yield call | {"op": "poll", "records": [_known(r) for r in records], "_shaken": shaken}


def _known(record: TraceLine) -> TraceLine:
    return {name: value for name, value in record.items() if value is not None}


def _partitions(keys: Any) -> list[str]:
    return [f"{key}:0" for key in keys]
