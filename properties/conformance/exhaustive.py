"""Every step from every state: the machines allow what the spec allows, and nothing else.

Each state of the graph is loaded into the machines once. Every label that the spec forbids there
must be refused and leave no trace; every one that it allows must be taken and lead where the spec
says. As a state is loaded and not walked to, this sees all of the graph and nothing of what hides
behind it: a cache that went stale on the way, an object that two machines came to share. That is
for the walks.
"""

from collections.abc import Iterator

from properties.conformance.binding import NoSuchChoice
from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.memory import Memory
from refimpl.errors import Refusal

METHOD = "exhaustive"


def exhaustive(machines: Machines) -> Iterator[Discrepancy | None]:
    """State after state, in breadth-first order: what differs there, or None."""
    yield _starts(machines)
    for state in range(len(machines.scope.graph.states)):
        machines.system.load(machines.scope.graph.state(state))
        memory = Memory.of(machines.system)
        yield (
            _loaded(machines, state, memory)
            or _forbidden(machines, state, memory)
            or _allowed(machines, state, memory)
        )


def _starts(machines: Machines) -> Discrepancy | None:
    """The machines start where the spec does."""
    if machines.where() in machines.scope.graph.initial:
        return None
    return machines.told(0, "Init", "the state above", machines.changed_since(0))


def _loaded(machines: Machines, state: int, memory: Memory) -> Discrepancy | None:
    """What was loaded is what the machines are in, and they share nothing."""
    if memory.shared:
        return machines.told(state, "load", "each thing has one owner", memory.shared[0])
    if machines.where() != state:
        return machines.told(state, "load", "the state above", machines.changed_since(state))
    return None


def _forbidden(machines: Machines, state: int, memory: Memory) -> Discrepancy | None:
    """What the spec forbids is refused, and leaves no trace.

    This is where the time goes: nine of ten attempts are of this kind.
    """
    allowed = machines.scope.graph.out[state]
    for label, call in machines.plain.items():
        if label in allowed:
            continue
        try:
            call()
        except Refusal:
            continue
        except Exception as crash:
            return machines.crashed(state, label, crash)
        return machines.differs(state, label, f"takes it: {machines.changed_since(state)}")
    for label in machines.choosing:
        if label not in allowed and (found := machines.judge(state, label, memory)):
            return found
    if memory.changed():
        return _culprit(machines, state, memory)
    return None


def _culprit(machines: Machines, state: int, memory: Memory) -> Discrepancy | None:
    """Which of the refused steps changed something."""
    for label in range(len(machines.scope.graph.actions)):
        memory.restore()
        for call in machines.candidates(label):
            try:
                call()
            except Refusal as refusal:
                if memory.changed():
                    code = f"refuses it ({type(refusal).__name__}) and leaves a trace"
                    return machines.differs(state, label, code)
                if label in machines.plain or isinstance(refusal, NoSuchChoice):
                    break
            memory.restore()
    return machines.told(state, "refused steps", "change nothing", "together they leave a trace")


def _allowed(machines: Machines, state: int, memory: Memory) -> Discrepancy | None:
    """What the spec allows is taken, and leads where the spec says."""
    for label in machines.scope.graph.out[state]:
        if found := machines.judge(state, label, memory):
            return found
    return None
