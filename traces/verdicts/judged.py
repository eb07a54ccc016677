"""One run and everything that was said about it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field

from traces.ingest.run import Run
from traces.model.names import Names
from traces.model.problems import BadInput
from traces.model.schema import NONE, Op, Outcome
from traces.model.table import Lazy
from traces.second_checker import Confirmed, Opinion, Refuted
from traces.verdicts.happened import as_json, began, incidents_of
from traces.verdicts.incidents import Incident
from traces.verdicts.jepsen import add_cycles, anomalies
from traces.verdicts.verdict import (
    ALLOWED,
    HOLDS,
    NOT_CHECKED,
    VIOLATED,
    Tally,
    Verdict,
    clause_of,
    clause_text,
    judge,
    tally,
)

BAD_INPUT = "bad input"
_TIMED = 20_000_000  # rows in which the time of the first call is looked for


@define
class Judged:
    """One run and everything that was said about it."""

    path: Path
    run: Run | None = None
    verdicts: list[Verdict] = field(factory=list[Verdict])
    anomalies: list[str] = field(factory=list[str])
    undecided: list[str] = field(factory=list[str])
    error: BadInput | None = None
    rows: int = 0  # that were judged
    opinions: dict[tuple[str, int], Opinion] = field(factory=dict[tuple[str, int], Opinion])
    incidents: list[Incident] = field(factory=list[Incident])
    began: int = NONE  # when the first call was made

    @property
    def verdict(self) -> str:
        """The run's verdict: the worst that was said, and nothing when nothing was checked."""
        if self.error is not None:
            return BAD_INPUT
        said = {verdict.verdict for verdict in self.verdicts}
        return next((v for v in (VIOLATED, ALLOWED, HOLDS) if v in said), NOT_CHECKED)

    @property
    def incomplete(self) -> list[str]:
        """Files of the run that are missing, or not there to their end."""
        return self.run.incomplete if self.run is not None else []

    @property
    def contradictions(self) -> list[str]:
        """Witnesses that a second checker refutes, in words."""
        return [
            f"{check} witness {n + 1}: {opinion.reason}"
            for (check, n), opinion in sorted(self.opinions.items(), key=lambda item: item[0])
            if isinstance(opinion, Refuted)
        ]

    def table(self, number: int) -> Any:
        """The rows of the run, which are no longer needed here once they are handed out."""
        assert self.run is not None
        table, self.rows = self.run.table(number), self.run.rows
        self._note_the_beginning()
        self.run.columns = {}
        return table

    def lazily(self, number: int) -> Lazy:
        """As `table`, of each column what is asked for."""
        assert self.run is not None
        rows, self.rows = self.run.lazily(number), self.run.rows
        self._note_the_beginning()
        self.run.columns = {}
        return rows

    def _note_the_beginning(self) -> None:
        """Look at the time of the first call while the rows are at hand."""
        if self.run is not None and self.rows <= _TIMED:
            self.began = began(self.run.lazily(0))

    def settle(
        self, findings: list[dict[str, Any]], strict: bool, asked: Collection[str] | None = None
    ) -> None:
        """Come to verdicts from what the kernels, of these checks or of all, found in this run."""
        assert self.run is not None
        tallies: dict[str, Tally] = next(iter(tally(findings).values()), dict[str, Tally]())
        add_cycles(tallies, self.run.jepsen)
        self.verdicts = judge(self.run, tallies, strict, asked)
        self.incidents = incidents_of(self.run, self.verdicts)
        shown = (events for verdict in self.verdicts for _, events in verdict.witnesses)
        self.run.recall(event["id"] for events in shown for event in events)
        if self.run.jepsen:
            self.anomalies, self.undecided = anomalies(self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """The run as `--json` writes it."""
        out: dict[str, Any] = {"path": str(self.path), "verdict": self.verdict}
        if self.error is not None:
            out["errors"] = [str(problem) for problem in self.error.problems]
        out["warnings"] = [str(w) for w in self.run.warnings] if self.run else []
        out["incomplete"] = self.incomplete
        out["checks"] = {v.check: self._check(v) for v in self.verdicts}
        out["incidents"] = [as_json(incident) for incident in self.incidents]
        if self.contradictions:
            out["contradictions"] = self.contradictions
        out["anomalies"] = self.anomalies
        if self.run and self.run.jepsen:
            out["anomalies_not_checked"] = self.undecided
        return out

    def _check(self, verdict: Verdict) -> dict[str, Any]:
        return {
            "verdict": verdict.verdict,
            "reason": verdict.reason,
            "count": verdict.count,
            "witnesses": [
                self.witness(witness) | self._opinion(verdict.check, n)
                for n, witness in enumerate(verdict.witnesses)
            ],
        }

    def _opinion(self, check: str, n: int) -> dict[str, Any]:
        """The second checker's opinion on a witness; null if it was not asked or cannot tell."""
        opinion = self.opinions.get((check, n))
        if isinstance(opinion, Refuted):
            return {"confirmed": False, "refuted": opinion.reason}
        return {"confirmed": True if isinstance(opinion, Confirmed) else None}

    def witness(self, witness: tuple[int, list[Any]]) -> dict[str, Any]:
        """A witness in the words of the trace."""
        assert self.run is not None
        clause, subject = clause_of(witness[0])
        return {
            "allowed_by": clause_text(self.run, clause, subject) if clause > 1 else None,
            "events": [event(self.run, e) for e in witness[1]],
        }


class Named(Protocol):
    """A run, or whatever else knows the names behind the numbers."""

    @property
    def names(self) -> Names: ...


def event(run: Named, row: Mapping[str, Any]) -> dict[str, Any]:
    """One event of a witness in the words of the trace; what is unknown is left out."""
    names, op = run.names, Op(row["op"]).name.lower()
    partition = (
        f"{names.topics.name(row['topic'])}:{row['partition']}" if row["topic"] >= 0 else None
    )
    out = {
        "file": names.files.get(row["process"]),
        "process": names.processes.name(row["process"]),
        "seq": row["seq"],
        "op": op,
        "outcome": Outcome(row["outcome"]).name.lower(),
        "partition": partition,
        "offset": _known(row["offset"]),
        "id": names.id_name(row["id"]),
        "group": names.groups.name(row["group"]) or None,
        "generation": _known(row["generation"]),
        "invoked_ns": _known(row["inv"]),
        "returned_ns": _known(row["ret"]),
    }
    return {name: value for name, value in out.items() if value is not None}


def _known(value: int) -> int | None:
    return None if value == NONE else value


def event_line(found: dict[str, Any]) -> str:
    """One event of a witness as one line of text."""
    words = [f"{found['process']}[{found['seq']}]", found["op"], found["outcome"]]
    words += [f"{name}={found[name]}" for name in ("partition", "offset", "id") if name in found]
    words += [f"{name}={found[name]}" for name in ("group", "generation") if name in found]
    return " ".join(words)
