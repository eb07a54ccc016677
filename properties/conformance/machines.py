"""The machines of a scope, held against the graph one label at a time."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any

from attrs import define, field

from properties.conformance.binding import CHOICE, Binding, NoSuchChoice, snake_case
from properties.conformance.discrepancy import Discrepancy, changes
from properties.conformance.memory import Memory
from properties.conformance.scope import Scope
from properties.tla import Value
from refimpl.errors import Refusal


@define(eq=False)
class Machines:
    """One system and its graph. `reached` counts, per label, the edges found to be right."""

    scope: Scope
    method: str
    system: Binding = field(init=False)
    plain: dict[int, Callable[[], None]] = field(init=False)
    choosing: dict[int, Callable[..., None]] = field(init=False)
    reached: Counter[int] = field(factory=Counter[int], init=False)
    _looks: list[tuple[Callable[[Any], Value], dict[Value, int]]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again with new machines, in the initial state."""
        graph, binding = self.scope.graph, self.scope.binding
        self.system = self.scope.system()
        choosing = {name for name, formals in binding.actions().items() if CHOICE in formals}
        self.plain, self.choosing = {}, {}
        for number, label in enumerate(graph.actions):
            calls = self.choosing if label.name in choosing else self.plain
            method = getattr(self.system, snake_case(label.name))
            calls[number] = partial(method, *label.params.values())
        looks = binding.variables()
        self._looks = [
            (looks[name], graph.intern[i]) for i, name in enumerate(graph.variables)
        ]

    def where(self) -> int | None:
        """The number of the state that the machines are in, None if the spec never gets there."""
        system = self.system
        try:
            key = tuple([intern[look(system)] for look, intern in self._looks])
        except KeyError:
            return None
        return self.scope.graph.state_ids.get(key)

    def candidates(self, label: int) -> Iterable[Callable[[], None]]:
        """The calls that a label stands for: one, or one for each choice."""
        plain = self.plain.get(label)
        if plain is not None:
            return (plain,)
        return (partial(self.choosing[label], choice=choice) for choice in count())

    def judge(self, state: int, label: int, memory: Memory) -> Discrepancy | None:
        """Try a label in a state, every choice of it, and go back: is it as in the spec?"""
        allowed = self.scope.graph.out[state].get(label, ())
        missing = set(allowed)
        refusal: Refusal | None = None
        for call in self.candidates(label):
            try:
                call()
            except NoSuchChoice:
                break
            except Refusal as refused:
                refusal = refused
                continue
            except Exception as crash:
                return self.crashed(state, label, crash)
            to = self.where()
            if to not in allowed:
                return self.differs(state, label, f"takes it: {self.changed_since(state)}")
            missing.discard(to)
            memory.restore()
        if missing:
            why = "no choice leads there" if refusal is None else f"refuses it: {_why(refusal)}"
            return self.differs(state, label, why)
        self.reached[label] += len(allowed)
        return None

    # How a difference is told

    def changed_since(self, state: int) -> str:
        """What the machines changed, seen from a state of the spec."""
        return changes(self.scope.graph.state(state), self.system.abstract())

    def crashed(self, state: int, label: int, crash: Exception) -> Discrepancy:
        return self.differs(state, label, f"crashes: {type(crash).__name__}: {crash}")

    def differs(self, state: int, label: int, code: str) -> Discrepancy:
        """A label that the machines treat differently, after the shortest path to the state."""
        graph = self.scope.graph
        before = graph.state(state)
        allowed = graph.out[state].get(label, ())
        spec = " or ".join(changes(before, graph.state(to)) for to in allowed)
        return self.told(state, str(graph.actions[label]), spec or "not allowed here", code)

    def told(self, state: int, step: str, spec: str, code: str) -> Discrepancy:
        graph = self.scope.graph
        path = tuple(str(graph.actions[label]) for label, _ in graph.shortest_path(state))
        return Discrepancy(self.scope.name, self.method, path, graph.state(state), step, spec, code)


def _why(refusal: Refusal) -> str:
    """A refusal's own name, which is more exact than the error that clients know."""
    return type(refusal).__name__
