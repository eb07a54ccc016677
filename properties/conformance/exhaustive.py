"""Every step from every state: the machines allow what the spec allows, and nothing else.

Each state of the graph is loaded into the machines once. Every label that the spec forbids there
must be refused and leave no trace; every one that it allows must be taken and lead where the spec
says. As a state is loaded and not walked to, this sees all of the graph and nothing of what hides
behind it: a cache that went stale on the way, an object that two machines came to share. That is
for the walks.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from properties.conformance.binding import NoSuchChoice
from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.memory import Memory
from refimpl.errors import Refusal

METHOD = "exhaustive"

Compare: TypeAlias = Callable[[int, int, Refusal], Discrepancy | None]
"""Told of a state, a label that is refused there, and how: what is wrong with that."""


def exhaustive(machines: Machines, named: Compare | None = None) -> Iterator[Discrepancy | None]:
    """State after state, in breadth-first order: what differs there, or None.

    `named` judges every refusal of what the spec forbids.
    """
    yield _starts(machines)
    for state in range(len(machines.scope.graph.states)):
        machines.system.load(machines.scope.graph.state(state))
        memory = Memory.of(machines.system)
        yield (
            machines.sharing(state, memory)
            or _loaded(machines, state)
            or _forbidden(machines, state, memory, named)
            or _allowed(machines, state, memory)
        )


def _starts(machines: Machines) -> Discrepancy | None:
    """The machines start where the spec does."""
    if machines.where() in machines.scope.graph.initial:
        return None
    return machines.told(0, "Init", "the state above", machines.changed_since(0))


def _loaded(machines: Machines, state: int) -> Discrepancy | None:
    """What was loaded is what the machines are in."""
    if machines.is_in(state):
        return None
    return machines.told(state, "load", "the state above", machines.changed_since(state))


def _forbidden(
    machines: Machines, state: int, memory: Memory, named: Compare | None
) -> Discrepancy | None:
    """What the spec forbids is refused, whatever there is to choose, and leaves no trace."""
    allowed = machines.scope.graph.out[state]
    for label, calls in enumerate(machines.calls):
        if label in allowed:
            continue
        for call in calls:
            try:
                call()
            except NoSuchChoice:
                break
            except Refusal as refusal:
                if named is not None and (found := named(state, label, refusal)):
                    return found
            except Exception as crash:
                return machines.crashed(state, label, crash)
            else:
                return machines.took(state, label)
    return _culprit(machines, state, memory) if memory.changed() else None


def _culprit(machines: Machines, state: int, memory: Memory) -> Discrepancy:
    """Which of the refused steps left a trace."""
    for label in range(len(machines.scope.graph.actions)):
        memory.restore()
        if not list(machines.outcomes(state, label)) and memory.changed():
            return machines.differs(state, label, f"{machines.refusal}, and leaves a trace")
    raise AssertionError("several refused steps together leave a trace, and none alone")


def _allowed(machines: Machines, state: int, memory: Memory) -> Discrepancy | None:
    """What the spec allows is taken, and leads where the spec says."""
    for label in machines.scope.graph.out[state]:
        if found := machines.judge(state, label, memory):
            return found
    return None
