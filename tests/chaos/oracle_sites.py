"""The sites of the oracles, read from their source, and each of them made silent.

A site is a `Violation`, a word of what is not well yet, or a call of something that judges.
"""

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import getsource
from pkgutil import walk_packages
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

from attrs import fields_dict, frozen

import chaos
from chaos.sim.settings import Settings
from properties.mutants.edits import bodies, compiled, function_at, tree_of

Patches: TypeAlias = dict[FunctionType, CodeType]


ORACLES = "chaos.oracles"
REPORTS = ("Violation", "self._broken")


@cache
def settings_read(module: str) -> frozenset[str]:
    """The settings of a run that the code of a module reads."""
    known = fields_dict(Settings)
    return frozenset(
        node.attr
        for node in ast.walk(ast.parse(getsource(import_module(module))))
        if isinstance(node, ast.Attribute)
        and node.attr in known
        and ast.unparse(node.value).endswith("settings")
    )


@cache
def modules() -> tuple[ModuleType, ...]:
    """The modules of the simulator."""
    names = [one.name for one in walk_packages(chaos.__path__, "chaos.")]
    return tuple(import_module(name) for name in names if not name.endswith("__main__"))


@frozen
class Site:
    """A statement by which an oracle speaks, or is asked; `said` is in its words."""

    name: str
    function: str
    line: int
    oracle: str | None = None
    said: tuple[str, ...] = ()


def functions_of(module: ModuleType) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module and of its classes, each with its class."""
    for one in ast.parse(getsource(module)).body:
        owner, body = (f"{one.name}.", one.body) if isinstance(one, ast.ClassDef) else ("", [one])
        for inner in body:
            if isinstance(inner, ast.FunctionDef) and inner.name != "_broken":
                yield owner, inner


def _constants(node: ast.AST) -> tuple[str, ...]:
    parts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return tuple(part for part in parts if isinstance(part, str) and part)


def _statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    for body in bodies(function):
        for one in body:
            if not isinstance(one, ast.If | ast.For | ast.While | ast.Try | ast.With):
                yield one


def _reported(function: ast.FunctionDef) -> Iterator[tuple[ast.stmt, str, str | None, ast.expr]]:
    """Each statement that makes a violation: what it is called, the oracle if known, the words."""
    for one in _statements(function):
        for call in ast.walk(one):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in REPORTS:
                oracle, words = call.args
                known = str(oracle.value) if isinstance(oracle, ast.Constant) else None
                yield one, known or ast.unparse(oracle), known, words


def _missing(function: ast.FunctionDef) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """Each statement that says what is not well yet."""
    if function.name == "__str__" or function.returns is None:
        return
    for one in _statements(function):
        words = one.value if isinstance(one, ast.Return) else None
        if words and ast.unparse(function.returns) == "str" and _constants(words):
            yield one, words


@cache
def sites() -> dict[str, Site]:
    """All sites by name."""
    found: dict[str, Site] = {}
    functions = [
        (module.__name__, owner, function)
        for module in modules()
        for owner, function in functions_of(module)
    ]
    oracles = [at for at in functions if at[0].startswith(ORACLES)]

    def add(at: tuple[str, str, ast.FunctionDef], one: ast.stmt, what: str, *more: Any) -> None:
        module, owner, function = at
        name = f"{owner}{function.name}: {what}"
        while name in found:
            name += " again"
        path = f"{module}:{owner}{function.name}"
        found[name] = Site(name, path, one.lineno, *more)

    for at in functions:
        for one, what, oracle, words in _reported(at[2]):
            add(at, one, what, oracle, _constants(words))
    for at in oracles:
        for one, words in _missing(at[2]):
            add(at, one, " ".join("".join(_constants(words)).split()), None, _constants(words))
    judging = _judging(found, oracles)
    for at in oracles:
        for one, name in _asked(at[2]):
            if name in judging:
                add(at, one, f"{name}()")
    return found


def _judging(found: dict[str, Site], oracles: list[tuple[str, str, ast.FunctionDef]]) -> set[str]:
    """The functions of the oracles that report something, or call one that does."""
    judging = {
        site.function.rpartition(".")[2]
        for site in found.values()
        if site.function.startswith(ORACLES)
    }
    before = 0
    while before != len(judging):
        before = len(judging)
        for _, _, function in oracles:
            if any(name in judging for _, name in _asked(function)):
                judging.add(function.name)
    return judging


def _asked(function: ast.FunctionDef) -> Iterator[tuple[ast.stmt, str]]:
    for one in _statements(function):
        call = one.value if isinstance(one, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            yield one, call.func.attr


def silent(site: Site) -> Patches:
    """Without this statement; where it says what is not well, all is well."""
    function = function_at(site.function)
    tree = tree_of(function)
    for body in bodies(tree):
        for at, one in enumerate(body):
            if one.lineno == site.line:
                well = isinstance(one, ast.Return)
                put = ast.Return(ast.Constant("")) if well else ast.Pass()
                body[at] = ast.copy_location(put, one)
    return {function: compiled(function, tree)}
