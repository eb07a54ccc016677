"""Shows a counterexample: numbered steps, each with its action and its changes."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

from attrs import frozen

from properties.tla.checker import CounterexampleStep, Outcome
from properties.tla.syntax import to_tla
from properties.tla.values import ModelValue, Rec, Value, order

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_Set: TypeAlias = frozenset[Value]


@frozen
class EntryChange:
    """One entry that a step changed, by its path: `highWatermark[2]`, `quorum.isr`."""

    path: str
    said: str

    def __str__(self) -> str:
        return f"{self.path}{self.said}"


def tell(title: str, outcome: Outcome) -> list[str]:
    """The whole story, a line each."""
    lines = [title, ""]
    width = len(str(len(outcome.steps)))
    for number, (step, changes) in enumerate(scenes(outcome), start=1):
        lines.append(f"{number:>{width}}  {heading(step)}")
        lines += (f"{'':{width}}      {change}" for change in changes)
        if not changes:
            lines.append(f"{'':{width}}      (nothing changes)")
    lines += ["", ending(outcome)]
    return lines


def scenes(outcome: Outcome) -> Iterator[tuple[CounterexampleStep, list[EntryChange]]]:
    """Each step with its changes; the first with the whole state."""
    before: Mapping[str, Value] | None = None
    for step in outcome.steps:
        if before is None:
            changes = [
                EntryChange(name, f" = {to_tla(value)}") for name, value in step.state.items()
            ]
        else:
            changes = list(changed(before, step.state))
        yield step, changes
        before = step.state


def heading(step: CounterexampleStep) -> str:
    """The action as in the spec, its arguments by name."""
    if step.action is None:
        return "Init"
    if not step.params:
        return step.action
    arguments = ", ".join(f"{name}={to_tla(value)}" for name, value in step.params.items())
    return f"{step.action}({arguments})"


def ending(outcome: Outcome) -> str:
    """The violation at the end of a story."""
    if outcome.back_to is None:
        return f"{outcome.violated} does not hold."
    if outcome.back_to == len(outcome.steps):
        return f"{outcome.violated} does not hold: from here on nothing need ever happen."
    return f"{outcome.violated} does not hold: back to step {outcome.back_to}, and so for ever."


def changed(before: Mapping[str, Value], after: Mapping[str, Value]) -> Iterator[EntryChange]:
    """The differences of two states, down to the entries of functions, records and sets."""
    for name, value in after.items():
        yield from _between(name, before[name], value)


def _between(path: str, old: Value, new: Value) -> Iterator[EntryChange]:
    if old == new:
        return
    entries = _entries(old), _entries(new)
    if entries[0] is not None and entries[1] is not None and _by_entry(old, new):
        yield from _in_function(path, entries[0], entries[1])
    elif isinstance(old, frozenset) and isinstance(new, frozenset):
        yield from _in_set(path, cast("_Set", old), cast("_Set", new))
    else:
        yield EntryChange(path, f": {to_tla(old)} → {to_tla(new)}")


def _entries(value: Value) -> dict[Value, Value] | None:
    """A function, record or sequence as argument → value."""
    if isinstance(value, Rec):
        return dict(value.items())
    if isinstance(value, tuple):
        return dict(enumerate(cast("tuple[Value, ...]", value), start=1))
    return None


def _by_entry(old: Value, new: Value) -> bool:
    """A function keeps its domain; a log of plain values is shown whole when its length changes."""
    if isinstance(old, Rec) or isinstance(new, Rec) or len(old) == len(new):
        return True
    return any(isinstance(item, tuple | frozenset) for item in old + new)


def _in_function(
    path: str, old: Mapping[Value, Value], new: Mapping[Value, Value]
) -> Iterator[EntryChange]:
    for key in sorted(old.keys() | new.keys(), key=order):
        entry = path + _selector(key)
        if key not in new:
            yield EntryChange(entry, f" is gone: {to_tla(old[key])}")
        elif key not in old:
            yield EntryChange(entry, f" = {to_tla(new[key])}")
        else:
            yield from _between(entry, old[key], new[key])


def _selector(key: Value) -> str:
    if isinstance(key, str) and _NAME.match(key):
        return f".{key}"
    return f"[{key.name if isinstance(key, ModelValue) else to_tla(key)}]"


def _in_set(path: str, old: _Set, new: _Set) -> Iterator[EntryChange]:
    """Small sets are shown whole; of a set of messages only the changes."""
    if not any(isinstance(member, tuple) for member in old | new):
        yield EntryChange(path, f": {to_tla(old)} → {to_tla(new)}")
        return
    for sign, members in (("−", old - new), ("+", new - old)):
        for member in sorted(members, key=order):
            yield EntryChange(path, f" {sign} {to_tla(member)}")
