"""From rows to findings: pure functions of columns, the same with and without Spark.

A kernel sees all rows of a bucket of keys (partitions, groups or producers). It answers with a few
rows per check: how much was looked at, how much was found under which clause of the configuration,
and the first few witnesses of each key.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import define, field

from traces.checks.base import Check, Found
from traces.checks.catalogue import CHECKS
from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.engines import packs
from traces.engines.blocks import JudgedUnit
from traces.engines.locations import LOCATION, locations
from traces.engines.scopes import SCOPES
from traces.model.arrow import pa
from traces.model.columns import Columns
from traces.model.context import Context, Ints, context_at
from traces.model.lacking import NOTHING, PARTITION, Needs
from traces.model.schema import COLUMNS
from traces.model.table import Lazy, by_key, part, refuse_merged_runs, refuse_other_runs

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
    "lacking": pa.string(),  # needs, without which nothing may be said of this key
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
    """True if some topic is compacted, or one that exists has no recorded cleanup policy."""
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
    """Apply every one of these checks to each partition, group or producer of these rows.

    For a `unit` of a partition that is cut, only its own findings are returned. `foreign` rows may
    be of several runs: raises `BadInput` if they are. It also raises it if their run has no
    context.
    """
    tallied = _Tallied()
    whole, spans = by_key(columns, SCOPES[scope])
    if spans:
        refuse_other_runs(whole["run"][np.array([start for start, _ in spans])], contexts)
        if foreign:
            refuse_merged_runs(whole)
    lacking = _Lacking.of(whole, [start for start, _ in spans], scope, contexts)
    alone = list(spans)
    if scope == "partition" and unit is None and len(spans) >= packs.FEWEST:
        alone = _judge_packs(tallied, whole, spans, checks, lacking)
    for start, end in alone:
        run, needs = int(whole["run"][start]), lacking.needs.get(start, NOTHING)
        rows = SCOPES[scope].view(part(whole, start, end), lacking.context(run, needs))
        for check in checks:
            for found in check.function(rows):
                own = found if unit is None else unit.own(found, rows)
                tallied.add(run, check, own, rows, needs)
    return tallied.rows


@define
class _Lacking:
    """The needs that each key of a bucket lacks, and the context in which its rows are judged."""

    scope: str
    contexts: Mapping[int, Context]
    needs: dict[int, Needs] = field(factory=dict[int, Needs])  # by the first row; not of all keys
    _known: dict[tuple[int, Needs], Context] = field(factory=dict[tuple[int, Needs], Context])

    @classmethod
    def of(
        cls, whole: Lazy, starts: list[int], scope: str, contexts: Mapping[int, Context]
    ) -> "_Lacking":
        """Of the keys whose rows begin at these."""
        found = cls(scope, contexts)
        if starts and any(one.lacking.within.get(scope) for one in contexts.values()):
            at = np.array(starts)
            one, two = (column[at].tolist() for column in SCOPES[scope].key(whole))
            for start, run, *key in zip(starts, whole["run"][at].tolist(), one, two, strict=True):
                if needs := contexts[run].lacking.at(scope, (key[0], key[1])):
                    found.needs[start] = needs
        return found

    def context(self, run: int, needs: Needs) -> Context:
        """That of keys that lack these needs."""
        context = self.contexts[run]
        if self.scope != PARTITION or not context.lacking.within.get(PARTITION):
            return context
        if (run, needs) not in self._known:
            self._known[run, needs] = context_at(context, needs)
        return self._known[run, needs]


def _judge_packs(
    tallied: "_Tallied",
    whole: Lazy,
    spans: list[tuple[int, int]],
    checks: list[Check],
    lacking: "_Lacking",
) -> list[tuple[int, int]]:
    """Judge what partitions can be judged together; returns those that are left.

    Those of a pack lack the same.
    """
    left, alike = set(spans), dict[tuple[int, Needs], list[tuple[int, int]]]()
    runs = whole["run"][np.array([start for start, _ in spans])].tolist()
    for span, run in zip(spans, runs, strict=True):
        alike.setdefault((run, lacking.needs.get(span[0], NOTHING)), []).append(span)
    for (run, needs), mine in alike.items():
        # In the order of the key, rows from the first to the last of these are all of this run.
        first, last, context = mine[0][0], mine[-1][1], lacking.context(run, needs)
        near = [(start - first, end - first) for start, end in mine]
        for pack in packs.packed(part(whole, first, last), near, context):
            own = [(start + first, end + first) for start, end in pack]
            rows = packs.pack_of(whole, own, context)
            if rows is not None:
                _judge_pack(tallied, whole, own, rows, checks, context, needs)
                left.difference_update(own)
    return sorted(left)


def _judge_pack(
    tallied: "_Tallied",
    whole: Lazy,
    own: list[tuple[int, int]],
    pack: Partition,
    checks: list[Check],
    context: Context,
    needs: Needs,
) -> None:
    """A check that finds something in a pack looks at each of its partitions by itself."""
    run, view = int(whole["run"][own[0][0]]), SCOPES["partition"].view
    parts: list[Rows] = []
    for check in checks:
        found = check.function(pack)
        together = check.id not in packs.CONDITIONAL or not any(one.seen for one in found)
        if together and not any(len(one.rows) for one in found):
            for one in found:
                tallied.add(run, check, one, pack, needs)
            continue
        parts = parts or [view(part(whole, *span), context) for span in own]
        for rows in parts:
            for one in check.function(rows):
                tallied.add(run, check, one, rows, needs)


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

    def add(self, run: int, check: Check, found: Found, rows: Rows, needs: Needs) -> None:
        """Add the findings of one check in the rows of one key, which lacks these needs."""
        lacking = " ".join(sorted(needs.intersection(check.closed)))
        for row in _as_rows(run, check.id, found, rows):
            row["lacking"] = lacking
            if row["events"] is None:
                _count(self.counts, row)
            else:
                self.shown.append(row)


def _count(counts: dict[tuple[Any, ...], dict[str, Any]], row: dict[str, Any]) -> None:
    """Add to what other keys had of the same."""
    key = row["run"], row["check"], row["kind"], row["clause"], row["lacking"]
    same = counts.setdefault(key, row)
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
