"""From rows to findings: pure functions of columns, the same with and without Spark.

A kernel sees all rows of a bucket of keys (partitions, groups or producers). It answers with a few
rows per check: how much was looked at, how much was found under which clause of the configuration,
and the first few witnesses of each key.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import define, field

from traces import packs
from traces.arrow import pa
from traces.blocks import JudgedUnit
from traces.checks.base import Check, Found
from traces.checks.catalogue import CHECKS
from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.columns import Columns
from traces.context import Context, Ints
from traces.locations import LOCATION, locations
from traces.schema import COLUMNS
from traces.scopes import SCOPES
from traces.table import Lazy, by_key, part, refuse_merged_runs, refuse_other_runs

WITNESSES = 10
LOCATIONS = 1_000  # of the findings of one check
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
_NESTED: dict[str, Any] = {"events": EVENT, "locations": LOCATION}
FINDINGS = pa.schema(
    [*_FINDING.items()]
    + [(name, pa.list_(pa.struct(list(kinds.items())))) for name, kinds in _NESTED.items()]
)
_SQL = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}


def _ddl(fields: Mapping[str, Any], colon: str) -> str:
    return ", ".join(f"{name}{colon}{_sql(kind)}" for name, kind in fields.items())


def _sql(kind: Any) -> str:
    if pa.types.is_list(kind):
        return f"array<{_sql(kind.value_type)}>"
    return _SQL.get(str(kind), str(kind))


FINDINGS_DDL = ", ".join(
    [_ddl(_FINDING, " ")]
    + [f"{name} array<struct<{_ddl(kinds, ':')}>>" for name, kinds in _NESTED.items()]
)

# What a row needs to find its place and to be shown: every check may use these.
COMMON = ("run", "idx", "clock", "txn", "txn_state", *(n for n in EVENT if n in COLUMNS))


# What every user asks first: lost, duplicate, inconsistent, skipped or repeated for a consumer, out
# of a producer's order, made up, aborted but read, committed back or beyond, owned twice.
CORE = ("L1", "L2", "L3", "L4", "L5", "P1", "T4", "C1", "C2", "G1", "G5", "G6")
OF_COMPACTED = "compacted."  # of a column that matters only if some topic is compacted


def chosen(checks: Iterable[str] | None) -> dict[str, list[Check]]:
    """The checks of each scope, of these or of all."""
    wanted = set(CHECKS if checks is None else checks)
    if unknown := sorted(wanted - set(CHECKS)):
        raise ValueError(f"there is no check {', '.join(unknown)}")
    mine = [c for c in CHECKS.values() if c.id in wanted]
    scopes = {scope: [c for c in mine if c.scope == scope] for scope in SCOPES}
    return {scope: checks for scope, checks in scopes.items() if checks}


def _may_compact(settings: Ints) -> bool:
    """Whether some topic is compacted, or is there and nobody tells whether it is."""
    return bool((settings[:-1] != 0).any() or settings[-1] == 1)


def columns_of(
    scope: str, checks: Iterable[Check], contexts: Mapping[int, Context]
) -> tuple[str, ...]:
    """The columns that these checks of a scope look at, in the table's order."""
    used = {*COMMON, *SCOPES[scope].reads}
    for check in checks:
        used |= set(COLUMNS if check.uses is None else check.uses)
    if any(_may_compact(context.compacted.values) for context in contexts.values()):
        used |= {name.removeprefix(OF_COMPACTED) for name in used}
    return tuple(name for name in COLUMNS if name in used)


def judge(
    columns: Columns,
    scope: str,
    checks: list[Check],
    contexts: Mapping[int, Context],
    unit: JudgedUnit | None = None,
    foreign: bool = False,
) -> list[dict[str, Any]]:
    """Every one of these checks, applied to each partition, group or producer of these rows.

    Of a `unit` of a partition that is cut only what belongs to it is told. Of `foreign` rows nobody
    knows whether they are of one run: raises `BadInput` where they are not, and of any where their
    run has no context.
    """
    tallied = _Tallied()
    whole, spans = by_key(columns, SCOPES[scope])
    if spans:
        refuse_other_runs(whole["run"][np.array([start for start, _ in spans])], contexts)
        if foreign:
            refuse_merged_runs(whole)
    alone = list(spans)
    if scope == "partition" and unit is None and len(spans) >= packs.FEWEST:
        alone = _judge_packs(tallied, whole, spans, checks, contexts)
    for start, end in alone:
        run = int(whole["run"][start])
        rows = SCOPES[scope].view(part(whole, start, end), contexts[run])
        for check in checks:
            for found in check.function(rows):
                tallied.add(run, check, found if unit is None else unit.own(found, rows), rows)
    return tallied.rows


def _judge_packs(
    tallied: "_Tallied",
    whole: Lazy,
    spans: list[tuple[int, int]],
    checks: list[Check],
    contexts: Mapping[int, Context],
) -> list[tuple[int, int]]:
    """Judge what partitions can be judged together; returns those that are left."""
    left = set(spans)
    runs = whole["run"][np.array([start for start, _ in spans])]
    for run in np.unique(runs).tolist():
        mine = [span for span, number in zip(spans, runs.tolist(), strict=True) if number == run]
        # In the order of the key, rows from the first to the last of these are all of this run.
        first, last = mine[0][0], mine[-1][1]
        near = [(start - first, end - first) for start, end in mine]
        for pack in packs.packed(part(whole, first, last), near, contexts[run]):
            own = [(start + first, end + first) for start, end in pack]
            rows = packs.pack_of(whole, own, contexts[run])
            if rows is not None:
                _judge_pack(tallied, whole, own, rows, checks, contexts[run])
                left.difference_update(own)
    return sorted(left)


def _judge_pack(
    tallied: "_Tallied",
    whole: Lazy,
    own: list[tuple[int, int]],
    pack: Partition,
    checks: list[Check],
    context: Context,
) -> None:
    """A check that finds something in a pack looks at each of its partitions by itself."""
    run, view = int(whole["run"][own[0][0]]), SCOPES["partition"].view
    parts: list[Rows] = []
    for check in checks:
        found = check.function(pack)
        together = check.id not in packs.CONDITIONAL or not any(one.seen for one in found)
        if together and not any(len(one.rows) for one in found):
            for one in found:
                tallied.add(run, check, one, pack)
            continue
        parts = parts or [view(part(whole, *span), context) for span in own]
        for rows in parts:
            for one in check.function(rows):
                tallied.add(run, check, one, rows)


@define
class _Tallied:
    """Findings as rows: what may be added up is, and the rest is shown."""

    counts: dict[tuple[Any, ...], dict[str, Any]] = field(
        factory=dict[tuple[Any, ...], dict[str, Any]]
    )
    shown: list[dict[str, Any]] = field(factory=list[dict[str, Any]])

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [*self.counts.values(), *self.shown]

    def add(self, run: int, check: Check, found: Found, rows: Rows) -> None:
        """What one check found in the rows of one key."""
        for row in _as_rows(run, check.id, found, rows):
            if row["events"] is None:
                _count(self.counts, row)
            else:
                self.shown.append(row)


def _count(counts: dict[tuple[Any, ...], dict[str, Any]], row: dict[str, Any]) -> None:
    """Add to what other keys had of the same."""
    same = counts.setdefault((row["run"], row["check"], row["kind"], row["clause"]), row)
    if same is not row:
        for name in ("found", "seen", "extra"):
            same[name] += row[name]
        if row["locations"] and len(same["locations"] or ()) < LOCATIONS:
            same["locations"] = [*(same["locations"] or ()), *row["locations"]]


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
        "locations": None,
    }
    fact = found.kind.startswith("#")  # for a later step, not a finding: all of it
    where = [] if fact else list(locations(rows, found.rows, found.clause))
    yield blank | {"seen": found.seen, "extra": found.extra, "locations": where or None}
    if not len(found.rows):
        return
    if fact:
        yield from (blank | {"events": events} for events in _events(rows, found.rows))
        return
    for clause in np.unique(found.clause):
        mine = found.rows[found.clause == clause]
        base = blank | {"clause": int(clause)}
        yield base | {"found": len(mine)}
        yield from (base | {"events": events} for events in _events(rows, mine[:WITNESSES]))


def _events(rows: Rows, lines: Ints) -> Iterator[list[dict[str, int]]]:
    """The rows of each witness, as they are shown."""
    shown = lines[lines >= 0]
    columns = [rows.few(name, shown).tolist() for name in EVENT]
    events = (dict(zip(EVENT, values, strict=True)) for values in zip(*columns, strict=True))
    for line in lines:
        yield [next(events) for row in line if row >= 0]
