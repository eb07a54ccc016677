"""Checks recorded steps against the spec, with TLC's evaluator (`spec/java/TraceCheck.java`).

The constants may be far too large for exploration: only the recorded steps are evaluated, and one
JVM judges any number of traces.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import orjson
from attrs import frozen

from properties.tla.errors import InputError
from properties.tla.names import spec_names
from properties.tla.processes import run, stop_all
from properties.tla.specs import SpecTree
from properties.tla.syntax import parse, to_tla
from properties.tla.tlc import jvm
from properties.tla.tracefile import Trace, TraceEvent
from properties.tla.tracemodel import check_values, write_model
from properties.tla.values import Value

HEAP_MB = 2048
LIMIT_S = 600.0
#: Up to about this many events the optimising compiler does not pay for itself.
QUICK_EVENTS = 10_000
_ROOT = "HighwaterTraces"
_PLACE = re.compile(r"line (\d+), col (\d+) to line (\d+), col (\d+) of module (\w+)")


@frozen
class Mismatch:
    """A variable that the event logged otherwise than the spec allows."""

    variable: str
    spec: Value
    logged: Value

    def __str__(self) -> str:
        return f"{self.variable}: the spec has {to_tla(self.spec)}, the event {to_tla(self.logged)}"


@frozen
class TraceVerdict:
    """The verdict on a trace: a behaviour of the spec, or the first event that is none, and why."""

    trace: Trace
    accepted: bool
    event: int = 0
    """The number, from 1, of the first event that the spec does not allow."""
    why: str = ""
    mismatches: tuple[Mismatch, ...] = ()
    before: Mapping[str, Value] | None = None
    """The spec's state before that event; after it, if a promise is broken."""
    guard: str = ""
    """The guard that is false, as the spec has it."""
    promise: str = ""
    """The promise that does not hold after the event."""

    @property
    def taken(self) -> list[TraceEvent]:
        """The events that the spec allows."""
        return self.trace.events if self.accepted else self.trace.events[: self.event - 1]


def coverage(verdicts: Iterable[TraceVerdict]) -> Counter[str]:
    """The number of accepted steps of each action."""
    return Counter(event.action for verdict in verdicts for event in verdict.taken)


def validate_all(
    traces: Sequence[Trace], tree: SpecTree | None = None, promises: Sequence[str] = ()
) -> list[TraceVerdict]:
    """Judge traces of any specs, in the order given; each state must keep the promises as well.

    TLC holds one model, so those with the same spec and constants are judged together, and such
    groups side by side.
    """
    tree = tree or SpecTree()
    alike: dict[tuple[str, bytes], list[Trace]] = {}
    for trace in traces:
        constants = orjson.dumps(trace.constants, option=orjson.OPT_SORT_KEYS)
        alike.setdefault((trace.spec, constants), []).append(trace)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            judged = list(pool.map(partial(_judge, tree=tree, promises=promises), alike.values()))
        except BaseException:
            stop_all()
            raise
    of_trace = {id(verdict.trace): verdict for group in judged for verdict in group}
    return [of_trace[id(trace)] for trace in traces]


def _judge(traces: Sequence[Trace], tree: SpecTree, promises: Sequence[str]) -> list[TraceVerdict]:
    spec = traces[0].spec
    quick = sum(len(trace.events) for trace in traces) < QUICK_EVENTS
    scratch = Path(tempfile.mkdtemp(prefix="highwater-traces-"))
    try:
        write_model(_ROOT, scratch, spec_names(spec, tree), spec, traces)
        command = [*jvm(tree, scratch, HEAP_MB, quick), "TraceCheck", _ROOT, *promises]
        told = run(command, scratch, LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if told.timed_out:
        raise InputError(f"{spec}: the judgement of traces is {told.spent(LIMIT_S)}")
    if told.code != 0:
        check_values(traces)
        raise InputError(f"{spec}: TLC cannot judge the traces:\n{told.errors.strip()[-3000:]}")
    return _verdicts(told.output, traces, tree)


def _verdicts(output: str, traces: Sequence[Trace], tree: SpecTree) -> list[TraceVerdict]:
    verdicts: list[TraceVerdict] = []
    lines = iter(output.splitlines())
    for line in lines:
        kind, *parts = line.split("\t")
        if kind == "assume":
            raise InputError(f"the constants break an assumption: {_quoted(parts[0], tree)}")
        trace = traces[len(verdicts)]
        if kind == "ok":
            verdicts.append(TraceVerdict(trace, accepted=True))
        else:
            number, why, *details = parts
            before = _pairs(next(lines).split("\t")[1:])
            verdicts.append(_rejected(trace, int(number), why, details, before, tree))
    if len(verdicts) != len(traces):
        raise AssertionError(f"{len(traces)} traces, but {len(verdicts)} verdicts")
    return verdicts


def _rejected(
    trace: Trace,
    number: int,
    why: str,
    details: list[str],
    before: Mapping[str, Value],
    tree: SpecTree,
) -> TraceVerdict:
    action = trace.events[number - 1].action
    mismatches: tuple[Mismatch, ...] = ()
    guard = text_at(details[0], tree)[0] if why == "guard" else ""
    promise = details[0] if why == "promise" else ""
    if why == "differs":
        triples = zip(details[::3], details[1::3], details[2::3], strict=True)
        mismatches = tuple(Mismatch(v, parse(spec), parse(log)) for v, spec, log in triples)
        said = "; ".join(map(str, mismatches))
    elif why == "guard":
        said = f"the guard of {action} is false: {_quoted(details[0], tree)}"
    elif why == "promise":
        said = f"after it {details[0]} does not hold"
    elif why == "unknown":
        said = f"{trace.spec} has no action {action}"
    elif why == "vague":
        said = f"{details[0]} states are possible here: the events log too few variables"
    else:
        said = f"{action} cannot be evaluated here: {details[0]}"
    return TraceVerdict(trace, False, number, said, mismatches, before, guard, promise)


def _pairs(parts: list[str]) -> dict[str, Value]:
    return {name: parse(value) for name, value in zip(parts[::2], parts[1::2], strict=True)}


def _quoted(place: str, tree: SpecTree) -> str:
    """A place in a spec, with its text."""
    text, where = text_at(place, tree)
    return f"`{text}` ({where})" if where else text


def text_at(place: str, tree: SpecTree) -> tuple[str, str]:
    """The text at a place, as TLC names places, in one line; and its file and line, "" if there is
    none."""
    match = _PLACE.search(place)
    if match is None:
        return place, ""
    first, start, last, end = map(int, match.groups()[:4])
    for folder in tree.library():
        file = folder / f"{match[5]}.tla"
        if file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines()[first - 1 : last]
            lines[-1] = lines[-1][:end]
            lines[0] = lines[0][start - 1 :]
            return " ".join(" ".join(lines).split()), f"{file.name}, line {first}"
    return place, ""
