"""Hypothesis walks the machines, with the graph as its oracle.

There is one rule. Before each step every label is tried and undone, so that the whole set of
enabled steps is compared, not only the drawn one. A failure shrinks, and prints as a story in the
spec's words.
"""

from collections.abc import Set
from typing import TypeAlias

from attrs import frozen
from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.memory import Snapshot
from properties.conformance.scope import ConformanceScope
from properties.conformance.walks import SideBySide

Edge: TypeAlias = tuple[int, int, int]

#: Of ten steps, how many the spec allows; the others must be refused.
ALLOWED = 9


class Differs(AssertionError):
    """The machines and the spec part here."""

    def __init__(self, found: Discrepancy) -> None:
        super().__init__(found.story())
        self.found = found


@frozen
class DrawnLabel:
    """Hypothesis's draw: a label and, if the spec allows it, its successor."""

    label: int
    to: int
    name: str

    def __repr__(self) -> str:
        return self.name


def machine(
    scope: ConformanceScope, known: Set[Edge], taken: set[Edge]
) -> type[RuleBasedStateMachine]:
    """A machine that prefers edges that are not `known`, and adds those that it takes to `taken`.

    `known` must not change while Hypothesis runs: if the possible draws depended on earlier ones,
    nothing would replay.
    """
    machines = Machines(scope, "Hypothesis")
    actions, out = scope.graph.actions, scope.graph.out
    names = [str(action) for action in actions]

    class Walk(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.run = SideBySide(machines)
            self.run.taken = taken

        @rule(data=st.data())
        def step(self, data: st.DataObject) -> None:
            """One step that the spec allows; now and then one that it forbids."""
            self.compare()
            here = self.run.state
            allowed = [DrawnLabel(k, to, names[k]) for k, tos in out[here].items() for to in tos]
            fresh = [one for one in allowed if (here, one.label, one.to) not in known]
            choices = fresh or allowed
            if not choices or data.draw(st.integers(0, 9), "one in ten is refused") >= ALLOWED:
                choices = [
                    DrawnLabel(k, here, n) for k, n in enumerate(names) if k not in out[here]
                ]
            drawn = data.draw(st.sampled_from(choices), "step")
            event(actions[drawn.label].name)
            if found := self.run.step(drawn.label, drawn.to):
                raise Differs(found)

        def compare(self) -> None:
            """Everything that is enabled here is, and nothing else, on either side."""
            memory = Snapshot.of(self.run.machines.system)
            if found := machines.sharing(self.run.state, memory):
                raise Differs(self.run.on_this_path(found))
            for label in range(len(actions)):
                if found := machines.judge(self.run.state, label, memory):
                    raise Differs(self.run.on_this_path(found))

    return Walk


def search(
    scope: ConformanceScope, taken: set[Edge], examples: int, steps: int, shrink: bool = True
) -> Discrepancy | None:
    """Let Hypothesis look for a difference, the same way each time; `taken` grows."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    budget = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        database=None,
        deadline=None,
        phases=phases,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    try:
        run_state_machine_as_test(machine(scope, frozenset(taken), taken), settings=budget)
    except Differs as differs:
        return differs.found
    return None
