"""Tells a rejected step of Kafka: the values, and the steps before it as a sequence diagram."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from properties.kafka.judged import Explained, JudgedRun, JudgedSubject
from properties.tla.checker import CounterexampleStep, Outcome, Status
from properties.tla.diagram import draw, lanes, rows
from properties.tla.event_values import from_json
from properties.tla.specs import SpecTree
from properties.tla.story import changed, heading
from properties.tla.syntax import to_tla
from properties.tla.tracecheck import TraceVerdict
from properties.tla.tracefile import TraceEvent
from properties.tla.values import Rec, Value
from properties.tla.verdicts import load

#: The steps before the rejected one that are shown
BEFORE = 12
_LANE = 13
_LONGEST = 60
#: The parameter that says whose of a variable is shown
_OF = {"client": "i", "member": "m"}
_WORD = re.compile(r"[A-Za-z_]\w*")


def tell(run: JudgedRun, tree: SpecTree, everything: bool = False) -> Iterator[str]:
    """The report of a run, line by line."""
    for one in run.subjects:
        yield from _subject(one, tree, everything)
    for name, why in sorted(run.unjudged.items()):
        yield f"{name}: not judged: {why}"
    if run.recorded.torn:
        yield f"{run.recorded.torn} processes were killed in the middle of a line"


def _subject(one: JudgedSubject, tree: SpecTree, everything: bool) -> Iterator[str]:
    subject, trace = one.trace.subject, one.trace
    said = "accepted" if one.verdict.accepted else f"rejected at step {one.verdict.event}"
    rules = len(one.explained)
    by = f", by {rules} of Kafka's own rules" if rules else ""
    yield f"{subject}: {len(trace.events):,} steps, {said}{by} ({one.subject.legend()})"
    if one.subject.ended:
        yield f"  the recording ends early: {one.subject.ended}"
    for explained in one.explained:
        yield from _explained(explained, tree)
    if not one.verdict.accepted:
        yield f"  step {one.verdict.event} is explained by no row of properties/kafka/known.toml"
        yield from rejection(one.verdict, tree)
    if one.broken is not None:
        yield f"  by Kafka's rules {one.broken.promise} breaks at step {one.broken.event}"
        if one.broken.event not in [told.event for told in one.rejections]:
            yield from sequence(one.broken, tree)
    elif one.explained:
        yield "  by Kafka's rules every promise is kept to the end"
    if everything:
        for why, count in sorted(one.subject.inferred.items()):
            yield f"  inferred: {why}: {count:,}"
        for why, count in sorted(one.subject.no_step.items()):
            yield f"  no step: {why}: {count:,}"


def _explained(explained: Explained, tree: SpecTree) -> Iterator[str]:
    known = explained.known
    yield f"  {known.name}, at step {explained.verdict.event}: {known.why}"
    report = f"docs/findings/{known.report}; " if known.report else ""
    yield f"    {report}docs/kafka-diff.md, {known.row}"
    yield from rejection(explained.verdict, tree)


def rejection(verdict: TraceVerdict, tree: SpecTree) -> Iterator[str]:
    """The guard that is false or the values that differ, and the story before."""
    if verdict.mismatches:
        for one in verdict.mismatches:
            for change in changed({one.variable: one.spec}, {one.variable: one.logged}):
                yield f"    {change.path}, the spec → Kafka{_short(change.said)}"
    else:
        yield f"    {verdict.why}"
        yield from (f"      {line}" for line in _values(verdict))
    yield from sequence(verdict, tree)


def _values(verdict: TraceVerdict) -> Iterator[str]:
    """The variables that the guard reads, as they were before the step."""
    event = verdict.trace.events[verdict.event - 1]
    words = set(_WORD.findall(verdict.guard))
    who = event.params.get("l", event.params.get("r"))
    reads = {"ends", "isr", "log"} if "new" in words else set[str]()
    for name, value in (verdict.before or {}).items():
        if name not in words | reads:
            continue
        of = event.params.get(_OF.get(name, ""), who)
        if isinstance(value, tuple) and not isinstance(value, Rec) and isinstance(of, int):
            mine = cast("tuple[Value, ...]", value)[of - 1]
            yield f"{name}[{of}] = {_short(to_tla(mine))}"
        else:
            yield f"{name} = {_short(to_tla(value))}"
    for name, value in event.params.items():
        if name in words:
            yield f"{name} = {to_tla(from_json(value))}"
    for name, left in _parsed(event.after).items():
        of = event.params.get(_OF.get(name, ""), who)
        if isinstance(left, tuple) and not isinstance(left, Rec) and isinstance(of, int):
            left = cast("tuple[Value, ...]", left)[of - 1]
        yield f"Kafka's {name} after the step = {_short(to_tla(left))}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"


def sequence(verdict: TraceVerdict, tree: SpecTree) -> Iterator[str]:
    """The last steps, each an arrow between lifelines; the rejected one is marked."""
    outcome = told(verdict)
    hints = load(verdict.trace.spec, tree).diagram
    drawn = rows(outcome, hints)
    columns = lanes(drawn, hints)
    yield (" " * 12 + "".join(f"{lane.title:^{_LANE}}" for lane in columns)).rstrip()
    numbers = [number for number, _ in _last(verdict)]
    for number, row in zip(numbers, drawn[1:], strict=True):
        at = [columns.index(party) for party in row.parties]
        mark = "✗" if number == verdict.event else " "
        yield f"   {mark}{number:>7} {_arrow(at, len(columns))}  {heading(row.step)}".rstrip()


def _last(verdict: TraceVerdict) -> list[tuple[int, TraceEvent]]:
    """The last events up to the rejected one, with their numbers; of equal ones in a row the first.

    A follower with nothing to fetch asks again and again.
    """
    events = list(enumerate(verdict.trace.events[: verdict.event], start=1))
    pairs = zip([(0, None), *events], events, strict=False)
    news = [
        (number, event)
        for (_, before), (number, event) in pairs
        if number == verdict.event
        or before is None
        or (before.action, before.params, event.after) != (event.action, event.params, {})
    ]
    return news[-BEFORE:]


def _arrow(at: list[int], columns: int) -> str:
    cells = [" "] * (columns * _LANE)
    centers = [i * _LANE + _LANE // 2 for i in range(columns)]
    for center in centers:
        cells[center] = "│"
    if at:
        start, *ends = (centers[i] for i in at)
        for end in ends:
            for i in range(min(start, end) + 1, max(start, end)):
                cells[i] = "─" if cells[i] == " " else cells[i]
            cells[end] = "▶" if end > start else "◀"
        cells[start] = "●"
    return "".join(cells)


def told(verdict: TraceVerdict) -> Outcome:
    """The last steps before a rejection and that one, as a counterexample has them."""
    shown = {number for number, _ in _last(verdict)}
    state: dict[str, Value] = {}
    steps: list[CounterexampleStep] = []
    before = CounterexampleStep(None, {})
    for number, event in enumerate(verdict.trace.events[: verdict.event], start=1):
        if number in shown:
            params = {name: from_json(value) for name, value in event.params.items()}
            steps.append(
                CounterexampleStep(event.action, {**state, **_parsed(event.after)}, params)
            )
        state = {**state, **_parsed(event.after)}
        if not steps:
            before = CounterexampleStep(None, state)
    names = dict.fromkeys(state)
    number, action = verdict.event, steps[-1].action
    whole = tuple(_filled(step, names) for step in [before, *steps])
    return Outcome(Status.VIOLATED, f"Step {number}, {action},", whole)


def _parsed(after: Mapping[str, Any]) -> dict[str, Value]:
    return {name: from_json(value) for name, value in after.items()}


def _filled(step: CounterexampleStep, names: Mapping[str, None]) -> CounterexampleStep:
    state = {name: step.state.get(name, "not told yet") for name in names}
    return CounterexampleStep(step.action, state, step.params)


def drawing(verdict: TraceVerdict, tree: SpecTree) -> str:
    """The same as SVG."""
    title = f"{verdict.trace.subject}: step {verdict.event}"
    return draw(title, told(verdict), load(verdict.trace.spec, tree).diagram)
