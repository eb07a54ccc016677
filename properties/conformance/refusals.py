"""Which refusal it is: what the spec forbids must be refused for a reason that is a false guard's.

Clients react to the name of an error, so the spec names one for each guard, in `[refusals]` of the
module's `verdicts.toml`. Where several guards are false any of them may speak: machines check in
an order of their own. A refusal of the binding itself must have its reason in the spec as well, so
that no binding refuses what is for the machines to refuse.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from attrs import define, field

from properties.conformance.binding import NoSuchChoice
from properties.conformance.discrepancy import Discrepancy, guard_of
from properties.conformance.machines import Machines
from properties.conformance.memory import Memory
from properties.conformance.scope import Scope
from properties.tla import InputError, SpecTree
from properties.tla.guards import FalseGuards, load_false_guards
from properties.tla.verdicts import load
from refimpl.errors import Refusal

METHOD = "refusals"


@define(eq=False)
class Refusals:
    """The machines of a scope, its false guards, and the names that the spec gives them."""

    machines: Machines
    guards: FalseGuards
    names: Mapping[str, tuple[str, ...]]
    compared: int = field(default=0, init=False)
    """How many refused attempts had a name to compare."""
    _expected: dict[tuple[str, tuple[str, ...]], frozenset[str]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._expected = {}

    def differences(self) -> Iterator[Discrepancy | None]:
        """State after state: what is refused there for another reason than the spec's, or None."""
        graph = self.machines.scope.graph
        for state in range(len(graph.states)):
            self.machines.system.load(graph.state(state))
            yield self._at(state, Memory.of(self.machines.system))

    def _at(self, state: int, memory: Memory) -> Discrepancy | None:
        machines = self.machines
        calls = machines.plain | {
            label: partial(call, choice=0) for label, call in machines.choosing.items()
        }
        for label, call in calls.items():
            false = self.guards.of(state, label)
            if not false:
                continue
            try:
                call()
            except NoSuchChoice:
                continue
            except Refusal as refusal:
                self.compared += 1
                if name_of(refusal) not in self.expected(label, false):
                    return self._differs(state, label, false, guard_of(refusal))
            except Exception:
                memory.restore()  # it crashes: the exhaustive check tells of it
            else:
                memory.restore()  # it takes the step: the same
        return None

    def expected(self, label: int, false: tuple[str, ...]) -> frozenset[str]:
        """The names that a refusal may have where these guards are false."""
        action = self.machines.scope.graph.actions[label].name
        if (action, false) not in self._expected:
            named = [name for guard in false for name in self._named(action, guard)]
            self._expected[action, false] = frozenset(named)
        return self._expected[action, false]

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


def refusals_of(scope: Scope) -> Refusals:
    """What is to be compared in a scope. Raises `InputError` if TLC cannot evaluate its guards."""
    module = scope.binding.module
    names = load(module, SpecTree()).refusals
    return Refusals(Machines(scope, METHOD), load_false_guards(module, scope.cfg), names)


def name_of(refusal: Refusal) -> str:
    """A machine's refusal by Kafka's name, a binding's own by its class."""
    named = refusal.kafka_error != Refusal.kafka_error
    return refusal.kafka_error if named else type(refusal).__name__
