"""The reference: the modules that docs/architecture.md names, which import nothing else of ours."""

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()
AT_MOST = 12_500
"""Lines of code in the reference."""


def named(kind: str) -> tuple[str, ...]:
    """The modules of one row of the page's table."""
    (row,) = re.findall(rf"^\| {kind} \| (.*) \|$", PAGE, re.M)
    return tuple(f"refimpl/{name}" for name in re.findall(r"`([a-z_/]+)`", row))


def is_of(path: str, names: tuple[str, ...]) -> bool:
    return any(path == f"{name}.py" or path.startswith(f"{name}/") for name in names)


def reference() -> dict[str, Path]:
    """The reference's files, by their path below the root without `refimpl` itself."""
    of, but = named("all of"), named("but for")
    paths = {str(path.relative_to(ROOT)): path for path in (ROOT / "refimpl").rglob("*.py")}
    return {name: at for name, at in paths.items() if is_of(name, of) and not is_of(name, but)}


def imports(path: Path) -> set[str]:
    """The files of refimpl that a file imports where it runs."""
    found = set[str]()
    skipped = set[ast.AST]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped.update(one for inner in node.body for one in ast.walk(inner))
        if isinstance(node, ast.ImportFrom) and node not in skipped and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            found.update(name for name in names if name.startswith("refimpl."))
    files = {name.replace(".", "/") for name in found}
    modules = {f"{name}.py" for name in files if (ROOT / f"{name}.py").exists()}
    return modules | {f"{name}/__init__.py" for name in files if (ROOT / name).is_dir()}


def code_lines(path: Path) -> int:
    """Lines that hold code: neither blank nor comment nor docstring."""
    text = path.read_text()
    prose = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    no_code = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in (*no_code, tokenize.ENDMARKER)
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - prose)


def test_the_reference_imports_nothing_that_is_not_in_it() -> None:
    files = reference()
    arrows = {name: imports(path) - files.keys() for name, path in files.items()}
    assert {name: sorted(out) for name, out in arrows.items() if out} == {}


def test_every_name_of_the_list_is_there_and_leaves_something_out() -> None:
    of, but = named("all of"), named("but for")
    assert of
    assert [name for name in of + but if not _exists(name)] == []
    assert [name for name in but if not is_of(f"{name}.py", of)] == []


def _exists(name: str) -> bool:
    return (ROOT / name).is_dir() or (ROOT / f"{name}.py").exists()


def test_the_reference_is_as_compact_as_the_pages_say() -> None:
    lines = sum(map(code_lines, reference().values()))
    assert lines <= AT_MOST
    for page in (PAGE, (ROOT / "README.md").read_text()):
        (told,) = re.findall(r"\*\*the reference\*\*[^:]*: ([0-9,]+) lines of code", page)
        assert abs(int(told.replace(",", "")) - lines) <= 0.02 * lines, lines
