"""The checks that may find a mutant, each as one question: do you?"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeVar

from attrs import evolve

from chaos.campaign import first_failing_seed
from properties.conformance.binding import snake_case
from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.refusals import Refusals
from properties.conformance.refusals import refusals_of as _refusals_of
from properties.conformance.scope import ConformanceScope
from properties.conformance.stateful import search
from properties.conformance.walks import SideBySide, stroll, tour
from properties.modules.descriptor import module
from properties.mutants.catalogue import Mutant, applied
from properties.mutants.forked import Trial, of_the_node
from properties.tla import to_json
from properties.tla.tracecheck import validate_all
from properties.tla.tracefile import Trace, TraceEvent
from refimpl.errors import Refusal

T = TypeVar("T")

#: Hypothesis and TLC are asked about so many of a module's scopes, as they take longer.
ASKED = 2

STROLL_STEPS, TOUR_STEPS = 8_000, 40_000
EXAMPLES, STEPS = 25, 25
SEEDS = range(1, 21)
TRACES, TRACE_EVENTS = 4, 40
#: The results that one scope gives before the next one's turn.
TURN = 200
#: The states of a scope that are asked first.
FIRST = 300
#: The refused steps after which a free walk ends.
PATIENCE = 500


@cache
def scope(name: str, cfg: str) -> ConformanceScope:
    return ConformanceScope.of(module(name).binding, cfg)


@cache
def _guards(name: str, cfg: str) -> Refusals:
    return _refusals_of(scope(name, cfg))


def refusals_of(one: ConformanceScope) -> Refusals:
    """As in conformance; the guards are read once."""
    return evolve(_guards(one.binding.module, one.cfg), machines=Machines(one, "exhaustive"))


def prepare(one: Trial) -> None:
    """Read the graphs that are asked about a mutant."""
    for of in scopes(one.modules):
        refusals_of(of)
    for of in {*scopes(one.modules), *toured(one.modules)}:
        Machines(of, "prepare").where()


def scopes(names: Iterable[str], most: int | None = None) -> Iterator[ConformanceScope]:
    """The scopes in which bugs of these modules' machines are searched, small ones first."""
    for name in names:
        for cfg in module(name).table().scopes.mutants[:most]:
            yield scope(name, cfg)


def toured(names: Iterable[str]) -> list[ConformanceScope]:
    """The scopes in which tours of these modules' machines begin."""
    return [scope(name, cfg) for name in names for cfg in module(name).table().scopes.tour]


def by_exhaustion(names: Sequence[str], most: int | None = None) -> Discrepancy | None:
    """Every step from every state, and the name of each refusal."""
    return _any(refusals_of(one).differences() for one in scopes(names, most))


def by_first_states(names: Sequence[str]) -> Discrepancy | None:
    """The same in the first states alone, which find most bugs at once."""
    return _any(islice(refusals_of(one).differences(), FIRST) for one in scopes(names))


def by_small_scopes(names: Sequence[str]) -> Discrepancy | None:
    """The same in the small scopes."""
    return by_exhaustion(names, ASKED)


def by_walk(names: Sequence[str], most: int | None = None) -> Discrepancy | None:
    """A random walk, never reloaded."""
    return _any(
        stroll(SideBySide(Machines(one, "walk")), Random(1), STROLL_STEPS)
        for one in scopes(names, most)
    )


def by_tour(names: Sequence[str]) -> Discrepancy | None:
    """The first part of a tour over every edge."""
    return _any(
        islice(tour(SideBySide(Machines(one, "tour"))), TOUR_STEPS) for one in toured(names)
    )


def by_hypothesis(names: Sequence[str]) -> Discrepancy | None:
    """Hypothesis, with the graph as its oracle."""
    searched = (search(one, set(), EXAMPLES, STEPS, shrink=False) for one in scopes(names, ASKED))
    return next(filter(None, searched), None)


@of_the_node
def by_chaos(names: Sequence[str]) -> object:
    """The simulator: its oracles judge, or something breaks."""
    return first_failing_seed(SEEDS, files=False)


@of_the_node
def by_chaos_on_a_store(names: Sequence[str]) -> object:
    """The simulator with controllers that a store elects."""
    return first_failing_seed(SEEDS, files=False, store=True)


def by_traces(mutants: Iterable[Mutant]) -> set[str]:
    """TLC on recordings of the machines, alone and unwatched: the mutants whose traces it rejects.

    All recordings with the same constants go to TLC together, so one start serves all mutants.
    """
    traces = [trace for mutant in mutants for trace in _recordings(mutant)]
    return {one.trace.run.split(" ")[0] for one in validate_all(traces) if not one.accepted}


def _any(searches: Iterable[Iterator[Discrepancy | None]]) -> Discrepancy | None:
    """The first difference that one of these searches finds.

    They take turns, because most bugs show soon in some scope. A scope's graph is built at its
    first turn.
    """
    waiting = deque[Iterator[Discrepancy | None]]()
    for one in _in_turn(searches, waiting):
        for _ in range(TURN):
            found = next(one, ...)
            if found is ...:
                break
            if found:
                return found
        else:
            waiting.append(one)
    return None


def _in_turn(searches: Iterable[T], waiting: deque[T]) -> Iterator[T]:
    """Each of these once, then those that wait for another turn."""
    yield from searches
    while waiting:
        yield waiting.popleft()


def _recordings(mutant: Mutant) -> Iterator[Trace]:
    with applied(mutant):
        for one in scopes(mutant.modules, ASKED):
            for number in range(TRACES):
                yield _record(one, f"{mutant.name} {one.cfg} {number}", Random(number))


def _record(one: ConformanceScope, name: str, random: Random) -> Trace:
    """The machines' trace without comparison: random steps, as far as the machines take them."""
    system, labels = one.system(), one.graph.actions
    plain = Machines(one, "traces").plain
    constants = {key: to_json(value) for key, value in one.constants.items()}
    trace = Trace(Path(name), name, one.binding.module, "the machines", constants)
    for _ in range(TRACE_EVENTS * PATIENCE):
        if len(trace.events) >= TRACE_EVENTS:
            break
        number = random.randrange(len(labels))
        label = labels[number]
        arguments = {} if number in plain else {"choice": 0}
        try:
            getattr(system, snake_case(label.name))(*label.params.values(), **arguments)
        except Refusal:
            continue
        except Exception:  # a crash is for the other methods to see
            break
        params = {formal: to_json(value) for formal, value in label.params.items()}
        after = {variable: to_json(value) for variable, value in system.abstract().items()}
        trace.events.append(TraceEvent(len(trace.events) + 1, label.name, params, after))
    return trace
