"""From findings to verdicts: *holds*, *violated*, *allowed*, *not checked*.

The order of the questions is the law of evidence. What could have been invented by something
missing is not said at all; a breach that no setting permits stays a breach whatever else is
missing; and nothing holds while something is missing that might have hidden a breach.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.ingest.run import Run
from traces.model.context import INFORMATION, SUBJECT_BITS, UNDECIDED, Clause
from traces.model.lacking import READERS, SENDERS

HOLDS, VIOLATED, ALLOWED, NOT_CHECKED = "holds", "violated", "allowed", "not checked"
UNASKED = "mode quick: run with --mode exact"
NOTHING = "saw nothing to judge"
WITNESSES = 10


@define
class Tally:
    """The tally of one check of one run, over all partitions."""

    seen: int = 0
    extra: int = 0
    found: dict[int, int] = field(factory=dict[int, int])
    kinds: dict[str, int] = field(factory=dict[str, int])
    witnesses: list[tuple[int, list[Any]]] = field(factory=list[tuple[int, list[Any]]])
    facts: list[list[Any]] = field(factory=list[list[Any]])
    locations: list[Mapping[str, Any]] = field(factory=list[Mapping[str, Any]])
    # What was found where needs are lacking without which nothing may be said: of these words.
    unsound: dict[str, "Tally"] = field(factory=dict[str, "Tally"])

    def add(self, row: Mapping[str, Any]) -> None:
        """One row of findings."""
        if lacking := row.get("lacking"):
            self.unsound.setdefault(lacking, Tally()).add({**row, "lacking": ""})
            return
        self.seen += row["seen"]
        self.extra += row["extra"]
        clause, kind = row["clause"], row["kind"]
        if row["found"]:
            self.found[clause] = self.found.get(clause, 0) + row["found"]
            self.kinds[kind] = self.kinds.get(kind, 0) + row["found"]
        self.locations += row.get("locations") or ()
        if row["events"] and kind.startswith("#"):
            self.facts.append(row["events"])
        elif row["events"]:
            self.witnesses.append((clause, row["events"]))

    def sound(self, closed: Collection[str]) -> "Tally":
        """The verdict that may be given if these needs must not be lacking."""
        out = Tally()
        out.take(self)
        for lacking, one in self.unsound.items():
            if not set(lacking.split()) & set(closed):
                out.take(one)
        return out

    def take(self, other: "Tally") -> None:
        """Add what another one holds."""
        self.seen += other.seen
        self.extra += other.extra
        for mine, its in ((self.found, other.found), (self.kinds, other.kinds)):
            for key, count in its.items():
                mine[key] = mine.get(key, 0) + count  # pyright: ignore[reportArgumentType, reportUnknownArgumentType, reportCallIssue, reportUnknownVariableType]
        self.witnesses += other.witnesses
        self.facts += other.facts
        self.locations += other.locations

    def under(self, *clauses: Clause) -> int:
        """The number of findings under these clauses."""
        return sum(n for number, n in self.found.items() if clause_of(number)[0] in clauses)

    @property
    def total(self) -> int:
        """The number of all findings."""
        return sum(self.found.values())

    def first_witnesses(self) -> list[tuple[int, list[Any]]]:
        """The first few in an order that nothing but the trace decides; breaches come first."""

        def order(item: tuple[int, list[Any]]) -> Any:
            clause, events = item
            first = [
                (e["topic"], e["partition"], e["offset"], e["process"], e["seq"]) for e in events
            ]
            return clause_of(clause)[0], first, clause

        return sorted(self.witnesses, key=order)[:WITNESSES]


def clause_of(number: int) -> tuple[Clause, int]:
    """A clause and the number of what it is about."""
    return Clause(number >> SUBJECT_BITS), number & ((1 << SUBJECT_BITS) - 1)


def tally(rows: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, Tally]]:
    """Findings of all partitions, by run and check."""
    runs: dict[int, dict[str, Tally]] = {}
    for row in rows:
        runs.setdefault(row["run"], {}).setdefault(row["check"], Tally()).add(row)
    return runs


@frozen
class Verdict:
    """The answer to one promise in one run."""

    check: str
    title: str
    verdict: str
    reason: str
    count: int = 0
    kinds: Mapping[str, int] = field(factory=dict[str, int])
    witnesses: tuple[tuple[int, list[Any]], ...] = ()
    broken: int = 0  # so many of them are violations
    locations: tuple[
        Mapping[str, Any], ...
    ] = ()  # where all of them lie, see traces.engines.locations
    permits: tuple[str, ...] = ()  # the lines of the configuration that permit what is allowed


def judge(
    run: Run,
    tallies: Mapping[str, Tally],
    strict: bool = False,
    asked: Collection[str] | None = None,
) -> list[Verdict]:
    """A verdict for every guarantee of the table, checked or not, in the table's order."""
    verdicts: list[Verdict] = []
    for id, check in CHECKS.items():
        if asked is not None and id not in asked:
            verdicts.append(Verdict(id, check.title, NOT_CHECKED, UNASKED))
        else:
            verdicts.append(verdict_on(run, check, tallies.get(id, Tally()), strict))
    return verdicts


def verdict_on(run: Run, check: Check, tally: Tally, strict: bool = False) -> Verdict:
    """The answer of one check, by what it found and by what the run does not tell.

    A partition, group or producer that lacks a need without which nothing may be said is left out;
    what was found elsewhere is as true as if that one were not there.
    """
    tally = tally.sound(check.closed)
    verdict, reason = _decide(run, check, tally, strict)
    if run.evidence.reasons(check.closed) and verdict != VIOLATED:
        tally = Tally()  # what was found may be the work of what is missing
    undecided = 0 if verdict == NOT_CHECKED else tally.under(*UNDECIDED)
    return Verdict(
        check.id,
        check.title,
        verdict,
        reason,
        tally.total - undecided,
        dict(sorted(tally.kinds.items())),
        tuple(tally.first_witnesses()),
        _breaches(tally, strict) if verdict == VIOLATED else 0,
        tuple(_strictly(location) if strict else location for location in tally.locations),
        tuple(_permits(run, tally)),
    )


def _strictly(location: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**location, "broken": location["broken"] + location["allowed"], "allowed": 0}


def _breaches(tally: Tally, strict: bool) -> int:
    return tally.total - tally.under(*INFORMATION) if strict else tally.under(Clause.NOT)


def _decide(run: Run, check: Check, tally: Tally, strict: bool) -> tuple[str, str]:
    if missing := run.evidence.everywhere(check.closed, check.scope):
        return NOT_CHECKED, "; ".join(missing)
    missing = run.evidence.reasons(check.closed)
    if not tally.seen and not missing:
        return NOT_CHECKED, f"{NOTHING}: {check.looks_at}"
    if broken := _breaches(tally, strict):
        elsewhere = f"; not checked everywhere: {'; '.join(missing)}" if missing else ""
        return VIOLATED, _broken(run, check, tally, broken) + elsewhere
    if missing:
        return NOT_CHECKED, "; ".join(missing)
    if unknown := tally.under(*UNDECIDED):
        return NOT_CHECKED, f"{unknown} found, and {_unknown(run, check, tally)}"
    if missing := run.evidence.reasons(check.needs):
        return NOT_CHECKED, "; ".join(missing)
    if tally.total:
        more = f"; {tally.extra} {check.extra}" if tally.extra else ""
        return ALLOWED, permitted(run, tally) + more
    return HOLDS, f"{tally.seen:,} looked at"


def _broken(run: Run, check: Check, tally: Tally, broken: int) -> str:
    promise = check.unless_text
    rest = permitted(run, tally, True) if tally.total > tally.under(Clause.NOT) else ""
    if undecided := tally.under(*UNDECIDED):
        rest = f"{rest}; {undecided} more undecided".lstrip("; ")
    if tally.extra:
        rest = f"{rest}; {tally.extra} {check.extra}".lstrip("; ")
    return f"{broken} found; {promise}" + (f" ({rest})" if rest else "")


def _unknown(run: Run, check: Check, tally: Tally) -> str:
    if words := _by_others(run, tally):
        return words
    allowed = f"whether that is allowed depends on: {check.unless}" if check.unless else ""
    if unsure := run.evidence.reasons(_UNSURE):  # settings alone would not decide it
        return f"{unsure[0]}; {allowed}".rstrip("; ")
    return f"{UNTOLD}; {allowed}".rstrip("; ")


def _by_others(run: Run, tally: Tally) -> str:
    """Others who were not recorded and may explain the findings."""
    subjects = (clause_of(number) for number, n in sorted(tally.found.items()) if n)
    said = (clause_text(run, *one) for one in subjects if one[0] == Clause.OTHERS)
    return next(said, "")


UNTOLD = "neither meta.json nor what was recorded tells enough"
# What leaves findings undecided that a read or a send, of which nobody tells, might contradict.
_UNSURE = (*READERS, "consumers.whole", *SENDERS, "senders")


def permitted(run: Run, tally: Tally, counted: bool = False) -> str:
    """Lines of the configuration that permit findings, with their number if it is not all."""
    parts = _permits(run, tally)
    if len(parts) == 1 and not counted:
        return f"allowed because {next(iter(parts))}"
    return "; ".join(f"{n:,} allowed because {words}" for words, n in parts.items())


def _permits(run: Run, tally: Tally) -> dict[str, int]:
    parts: dict[str, int] = {}
    for number, n in sorted(tally.found.items()):
        clause, subject = clause_of(number)
        if clause not in (Clause.NOT, *UNDECIDED):
            words = clause_text(run, clause, subject)
            parts[words] = parts.get(words, 0) + n
    return parts


def clause_text(run: Run, clause: Clause, subject: int) -> str:
    """The line of meta.json that a clause stands for."""
    process = run.names.processes.name(subject)
    topic = run.names.topics.name(subject)
    group = run.names.groups.name(subject)
    producer = run.meta.producer(process)
    key = process if process in run.meta.producers else process.partition("#")[0]
    orders = sorted(
        {c.commit_order or "auto" for c in run.meta.consumers.values() if c.group == group}
    )
    return {
        Clause.NOT: "nothing",
        Clause.UNKNOWN: "nothing known",
        Clause.ACKS: f"producers.{key}.acks = {producer.acks}",
        Clause.UNCLEAN: f"topics.{topic}.unclean_leader_election = true",
        Clause.MIN_ISR: f"topics.{topic}.min_insync_replicas = 1",
        Clause.FLUSH: f"topics.{topic}.flush_loses = true, without eligible_leader_replicas",
        Clause.IDEMPOTENCE: f"producers.{key}.idempotence = false",
        Clause.IN_FLIGHT: f"producers.{key}.max_in_flight = {producer.max_in_flight}, retried",
        Clause.RESENT: f"{process} sent the id in more than one call",
        Clause.COMMIT_ORDER: f"consumers of group {group}: commit_order = {', '.join(orders)}",
        Clause.ISOLATION: "isolation = read_uncommitted",
        Clause.PROGRESS: "it is slow and not wrong: progress is no promise of safety",
        Clause.SESSION: "idempotence ends with the producer's session",
        Clause.SILENCE: f"{process} was silent for longer than consumers.{key}.session_timeout_ms",
        Clause.CLOCK: "Kafka stamps records by its leader's clock as it is, or the topic's "
        "message.timestamp.type was changed on the way",
        Clause.FENCE: "an administrator may have fenced it, or a request that came late",
        Clause.OTHERS: f"somebody who was not recorded commits for group {group}, too "
        f"(groups.{group}.committers)",
        Clause.OFFSETS: "internal_topics.__consumer_offsets permits that its log loses records",
        Clause.UNACKNOWLEDGED: "what is not acknowledged may be given out again (KIP-932)",
        Clause.REPLACED: "a leader that was replaced may give a record from its memory, and "
        "refuses its acknowledgement",
    }[clause]
