"""A difference between spec and machine, in the spec's words."""

import linecache
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from properties.tla import Rec, Value, to_tla
from refimpl.errors import Refusal

#: The spec's answer for a label that does not fire.
FORBIDDEN = "not allowed here"


@frozen
class Discrepancy:
    """A path of the spec from its initial state, and the step at its end that differs."""

    scope: str
    method: str
    path: tuple[str, ...]
    state: Mapping[str, Value]
    step: str
    spec: str
    code: str
    at: tuple[int, int] | None = None
    """State and label by their numbers in the graph, if it is about one."""

    def story(self) -> str:
        """The shortest account that lets a reader see it happen."""
        lines = [f"{self.scope}, {self.method}:"]
        lines += [f"  {i:>3}. {label}" for i, label in enumerate(self.path, start=1)]
        lines += [f"  in   {name} = {to_tla(value)}" for name, value in self.state.items()]
        lines += [f"  then {self.step}", f"  spec: {self.spec}", f"  code: {self.code}"]
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        return {
            "scope": self.scope,
            "method": self.method,
            "path": list(self.path),
            "state": {name: to_tla(value) for name, value in self.state.items()},
            "step": self.step,
            "spec": self.spec,
            "code": self.code,
        }


def changes(before: Mapping[str, Value], after: Mapping[str, Value]) -> str:
    """The changes of a step, variable by variable."""
    return (
        "; ".join(change for name in after for change in _change(name, before[name], after[name]))
        or "nothing changes"
    )


def _change(name: str, before: Value, after: Value) -> Sequence[str]:
    """Only the replicas with a changed value, if a variable has one value for each."""
    if before == after:
        return []
    if _per_replica(before) and _per_replica(after) and len(before) == len(after):
        return [
            f"{name}[{r}] {to_tla(old)} -> {to_tla(new)}"
            for r, (old, new) in enumerate(zip(before, after, strict=True), start=1)
            if old != new
        ]
    return [f"{name} {to_tla(before)} -> {to_tla(after)}"]


def guard_of(refusal: Refusal) -> str:
    """A refusal with the guard in the source that raised it: its condition, file and line."""
    trace = refusal.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = type(refusal).__name__
    said = str(refusal)
    told = f"{name}: {said}" if said and said != refusal.kafka_error else name
    if trace is None:
        return told
    file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
    place = f"{'/'.join(Path(file).parts[-3:])}:{line}"
    condition = _condition_above(file, line)
    return f"{told}, by `{condition}` ({place})" if condition else f"{told} ({place})"


def _condition_above(file: str, line: int) -> str:
    """The `if` around the line of a `raise`, None if there is none."""
    indent = len(text := linecache.getline(file, line)) - len(text.lstrip())
    for number in range(line - 1, 0, -1):
        text = linecache.getline(file, number)
        if text.strip() and len(text) - len(text.lstrip()) < indent:
            return text.strip().rstrip(":") if text.lstrip().startswith("if ") else ""
    return ""


def _per_replica(value: Value) -> bool:
    return isinstance(value, tuple) and not isinstance(value, Rec)
