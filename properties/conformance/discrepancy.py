"""Where spec and machine differ, told in the spec's words."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from properties.tla import Rec, Value, to_tla


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
    """What a step changed, variable by variable."""
    return (
        "; ".join(change for name in after for change in _change(name, before[name], after[name]))
        or "nothing changes"
    )


def _change(name: str, before: Value, after: Value) -> Sequence[str]:
    """Only the replicas whose part differs, where a variable has one value for each."""
    if before == after:
        return []
    if _per_replica(before) and _per_replica(after) and len(before) == len(after):
        return [
            f"{name}[{r}] {to_tla(old)} -> {to_tla(new)}"
            for r, (old, new) in enumerate(zip(before, after, strict=True), start=1)
            if old != new
        ]
    return [f"{name} {to_tla(before)} -> {to_tla(after)}"]


def _per_replica(value: Value) -> bool:
    return isinstance(value, tuple) and not isinstance(value, Rec)
