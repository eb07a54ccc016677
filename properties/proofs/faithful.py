"""Is the evaluator the spec? It is held against TLC's graph, state by state, and step by step.

From each state of a configuration's graph the evaluator must take exactly TLC's steps, to exactly
TLC's successors: edges and non-edges. The conjuncts of an invariant must hold in each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from attrs import define, field, frozen

from properties.proofs.actions import ActionStep, steps_of_next, taken
from properties.proofs.evaluate import Evaluator
from properties.proofs.shapes import Shape
from properties.proofs.values import Value
from properties.tla.graph import Graph
from properties.tla.syntax import to_tla
from properties.tla.values import Value as Plain

Key = tuple[Plain, ...]


@define
class Comparison:
    """The result of a comparison: pairs of a state and a step, edges, and differences."""

    states: int = 0
    pairs: int = 0
    edges: int = 0
    different: list[str] = field(factory=list[str])
    broken: dict[str, int] = field(factory=dict[str, int])
    """Conjuncts that do not hold in a state of the graph, with its number."""

    @property
    def agrees(self) -> bool:
        """True if nothing differed and every conjunct held."""
        return not self.different and not self.broken


@frozen
class LiftedGraph:
    """A graph whose values the evaluator understands."""

    ev: Evaluator
    shapes: Mapping[str, Shape]
    graph: Graph
    values: Sequence[Sequence[Value]]

    @classmethod
    def of(cls, ev: Evaluator, shapes: Mapping[str, Shape], graph: Graph) -> "LiftedGraph":
        """Lift each distinct value of each variable once."""
        pairs = zip(graph.variables, graph.values, strict=True)
        return cls(ev, shapes, graph, [[shapes[name].lift(v) for v in vs] for name, vs in pairs])

    def state(self, number: int) -> dict[str, Value]:
        """A state of the graph, as the evaluator holds it."""
        ids = self.graph.states[number]
        return {name: self.values[i][ids[i]] for i, name in enumerate(self.graph.variables)}

    def key(self, state: Mapping[str, Value]) -> Key:
        """A state as TLC writes it."""
        return tuple(
            self.shapes[name].plain(self.shapes[name].fit(state[name], []), None)
            for name in self.graph.variables
        )

    def successors(self, number: int, step: ActionStep) -> Iterator[dict[str, Value]]:
        """A step's successors of a state of the graph."""
        for condition, behind in taken(self.ev, step, self.state(number)):
            if condition is True:
                yield {**behind}


def compare(
    lifted: LiftedGraph, invariant: Sequence[str], most: int | None = None, seed: int = 1
) -> Comparison:
    """Compare in every state of the graph, or in `most` of them, drawn by this seed."""
    graph, found = lifted.graph, Comparison()
    labels = {
        (label.name, tuple(label.params.values())): number
        for number, label in enumerate(graph.actions)
    }
    steps = [(step, labels.get((step.action, step.args))) for step in steps_of_next(lifted.ev)]
    numbers = list(range(len(graph.states)))
    if most is not None and most < len(numbers):
        numbers = sorted(Random(seed).sample(numbers, most))
    for number in numbers:
        found.states += 1
        _compare_state(lifted, number, steps, found)
        for name in invariant:
            if lifted.ev.define(name, lifted.state(number)) is not True:
                found.broken.setdefault(name, number)
    return found


def _compare_state(
    lifted: LiftedGraph,
    number: int,
    steps: Sequence[tuple[ActionStep, int | None]],
    found: Comparison,
) -> None:
    graph = lifted.graph
    for step, label in steps:
        targets = () if label is None else graph.out[number].get(label, ())
        expected = {tuple(graph.state(target).values()) for target in targets}
        got = {lifted.key(behind) for behind in lifted.successors(number, step)}
        found.pairs += 1
        found.edges += len(expected)
        if got != expected:
            state = ", ".join(f"{k} = {to_tla(x)}" for k, x in graph.state(number).items())
            found.different.append(
                f"{step} leads to {len(got)} states by the evaluator and to {len(expected)} by "
                f"TLC, from: {state}"
            )


@frozen
class Story:
    """A path of the graph and one step more, behind which a conjunct is broken."""

    steps: tuple[str, ...]
    broken: str

    @property
    def length(self) -> int:
        """States in the story, the initial one included."""
        return len(self.steps) + 1


def reached(lifted: LiftedGraph, action: str, conjunct: str) -> Story | None:
    """The shortest path of the graph behind which one step of an action breaks a conjunct.

    The graph is that of the rule as it is, which the changed rule of `lifted.ev` allows as well.
    """
    steps = [step for step in steps_of_next(lifted.ev) if step.action == action]
    for number in range(len(lifted.graph.states)):  # in breadth-first order
        for step in steps:
            for behind in lifted.successors(number, step):
                fitted = {n: shape.fit(behind[n], []) for n, shape in lifted.shapes.items()}
                if lifted.ev.define(conjunct, fitted) is not True:
                    path = lifted.graph.shortest_path(number)
                    told = [str(lifted.graph.actions[label]) for label, _ in path]
                    return Story((*told, str(step)), conjunct)
    return None
