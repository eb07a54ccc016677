"""Every small mutant of a file: comparisons, boundaries, guards, branches and assignments.

A mutant is named by its function and by what becomes what, so its name outlives a change of lines.
"""

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, cast

from attrs import frozen

from properties.mutants.edits import compiled, function_at, patched, tree_of
from properties.tla.specs import CHECKOUT

Alternative: TypeAlias = tuple[str, ast.AST]
"""The kind of a mutation, and the replacement of a node."""

_COMPARISONS: dict[type[ast.cmpop], tuple[tuple[str, type[ast.cmpop]], ...]] = {
    ast.Lt: (("boundary", ast.LtE), ("comparison", ast.GtE)),
    ast.LtE: (("boundary", ast.Lt), ("comparison", ast.Gt)),
    ast.Gt: (("boundary", ast.GtE), ("comparison", ast.LtE)),
    ast.GtE: (("boundary", ast.Gt), ("comparison", ast.Lt)),
    ast.Eq: (("comparison", ast.NotEq),),
    ast.NotEq: (("comparison", ast.Eq),),
    ast.In: (("comparison", ast.NotIn),),
    ast.NotIn: (("comparison", ast.In),),
    ast.Is: (("comparison", ast.IsNot),),
    ast.IsNot: (("comparison", ast.Is),),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@frozen
class GeneratedMutant:
    """One mutation of one function of the machines or of the node."""

    function: str
    """`package.module:Class.method`."""
    kind: str
    change: str
    """The old and the new text; numbered if a function has the same more than once."""
    file: str
    line: int
    original: ast.FunctionDef
    number: int
    """Which of the nodes is changed, as `ast.walk` counts them."""
    other: ast.AST
    """The replacement."""

    @property
    def name(self) -> str:
        return f"{self.function}: {self.change}"

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @contextmanager
    def applied(self) -> Generator[None]:
        """The code with this mutation, within the block."""
        function = function_at(self.function)
        with patched(
            {function: compiled(function, _replaced(self.original, self.number, self.other))}
        ):
            yield


@cache
def generated(module: str) -> list[GeneratedMutant]:
    """Every mutant of a module's functions and methods, in the order of the file."""
    spec = find_spec(module)
    file = Path((spec and spec.origin) or "")
    shown = str(file.relative_to(CHECKOUT) if file.is_relative_to(CHECKOUT) else file)
    top = ast.parse(file.read_text(encoding="utf-8"))
    return [
        mutant
        for qualified in _functions(top.body)
        for mutant in _of_function(f"{module}:{qualified}", shown)
    ]


def _functions(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield owner + node.name


def _of_function(function: str, file: str) -> Iterator[GeneratedMutant]:
    if not inspect.isfunction(found := function_at(function)):
        return  # attrs keeps a cached property of a class with slots out of sight
    tree = tree_of(found)
    nodes = list(ast.walk(tree))
    skipped = _not_code(tree)
    places = _places(tree)
    seen, names = {ast.dump(tree)}, Counter[str]()
    for number, node in enumerate(nodes):
        if node in skipped:
            continue
        for kind, other in _alternatives(node):
            places[node](other)
            shape = ast.dump(tree)
            places[node](node)
            if shape in seen:
                continue
            seen.add(shape)
            change = f"{_text(node)} -> {_text(other)}"
            names[change] += 1
            again = f" #{names[change]}" if names[change] > 1 else ""
            line = getattr(node, "lineno", tree.lineno)
            yield GeneratedMutant(function, kind, change + again, file, line, tree, number, other)


def _places(tree: ast.FunctionDef) -> dict[ast.AST, Callable[[ast.AST], None]]:
    """By node, what puts another one in its place: a copy for each mutant takes seconds in all."""
    places: dict[ast.AST, Callable[[ast.AST], None]] = {}
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                places[value] = partial(setattr, parent, name)
            elif isinstance(value, list):
                of = cast("list[Any]", value)
                for at, child in enumerate(of):
                    if isinstance(child, ast.AST):
                        places[child] = partial(of.__setitem__, at)
    return places


def _not_code(tree: ast.FunctionDef) -> set[ast.AST]:
    """Arguments, annotations, docstrings, messages of refusals, and what only asserts, as zip's
    `strict` does: nothing that decides."""
    skipped: set[ast.AST] = set(ast.walk(tree.args))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.returns:
            skipped |= set(ast.walk(node.returns))
        elif isinstance(node, ast.AnnAssign):
            skipped |= set(ast.walk(node.annotation))
        elif isinstance(node, ast.Raise | ast.Assert) or (
            isinstance(node, ast.keyword) and node.arg == "strict"
        ):
            skipped |= set(ast.walk(node))
    return skipped


def _alternatives(node: ast.AST) -> Iterator[Alternative]:
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "guard", ast.BoolOp(other, values)
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                yield "guard", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(ast.Not(), operand):
            yield "guard", operand
        case ast.If() | ast.IfExp() | ast.While():
            yield from _branches(node)
        case ast.Constant(bool(value)):
            yield "assignment", ast.Constant(not value)
        case ast.Constant(int(value)):
            yield "boundary", ast.Constant(value + 1)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            yield "arithmetic", ast.BinOp(left, _OPERATORS[type(op)](), right)
            yield "arithmetic", left
        case ast.Call(ast.Name(name), arguments, keywords) if name in _CALLS:
            called = ast.Name(_CALLS[name], ast.Load())
            yield "comparison", ast.Call(called, arguments, keywords)
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete() | ast.Expr():
            if _changes_state(node):
                yield "assignment", ast.Pass()
        case _:
            pass


def _comparisons(node: ast.Compare) -> Iterator[Alternative]:
    for at, op in enumerate(node.ops):
        for kind, other in _COMPARISONS[type(op)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield kind, ast.Compare(node.left, ops, node.comparators)


def _branches(node: ast.If | ast.IfExp | ast.While) -> Iterator[Alternative]:
    """The condition is always false, or always true; a loop that never ends shows nothing."""
    refuses = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)
    for value in (False,) if refuses or isinstance(node, ast.While) else (False, True):
        changed = deepcopy(node)
        changed.test = ast.Constant(value)
        yield "guard" if refuses else "branch", changed


def _changes_state(node: ast.stmt) -> bool:
    """A local name that is not bound crashes, and proves nothing."""
    match node:
        case ast.Assign(targets):
            return all(not isinstance(part, ast.Name) for one in targets for part in _parts(one))
        case ast.AugAssign(target) | ast.AnnAssign(target):
            return not isinstance(target, ast.Name)
        case ast.Expr(value):
            return isinstance(value, ast.Call)
        case _:
            return True


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _replaced(tree: ast.FunctionDef, number: int, other: ast.AST) -> ast.FunctionDef:
    copy = deepcopy(tree)
    wanted = next(node for at, node in enumerate(ast.walk(copy)) if at == number)

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is wanted:
                return ast.copy_location(deepcopy(other), node)
            return super().visit(node)

    Replace().visit(copy)
    return copy


def _text(node: ast.AST) -> str:
    """A node as code in one line; of a branch only the head."""
    if isinstance(node, ast.If | ast.While):
        return f"{'if' if isinstance(node, ast.If) else 'while'} {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())
