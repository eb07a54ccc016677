"""The checks that may find a mutant, each as one question: do you?"""

from collections.abc import Callable, Iterable, Iterator
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

Killer: TypeAlias = Callable[[Mutant], bool]


@cache
def scope(name: str, cfg: str) -> Scope:
    return Scope.of(module(name).binding, cfg)


def scopes(mutant: Mutant) -> Iterator[Scope]:
    """The scopes in which a mutant may show, small ones first."""
    for name in mutant.modules:
        for cfg in module(name).table().scopes.mutants:
            yield scope(name, cfg)


def few_scopes(mutant: Mutant) -> Iterator[Scope]:
    for name in mutant.modules:
        for cfg in module(name).table().scopes.mutants[:ASKED]:
            yield scope(name, cfg)


def first(mutant: Mutant, check: Callable[[Scope], Discrepancy | None]) -> Discrepancy | None:
    """The first difference that a check finds in the machines with this bug."""
    with applied(mutant):
        return next(filter(None, map(check, scopes(mutant))), None)


def by_exhaustion(mutant: Mutant) -> Discrepancy | None:
    """Every step from every state."""
    return first(mutant, lambda one: _any(exhaustive(Machines(one, "exhaustive"))))


def by_walk(mutant: Mutant) -> Discrepancy | None:
    """A random walk, never reloaded."""

    def walk(one: Scope) -> Discrepancy | None:
        return _any(stroll(Run(Machines(one, "walk")), Random(1), STROLL_STEPS))

    return first(mutant, walk)


def by_tour(mutant: Mutant) -> Discrepancy | None:
    """The first part of a tour over every edge."""
    with applied(mutant):
        toured = [
            scope(name, cfg) for name in mutant.modules for cfg in module(name).table().scopes.tour
        ]
        tours = (_any(islice(tour(Run(Machines(one, "tour"))), TOUR_STEPS)) for one in toured)
        return next(filter(None, tours), None)


def by_hypothesis(mutant: Mutant) -> Discrepancy | None:
    """Hypothesis, with the graph as its oracle."""
    with applied(mutant):
        found = (search(one, set(), EXAMPLES, STEPS, shrink=False) for one in few_scopes(mutant))
        return next(filter(None, found), None)


def by_chaos(mutant: Mutant) -> object:
    """The simulator: its oracles judge, or something breaks."""
    with applied(mutant):
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
        for one in few_scopes(mutant):
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
