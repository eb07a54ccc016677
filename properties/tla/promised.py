"""Holds every state of a recording to the promises of its spec: `highwater validate --promises`.

The `ok_` rows of a module's `verdicts.toml` say which invariants hold under which rules. TLC has
shown them for every state within small bounds; here they are asked of states far beyond those.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from attrs import evolve

from properties.tla.event_values import from_json
from properties.tla.specs import ModelConfig, SpecTree
from properties.tla.syntax import parse
from properties.tla.tracecheck import TraceVerdict, validate_all
from properties.tla.tracefile import Trace
from properties.tla.values import Value
from properties.tla.verdicts import Purpose, Table, load


def promises_of(trace: Trace, table: Table, tree: SpecTree) -> tuple[str, ...]:
    """The invariants of the `ok_` rows that have the rules of a trace.

    Those that try every number up to a bound are asked within the table's narrow bounds alone.
    """
    rules = {name: from_json(value) for name, value in (trace.constants or {}).items()}
    rules = {name: rules[name] for name in table.rules if name in rules}
    models = (
        ModelConfig.read(tree.model(table.module, row.cfg))
        for row in table.verdicts
        if row.kind is Purpose.OK
    )
    named = [name for model in models if _rules(model, table) == rules for name in model.invariants]
    skipped = () if _is_narrow(trace, table) else table.recordings.costly
    return tuple(dict.fromkeys(name for name in named if name not in skipped))


def _rules(model: ModelConfig, table: Table) -> Mapping[str, Value]:
    return {n: parse(text) for n, text in model.assigned().items() if n in table.rules}


def validate_promised(traces: Sequence[Trace], tree: SpecTree) -> list[TraceVerdict]:
    """Judge traces as `validate_all` does, and each state by the promises of the trace's rules.

    A trace that is a behaviour under the narrower settings of the module's table is held to the
    promises of these. The `trace` of a verdict has the constants under which it was judged.
    """
    narrow = [evolve(trace, constants=_narrowed(trace, tree)) for trace in traces]
    verdicts = _judged(narrow, tree)
    wider = [n for n, verdict in enumerate(verdicts) if _is_wider(verdict, traces[n])]
    for n, verdict in zip(wider, _judged([traces[n] for n in wider], tree), strict=True):
        verdicts[n] = verdict
    return verdicts


def _is_narrow(trace: Trace, table: Table) -> bool:
    return {**(trace.constants or {}), **table.recordings.narrow} == trace.constants


def _narrowed(trace: Trace, tree: SpecTree) -> Mapping[str, Any]:
    return {**(trace.constants or {}), **load(trace.spec, tree).recordings.narrow}


def _is_wider(verdict: TraceVerdict, trace: Trace) -> bool:
    """True for a trace that only its own settings allow."""
    narrow = verdict.trace.constants != trace.constants
    return narrow and not verdict.accepted and not verdict.promise


def _judged(traces: Sequence[Trace], tree: SpecTree) -> list[TraceVerdict]:
    """The verdicts in the order of the traces; those with the same promises are judged together."""
    asked = [promises_of(trace, load(trace.spec, tree), tree) for trace in traces]
    found: dict[int, TraceVerdict] = {}
    in_order = sorted(range(len(traces)), key=asked.__getitem__)
    for promises, numbers in groupby(in_order, asked.__getitem__):
        alike = list(numbers)
        verdicts = validate_all([traces[n] for n in alike], tree, promises)
        found.update(zip(alike, verdicts, strict=True))
    return [found[n] for n in range(len(traces))]


def kept(verdicts: Iterable[TraceVerdict], tree: SpecTree) -> list[str]:
    """For each promise of each spec, the number of states in which it was asked and holds."""
    states: dict[tuple[str, str], int] = {}
    for verdict in verdicts:
        trace = verdict.trace
        for promise in promises_of(trace, load(trace.spec, tree), tree):
            key = (trace.spec, promise)
            states[key] = states.get(key, 0) + len(verdict.taken)
    return [f"{spec}: {name} holds in {n:,} states" for (spec, name), n in sorted(states.items())]
