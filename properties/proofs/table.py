"""The table of proofs beside a module: `proofs.toml`.

Each `[[proof]]` names a proof module, the definitions that make up the invariant, the promises that
they imply, and the scopes in which they must be inductive. Each `[[proof.control]]` changes
constants and names the actions and conjuncts that must fail then. A proof that nothing can break
shows nothing.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from attrs import field, fields_dict, frozen

from properties.proofs.terms import UNBOUNDED, Num, z3
from properties.proofs.values import Value, enumerated
from properties.tla.errors import InputError
from properties.tla.specs import ModelConfig, SpecTree
from properties.tla.syntax import parse
from properties.tla.values import Value as Plain

TABLE = "proofs.toml"
# A scope's word for a constant without a bound.
ANY = "any"

Scope = Mapping[str, Any]


@frozen
class Reachable:
    """A counterexample to induction that the model reaches.

    From the states of `graph`, all of which the changed rule reaches too, one step of `action`
    breaks `conjunct`; the shortest such story has `length` states.
    """

    graph: str
    action: str
    conjunct: str
    length: int


@frozen
class Control:
    """A rule switched off: exactly these conjuncts must fail, at these actions."""

    constants: Scope
    fails: tuple[str, ...]
    note: str = ""
    reachable: Reachable | None = None
    full: bool = False
    """Asked with `--full` only: the failure takes z3 long to find."""

    @property
    def name(self) -> str:
        """The constants that are changed."""
        return ", ".join(f"{key}={value}" for key, value in self.constants.items())


@frozen
class Proof:
    """One inductive invariant and the scopes in which it must hold."""

    name: str
    module: str
    ranges: str
    cfg: str
    invariant: tuple[str, ...]
    implies: tuple[str, ...]
    scopes: tuple[Scope, ...]
    two_state: tuple[str, ...] = ()
    full: tuple[Scope, ...] = ()
    constants: Scope = field(factory=dict[str, Any])
    alike: str | None = None
    """A set of numbers 1..N whose elements no rule distinguishes; `--full` does not rely on it."""
    dead: tuple[str, ...] = ()
    """Actions that these constants forbid; every other one must be possible."""
    control_scope: Scope = field(factory=dict[str, Any])
    controls: tuple[Control, ...] = ()
    note: str = ""


@frozen
class ProofTable:
    """All proofs of a module."""

    folder: str
    path: Path
    proofs: tuple[Proof, ...]


def has_table(module: str, tree: SpecTree) -> bool:
    """True if a module has proofs."""
    return (tree.folder(module) / TABLE).is_file()


def load(module: str, tree: SpecTree) -> ProofTable:
    """Read a table. Raises `InputError` that names the file, the proof and the field."""
    path = tree.folder(module) / TABLE
    if not path.is_file():
        raise InputError(f"{module} has no table of proofs: expected {path}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as wrong:
        raise InputError(f"{path}: not TOML: {wrong}") from None
    rows = cast("list[dict[str, Any]]", data.get("proof", []))
    if not rows:
        raise InputError(f"{path}: no [[proof]]")
    return ProofTable(module, path, tuple(_proof(path, row) for row in rows))


def _proof(path: Path, row: dict[str, Any]) -> Proof:
    where = f"{path}: proof {row.get('name', 'without a name')}"
    controls = tuple(_control(where, one) for one in row.pop("control", []))
    return _made(Proof, where, {**row, "controls": controls})


def _control(where: str, row: dict[str, Any]) -> Control:
    where = f"{where}: control {row.get('constants')}"
    if "reachable" in row:
        row = {**row, "reachable": _made(Reachable, where, row["reachable"])}
    return _made(Control, where, row)


def _made(kind: type[Any], where: str, row: Mapping[str, Any]) -> Any:
    known = fields_dict(kind)
    for name in row:
        if name not in known:
            raise InputError(f'{where}: unknown field "{name}" (there are: {", ".join(known)})')
    values = {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        for name, value in row.items()
    }
    try:
        return kind(**values)
    except TypeError as missing:
        lacking = ", ".join(re.findall(r"'(\w+)'", str(missing)))
        raise InputError(f"{where}: these fields are missing: {lacking}") from None


def constants_of(proof: Proof, scope: Scope, folder: str, tree: SpecTree) -> dict[str, Value]:
    """Every constant's value: that of the configuration, unless proof or scope say otherwise.

    The value `any` makes a number of at least 1 that z3 may choose.
    """
    text = ModelConfig.read(tree.model(folder, proof.cfg)).sections.get("CONSTANTS", "")
    found = dict(re.findall(r'(\w+)\s*=\s*("[^"]*"|\{[^}]*\}|\S+)', text))
    plain = {name: parse(value) for name, value in found.items()}
    chosen = {**plain, **proof.constants, **scope}
    unknown = sorted(chosen.keys() - plain.keys())
    if unknown:
        raise InputError(f"{proof.cfg} has no constant {unknown[0]!r}")
    return {
        name: Num(z3.Int(name), 1, UNBOUNDED) if value == ANY else _lifted(value)
        for name, value in chosen.items()
    }


def _lifted(constant: Plain) -> Value:
    """A constant as the evaluator holds it; a list in the table is a set."""
    return enumerated(*constant) if isinstance(constant, frozenset | tuple | list) else constant


def is_bounded(scope: Scope) -> bool:
    """True if a scope bounds everything."""
    return ANY not in scope.values()


def shown(scope: Scope) -> str:
    """A scope in one line: `N=3 MaxRecords=2 MaxEpoch=any`."""
    return " ".join(f"{name}={value}" for name, value in scope.items())
