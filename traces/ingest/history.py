"""Jepsen's Kafka histories: invocations and completions, paired and laid out as operations.

A key K is an integer for one topic-partition; here it is topic K, partition 0. The caller adds
facts that such a history does not contain: how consumers got their partitions, and compaction.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, cast

import numpy as np
from attrs import define, field, frozen

from traces.ingest.columns import RowBuilder, joined, narrow
from traces.ingest.edn import NotEdn, forms
from traces.ingest.evidence import Evidence
from traces.ingest.run import Run
from traces.ingest.transactions import mark_mixed, prove_transactions
from traces.ingest.vocabulary import ISOLATIONS, OUTCOMES
from traces.model.configured import history_context
from traces.model.context import Ints
from traces.model.meta import Meta
from traces.model.names import Names
from traces.model.problems import Problems, shown
from traces.model.schema import NONE, Flag, Op, Outcome, Txn
from traces.record.entries import Line

_CHUNK = 100_000  # rows turned into columns at a time
_CALLS = (":send", ":poll", ":txn")
_LISTS = {":assign": Op.ASSIGN, ":subscribe": Op.SUBSCRIBE}
_NATURAL = (":index", ":time", ":end-txn-time")
_WHOLE = {":timestamp": 63, ":generation": 63, ":producer-id": 63, ":producer-epoch": 31}  # bits
SUB_VIA = {None: None, "assign": False, "subscribe": True}  # what commands call it
_EXPECTED = "expected a whole number of at least 0"
_SILENT = (":crash", ":debug-topic-partitions")

_Map = dict[Any, Any]


@frozen
class Reading:
    """Settings that a history does not contain."""

    subscribed: bool | None = None  # None: if any of its operations subscribes
    compacted: bool = False
    ww_deps: bool = False


def read_history(path: Path, reading: Reading) -> Run:
    """Read one EDN history as a run."""
    names, problems = Names.counted(), Problems()
    history = _History(names, path.name, problems)
    for number, line in _lines(path, problems):
        history.take(number, line)
    history.end()
    problems.raise_any()
    columns = history.columns()
    columns = mark_mixed(prove_transactions(columns))
    evidence = Evidence()
    nobody = np.empty(0, np.int64)
    evidence.look_at(columns, members=nobody, unanswered=nobody)
    evidence.settle()
    subscribed = history.subscribes if reading.subscribed is None else reading.subscribed
    names.files = dict.fromkeys(names.processes.numbers, path.name)
    return Run(
        path=path,
        meta=history_meta(path),
        names=names,
        columns=columns,
        evidence=evidence,
        context=history_context(subscribed=subscribed, compacted=reading.compacted),
        calls=history.calls,
        jepsen=True,
    )


def history_meta(path: Path) -> Meta:
    """The metadata of every history."""
    return Meta(run=path.stem, source="Jepsen history", complete=True)


def _lines(path: Path, problems: Problems) -> Iterator[tuple[int, Line]]:
    """The maps of the file, in one vector or not, and on any number of lines."""
    with path.open("rb") as lines:
        try:
            for number, value in forms(lines):
                if type(value) is dict:
                    yield number, cast("Line", value)
                else:
                    problems.add(path.name, number, "", f"expected a map, found {shown(value)}")
        except NotEdn as error:
            problems.add(path.name, error.line, "", f"expected EDN: {error}")
            problems.raise_any()


@define
class _History:
    """Pairs invocations with completions and writes each pair as rows."""

    names: Names
    file: str
    problems: Problems
    calls: int = 0
    number: int = 0  # of the line
    forms: int = 0
    subscribes: bool = False  # whether anybody does
    _indexed: bool | None = None  # whether the operations have an :index
    _index: int = -1
    _gone: set[int] = field(factory=set[int])  # processes that do nothing more
    _time: int = NONE  # of the last line that tells one
    _at: tuple[int, int] = (NONE, NONE)  # of the last row: its call, and its place there
    _open: dict[int, tuple[int, Line]] = field(factory=dict[int, tuple[int, Line]])
    _listed: dict[int, set[Any]] = field(factory=dict[int, set[Any]])
    _member: dict[int, dict[str, int]] = field(factory=dict[int, dict[str, int]])
    _rows: RowBuilder = field(init=False)
    _chunks: list[dict[str, Ints]] = field(factory=list[dict[str, Ints]])
    _states: list[tuple[int, int, int]] = field(factory=list[tuple[int, int, int]])

    def __attrs_post_init__(self) -> None:
        self._rows = RowBuilder(self.names)

    def take(self, number: int, line: Line) -> None:
        """One line: an invocation waits for its completion."""
        self.number = number
        for name in _NATURAL:
            if not _natural(line.get(name)):
                self._wrong(name, f"{_EXPECTED}, found {shown(line.pop(name))}")
        for name, bits in _WHOLE.items():
            if not _whole(line.get(name), bits):
                self._wrong(name, f"expected a whole number, found {shown(line.pop(name))}")
        self._count(line)
        self._look_at_time(line)
        process, kind = line.get(":process"), line.get(":type")
        if type(process) is not int or process < 0:
            if process != ":nemesis":
                expected = "expected a whole number of at least 0, or :nemesis"
                found = f"{expected}, found {shown(process)}"
                self._wrong(":process", "is missing" if process is None else found)
        elif process in self._gone:
            self._wrong(":process", f"{process} acts after an operation that ended :info")
        elif kind == ":invoke":
            if process in self._open:
                self._wrong(":type", f"process {process} has an operation open already")
            self._open[process] = number, line
        elif kind in (":ok", ":fail", ":info"):
            self._complete(process, kind, line)
        else:
            self._wrong(":type", f"expected :invoke, :ok, :fail or :info, found {shown(kind)}")

    def _complete(self, process: int, kind: str, line: Line) -> None:
        _, opened = self._open.pop(process, (0, None))
        if opened is None:
            self._wrong(":type", f"process {process} completes what it never invoked")
            return
        if opened.get(":f") != line.get(":f"):
            self._wrong(":f", f"expected {shown(opened.get(':f'))}, as it was invoked")
            return
        if kind == ":info":
            self._gone.add(process)
        self._pair(opened, line, kind)

    def _count(self, line: Line) -> None:
        """An operation is known by its index; where there are none, by its place in the file."""
        self.forms += 1
        index = line.get(":index")
        if self._indexed is None:
            self._indexed = index is not None
        if (index is not None) != self._indexed:
            self._wrong(":index", "is missing" if self._indexed else "is missing on earlier lines")
        elif index is not None and index <= self._index:
            self._wrong(":index", f"expected more than {self._index}, found {index}")
        self._index = self.forms - 1 if index is None else index
        line[":index"] = self._index

    def _look_at_time(self, line: Line) -> None:
        """One clock gave all times as the lines were written: if it goes back, none is to trust."""
        time = line.get(":time")
        if time is None:
            return
        if time < self._time:
            expected = f"expected at least {self._time}, as on a line above"
            self._wrong(":time", f"{expected}, found {time}")
        self._time = time

    def end(self) -> None:
        """Treat every operation that was never completed as undecided."""
        for number, opened in self._open.values():
            self.number = number
            unanswered = {k: v for k, v in opened.items() if k != ":time"}
            self._pair(opened, unanswered, ":info")

    def columns(self) -> dict[str, Ints]:
        """All rows, each with what became of its transaction."""
        self._flush()
        columns = joined(self._chunks)
        known = np.array(sorted(self._states), dtype=np.int64).reshape(-1, 3)
        at = np.searchsorted(known[:, 0], columns["seq"])
        columns["txn_state"] = narrow("txn_state", known[at, 1])
        columns["end_inv"] = known[at, 2]
        return columns

    def _flush(self) -> None:
        """Rows become columns; a call that goes on counts its rows on."""
        columns = self._rows.columns()
        call, index = self._at
        if len(columns["seq"]):
            goes_on = columns["seq"] == call
            columns["idx"][goes_on] += index + 1
            self._at = int(columns["seq"][-1]), int(columns["idx"][-1])
        self._chunks.append(columns)
        self._rows = RowBuilder(self.names)

    def _wrong(self, name: str, message: str) -> None:
        self.problems.add(self.file, self.number, name, message)

    def _pair(self, opened: Line, closed: Line, kind: str) -> None:
        try:
            self._write(opened, closed, OUTCOMES[kind[1:]])
        except ValueError as error:
            self._wrong(":value", str(error))
        except (TypeError, LookupError, AttributeError) as error:
            self._wrong(":value", f"not what :f {closed.get(':f')} takes ({error})")
        closed.pop(":value", None)  # it may be most of the file
        self.calls += 1

    def _write(self, opened: Line, closed: Line, outcome: Outcome) -> None:
        f, value = closed[":f"], closed.get(":value")
        value = opened.get(":value") if value is None else value
        fields = self._fields(opened, closed, outcome)
        if f in _CALLS:
            self._steps(value, fields, closed)
        elif f in _LISTS:
            self.subscribes |= f == ":subscribe"
            self._lists(_LISTS[f], value or [], fields, closed, outcome)
        elif f == ":list-offsets":
            asked: _Map = opened.get(":value") or {}
            answers: _Map = value or {}
            rows = ((k, {"offset": o, "timestamp": asked.get(k)}) for k, o in answers.items())
            self._put(Op.LIST_OFFSETS, rows, fields)
        elif f not in _SILENT:
            self._wrong(":f", f"expected an operation of the Kafka workload, found {f}")
        self._beside(fields, closed)
        self._state(fields, f, outcome, closed)

    def _fields(self, opened: Line, closed: Line, outcome: Outcome) -> dict[str, int | None]:
        """The fields that all rows of the operation share."""
        process = closed[":process"]
        member = self._member.setdefault(process, {})
        if (group := closed.get(":group")) is not None:
            member["group"] = self.names.groups.number(str(group))
        if (generation := closed.get(":generation")) is not None:
            member["generation"] = generation
        isolation = closed.get(":isolation")
        return {
            "process": self.names.processes.number(str(process)),
            "seq": closed[":index"],
            "outcome": outcome.value,
            "inv": opened.get(":time"),
            "ret": closed.get(":time"),
            "clock": self.names.clocks.number("host"),
            "isolation": None if isolation is None else ISOLATIONS[isolation.lstrip(":")].value,
            "pid": closed.get(":producer-id"),
            "pepoch": closed.get(":producer-epoch"),
            "flags": 0,
            **member,
        }

    def _steps(self, value: Any, fields: dict[str, int | None], closed: Line) -> None:
        log: list[_Map] = closed.get(":rebalance-log") or []
        shaken: set[Any] = {k for entry in log for k in entry.get(":keys", ())}
        shared = {"timestamp": closed.get(":timestamp"), "key": _text(closed.get(":record-key"))}
        steps: list[list[Any]] = value or []
        for step in steps:
            if step[0] == ":send":
                sent: Any = step[2]
                offset, id = cast("list[Any]", sent) if type(sent) is list else (None, sent)
                self._put(Op.SEND, [(step[1], {"offset": offset, "id": id} | shared)], fields)
            elif step[0] == ":poll":
                polled: dict[Any, list[list[Any]]] = step[1] if len(step) > 1 else {}
                self._listed.setdefault(closed[":process"], set()).update(polled)
                for k, records in polled.items():
                    rows = ((k, {"offset": offset, "id": id}) for offset, id in records)
                    final = Flag.FINAL | (Flag.REBALANCED if k in shaken else 0)
                    self._put(Op.POLL, rows, fields | {"flags": final})
            else:
                raise ValueError(f"expected :send or :poll, found {shown(step[0])}")

    def _lists(
        self, op: Op, keys: list[Any], fields: dict[str, int | None], closed: Line, outcome: Outcome
    ) -> None:
        """An assignment keeps the positions of what it lists, of all else that was listed or read
        none; a seek keeps none at all."""
        process = closed[":process"]
        if outcome is not Outcome.FAIL:
            before = self._listed.get(process, set())
            sought = closed.get(":seek-to-beginning?") is True
            gone = before | set(keys) if sought else before - set(keys)
            self._put(Op.FORGET, [(k, {}) for k in sorted(gone, key=str)], fields)
            self._listed[process] = set(keys)
        self._put(op, [(k, {}) for k in keys], fields)

    def _beside(self, fields: dict[str, int | None], closed: Line) -> None:
        """Add the rows of a completion's fields besides its value."""
        for name, op in (
            (":committed", Op.COMMIT),
            (":hw", Op.MARK),
            (":log-start-offsets", Op.EARLIEST),
        ):
            offsets: _Map = closed.get(name) or {}
            self._put(op, [(k, {"offset": offset}) for k, offset in offsets.items()], fields)
        assigned: list[Any] = closed.get(":assigned") or []
        self._put(Op.ASSIGNED, [(k, {}) for k in assigned], fields)

    def _put(self, op: Op, rows: Iterable[tuple[Any, Line]], fields: dict[str, int | None]) -> None:
        several = iter(rows)
        while some := [_record(key, row) for key, row in islice(several, _CHUNK)]:
            self._rows.call(len(some), fields | {"op": op.value})
            self._rows.records += some
            if len(self._rows) >= _CHUNK:
                self._flush()

    def _state(self, fields: dict[str, int | None], f: str, outcome: Outcome, closed: Line) -> None:
        """An operation that nobody answered happened if anything that it sent was delivered."""
        transactional = f == ":txn"
        state = {
            Outcome.OK: Txn.COMMITTED if transactional else Txn.NOT,
            Outcome.FAIL: Txn.ABORTED if transactional else Txn.NOT,
            Outcome.INFO: Txn.UNKNOWN,
        }[outcome]
        end = closed.get(":end-txn-time", fields["inv"]) if transactional else None
        self._states.append((fields["seq"] or 0, state.value, NONE if end is None else end))


def _record(key: Any, row: Line) -> Line:
    """A record of the topic of this key."""
    if type(key) not in (int, str):
        raise ValueError(f"expected a number or a string as key, found {shown(key)}")
    if not _natural(row.get("offset")):
        raise ValueError(f"{_EXPECTED} as offset, found {shown(row['offset'])}")
    if type(row.get("id")) not in (int, str, NoneType):
        raise ValueError(f"expected a number or a string as value, found {shown(row['id'])}")
    if not _whole(row.get("timestamp")):
        raise ValueError(f"expected a whole number as time, found {shown(row['timestamp'])}")
    return row | {"topic": str(key), "partition": 0}


def _natural(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**63)


def _whole(value: Any, bits: int = 63) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**bits)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
