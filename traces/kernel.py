"""From rows to findings: pure functions of Arrow record batches, the same with and without Spark.

A kernel is what `DataFrame.mapInArrow` runs after a shuffle by partition, group or producer. It
answers with a few rows per key and check: how much was looked at, how much was found under which
clause of the configuration, and the first few witnesses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from traces.arrow import pa
from traces.checks.base import Check, Found
from traces.checks.catalogue import CHECKS
from traces.checks.partition import Partition, Rows, firsts
from traces.context import Context, Ints

WITNESSES = 10
EVENT: dict[str, Any] = {
    "process": pa.int32(),
    "seq": pa.int64(),
    "op": pa.int8(),
    "outcome": pa.int8(),
    "topic": pa.int32(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "id": pa.int64(),
    "group": pa.int32(),
    "generation": pa.int64(),
    "inv": pa.int64(),
    "ret": pa.int64(),
    "flags": pa.int16(),
    "unit": pa.int64(),
}
_FINDING: dict[str, Any] = {
    "run": pa.int32(),
    "check": pa.string(),
    "kind": pa.string(),
    "clause": pa.int64(),
    "found": pa.int64(),
    "seen": pa.int64(),
    "extra": pa.int64(),
}
FINDINGS = pa.schema([*_FINDING.items(), ("events", pa.list_(pa.struct(list(EVENT.items()))))])
_SQL = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}


def _ddl(fields: Mapping[str, Any], colon: str) -> str:
    return ", ".join(f"{name}{colon}{_SQL.get(str(t), str(t))}" for name, t in fields.items())


FINDINGS_DDL = f"{_ddl(_FINDING, ' ')}, events array<struct<{_ddl(EVENT, ':')}>>"

BY_PARTITION = ("run", "topic", "partition")
BY_GROUP = ("run", "group")
BY_PRODUCER = ("run", "tid", "producer")
SCOPES: Mapping[str, tuple[tuple[str, ...], type[Rows]]] = {
    "partition": (BY_PARTITION, Partition),
    "group": (BY_GROUP, Rows),
    "producer": (BY_PRODUCER, Rows),
}

Kernel = Callable[[Iterable[Any]], Iterator[Any]]


def kernel(scope: str, contexts: Mapping[int, Context]) -> Kernel:
    """The kernel for rows that were brought together by the keys of this scope."""
    keys, view = SCOPES[scope]
    checks = [c for c in CHECKS.values() if isinstance(c, Check) and c.scope == scope]

    def judge(batches: Iterable[Any]) -> Iterator[Any]:
        columns = sorted_columns(batches, keys)
        if columns is None:
            return
        for part in split(columns, keys):
            run = int(part["run"][0])
            yield findings(run, view(part, contexts[run]), checks)

    return judge


def sorted_columns(batches: Iterable[Any], keys: tuple[str, ...]) -> dict[str, Ints] | None:
    """All rows as numpy columns, by key and then in each process's own order."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return None
    table = pa.Table.from_batches(filled)
    columns: dict[str, Ints] = {
        name: table[name].combine_chunks().to_numpy().astype(np.int64)
        for name in table.column_names
    }
    order = np.lexsort(tuple(columns[k] for k in ("idx", "seq", "process", *reversed(keys))))
    return {name: column[order] for name, column in columns.items()}


def split(columns: dict[str, Ints], keys: tuple[str, ...]) -> Iterator[dict[str, Ints]]:
    """One set of columns per key."""
    starts = np.flatnonzero(firsts(*(columns[key] for key in keys)))
    for start, end in zip(starts, [*starts[1:], len(columns["op"])], strict=True):
        yield {name: column[start:end] for name, column in columns.items()}


def findings(run: int, rows: Rows, checks: Iterable[Check]) -> Any:
    """Every one of these checks, applied to one partition, group or producer."""
    out: list[dict[str, Any]] = []
    for check in checks:
        for found in check.function(rows):
            out += _as_rows(run, check.id, found, rows)
    return pa.RecordBatch.from_pylist(out, schema=FINDINGS)


def _as_rows(run: int, check: str, found: Found, rows: Rows) -> Iterator[dict[str, Any]]:
    blank: dict[str, Any] = {
        "run": run,
        "check": check,
        "kind": found.kind,
        "clause": 0,
        "found": 0,
        "seen": 0,
        "extra": 0,
        "events": None,
    }
    yield blank | {"seen": found.seen, "extra": found.extra}
    if found.kind.startswith("#"):  # a fact for a later step, not a finding: all of it
        yield from (blank | {"events": _events(rows, line)} for line in found.rows)
        return
    for clause in np.unique(found.clause):
        mine = found.rows[found.clause == clause]
        base = blank | {"clause": int(clause)}
        yield base | {"found": len(mine)}
        yield from (base | {"events": _events(rows, line)} for line in mine[:WITNESSES])


def _events(rows: Rows, line: Ints) -> list[dict[str, int]]:
    columns = rows.columns | {"unit": rows.unit}
    return [{name: int(columns[name][row]) for name in EVENT} for row in line if row >= 0]
