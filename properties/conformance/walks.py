"""Walks: the machines go through the graph from the initial state and are never reloaded.

They find errors that the exhaustive check cannot see. Examples are state that the spec does not
have (a cache of epochs), and objects that two machines came to share. `tour` takes every edge of a
small graph by such a path, `stroll` as many as its time allows.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from random import Random

from attrs import define, evolve, field

from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.memory import Snapshot
from properties.conformance.scope import ConformanceScope

#: The most states that the tour searches for a missing edge before it starts again.
HORIZON = 64
#: The length of a stroll before it starts again.
STROLL = 60
#: The share of a stroll's attempts at forbidden steps.
FORBIDDEN = 0.25


@define
class SideBySide:
    """The machines and the spec, side by side; `taken` are the edges they have taken together."""

    machines: Machines
    state: int = field(init=False)
    tried: list[int] = field(init=False)
    """The labels since the beginning; refused ones too, as they may have left a trace."""
    taken: set[tuple[int, int, int]] = field(factory=set[tuple[int, int, int]], init=False)
    steps: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.again()

    @property
    def scope(self) -> ConformanceScope:
        return self.machines.scope

    def again(self) -> None:
        """Begin a new path, with new machines."""
        self.machines.reset()
        self.state = self.scope.graph.initial[0]
        self.tried = []

    def step(self, label: int, target: int | None = None) -> Discrepancy | None:
        """Try a label. A step that the spec allows must be done; one that it forbids must be
        refused.

        If an action chooses, `target` selects one of its outcomes.
        """
        self.steps += 1
        self.tried.append(label)
        allowed = self.scope.graph.out[self.state].get(label, ())
        if allowed and label in self.machines.plain:
            outcome = self.machines.outcome(self.state, label)
            if not isinstance(outcome, int):
                return self._differs(label, outcome or self.machines.refusal)
            self.taken.add((self.state, label, outcome))
            self.state = outcome
            return None
        memory = Snapshot.of(self.machines.system) if len(allowed) > 1 else None
        for outcome in self.machines.outcomes(self.state, label):
            if isinstance(outcome, str):
                return self._differs(label, outcome)
            if memory is None or target in (outcome, None):
                self.taken.add((self.state, label, outcome))
                self.state = outcome
                return None
            memory.restore()
        if allowed:
            return self._differs(label, self.machines.refusal)
        if not self.machines.is_in(self.state):
            code = f"{self.machines.refusal}, but {self.machines.changed_since(self.state)}"
            return self._differs(label, code)
        return None

    def forbidden(self) -> Discrepancy | None:
        """Try everything that the spec forbids here."""
        allowed = self.scope.graph.out[self.state]
        for label in range(len(self.scope.graph.actions)):
            if label not in allowed:
                for outcome in self.machines.outcomes(self.state, label):
                    return self._forbidden(label, str(outcome))
        if self.machines.is_in(self.state):
            return None
        code = f"together change something: {self.machines.changed_since(self.state)}"
        found = self.machines.told(self.state, "refused steps", "nothing changes", code)
        return self.on_this_path(found)

    def _forbidden(self, label: int, code: str) -> Discrepancy:
        self.tried.append(label)
        return self._differs(label, code)

    def sharing(self) -> Discrepancy | None:
        """Reports two parts of the machines that now hold the same mutable object."""
        found = self.machines.sharing(self.state, Snapshot.of(self.machines.system))
        return found and self.on_this_path(found)

    def _differs(self, label: int, code: str) -> Discrepancy:
        self.tried.pop()
        found = self.on_this_path(self.machines.differs(self.state, label, code))
        self.tried.append(label)
        return found

    def on_this_path(self, found: Discrepancy) -> Discrepancy:
        """A difference after the path that was really gone, not the shortest one to its state."""
        actions = self.scope.graph.actions
        return evolve(found, path=tuple([str(actions[label]) for label in self.tried]))

    def reached(self) -> Counter[int]:
        """Per label, how many edges were taken."""
        return Counter(label for _, label, _ in self.taken)


def stroll(run: SideBySide, random: Random, steps: int) -> Iterator[Discrepancy | None]:
    """A random walk: mostly steps that the spec allows, with a preference for new ones."""
    graph = run.scope.graph
    labels = range(len(graph.actions))
    for _ in range(steps):
        steps_here = graph.out[run.state]
        if not steps_here or len(run.tried) >= STROLL:
            yield run.sharing()
            run.again()
        elif random.random() < FORBIDDEN:
            yield run.step(random.choice(labels))
        else:
            edges = [(label, to) for label, targets in steps_here.items() for to in targets]
            fresh = [edge for edge in edges if (run.state, *edge) not in run.taken]
            yield run.step(*random.choice(fresh or edges))
    yield run.sharing()


def tour(run: SideBySide) -> Iterator[Discrepancy | None]:
    """Every edge, by as few restarts as a greedy traveller needs; at each state that is new to it
    everything that the spec forbids is tried as well."""
    graph = run.scope.graph
    missing = [
        [(label, to) for label, targets in steps.items() for to in targets] for steps in graph.out
    ]
    known: set[int] = set()

    def go(label: int, to: int) -> Iterator[Discrepancy | None]:
        source = run.state
        yield run.step(label, to)
        if (label, to) in missing[source]:
            missing[source].remove((label, to))
        if run.state not in known:
            known.add(run.state)
            yield run.forbidden()

    yield run.forbidden()
    for goal, edges in enumerate(missing):
        while edges:
            run.again()
            for label, to in graph.shortest_path(goal):
                yield from go(label, to)
            while route := _nearest(run, missing):
                for label, to in route:
                    yield from go(label, to)
            yield run.sharing()


def _nearest(
    run: SideBySide, missing: Sequence[list[tuple[int, int]]]
) -> Sequence[tuple[int, int]]:
    """The shortest way from here over the nearest edge that was not taken yet."""
    here = missing[run.state]
    if here:
        loops = [edge for edge in here if edge[1] == run.state]
        onward = [edge for edge in here if missing[edge[1]]]
        return (loops or onward or here)[:1]
    out = run.scope.graph.out
    ways: dict[int, tuple[tuple[int, int], ...]] = {run.state: ()}
    waiting = deque([run.state])
    while waiting and len(ways) < HORIZON:
        state = waiting.popleft()
        for label, targets in out[state].items():
            for to in targets:
                if to in ways:
                    continue
                ways[to] = (*ways[state], (label, to))
                if missing[to]:
                    return (*ways[to], missing[to][0])
                waiting.append(to)
    return ()


def shorten(run: SideBySide, labels: Sequence[int]) -> Discrepancy | None:
    """The shortest difference found by leaving out steps of a path that ends in one.

    None if the path, gone again, does not end in one.
    """
    shortest, found = list(labels), _replay(run, labels)
    size = len(shortest) // 2
    while found and size:
        start = 0
        while start < len(shortest):
            without = shortest[:start] + shortest[start + size :]
            fails = _replay(run, without)
            if fails:
                found, shortest = fails, run.tried[:]
            else:
                start += size
        size //= 2
    return found


def _replay(run: SideBySide, labels: Sequence[int]) -> Discrepancy | None:
    run.again()
    for label in labels:
        found = run.step(label)
        if found:
            return found
    return run.sharing()
