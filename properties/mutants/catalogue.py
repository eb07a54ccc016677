"""The catalogue of known bugs, and how one is put into the machines and taken out again.

`machines/*.toml` holds them, one file for each machine. A mutant is one edit or a few of the
machine's source, so everything that is built from those classes has the bug: the bindings, and the
simulator's brokers.
"""

import ast
import tomllib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from attrs import field, fields_dict, frozen

from properties.modules.descriptor import modules
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from properties.tla import InputError

FOLDER = Path(__file__).with_name("machines")
PACKAGES = (
    *("refimpl.machines", "refimpl.coordinator", "refimpl.groups", "refimpl.clients.producer"),
    "refimpl.clients.consumer",
)


@frozen
class Edit:
    """In one function, `old` becomes `new`."""

    function: str
    """`module:Class.method`, as `function_at` takes it."""
    old: str
    new: str


@frozen
class Mutant:
    """A bug with a name, why it is one, and where Kafka met it."""

    name: str
    why: str
    edits: tuple[Edit, ...]
    modules: tuple[str, ...]
    """The TLA+ modules in whose machines it is looked for."""
    kafka: str = ""
    equivalent: str = ""
    """The reason why it equals the original, if it does."""
    file: Path = field(default=FOLDER, eq=False)


@cache
def catalogue() -> Mapping[str, Mutant]:
    """All mutants by name, in the order of the modules and of the machines that they name.

    Raises `InputError` for a malformed file. `applied` and, for all mutants, `stale` show edits
    that no longer apply.
    """
    machines = dict.fromkeys(one for module in modules().values() for one in module.machines)
    found: dict[str, Mutant] = {}
    for machine in machines:
        for mutant in read(FOLDER / f"{machine}.toml"):
            if mutant.name in found:
                raise InputError(f"{mutant.file}: a second mutant is called {mutant.name}")
            found[mutant.name] = mutant
    return found


def read(file: Path) -> Iterator[Mutant]:
    """The mutants of one file, none if it is not there."""
    if not file.is_file():
        return
    try:
        rows = tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]
    except (tomllib.TOMLDecodeError, KeyError) as wrong:
        raise InputError(f"{file}: not a list of [[mutant]]: {wrong}") from None
    for row in rows:
        yield _mutant(file, row)


def _mutant(file: Path, row: dict[str, Any]) -> Mutant:
    where = f"{file}: {row.get('name', 'a mutant without name')}: "
    unknown = row.keys() - {*fields_dict(Mutant), "edit"} | row.keys() & {"edits", "file"}
    missing = {"name", "why", "modules", "edit"} - row.keys()
    if unknown or missing:
        wrong = ", ".join(sorted(unknown or missing))
        raise InputError(f"{where}{'unknown' if unknown else 'missing'} field {wrong}")
    for module in row["modules"]:
        if module not in modules():
            raise InputError(f"{where}no module {module!r} (there are: {', '.join(modules())})")
    return Mutant(
        row["name"],
        row["why"],
        tuple(_edit(edit, where) for edit in row["edit"]),
        tuple(row["modules"]),
        row.get("kafka", ""),
        row.get("equivalent", ""),
        file,
    )


def _edit(edit: dict[str, str], where: str) -> Edit:
    if edit.keys() != {"in", "old", "new"}:
        raise InputError(f'{where}an edit has "in", "old" and "new", and not {sorted(edit)}')
    machine, _, function = edit["in"].partition(".")
    return Edit(f"{module_of(machine)}:{function}", edit["old"], edit["new"])


@cache
def module_of(machine: str) -> str:
    """The file with a machine's rules, among the machines or in the groups' coordinator."""
    names = [f"{package}.{machine}" for package in PACKAGES]
    return next((name for name in names if find_spec(name) is not None), names[0])


@contextmanager
def applied(mutant: Mutant) -> Generator[Mutant]:
    """The machines with this bug, within the block.

    Raises `InputError` with file, mutant and snippet if an edit no longer applies.
    """
    with patched(_patches(mutant)):
        yield mutant


def _patches(mutant: Mutant) -> dict[FunctionType, CodeType]:
    trees: dict[FunctionType, ast.FunctionDef] = {}
    for edit in mutant.edits:
        try:
            function = function_at(edit.function)
            trees[function] = edited(trees.get(function) or tree_of(function), edit.old, edit.new)
        except InputError as wrong:
            told = f"{mutant.file}: {mutant.name} no longer applies: {edit.function}: {wrong}"
            raise InputError(told) from None
    return {function: compiled(function, tree) for function, tree in trees.items()}


def stale(mutants: Iterable[Mutant]) -> list[str]:
    """Every mutant whose edits no longer apply, and why."""
    found: list[str] = []
    for mutant in mutants:
        try:
            _patches(mutant)
        except InputError as wrong:
            found.append(str(wrong))
    return found
