"""The checks that may find a mutant, each as one question: do you?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeAlias

from chaos.campaign import first_failing_seed
from properties.conformance.binding import snake_case
from properties.conformance.discrepancy import Discrepancy
from properties.conformance.exhaustive import exhaustive
from properties.conformance.machines import Machines
from properties.conformance.refusals import refusals_of
from properties.conformance.scope import Scope
from properties.conformance.stateful import search
from properties.conformance.walks import Run, stroll, tour
from properties.modules.descriptor import module
from properties.mutants.catalogue import Mutant, applied
from properties.tla import to_json
from properties.tla.tracecheck import validate_all
from properties.tla.tracefile import Event, Trace
from refimpl.errors import Refusal

#: Hypothesis and TLC are asked about so many of a module's scopes, as they take longer.
ASKED = 2

STROLL_STEPS, TOUR_STEPS = 8_000, 40_000
EXAMPLES, STEPS = 25, 25
SEEDS = range(1, 21)
TRACES, TRACE_EVENTS = 4, 40
#: How many refused steps a free walk puts up with before it ends.
PATIENCE = 500

Killer: TypeAlias = Callable[[Sequence[str]], object]
"""Asked of some modules, while their machines are broken; true if it finds that they are."""


@cache
def scope(name: str, cfg: str) -> Scope:
    return Scope.of(module(name).binding, cfg)


def scopes(names: Iterable[str], most: int | None = None) -> Iterator[Scope]:
    """Where bugs of these modules' machines are looked for, small scopes first."""
    for name in names:
        for cfg in module(name).table().scopes.mutants[:most]:
            yield scope(name, cfg)


def by_exhaustion(names: Sequence[str]) -> Discrepancy | None:
    """Every step from every state, and in small scopes the name of each refusal."""
    return _any(
        found for one in scopes(names) for found in exhaustive(Machines(one, "exhaustive"))
    ) or _any(found for one in scopes(names, ASKED) for found in refusals_of(one).differences())


def by_walk(names: Sequence[str]) -> Discrepancy | None:
    """A random walk, never reloaded."""
    return _any(
        found
        for one in scopes(names)
        for found in stroll(Run(Machines(one, "walk")), Random(1), STROLL_STEPS)
    )


def by_tour(names: Sequence[str]) -> Discrepancy | None:
    """The first part of a tour over every edge."""
    toured = [scope(name, cfg) for name in names for cfg in module(name).table().scopes.tour]
    return _any(
        found for one in toured for found in islice(tour(Run(Machines(one, "tour"))), TOUR_STEPS)
    )


def by_hypothesis(names: Sequence[str]) -> Discrepancy | None:
    """Hypothesis, with the graph as its oracle."""
    return _any(search(one, set(), EXAMPLES, STEPS, shrink=False) for one in scopes(names, ASKED))


def by_chaos(names: Sequence[str]) -> object:
    """The simulator: its oracles judge, or something breaks."""
    return first_failing_seed(SEEDS)


def by_traces(mutants: Iterable[Mutant]) -> set[str]:
    """TLC on recordings of the machines, alone and unwatched: the mutants whose traces it rejects.

    All recordings with the same constants go to TLC together, so one start serves all mutants.
    """
    traces = [trace for mutant in mutants for trace in _recordings(mutant)]
    return {one.trace.run.split(" ")[0] for one in validate_all(traces) if not one.accepted}


def _any(results: Iterable[Discrepancy | None]) -> Discrepancy | None:
    return next(filter(None, results), None)


def _recordings(mutant: Mutant) -> Iterator[Trace]:
    with applied(mutant):
        for one in scopes(mutant.modules, ASKED):
            for number in range(TRACES):
                yield _record(one, f"{mutant.name} {one.cfg} {number}", Random(number))


def _record(one: Scope, name: str, random: Random) -> Trace:
    """What the machines do when nobody compares: random steps, as far as they take them."""
    system, labels = one.system(), one.graph.actions
    choosing = Machines(one, "traces").choosing
    constants = {key: to_json(value) for key, value in one.constants.items()}
    trace = Trace(Path(name), name, one.binding.module, "the machines", constants)
    for _ in range(TRACE_EVENTS * PATIENCE):
        if len(trace.events) >= TRACE_EVENTS:
            break
        number = random.randrange(len(labels))
        label = labels[number]
        arguments = {"choice": 0} if number in choosing else {}
        try:
            getattr(system, snake_case(label.name))(*label.params.values(), **arguments)
        except Refusal:
            continue
        except Exception:  # a crash is for the other methods to see
            break
        params = {formal: to_json(value) for formal, value in label.params.items()}
        after = {variable: to_json(value) for variable, value in system.abstract().items()}
        trace.events.append(Event(len(trace.events) + 1, label.name, params, after))
    return trace
