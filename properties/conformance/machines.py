"""The machines of a scope, held against the graph one label at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any

from attrs import define, evolve, field, frozen

from properties.conformance.binding import CHOICE, Binding, NoSuchChoice, snake_case
from properties.conformance.discrepancy import FORBIDDEN, Discrepancy, changes, guard_of
from properties.conformance.memory import Snapshot
from properties.conformance.scope import ConformanceScope
from properties.tla import Value
from refimpl.errors import Refusal


@frozen
class _Choices:
    """The calls of an action that chooses: there is no end of them, so one of them has to say."""

    call: Callable[..., None]

    def __iter__(self) -> Iterator[Callable[[], None]]:
        return (partial(self.call, choice=choice) for choice in count())


@define(eq=False)
class Machines:
    """One system and its graph; `method` names the caller, for the story."""

    scope: ConformanceScope
    method: str
    system: Binding = field(init=False)
    calls: list[Iterable[Callable[[], None]]] = field(init=False)
    """The calls that try each label: one, or one for each choice, up to `NoSuchChoice`."""
    plain: dict[int, Callable[[], None]] = field(init=False)
    """The call of each label that has nothing to choose."""
    refused: Refusal | None = field(default=None, init=False)
    """The last refusal of a label."""
    reached: Counter[int] = field(factory=Counter[int], init=False)
    """Per label, how many edges `judge` found to be right."""
    _looks: list[tuple[Callable[[Any], Value], dict[Value, int]]] = field(init=False)
    _methods: list[tuple[bool, str, tuple[Value, ...]]] = field(init=False)
    """Of each label whether it chooses, its method and its arguments."""

    def __attrs_post_init__(self) -> None:
        graph, binding = self.scope.graph, self.scope.binding
        self._looks = [
            (binding.projection[name], graph.intern[i]) for i, name in enumerate(graph.variables)
        ]
        choosing = {name for name, formals in binding.actions().items() if CHOICE in formals}
        self._methods = [
            (label.name in choosing, snake_case(label.name), tuple(label.params.values()))
            for label in graph.actions
        ]
        self.reset()

    def reset(self) -> None:
        """Begin again with new machines, in the initial state."""
        system = self.system = self.scope.system()
        self.calls, self.plain = [], {}
        for number, (chooses, method, arguments) in enumerate(self._methods):
            call = partial(getattr(system, method), *arguments)
            self.calls.append(_Choices(call) if chooses else (call,))
            if not chooses:
                self.plain[number] = call

    def where(self) -> int | None:
        """The number of the state that the machines are in, None if the spec never gets there."""
        system = self.system
        try:
            key = tuple([intern[look(system)] for look, intern in self._looks])
        except KeyError:
            return None
        return self.scope.graph.state_ids.get(key)

    def is_in(self, state: int) -> bool:
        """True if the machines are in this state: `where() == state`, without hashing a value."""
        system, graph = self.system, self.scope.graph
        there = [
            known[number] for known, number in zip(graph.values, graph.states[state], strict=True)
        ]
        return [look(system) for look, _ in self._looks] == there

    def outcome(self, state: int, label: int) -> int | str | None:
        """Try a label without a choice: its successor, a difference, or None if it is refused."""
        return self._tried(self.plain[label], state, label)

    def outcomes(self, state: int, label: int) -> Iterator[int | str]:
        """Try each choice of a label in this state: its successor, or a difference.

        A refused choice yields nothing. A caller that asks for a further outcome has restored the
        machines.
        """
        for call in self.calls[label]:
            try:
                outcome = self._tried(call, state, label)
            except NoSuchChoice:
                return
            if outcome is not None:
                yield outcome

    def _tried(self, call: Callable[[], None], state: int, label: int) -> int | str | None:
        try:
            call()
        except NoSuchChoice:
            raise
        except Refusal as refusal:
            self.refused = refusal
            return None
        except Exception as crash:
            return _crash(crash)
        allowed = self.scope.graph.out[state].get(label, ())
        if len(allowed) == 1:
            return allowed[0] if self.is_in(allowed[0]) else self._took(state)
        to = self.where()
        if to in allowed:
            return to
        return self._took(state)

    def judge(self, state: int, label: int, memory: Snapshot) -> Discrepancy | None:
        """Try a label and go back: does it lead to all that the spec allows, and nowhere else?"""
        allowed = self.scope.graph.out[state].get(label, ())
        if len(allowed) == 1 and self._leads(label, allowed[0]):
            memory.restore()
            self.reached[label] += 1
            return None
        memory.restore()
        missing = set(allowed)
        for outcome in self.outcomes(state, label):
            if isinstance(outcome, str):
                return self.differs(state, label, outcome)
            missing.discard(outcome)
            memory.restore()
        if missing:
            return self.differs(state, label, self.refusal)
        self.reached[label] += len(allowed)
        return None

    def _leads(self, label: int, to: int) -> bool:
        """True if a label without a choice leads there. This usual case is short.

        If not, `judge` tries again and finds the reason.
        """
        call = self.plain.get(label)
        if call is None:
            return False
        try:
            call()
        except Exception:
            return False
        return self.is_in(to)

    @property
    def refusal(self) -> str:
        """The last refusal of a label, with its guard."""
        return f"refuses it: {guard_of(self.refused)}" if self.refused else "does nothing"

    # Reports of differences

    def changed_since(self, state: int) -> str:
        """The machines' changes, relative to a state of the spec."""
        return changes(self.scope.graph.state(state), self.system.abstract())

    def differs(self, state: int, label: int, code: str) -> Discrepancy:
        """A label that the machines treat differently, after the shortest path to the state."""
        graph = self.scope.graph
        before = graph.state(state)
        allowed = graph.out[state].get(label, ())
        spec = " or ".join(changes(before, graph.state(to)) for to in allowed)
        step = str(graph.actions[label])
        found = self.told(state, step, spec or FORBIDDEN, code)
        return evolve(found, at=(state, label))

    def crashed(self, state: int, label: int, crash: Exception) -> Discrepancy:
        """A label at which the machines neither refuse nor go on."""
        return self.differs(state, label, _crash(crash))

    def took(self, state: int, label: int) -> Discrepancy:
        """A label that the machines have just taken, and not as the spec says."""
        return self.differs(state, label, self._took(state))

    def _took(self, state: int) -> str:
        return f"takes it: {self.changed_since(state)}"

    def told(self, state: int, step: str, spec: str, code: str) -> Discrepancy:
        graph = self.scope.graph
        path = tuple([str(graph.actions[label]) for label, _ in graph.shortest_path(state)])
        return Discrepancy(self.scope.name, self.method, path, graph.state(state), step, spec, code)

    def sharing(self, state: int, memory: Snapshot) -> Discrepancy | None:
        """Reports two parts of the machines that hold the same mutable object."""
        if not memory.shared:
            return None
        thing = memory.shared[0]
        code = f"two parts hold the same {type(thing).__name__}, {thing}"
        return self.told(state, "look closely", "no part changes with another", code)


def _crash(crash: Exception) -> str:
    return f"crashes: {type(crash).__name__}: {crash}"
