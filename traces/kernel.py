"""From rows to findings: pure functions of Arrow record batches, the same with and without Spark.

`judge` is what `DataFrame.mapInArrow` runs after the one shuffle by partition. It answers with a
few rows per partition and check: how much was looked at, how much was found under which clause of
the configuration, and the first few witnesses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import traces.checks.log
from traces.checks.base import REGISTRY, Found
from traces.checks.partition import Partition, firsts
from traces.context import Context, Ints
from traces.schema import Op

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
}
FINDINGS = pa.schema(
    [
        ("run", pa.int32()),
        ("check", pa.string()),
        ("kind", pa.string()),
        ("clause", pa.int64()),
        ("found", pa.int64()),
        ("seen", pa.int64()),
        ("extra", pa.int64()),
        ("events", pa.list_(pa.struct(list(EVENT.items())))),
    ]
)
FINDINGS_DDL = (
    "run int, check string, kind string, clause bigint, found bigint, seen bigint, extra bigint, "
    "events array<struct<process:int,seq:bigint,op:tinyint,outcome:tinyint,topic:int,"
    "partition:int,offset:bigint,id:bigint,group:int,generation:bigint,inv:bigint,ret:bigint>>"
)

Kernel = Callable[[Iterable[Any]], Iterator[Any]]


def partition_kernel(contexts: Mapping[int, Context]) -> Kernel:
    """The kernel for rows that were brought together by run, topic and partition."""

    def judge(batches: Iterable[Any]) -> Iterator[Any]:
        columns = sorted_columns(batches, ("run", "topic", "partition"))
        if columns is None:
            return
        for part in split(columns, ("run", "topic", "partition")):
            run = int(part["run"][0])
            if part["topic"][0] < 0 or run not in contexts:
                continue
            yield findings(run, Partition(part, contexts[run]), "partition")

    return judge


def sorted_columns(batches: Iterable[Any], keys: tuple[str, ...]) -> dict[str, Ints] | None:
    """All rows as numpy columns, by key and then in each process's own order."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return None
    table = pa.Table.from_batches(filled)
    columns = {
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


def findings(run: int, rows: Any, scope: str) -> Any:
    """Every check of this scope, applied to one partition, group or producer."""
    out: list[dict[str, Any]] = []
    for check in REGISTRY.values():
        if check.scope == scope:
            for found in check.function(rows):
                out += _as_rows(run, check.id, found, rows)
    return pa.RecordBatch.from_pylist(out, schema=FINDINGS)


def _as_rows(run: int, check: str, found: Found, rows: Any) -> Iterator[dict[str, Any]]:
    base = {"run": run, "check": check, "kind": found.kind, "extra": 0}
    yield base | {"clause": 0, "found": 0, "seen": found.seen, "extra": found.extra, "events": None}
    for clause in np.unique(found.clause):
        mine = found.rows[found.clause == clause]
        yield base | {"clause": int(clause), "found": len(mine), "seen": 0, "events": None}
        for line in mine[:WITNESSES]:
            events = [_event(rows, int(row)) for row in line if row >= 0]
            yield base | {"clause": int(clause), "found": 0, "seen": 0, "events": events}


def _event(rows: Any, row: int) -> dict[str, int]:
    return {name: int(rows.columns[name][row]) for name in EVENT}


_ = Op, traces.checks.log
