"""Writes the typed methods of `BlockingCluster` from the source of `Cluster`: `make docs`."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from refimpl.edge.testing import blocking_methods, cluster

PATH = Path(inspect.getfile(blocking_methods))
#: How `BlockingCluster` begins and ends is its own
OWN = ("start", "close")
Function = ast.FunctionDef | ast.AsyncFunctionDef

HEAD = '''\
"""Methods and properties of `Cluster` for code without an event loop. Written by `make docs`."""

import abc
from collections.abc import Callable
from typing import {typing}

{imports}


class Settings(TypedDict, total=False):
    """The arguments of `Cluster`."""

{settings}


class BlockingMethods(abc.ABC):
    """Each returns when it is done."""

    @abc.abstractmethod
    def _call(self, name: str, *args: Any, **which: Any) -> Any:
        """Call a method of the cluster in the thread of the brokers."""

    @abc.abstractmethod
    def _get(self, name: str) -> Any:
        """An attribute of the cluster as it is now."""
'''


def build() -> str:
    """The module's text."""
    source = inspect.getsource(cluster)
    module = ast.parse(source)
    (made,) = (
        one for one in module.body if isinstance(one, ast.ClassDef) and one.name == "Cluster"
    )
    fields = [one for one in made.body if isinstance(one, ast.AnnAssign) and _public(one)]
    methods = [
        one
        for one in made.body
        if isinstance(one, Function) and not one.name.startswith("_") and one.name not in OWN
    ]
    parts = [_field(one) for one in fields] + [_method(one, source) for one in methods]
    settings = "\n".join(
        f"    {ast.unparse(one.target)}: {_given(one)}" for one in fields if not _is_inner(one)
    )
    body = settings + "".join(parts)
    typing, imports = _imports(module, body)
    return _formatted(HEAD.format(typing=typing, imports=imports, settings=settings), parts)


def _formatted(head: str, parts: list[str]) -> str:
    """As `make format` would leave it."""
    text, ruff = head + "".join(parts), str(Path(sys.executable).with_name("ruff"))
    for command in (["check", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [ruff, *command, "--stdin-filename", PATH, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        text = done.stdout
    return text


def _public(one: ast.AnnAssign) -> bool:
    return not ast.unparse(one.target).startswith("_")


def _is_inner(one: ast.AnnAssign) -> bool:
    """True if it is none of the constructor's arguments."""
    given = one.value.keywords if isinstance(one.value, ast.Call) else []
    return any(word.arg == "init" for word in given)


def _given(one: ast.AnnAssign) -> str:
    """The type that the constructor takes: a path may be a text."""
    kind = ast.unparse(one.annotation)
    return kind.replace("Path", "Path | str")


def _field(one: ast.AnnAssign) -> str:
    name, kind = ast.unparse(one.target), ast.unparse(one.annotation)
    return f'''
    @property
    def {name}(self) -> {kind}:
        """As `Cluster` has it."""
        return self._get("{name}")
'''


def _method(one: Function, source: str) -> str:
    returns = "" if one.returns is None else f" -> {ast.unparse(one.returns)}"
    text = ast.get_source_segment(source, one.body[0]) or ""
    decorators = [ast.unparse(each) for each in one.decorator_list]
    if decorators == ["property"]:
        head, call = (
            f"    @property\n    def {one.name}(self){returns}:",
            f'self._get("{one.name}")',
        )
    else:
        head = f"    def {one.name}({ast.unparse(one.args)}){returns}:"
        call = f'self._call("{one.name}"{"".join(_passed(one.args))})'
    return f"\n{head}\n        {text}\n        return {call}\n"


def _passed(given: ast.arguments) -> Iterator[str]:
    yield from (f", {one.arg}" for one in [*given.posonlyargs, *given.args][1:])
    if given.vararg is not None:
        yield f", *{given.vararg.arg}"
    yield from (f", {one.arg}={one.arg}" for one in given.kwonlyargs)
    if given.kwarg is not None:
        yield f", **{given.kwarg.arg}"


def _imports(module: ast.Module, body: str) -> tuple[str, str]:
    """The imports that the annotations need, as `Cluster` has them."""
    needed = {one.id for one in ast.walk(ast.parse(_as_class(body))) if isinstance(one, ast.Name)}
    lines: list[str] = []
    typing = {"Any", "TypedDict"}
    for one in module.body:
        if isinstance(one, ast.ImportFrom) and one.module:
            names = [each.name for each in one.names if (each.asname or each.name) in needed]
            if one.module == "typing":
                typing |= set(names)
            elif names:
                lines.append(f"from {one.module} import {', '.join(names)}")
    return ", ".join(sorted(typing)), "\n".join(lines)


def _as_class(body: str) -> str:
    return f"class _:\n{body}"
