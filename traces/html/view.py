"""The texts of a run on the page: facts, configuration, verdicts, and reasons not to check."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from attrs import asdict, frozen

from traces.checks.catalogue import CHECKS
from traces.html.canvas import Clock
from traces.html.picture import Picture
from traces.ingest.evidence import SPOKEN
from traces.ingest.run import Run
from traces.model.meta import Meta
from traces.model.output import number_of
from traces.model.schema import NONE
from traces.verdicts import happened
from traces.verdicts.incidents import Incident
from traces.verdicts.judged import Judged
from traces.verdicts.sentences import sentences as plain_sentences
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, NOTHING, UNASKED, VIOLATED, Verdict

_FAULTS = 6  # beside an incident, that are named
SLUGS = {VIOLATED: "violated", ALLOWED: "allowed", HOLDS: "holds", NOT_CHECKED: "unchecked"}
FAMILIES = {
    "L": "log",
    "P": "producers",
    "T": "transactions",
    "C": "consumers",
    "G": "groups",
    "S": "share groups",
    "A": "topics",
}
SIGNS = {"violated": "✗", "allowed": "!", "holds": "✓", "unchecked": "–", "bad": "✗"}


@frozen
class SharedSettings:
    """Clients or topics that are configured alike."""

    names: tuple[str, ...]
    values: tuple[tuple[str, str], ...]


@frozen
class VerdictRow:
    """One line of the table of verdicts."""

    id: str
    title: str
    slug: str
    verdict: str
    found: str
    why: str
    formula: str
    clause: str
    spec: str
    witnesses: int


@frozen
class IncidentRow:
    """One incident, for the head of a run."""

    slug: str
    verdict: str
    title: str
    facts: list[tuple[str, str]]
    checks: list[tuple[str, int]]


@frozen
class Reason:
    """The reason why some promises were not checked, and the evidence that would decide them."""

    why: str
    decided_by: str
    checks: tuple[tuple[str, str], ...]


def slug(verdict: str) -> str:
    """The verdict as a word that style sheets may use."""
    return SLUGS.get(verdict, "bad")


def rows(one: Judged) -> list[VerdictRow]:
    """Every guarantee, in the order of the table."""
    return [_row(verdict) for verdict in one.verdicts]


def families(rows: Iterable[VerdictRow]) -> list[tuple[str, list[VerdictRow]]]:
    """The same by what they are about, which their ids begin with."""
    return [(FAMILIES[letter], list(some)) for letter, some in groupby(rows, lambda row: row.id[0])]


def _row(verdict: Verdict) -> VerdictRow:
    check = CHECKS[verdict.check]
    return VerdictRow(
        id=verdict.check,
        title=verdict.title,
        slug=slug(verdict.verdict),
        verdict=verdict.verdict,
        found=f"{verdict.count:,}" if verdict.count else "",
        why=verdict.reason,
        formula=check.formula,
        clause=verdict.reason if verdict.verdict == ALLOWED else check.unless_text,
        spec=check.spec,
        witnesses=len(verdict.witnesses),
    )


def sentences(one: Judged) -> list[str]:
    """The findings, counted, in sentences; the number of promises is in `summary`."""
    return plain_sentences(one.verdicts)[:-1] if one.verdicts else []


def incidents(one: Judged, clock: Clock) -> list[IncidentRow]:
    """The incidents, each cause once, with its time as in the drawings."""
    verdicts = {verdict.check: verdict for verdict in one.verdicts}
    return [_incident(incident, verdicts[incident.main], clock) for incident in one.incidents]


def _incident(one: Incident, verdict: Verdict, clock: Clock) -> IncidentRow:
    because = CHECKS[one.main].unless_text if one.violated else "; ".join(verdict.permits)
    facts = [
        ("where", happened.where(one)),
        ("when", _when(one, clock)),
        ("beside", _beside(one, clock)),
        ("because", because),
    ]
    return IncidentRow(
        "violated" if one.violated else "allowed",
        VIOLATED if one.violated else ALLOWED,
        happened.title(one),
        [(name, said) for name, said in facts if said],
        list(one.checks.items()),
    )


def _when(one: Incident, clock: Clock) -> str:
    if one.since == NONE or not clock.comparable:
        return ""
    first, last = clock.spoken(one.since), clock.spoken(one.until)
    return f"{first if first == last else f'{first} to {last}'} after the first call"


def _beside(one: Incident, clock: Clock) -> str:
    if not clock.comparable:
        return ""
    near = sorted(one.faults[:_FAULTS], key=lambda fault: fault.at)
    said = [f"{fault.what} ({clock.spoken(fault.at)})" for fault in near]
    more = len(one.faults) - len(near)
    return ", ".join([*said, *([number_of(more, "more fault")] if more > 0 else [])])


def summary(one: Judged) -> str:
    """All verdicts in one sentence."""
    counts = {word: sum(v.verdict == word for v in one.verdicts) for word in SLUGS}
    words = {
        VIOLATED: "broken",
        ALLOWED: "broken as the configuration allows",
        HOLDS: "kept",
        NOT_CHECKED: "not checked",
    }
    said = [f"{number} {words[word]}" for word, number in counts.items() if number]
    return f"Of {len(one.verdicts)} promises: {', '.join(said)}." if said else ""


def facts(run: Run, picture: Picture) -> list[tuple[str, str]]:
    """The facts in the head of a run, besides its name."""
    said = [
        ("recorded by", run.meta.source),
        ("folder" if run.path.is_dir() else "file", str(run.path)),
    ]
    if picture.wall_ms is not None:
        begun, ended = (_wall(ms) for ms in picture.wall_ms)
        said.append(("ran", f"{begun} to {ended} UTC, by the timestamps of its records"))
    if picture.end > picture.start:
        said.append(("lasted", lasting(picture.end - picture.start)))
    clients = len(run.names.processes.names)
    said.append(("holds", _holds(run.calls, clients, picture.rows)))
    said.append(("complete", _complete(run)))
    return [(name, value) for name, value in said if value]


def _holds(calls: int, clients: int, events: int) -> str:
    said = number_of(calls, "call"), number_of(clients, "process"), number_of(events, "event")
    return f"{said[0]} of {said[1]}, {said[2]}"


def _complete(run: Run) -> str:
    if run.jepsen:
        return "taken for granted: such a history ends with reads of everything"
    if not run.meta.complete:
        return "no, so nothing can be called lost"
    return run.evidence.missing.get("scan", "yes: every partition was read again at the end")


def _wall(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def lasting(ns: int) -> str:
    """A length of time in the unit that suits it."""
    for least, size, unit in (
        (7200e9, 3600e9, "hours"),
        (120e9, 60e9, "minutes"),
        (1e9, 1e9, "seconds"),
        (1e6, 1e6, "milliseconds"),
    ):
        if ns >= least:
            return f"{ns / size:,.1f} {unit}"
    return f"{ns / 1e3:,.3g} microseconds"


def configuration(meta: Meta) -> list[tuple[str, list[SharedSettings]]]:
    """`meta.json` in short: who is configured alike is named together."""
    parts: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("Topics", meta.topics),
        ("Producers", meta.producers),
        ("Consumers", meta.consumers),
    )
    return [(title, _alike(named)) for title, named in parts if named]


def _alike(named: Mapping[str, Any]) -> list[SharedSettings]:
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, settings in named.items():
        items = asdict(settings).items()
        values = tuple((key, _spoken(value)) for key, value in items if value is not None)
        groups.setdefault(values, []).append(name)
    return [SharedSettings(tuple(names), values) for values, names in groups.items()]


def _spoken(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def reasons(one: Judged) -> list[Reason]:
    """The checks that were not made, by reason, the most telling reason first."""
    assert one.run is not None
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for verdict in one.verdicts:
        if verdict.verdict == NOT_CHECKED:
            key, about = _reason(one.run, verdict)
            groups.setdefault(key, []).append((verdict.check, about))
    found = [Reason(*key, tuple(checks)) for key, checks in groups.items()]
    return sorted(found, key=lambda reason: (reason.why == NOTHING, not reason.decided_by))


def _reason(run: Run, verdict: Verdict) -> tuple[tuple[str, str], str]:
    check = CHECKS[verdict.check]
    if verdict.reason == UNASKED:
        return (UNASKED, "the same run with --mode exact"), verdict.title
    if verdict.reason.startswith(NOTHING):
        return (NOTHING, "a run in which such things happen"), check.looks_at
    needs = [need for need in (*check.closed, *check.needs) if need in run.evidence.missing]
    if needs:
        decided = dict.fromkeys(_decided_by(need) for need in needs)
        return (verdict.reason, "; ".join(decided)), verdict.title
    return (verdict.reason, f"meta.json: {check.unless}" if check.unless else ""), verdict.title


def _decided_by(need: str) -> str:
    """The file or the field that would meet this need."""
    kind, dot, name = need.partition(".")
    if dot and name == "whole":
        return f"the rest of the files of {kind}"
    if dot:
        return f"{SPOKEN.get(name, name)} on every {kind.replace('_', ' ')} row"
    return {
        "complete": "complete: true in meta.json, and a final scan of every partition",
        "final": "a scan of every partition after the last send",
        "scan": "a final scan of every partition",
        "scan_end": "the end of every scan, as partitions and offsets of its last call",
        "producers": "the missing files of producers",
        "consumers": "the missing files of consumers",
        "isolation": "isolation on every read",
        "one_clock": "one clock for all processes",
    }.get(need, need.replace("_", " "))
