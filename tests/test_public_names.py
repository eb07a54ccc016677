"""`import highwater`: every public name in one place, lazily, and nothing else in docs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import highwater

ROOT = Path(__file__).parents[1]
#: Programs that show bugs of Kafka look inside on purpose
PAGES = [
    *(ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))),
    *sorted((ROOT / "examples").glob("*.py")),
]
#: Rooms of which nothing is imported but by `highwater`; Apache Kafka's jars have no public name
INSIDE = re.compile(
    r"^(?:>>> |\.\.\. )?\s*(?:from|import) "
    r"(?!chaos\.real\.(?:kafka|sharing)\b)(refimpl|properties|chaos|traces)\b",
    re.MULTILINE,
)


def python(script: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script, with a folder first on its path."""
    first = "" if path is None else f"import sys; sys.path.insert(0, {str(path)!r})\n"
    command = [sys.executable, "-c", first + script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", highwater.__all__)
def test_every_public_name_is_there_and_explains_itself(name: str) -> None:
    assert getattr(highwater, name).__doc__


def test_pyright_sees_the_names_that_there_are() -> None:
    module = ast.parse(Path(highwater.__file__).read_text("utf-8"))
    (typed,) = (one for one in module.body if isinstance(one, ast.If))
    seen = [
        alias.asname or alias.name
        for one in typed.body
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
    ]
    assert sorted(seen) == highwater.__all__ == sorted(highwater.__all__)
    assert set(highwater.__all__) <= set(dir(highwater))


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'highwater' has no attribute 'Clusters'"):
        _ = highwater.Clusters  # type: ignore[attr-defined]


def test_the_import_alone_imports_no_room() -> None:
    ran = python(
        "import sys, highwater\n"
        "rooms = {'refimpl', 'traces', 'chaos', 'properties', 'numpy', 'kio', 'click', 'attrs'}\n"
        "print(sorted(rooms & set(sys.modules)))"
    )
    assert ran.stdout == "[]\n", ran.stderr


@pytest.mark.parametrize("name", ["traces.py", "chaos/__init__.py"])
def test_a_module_of_others_under_our_name_is_one_clear_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    room = name.removesuffix(".py").partition("/")[0]
    sentence = (
        f"`{room}` is imported from {tmp_path}, where it is not Highwater's ({ROOT}): rename that "
        "file or folder, or take its folder off the front of sys.path"
    )
    for script in ("from highwater import load", f"import {room}, highwater; highwater.load"):
        ran = python(script, tmp_path)
        assert ran.returncode == 1
        assert ran.stderr.splitlines()[-1] == f"ImportError: {sentence}"
    ran = python("from highwater.__main__ import main; main()", tmp_path)
    assert (ran.returncode, ran.stderr) == (2, f"Error: {sentence}\n")


def test_a_folder_of_data_under_our_name_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    ran = python("import highwater; print(highwater.load.__module__)", tmp_path)
    assert ran.stdout == "traces.api\n", ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_and_examples_use_public_names_alone(page: Path) -> None:
    assert not INSIDE.findall(page.read_text("utf-8"))
