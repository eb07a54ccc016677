"""The front door: load a recording, check it, or ask Spark for what breaks a promise in a table."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, frozen

from traces.checks.catalogue import CHECKS
from traces.engines.kernel import chosen
from traces.engines.modes import MODES, asked, find_here, find_in_spark, is_quick
from traces.ingest.history import SUB_VIA, Reading
from traces.ingest.inputs import read_input
from traces.ingest.run import Run
from traces.model.arrow import pa
from traces.model.context import UNDECIDED, Clause
from traces.verdicts.incidents import Incident
from traces.verdicts.judged import Judged, event
from traces.verdicts.judging import cache
from traces.verdicts.terminal import summary
from traces.verdicts.verdict import ALLOWED, VIOLATED, Verdict, clause_of, clause_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from traces.engines.spark import Files

_EVENT: Mapping[str, Any] = {
    **dict.fromkeys(("process", "op", "outcome", "partition", "id", "group"), pa.string()),
    **dict.fromkeys(("seq", "offset", "generation", "invoked_ns", "returned_ns"), pa.int64()),
}
_FOUND: Mapping[str, Any] = {
    **dict.fromkeys(("run", "check", "title", "verdict", "because"), pa.string()),
    "count": pa.int64(),
}
_VIOLATIONS = pa.schema(
    [*_FOUND.items(), ("witness", pa.list_(pa.struct(list(_EVENT.items()))))],
)
_SQL = {"int64": "bigint"}
_FOUND_DDL = ", ".join(f"{name} {_SQL.get(str(t), str(t))}" for name, t in _FOUND.items())
_EVENT_DDL = ", ".join(f"`{name}`: {_SQL.get(str(t), str(t))}" for name, t in _EVENT.items())
VIOLATIONS_DDL = f"{_FOUND_DDL}, witness array<struct<{_EVENT_DDL}>>"


@frozen
class Finding:
    """The findings against one promise: their number, why they are allowed, and the first calls."""

    check: str
    title: str
    verdict: str
    count: int
    reason: str
    witnesses: list[list[dict[str, Any]]]
    """Of each witness the calls that show it, in the words of the trace."""


@frozen(repr=False)
class Result:
    """The verdicts of one run; printed, they are a short table."""

    judged: Judged

    def __str__(self) -> str:
        return summary(self.judged)

    __repr__ = __str__

    @property
    def verdict(self) -> str:
        """The worst that was said: `violated`, `allowed`, `holds`, or `not checked` of all."""
        return self.judged.verdict

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Every check's verdict with its reason, count and witnesses, by the check's id."""
        return {verdict.check: verdict for verdict in self.judged.verdicts}

    @property
    def findings(self) -> list[Finding]:
        """The findings, violations first; empty if nothing is violated or allowed."""
        return [
            Finding(v.check, v.title, v.verdict, v.broken or v.count, v.reason, self._calls(v))
            for word in (VIOLATED, ALLOWED)
            for v in self.judged.verdicts
            if v.verdict == word
        ]

    def _calls(self, verdict: Verdict) -> list[list[dict[str, Any]]]:
        return [self.judged.witness(witness)["events"] for witness in verdict.witnesses]

    @property
    def incidents(self) -> list[Incident]:
        """The incidents as `highwater check` reports them, each cause once."""
        return self.judged.incidents

    @property
    def incomplete(self) -> list[str]:
        """The files that are missing or cut short; no verdict covers the missing rows."""
        return self.judged.incomplete

    def __getitem__(self, check: str) -> Verdict:
        return self.verdicts[check]

    def as_json(self) -> dict[str, Any]:
        """As `highwater check --json` writes it, witnesses in the words of the trace."""
        return self.judged.as_json()


def load(path: str | Path, *, sub_via: str | None = None, cleanup_policy: str = "delete") -> Run:
    """Load the recording at a path: a run's folder, a Jepsen history (.edn), or an ingested folder.

    `sub_via` (`assign` or `subscribe`; by default subscribe if any client subscribes) and
    `cleanup_policy` (`delete` or `compact`) are facts that a history does not contain. Raises
    `BadInput`, with file, line and field, for a path that is no recording, and `OSError`.
    """
    for name, value, known in (
        ("sub_via", sub_via, (None, "assign", "subscribe")),
        ("cleanup_policy", cleanup_policy, ("delete", "compact")),
    ):
        if value not in known:
            raise ValueError(
                f"{name}: expected one of {', '.join(map(str, known))}, found {value!r}"
            )
    reading = Reading(SUB_VIA[sub_via], cleanup_policy == "compact")
    with TemporaryDirectory(prefix="highwater-", dir=cache()) as scratch:
        run = read_input(Path(path), reading, Path(scratch))
        if not (run.parts and Path(run.parts[0]).is_relative_to(scratch)):
            return run
        here = run.loaded()  # the rows of a large run went to the scratch folder, which goes now
        here.recall(np.unique(here.columns["id"]).tolist())
        return evolve(here, ids=None)


def check(
    run: Run,
    spark: "SparkSession | None" = None,
    *,
    mode: str = "exact",
    strict: bool = False,
) -> Result:
    """The verdicts of all checks on a run: here, or in the tasks of a Spark session.

    With a session, the rows of a run that was ingested are read where the workers are; others are
    sent to it. `mode` is `exact`, `quick` or `auto`; with `strict` nothing that the configuration
    permits is *allowed*. The run stays as it is. Raises `BadInput` where the files of an ingested
    run are not of one run.
    """
    if mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, found {mode!r}")
    quick, contexts = is_quick(mode, run.rows) and not run.jepsen, {0: run.context}
    found = (
        find_here(run.table(0) if quick else run.lazily(0), contexts, quick, bool(run.parts))
        if spark is None
        else find_in_spark(_in_session(run, spark), contexts, quick)
    )
    one = Judged(run.path, evolve(run))
    one.settle(found, strict, asked(quick, run.jepsen))
    return Result(one)


def violations(
    ops: "DataFrame | Files", run: Run | Mapping[int, Run], checks: Iterable[str] | None = None
) -> "DataFrame":
    """Find the breaches of promises in a table of operations; lazy: nothing runs before an action.

    `ops` has the columns of `traces.model.schema.COLUMNS`, or comes from `highwater.read_ops`.
    `run` describes the run's configuration and the meaning of its numbers. For several runs it is a
    mapping, by the number in the column `run`. A row with `count` is a number of findings. Rows
    with `witness` show the first of them, in the words of the trace. `verdict` is `violated`, or
    `allowed`, `because` of a setting, or `undecided`. A check that the run lacks evidence for has
    no rows here: `check` gives the reason. Raises `BadInput` for a table that is not one of
    operations, and `ValueError` for an unknown check.
    """
    from traces.engines import spark

    runs = dict(run) if isinstance(run, Mapping) else {0: run}
    wanted = {check.id for several in chosen(checks).values() for check in several}
    sound = {
        number: frozenset(
            id
            for id in wanted
            if id != "T6" and not one.evidence.everywhere(CHECKS[id].closed, CHECKS[id].scope)
        )
        for number, one in runs.items()
    }
    contexts = {number: one.context for number, one in runs.items()}
    limits = spark.LIMITS if isinstance(ops, spark.Files) else None
    found = spark.find(ops, contexts, wanted, limits=limits)
    # Rows stay where they are: names and settings go along.
    bare = {number: evolve(one, columns={}, extra=[]) for number, one in runs.items()}

    def named(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [row for one in batch.to_pylist() for row in _named(one, bare, sound)]
            yield pa.RecordBatch.from_pylist(rows, schema=_VIOLATIONS)

    return found.mapInArrow(named, VIOLATIONS_DDL)


def _named(
    row: Mapping[str, Any], runs: Mapping[int, Run], sound: Mapping[int, Collection[str]]
) -> Iterator[dict[str, Any]]:
    run = runs[row["run"]]
    reported = row["check"] in sound[row["run"]] and not row["lacking"]
    if not reported or not (row["found"] or row["events"]):
        return
    clause, subject = clause_of(row["clause"])
    undecided = dict.fromkeys(UNDECIDED, "undecided")
    verdict = {Clause.NOT: "violated", **undecided}.get(clause, "allowed")
    yield {
        "run": run.meta.run or run.path.name,
        "check": row["check"],
        "title": CHECKS[row["check"]].title,
        "verdict": verdict,
        "because": clause_text(run, clause, subject) if verdict == "allowed" else None,
        "count": row["found"] or None,
        "witness": [_shown(event(run, one)) for one in row["events"]] if row["events"] else None,
    }


def _shown(event: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(event[name]) if name == "id" else event[name] for name in event if name in _EVENT
    }


def _in_session(run: Run, spark: "SparkSession") -> Any:
    if run.parts:
        from traces.engines.spark import read_ops

        return read_ops(spark, *run.parts)
    return spark.createDataFrame(run.table(0))
