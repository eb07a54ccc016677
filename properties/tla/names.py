"""The names that a spec declares: the other side of "same names in the code".

Read from the spec itself by TLA+'s own parser, so that a renamed action or variable fails the
build instead of drifting.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson
from attrs import asdict, frozen

from properties.tla import tools
from properties.tla.errors import InputError
from properties.tla.processes import run
from properties.tla.specs import SpecTree, cache_folder
from properties.tla.tlc import jvm

_LIMIT_S = 60.0
_MADE_BY = ("SpecNames", "Labels")


@frozen
class SpecNames:
    """One module's declarations. `actions` has the formal parameters of each action of Next."""

    constants: tuple[str, ...]
    variables: tuple[str, ...]
    actions: dict[str, tuple[str, ...]]


def spec_names(module: str, tree: SpecTree | None = None) -> SpecNames:
    """The names of a module, from the cache when no spec has changed."""
    tree = tree or SpecTree()
    key = tools.digest(tree.closure(module), "names", module, tools.find().key(*_MADE_BY))
    file = cache_folder() / "names" / f"{module}-{key}.json"
    if not file.is_file():
        write_aside(file, lambda part: part.write_bytes(orjson.dumps(asdict(_asked(module, tree)))))
    found = orjson.loads(file.read_bytes())
    actions = {name: tuple(formals) for name, formals in found["actions"].items()}
    return SpecNames(tuple(found["constants"]), tuple(found["variables"]), actions)


def spec_actions(module: str, tree: SpecTree | None = None) -> dict[str, tuple[str, ...]]:
    """The actions of a module's Next, each with its formal parameters in order."""
    return spec_names(module, tree).actions


def spec_variables(module: str, tree: SpecTree | None = None) -> tuple[str, ...]:
    """The variables of a module, in the order of their declaration."""
    return spec_names(module, tree).variables


def _asked(module: str, tree: SpecTree) -> SpecNames:
    scratch = Path(tempfile.mkdtemp(prefix="highwater-names-"))
    try:
        command = [*jvm(tree, scratch, heap_mb=512, quick=True), "SpecNames", module]
        told = run(command, tree.folder(module), _LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if told.code != 0:
        raise InputError(f"{module}.tla cannot be read:\n{told.errors.strip()}")
    lines = [line.split() for line in told.output.splitlines()]
    by_kind = {kind: [rest for k, *rest in lines if k == kind] for kind, *_ in lines}
    return SpecNames(
        tuple(name for (name,) in by_kind.get("constant", [])),
        tuple(name for (name,) in by_kind.get("variable", [])),
        {name: tuple(formals) for name, *formals in by_kind.get("action", [])},
    )


def write_aside(file: Path, write: Callable[[Path], object]) -> None:
    """Write a cache file beside its place and rename it, so that no process reads half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=file.parent))
    try:
        part = scratch / file.name
        write(part)
        part.replace(file)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
