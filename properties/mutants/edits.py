"""Edits of a function's source: one snippet becomes another, or an error says why not.

A snippet is one expression or some consecutive statements. It is searched in the syntax tree, so
layout and comments do not matter, and must occur exactly once. The function object stays and gets
other code, so every reference to it, by any name, is to the edited one.
"""

import ast
import inspect
import textwrap
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

from properties.tla import InputError


def function_at(path: str) -> FunctionType:
    """The function of `package.module:Class.method`, below its decorators."""
    name, _, qualified = path.partition(":")
    found: Any = import_module(name)
    for part in qualified.split("."):
        if not hasattr(found, part):
            raise InputError(f"{path}: {name} does not define {qualified}")
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", None) or getattr(found, "__func__", None) or found
    return inspect.unwrap(found)


def tree_of(function: FunctionType) -> ast.FunctionDef:
    """The function's syntax tree, with the line numbers of its file."""
    source, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(source)))
    ast.increment_lineno(tree, first - 1)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    return definition


def compiled(function: FunctionType, tree: ast.FunctionDef) -> CodeType:
    """The code of this tree, to run in the function's place.

    It has the function's closure, such as the class that `super()` needs, although an edit may have
    removed what needs it.
    """
    closure = function.__code__.co_freevars
    if closure:
        needed: list[ast.stmt] = [ast.Expr(ast.Name(name, ast.Load())) for name in closure]
        never = ast.If(ast.Constant(False), needed, [])
        (around,) = ast.parse(f"def around({', '.join(closure)}): pass").body
        assert isinstance(around, ast.FunctionDef)
        tree = deepcopy(tree)
        tree.body.append(never)
        around.body = [tree]
        tree = around
    module = ast.fix_missing_locations(ast.Module([tree], []))
    code = compile(module, function.__code__.co_filename, "exec")
    for _ in range(2 if closure else 1):
        (code,) = [one for one in code.co_consts if isinstance(one, CodeType)]
    return code.replace(co_qualname=function.__qualname__)


@contextmanager
def patched(patches: Mapping[FunctionType, CodeType]) -> Generator[None]:
    """Other code in these functions, for every reference to them, within the block."""
    originals = {function: function.__code__ for function in patches}
    try:
        for function, code in patches.items():
            function.__code__ = code
        yield
    finally:
        for function, code in originals.items():
            function.__code__ = code


def edited(tree: ast.FunctionDef, old: str, new: str) -> ast.FunctionDef:
    """A copy of the tree with `new` in the place of `old`.

    Raises `InputError` if `old` is not there, or more than once: then the edit no longer applies.
    """
    copy = deepcopy(tree)
    wanted, put = _statements(old), _statements(new)
    places = [*_runs(copy, wanted)]
    if not places and len(wanted) == 1 and isinstance(wanted[0], ast.Expr):
        return _expression(copy, wanted[0].value, put, old)
    _once(len(places), old)
    body, at = places[0]
    for statement in put:
        ast.increment_lineno(statement, body[at].lineno - 1)
    body[at : at + len(wanted)] = put or [ast.Pass()]
    return copy


def _expression(
    tree: ast.FunctionDef, wanted: ast.expr, put: Sequence[ast.stmt], old: str
) -> ast.FunctionDef:
    if len(put) != 1 or not isinstance(put[0], ast.Expr):
        raise InputError(f"{old!r} is an expression, so what replaces it must be one")
    shape, found = ast.dump(wanted), 0
    replacement = put[0].value

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            nonlocal found
            if isinstance(node, ast.expr) and ast.dump(node) == shape:
                found += 1
                return ast.copy_location(replacement, node)
            return super().visit(node)

    Replace().visit(tree)
    _once(found, old)
    return tree


def _once(found: int, old: str) -> None:
    if found != 1:
        raise InputError(f"{old!r} is there {'twice or more' if found else 'no more'}")


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(textwrap.dedent(text)).body
    except SyntaxError as wrong:
        raise InputError(f"{text!r} is no Python: {wrong}") from None


def _runs(tree: ast.AST, wanted: Sequence[ast.stmt]) -> Iterator[tuple[list[ast.stmt], int]]:
    """The places of these consecutive statements: the body, and the index of the first."""
    shapes = [ast.dump(one) for one in wanted]
    for body in bodies(tree):
        dumped = [ast.dump(one) for one in body]
        for at in range(len(body) - len(wanted) + 1):
            if dumped[at : at + len(wanted)] == shapes:
                yield body, at


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements in a tree."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                yield inner  # pyright: ignore[reportUnknownVariableType]
