"""Every step from every state: the machines allow exactly the steps that the spec allows.

Each state of the graph is loaded into the machines once. A label that the spec forbids there must
be refused and leave no trace. A label that it allows must be taken, to the spec's successor. States
are loaded, not walked to, so this covers the whole graph and only the spec's state. Walks find the
rest: a stale cache, or an object that two machines came to share.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from properties.conformance.binding import NoSuchChoice
from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.memory import Snapshot
from refimpl.errors import Refusal

METHOD = "exhaustive"

Compare: TypeAlias = Callable[[int, int, Refusal], Discrepancy | None]
"""Called with a state, a label refused there, and the refusal; returns a difference, if any."""


def exhaustive(machines: Machines, named: Compare | None = None) -> Iterator[Discrepancy | None]:
    """Checks state after state, in breadth-first order; returns the first difference, or None.

    `named` judges every refusal of a step that the spec forbids.
    """
    yield _starts(machines)
    for state in range(len(machines.scope.graph.states)):
        machines.system.load(machines.scope.graph.state(state))
        memory = Snapshot.of(machines.system)
        yield (
            machines.sharing(state, memory)
            or _loaded(machines, state)
            or _forbidden(machines, state, memory, named)
            or _allowed(machines, state, memory)
        )


def _starts(machines: Machines) -> Discrepancy | None:
    """The machines start in the spec's initial state."""
    if machines.where() in machines.scope.graph.initial:
        return None
    return machines.told(0, "Init", "the state above", machines.changed_since(0))


def _loaded(machines: Machines, state: int) -> Discrepancy | None:
    """After a load, the machines are in the loaded state."""
    if machines.is_in(state):
        return None
    return machines.told(state, "load", "the state above", machines.changed_since(state))


def _forbidden(
    machines: Machines, state: int, memory: Snapshot, named: Compare | None
) -> Discrepancy | None:
    """A step that the spec forbids is refused with any choice, and leaves no trace."""
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


def _culprit(machines: Machines, state: int, memory: Snapshot) -> Discrepancy:
    """The refused step that left a trace."""
    for label in range(len(machines.scope.graph.actions)):
        memory.restore()
        if not list(machines.outcomes(state, label)) and memory.changed():
            return machines.differs(state, label, f"{machines.refusal}, and leaves a trace")
    raise AssertionError("several refused steps together leave a trace, and none alone")


def _allowed(machines: Machines, state: int, memory: Snapshot) -> Discrepancy | None:
    """A step that the spec allows is taken, and leads to the spec's successor."""
    for label in machines.scope.graph.out[state]:
        if found := machines.judge(state, label, memory):
            return found
    return None
