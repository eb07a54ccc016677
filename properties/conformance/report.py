"""The findings of each method in a scope, and the part of the scope that it reached."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from attrs import define, field, frozen

from properties.conformance.discrepancy import Discrepancy
from properties.conformance.exhaustive import exhaustive
from properties.conformance.machines import Machines
from properties.conformance.refusals import refusals_of
from properties.conformance.scope import ConformanceScope
from properties.conformance.stateful import Edge, search
from properties.conformance.walks import SideBySide, shorten, stroll, tour
from properties.tla import Label, SpecTree
from properties.tla.graph import NAMED_STEPS
from properties.tla.verdicts import Scopes, load

#: The largest graphs that machines are toured on that no state can be loaded into.
SMALL_ON_DISK = 10_000


@frozen
class MethodBudget:
    """The limits of methods that have no end of their own."""

    seed: int = 1
    stroll_steps: int = 20_000
    rounds: int = 2
    examples: int = 40
    steps: int = 30


@define
class MethodFindings:
    """The findings of one method in one scope."""

    method: str
    reached: Counter[int] = field(factory=Counter[int])
    cpu_s: float = 0.0
    steps: int = 0
    discrepancy: Discrepancy | None = None
    refusals: int = 0
    """The number of refusals compared by name."""
    named: bool = False
    """True if they were to be compared."""

    @property
    def edges(self) -> int:
        return self.reached.total()


@define
class ScopeReport:
    """All methods in one scope, without its graph."""

    scope: str
    states: int
    labels: tuple[Label, ...]
    edges: Counter[int]
    """Per label, how many edges the spec has."""
    found: list[MethodFindings] = field(factory=list[MethodFindings])

    @classmethod
    def of(cls, scope: ConformanceScope) -> "ScopeReport":
        """Of a scope that no method has been asked about yet."""
        graph = scope.graph
        counts: Counter[int] = Counter()
        for steps in graph.out:
            for label, targets in steps.items():
                counts[label] += len(targets)
        return cls(scope.name, len(graph.states), tuple(graph.actions), counts)

    @property
    def discrepancies(self) -> list[Discrepancy]:
        return [one.discrepancy for one in self.found if one.discrepancy]

    def as_json(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "states": self.states,
            "edges": self.edges.total(),
            "bindings": {
                str(label): {
                    "edges": self.edges[number],
                    **{one.method: one.reached[number] for one in self.found},
                }
                for number, label in enumerate(self.labels)
            },
            "methods": {
                one.method: {
                    "edges": one.edges,
                    "steps": one.steps,
                    "refusals": one.refusals,
                    "cpu_s": round(one.cpu_s, 3),
                    "edges_per_cpu_s": round(one.edges / one.cpu_s) if one.cpu_s else None,
                }
                for one in self.found
            },
            "discrepancies": [one.as_json() for one in self.discrepancies],
        }


Tick = Callable[[str, int, int], None]


def _silent(method: str, done: int, total: int) -> None:
    """A callback that does nothing."""


def check(scope: ConformanceScope, budget: MethodBudget, tick: Tick = _silent) -> ScopeReport:
    """Compare the machines with a scope by every method that its size allows.

    A method that finds a difference ends there. The others still run, because one may find a
    shorter story. `tick` receives the method, its progress, and its goal.
    """
    report = ScopeReport.of(scope)
    methods = [_exhaustively, _strolling]
    if scope.binding.variant:
        methods = [_strolling]
        if scope.graph.edge_count <= SMALL_ON_DISK:
            methods.insert(0, _touring)
    elif scope.cfg in _scopes(scope).tour:
        methods += [_touring, _searching]
    for method in methods:
        started = time.process_time()
        found = method(scope, budget, tick)
        found.cpu_s = time.process_time() - started
        report.found.append(found)
    return report


def _exhaustively(scope: ConformanceScope, budget: MethodBudget, tick: Tick) -> MethodFindings:
    named = scope.graph.edge_count <= NAMED_STEPS or scope.cfg in _scopes(scope).mutants
    refusals = refusals_of(scope) if named else None
    machines = refusals.machines if refusals else Machines(scope, "exhaustive")
    results = refusals.differences() if refusals else exhaustive(machines)
    states = len(scope.graph.states)
    steps, first = _first(results, lambda n: tick("exhaustive", n, states))
    attempts = steps * len(scope.graph.actions)
    compared = refusals.compared if refusals else 0
    return MethodFindings(
        "exhaustive",
        machines.reached,
        steps=attempts,
        discrepancy=first,
        refusals=compared,
        named=named,
    )


def _scopes(scope: ConformanceScope) -> Scopes:
    return load(scope.binding.module, SpecTree()).scopes


def _strolling(scope: ConformanceScope, budget: MethodBudget, tick: Tick) -> MethodFindings:
    run = SideBySide(Machines(scope, "walk"))
    path = stroll(run, Random(budget.seed), budget.stroll_steps)
    _, first = _first(path, lambda n: tick("walk", n, budget.stroll_steps))
    return _from_run("walk", run, first)


def _touring(scope: ConformanceScope, budget: MethodBudget, tick: Tick) -> MethodFindings:
    run = SideBySide(Machines(scope, "tour"))
    edges = scope.graph.edge_count
    _, first = _first(tour(run), lambda _: tick("tour", len(run.taken), edges))
    found = _from_run("tour", run, first)
    assert first or found.edges == edges, "the tour ended before it had taken every edge"
    return found


def _searching(scope: ConformanceScope, budget: MethodBudget, tick: Tick) -> MethodFindings:
    taken: set[Edge] = set()
    found = MethodFindings("Hypothesis")
    for number in range(budget.rounds):
        tick("Hypothesis", number, budget.rounds)
        found.discrepancy = search(scope, taken, budget.examples, budget.steps)
        if found.discrepancy:
            break
    found.reached = Counter(label for _, label, _ in taken)
    return found


def _from_run(method: str, run: SideBySide, first: Discrepancy | None) -> MethodFindings:
    found = MethodFindings(method, run.reached(), steps=run.steps)
    if first:
        found.discrepancy = shorten(run, run.tried) or first
    return found


def _first(
    results: Iterator[Discrepancy | None], tick: Callable[[int], None]
) -> tuple[int, Discrepancy | None]:
    """The number of results, and the first difference among them, which is the last result."""
    number = 0
    for number, result in enumerate(results):
        if result:
            return number, result
        if number % 1000 == 0:
            tick(number)
    return number, None
