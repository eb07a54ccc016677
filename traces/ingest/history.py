"""Jepsen's Kafka histories: invocations and completions, paired and laid out as operations.

A key K is an integer for one topic-partition; here it is topic K, partition 0. What such a history
cannot tell (how consumers got their partitions, whether topics are compacted) the caller does.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from attrs import define, field, frozen

from traces.context import Ints, history_context
from traces.ingest.columns import Rows, joined
from traces.ingest.edn import NotEdn, read_line
from traces.ingest.evidence import Evidence
from traces.ingest.run import Run
from traces.ingest.transactions import mark_mixed, prove_transactions
from traces.ingest.vocabulary import ISOLATIONS, OUTCOMES
from traces.meta import Meta
from traces.names import Names
from traces.problems import Problems
from traces.schema import NONE, Flag, Op, Outcome, Txn

_CHUNK = 100_000
_CALLS = (":send", ":poll", ":txn")
_LISTS = {":assign": Op.ASSIGN, ":subscribe": Op.SUBSCRIBE}
_NATURAL = (":index", ":time", ":end-txn-time")
_WHOLE = (":timestamp", ":generation", ":producer-id", ":producer-epoch")
_EXPECTED = "expected a whole number of at least 0"
_SILENT = (":crash", ":debug-topic-partitions")

Line = dict[str, Any]
_Map = dict[Any, Any]


@frozen
class Reading:
    """What a history cannot say about itself."""

    subscribed: bool = False
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
    columns = mark_mixed(prove_transactions(columns, delivered=True))
    evidence = Evidence()
    nobody = np.empty(0, np.int64)
    evidence.look_at(columns, members=nobody, unanswered=nobody)
    evidence.settle()
    names.files = dict.fromkeys(names.processes.numbers, path.name)
    return Run(
        path=path,
        meta=history_meta(path),
        names=names,
        columns=columns,
        evidence=evidence,
        context=history_context(subscribed=reading.subscribed, compacted=reading.compacted),
        calls=history.calls,
        jepsen=True,
    )


def history_meta(path: Path) -> Meta:
    """What is known of every history."""
    return Meta(run=path.stem, source="Jepsen history", complete=True)


def _lines(path: Path, problems: Problems) -> Iterator[tuple[int, Line]]:
    """The maps of the file, whether or not they stand in one vector."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, raw in enumerate(lines, 1):
            line = raw.strip().removeprefix("[").strip()
            if line.endswith("}]"):
                line = line[:-1]
            if not line or line == "]" or line.startswith(";"):
                continue
            try:
                value = read_line(line)
            except NotEdn as error:
                problems.add(path.name, number, "", f"expected EDN: {error}")
                continue
            if type(value) is dict:
                yield number, cast("Line", value)
            else:
                problems.add(path.name, number, "", f"expected a map, found {value!r}")


@define
class _History:
    """Pairs invocations with completions and writes each pair as rows."""

    names: Names
    file: str
    problems: Problems
    calls: int = 0
    number: int = 0
    _open: dict[int, tuple[int, Line]] = field(factory=dict[int, tuple[int, Line]])
    _listed: dict[int, set[Any]] = field(factory=dict[int, set[Any]])
    _member: dict[int, dict[str, int]] = field(factory=dict[int, dict[str, int]])
    _rows: Rows = field(init=False)
    _chunks: list[dict[str, Ints]] = field(factory=list[dict[str, Ints]])
    _states: list[tuple[int, int, int]] = field(factory=list[tuple[int, int, int]])

    def __attrs_post_init__(self) -> None:
        self._rows = Rows(self.names)

    def take(self, number: int, line: Line) -> None:
        """One line: an invocation waits for its completion."""
        self.number = number
        for name in _NATURAL:
            if not _natural(line.get(name)):
                self._wrong(name, f"{_EXPECTED}, found {line.pop(name)!r}")
        for name in _WHOLE:
            if type(line.get(name)) not in (int, type(None)):
                self._wrong(name, f"expected a whole number, found {line.pop(name)!r}")
        process, kind = line.get(":process"), line.get(":type")
        if type(process) is not int:
            if process is None:
                self._wrong(":process", "is missing")
            return  # the nemesis, which is no client
        if kind == ":invoke":
            if process in self._open:
                self._wrong(":type", f"process {process} has an operation open already")
            self._open[process] = number, line
        elif kind in (":ok", ":fail", ":info"):
            opened = self._open.pop(process, None)
            if opened is None:
                self._wrong(":type", f"process {process} completes what it never invoked")
                return
            self._pair(opened[1], line, kind)
        else:
            self._wrong(":type", f"expected :invoke, :ok, :fail or :info, found {kind!r}")

    def end(self) -> None:
        """What was never completed is undecided."""
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
        columns["txn_state"] = known[at, 1]
        columns["end_inv"] = known[at, 2]
        return columns

    def _flush(self) -> None:
        self._chunks.append(self._rows.columns())
        self._rows = Rows(self.names)

    def _wrong(self, name: str, message: str) -> None:
        self.problems.add(self.file, self.number, name, message)

    def _pair(self, opened: Line, closed: Line, kind: str) -> None:
        try:
            self._write(opened, closed, OUTCOMES[kind[1:]])
        except ValueError as error:
            self._wrong(":value", str(error))
        except (TypeError, LookupError, AttributeError) as error:
            self._wrong(":value", f"not what :f {closed.get(':f')} takes ({error})")
        self.calls += 1
        if self.calls % _CHUNK == 0:
            self._flush()

    def _write(self, opened: Line, closed: Line, outcome: Outcome) -> None:
        f, value = closed[":f"], closed.get(":value")
        value = opened.get(":value") if value is None else value
        fields = self._fields(opened, closed, outcome)
        if f in _CALLS:
            self._steps(value, fields, closed)
        elif f in _LISTS:
            self._lists(_LISTS[f], value or [], fields, closed, outcome)
        elif f == ":list-offsets":
            asked: _Map = opened.get(":value") or {}
            answers: _Map = value or {}
            rows = [(k, {"offset": o, "timestamp": asked.get(k)}) for k, o in answers.items()]
            self._put(Op.LIST_OFFSETS, rows, fields)
        elif f not in _SILENT:
            self._wrong(":f", f"expected an operation of the Kafka workload, found {f}")
        self._beside(fields, closed)
        self._state(fields, f, outcome, closed)

    def _fields(self, opened: Line, closed: Line, outcome: Outcome) -> dict[str, int | None]:
        """What all rows of the operation share."""
        process = closed[":process"]
        member = self._member.setdefault(process, {})
        if (group := closed.get(":group")) is not None:
            member["group"] = self.names.groups.number(str(group))
        if (generation := closed.get(":generation")) is not None:
            member["generation"] = generation
        isolation = closed.get(":isolation")
        index = closed.get(":index", opened.get(":index"))
        return {
            "process": self.names.processes.number(str(process)),
            "seq": self.number if index is None else index,
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
                for k, records in polled.items():
                    rows = [(k, {"offset": offset, "id": id}) for offset, id in records]
                    final = Flag.FINAL | (Flag.REBALANCED if k in shaken else 0)
                    self._put(Op.POLL, rows, fields | {"flags": final})
            else:
                raise ValueError(f"expected :send or :poll, found {step[0]!r}")

    def _lists(
        self, op: Op, keys: list[Any], fields: dict[str, int | None], closed: Line, outcome: Outcome
    ) -> None:
        """An assignment keeps the positions of what stays on the list; a seek keeps none."""
        process = closed[":process"]
        if outcome is not Outcome.FAIL:
            before = self._listed.get(process, set())
            sought = closed.get(":seek-to-beginning?") is True
            gone = before | set(keys) if sought else before - set(keys)
            self._put(Op.FORGET, [(k, {}) for k in sorted(gone, key=str)], fields)
            self._listed[process] = set(keys)
        self._put(op, [(k, {}) for k in keys], fields)

    def _beside(self, fields: dict[str, int | None], closed: Line) -> None:
        """What a completion tells besides its value."""
        for name, op in (
            (":committed", Op.COMMIT),
            (":hw", Op.MARK),
            (":log-start-offsets", Op.EARLIEST),
        ):
            told: _Map = closed.get(name) or {}
            self._put(op, [(k, {"offset": offset}) for k, offset in told.items()], fields)
        assigned: list[Any] = closed.get(":assigned") or []
        self._put(Op.ASSIGNED, [(k, {}) for k in assigned], fields)

    def _put(self, op: Op, rows: list[tuple[Any, Line]], fields: dict[str, int | None]) -> None:
        for _, row in rows:
            if not _natural(row.get("offset")):
                raise ValueError(f"{_EXPECTED} as offset, found {row['offset']!r}")
            if type(row.get("id")) not in (int, str, type(None)):
                raise ValueError(f"expected a number or a string as value, found {row['id']!r}")
        if rows:
            self._rows.call(len(rows), fields | {"op": op.value})
            for key, row in rows:
                self._rows.sent(row | {"topic": str(key), "partition": 0})

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


def _natural(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**63)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
