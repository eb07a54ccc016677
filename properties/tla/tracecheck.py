"""Ask TLC's evaluator whether recorded steps are steps of the spec (`spec/java/TraceCheck.java`).

All traces with the same spec and constants are judged in one go, in one JVM. The constants may be
far beyond what can be explored: only the steps that were recorded are evaluated.
"""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
from attrs import frozen

from properties.tla.errors import InputError
from properties.tla.names import SpecNames, spec_names
from properties.tla.processes import run
from properties.tla.specs import SpecTree
from properties.tla.tlc import jvm
from properties.tla.tracefile import INIT, Event, Trace
from properties.tla.values import Value, from_json, parse, to_tla

HEAP_MB = 2048
LIMIT_S = 600.0
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
    """Whether a trace is a behaviour of the spec, and if not, from which event on and why."""

    trace: Trace
    accepted: bool
    event: int = 0
    """The number, from 1, of the first event that the spec does not allow."""
    why: str = ""
    mismatches: tuple[Mismatch, ...] = ()
    before: Mapping[str, Value] | None = None
    """The spec's state before that event."""

    @property
    def taken(self) -> list[Event]:
        """The events that the spec allows."""
        return self.trace.events if self.accepted else self.trace.events[: self.event - 1]


def coverage(verdicts: Iterable[TraceVerdict]) -> Counter[str]:
    """How often each action was taken by accepted steps."""
    return Counter(event.action for verdict in verdicts for event in verdict.taken)


def validate(
    module: str,
    constants: Mapping[str, Any],
    traces: Sequence[Trace],
    tree: SpecTree | None = None,
) -> list[TraceVerdict]:
    """Judge traces of one spec under the same constants (as JSON), in the order given."""
    tree = tree or SpecTree()
    names = spec_names(module, tree)
    scratch = Path(tempfile.mkdtemp(prefix="highwater-traces-"))
    try:
        (scratch / f"{_ROOT}.tla").write_text(_root(module, names, constants), encoding="utf-8")
        (scratch / "model.cfg").write_text(_model(names), encoding="utf-8")
        lines = scratch / "traces"
        with lines.open("wb") as file:
            for trace in traces:
                file.writelines(_lines(trace, names))
        command = [*jvm(tree, scratch, HEAP_MB), "TraceCheck", _ROOT, "model.cfg", str(lines)]
        told = run(command, scratch, LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if told.timed_out:
        raise InputError(f"{module}: the judgement of traces is {told.spent(LIMIT_S)}")
    if told.code != 0:
        _check_values(traces)
        raise InputError(f"{module}: TLC cannot judge the traces:\n{told.errors.strip()[-3000:]}")
    return _verdicts(told.output, traces, tree)


def validate_all(traces: Sequence[Trace], tree: SpecTree | None = None) -> list[TraceVerdict]:
    """Judge any traces, those with the same spec and constants together."""

    def key(trace: Trace) -> tuple[str, bytes]:
        return trace.spec, orjson.dumps(trace.constants, option=orjson.OPT_SORT_KEYS)

    verdicts: list[TraceVerdict] = []
    for (module, _), group in groupby(sorted(traces, key=key), key):
        alike = list(group)
        verdicts += validate(module, alike[0].constants or {}, alike, tree)
    return verdicts


def _root(module: str, names: SpecNames, constants: Mapping[str, Any]) -> str:
    """The spec under its constants, with a Next that TLC has nothing to split in."""
    given, declared = set(constants), set(names.constants)
    if given != declared:
        lacks = "".join(f"; no value for {name}" for name in sorted(declared - given))
        extra = "".join(f"; {module} has no constant {name}" for name in sorted(given - declared))
        raise InputError(f"the header's constants are not those of {module}{lacks}{extra}")
    lines = [f"---- MODULE {_ROOT} ----", f"EXTENDS {module}"]
    try:
        for name, value in constants.items():
            lines.append(f"{_ROOT}_{name} == {to_tla(from_json(value))}")
    except ValueError as wrong:
        raise InputError(f"a constant in the header: {wrong}") from None
    lines += [f"{_ROOT}_Next == UNCHANGED <<{', '.join(names.variables)}>>", "====", ""]
    return "\n".join(lines)


def _model(names: SpecNames) -> str:
    constants = "".join(f"  {name} <- {_ROOT}_{name}\n" for name in names.constants)
    return f"INIT Init\nNEXT {_ROOT}_Next\n" + (f"CONSTANTS\n{constants}" if constants else "")


def _lines(trace: Trace, names: SpecNames) -> Iterable[bytes]:
    """A trace as TraceCheck reads it; arguments in formal order."""
    yield b"[]\n"
    known = set(names.variables)
    for event in trace.events:
        begins = event.action == INIT and event is trace.events[0]
        formals = () if begins else names.actions.get(event.action)
        if formals is not None and set(event.params) != set(formals):
            takes, has = ", ".join(formals), ", ".join(event.params)
            raise InputError(
                f"{trace.file}:{event.line}: {event.action} takes ({takes}), the event has ({has})"
            )
        if not event.after.keys() <= known:
            unknown = ", ".join(sorted(event.after.keys() - known))
            raise InputError(f"{trace.file}:{event.line}: {trace.spec} has no variable {unknown}")
        args = [event.params[formal] for formal in formals or ()]
        action = event.action if formals is not None else f"?{event.action}"
        yield orjson.dumps([action, args, event.after], option=orjson.OPT_APPEND_NEWLINE)


def _check_values(traces: Iterable[Trace]) -> None:
    """Find what cannot be read; done only when something could not, as it takes its time."""
    for trace in traces:
        for event in trace.events:
            for name, value in (*event.params.items(), *event.after.items()):
                try:
                    from_json(value)
                except ValueError as wrong:
                    raise InputError(f"{trace.file}:{event.line}: {name}: {wrong}") from None


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
    if why == "differs":
        triples = zip(details[::3], details[1::3], details[2::3], strict=True)
        mismatches = tuple(Mismatch(v, parse(spec), parse(log)) for v, spec, log in triples)
        said = "; ".join(map(str, mismatches))
    elif why == "guard":
        said = f"the guard of {action} is false: {_quoted(details[0], tree)}"
    elif why == "unknown":
        said = f"{trace.spec} has no action {action}"
    elif why == "vague":
        said = f"{details[0]} states are possible here: the events log too few variables"
    else:
        said = f"{action} cannot be evaluated here: {details[0]}"
    return TraceVerdict(trace, False, number, said, mismatches, before)


def _pairs(parts: list[str]) -> dict[str, Value]:
    return {name: parse(value) for name, value in zip(parts[::2], parts[1::2], strict=True)}


def _quoted(place: str, tree: SpecTree) -> str:
    """A place in a spec, with the text that stands there."""
    match = _PLACE.search(place)
    if match is None:
        return place
    first, start, last, end = map(int, match.groups()[:4])
    for folder in tree.library():
        file = folder / f"{match[5]}.tla"
        if file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines()[first - 1 : last]
            lines[-1] = lines[-1][:end]
            lines[0] = lines[0][start - 1 :]
            text = " ".join(line.strip() for line in lines)
            return f"`{text}` ({file.name}, line {first})"
    return place
