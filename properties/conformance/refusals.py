"""Compares refusals: a forbidden step is refused for the reason of a false guard.

Clients react to an error's name, so the spec names one for each guard, in `[refusals]` of the
module's `verdicts.toml`. If several guards are false, any of them may be the reason: machines check
in an order of their own. A binding's own refusal needs a reason in the spec as well, so that no
binding refuses a step in the machines' place.
"""

from collections.abc import Iterator, Mapping
from functools import cache

from attrs import define, field

from properties.conformance.discrepancy import Discrepancy, guard_of
from properties.conformance.exhaustive import METHOD, exhaustive
from properties.conformance.machines import Machines
from properties.conformance.scope import ConformanceScope
from properties.tla import InputError, SpecTree
from properties.tla.guards import FalseGuards, load_false_guards
from properties.tla.verdicts import load
from refimpl.errors import Refusal


@define(eq=False)
class Refusals:
    """The machines of a scope, its false guards, and the names that the spec gives them."""

    machines: Machines
    guards: FalseGuards
    names: Mapping[str, tuple[str, ...]]
    compared: int = field(default=0, init=False)
    """The number of refused attempts that had a name to compare."""
    _right: set[tuple[int, int, type[Refusal]]] = field(init=False)
    """Labels, sets of false guards, and the refusal that the spec names for them."""

    def __attrs_post_init__(self) -> None:
        self._right = set()

    def differences(self) -> Iterator[Discrepancy | None]:
        """The exhaustive check, and in every state the name of every refusal."""
        return exhaustive(self.machines, self.compare)

    def compare(self, state: int, label: int, refusal: Refusal) -> Discrepancy | None:
        """Reports a refusal whose reason is not the spec's."""
        number = self.guards.rows[state][label]
        asked = label, number, refusal.__class__
        if asked in self._right:
            self.compared += 1
            return None
        if number < 0 or not self.guards.sets[number]:  # no single guard is to blame
            return None
        self.compared += 1
        if name_of(refusal) in self._names(label, number):
            self._right.add(asked)
            return None
        return self._differs(state, label, self.guards.sets[number], guard_of(refusal))

    def _names(self, label: int, number: int) -> frozenset[str]:
        """The names that a refusal may have where these guards are false."""
        action, false = self.machines.scope.graph.actions[label].name, self.guards.sets[number]
        return frozenset(name for guard in false for name in self._named(action, guard))

    def _named(self, action: str, guard: str) -> tuple[str, ...]:
        for key in (f"{action}: {guard}", guard):
            if key in self.names:
                return self.names[key]
        module = self.machines.scope.binding.module
        raise InputError(
            f"{module}: [refusals] of its verdicts.toml has no name for {action}: {guard}"
        )

    def _differs(self, state: int, label: int, false: tuple[str, ...], code: str) -> Discrepancy:
        action = self.machines.scope.graph.actions[label].name
        reasons = [f"{' or '.join(self._named(action, guard))}, for `{guard}`" for guard in false]
        spec = f"refuses it with {'; '.join(reasons)}"
        step = str(self.machines.scope.graph.actions[label])
        return self.machines.told(state, step, spec, f"refuses it: {code}")


def refusals_of(scope: ConformanceScope) -> Refusals:
    """The refusals to compare in a scope. Raises `InputError` if TLC cannot evaluate its guards."""
    module = scope.binding.module
    names = load(module, SpecTree()).refusals
    return Refusals(Machines(scope, METHOD), load_false_guards(module, scope.cfg), names)


def name_of(refusal: Refusal) -> str:
    """A machine's refusal by Kafka's name, a binding's own by its class."""
    return _name(refusal.__class__)


@cache
def _name(kind: type[Refusal]) -> str:
    return kind.__name__ if kind.kafka_error == Refusal.kafka_error else kind.kafka_error
