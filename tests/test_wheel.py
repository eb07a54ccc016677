"""The wheel holds everything that its verbs need, without a checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.install.build import build, from_sdist, metadata, names, problems

ROOT = Path(__file__).parents[1]
WHAT_IS_THERE = """
from properties.tla.specs import CHECKOUT, SpecTree, cache_folder
tree = SpecTree()
print(CHECKOUT)
print(*tree.modules())
print(len(tree.models("AbsLog")) > 0, (CHECKOUT / "spec" / "java").is_dir())
print(cache_folder())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    return build("sdist", ROOT, folder), build("wheel", ROOT, folder)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a folder of packages."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built[1]) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def test_what_is_built_can_be_published(built: tuple[Path, Path]) -> None:
    assert problems(*built) == []


def test_the_sdist_alone_builds_the_same_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    sdist, wheel = built
    assert names(from_sdist(sdist, tmp_path)) == names(wheel)


def test_an_index_would_show_what_is_needed(built: tuple[Path, Path]) -> None:
    about = metadata(built[1])
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"
    extras = ["broker", "check", "fast", "html", "spark", "test", "verify"]
    assert sorted(about.get_all("Provides-Extra", [])) == extras
    assert about.get_payload()


def test_a_private_classifier_would_be_noticed(built: tuple[Path, Path], tmp_path: Path) -> None:
    """And a file that is missing, and one that nobody meant to install."""
    sdist, wheel = built
    worse = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(worse, "w") as other:
        for name in packed.namelist():
            data = packed.read(name)
            if name.endswith("METADATA"):
                data = b"Classifier: Private :: Do Not Upload\n" + data
            if name != "highwater/py.typed":
                other.writestr(name, data)
        other.writestr("tests/conftest.py", b"")
    assert problems(sdist, worse) == [
        "missing: highwater/py.typed",
        "in the wheel: tests",
        "a Private classifier: no index would take it",
    ]


def test_the_command_runs_from_the_wheel(installed: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "highwater", "--version"],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=installed.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("highwater, version ")


def test_the_specs_are_installed_and_nothing_is_written_beside_them(installed: Path) -> None:
    names = sorted(p.name for p in (ROOT / "spec" / "tla").iterdir() if (p / "cfg").is_dir())
    surroundings = {name: v for name, v in os.environ.items() if name != "HIGHWATER_CACHE"}
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_THERE],
        env={**surroundings, "PYTHONPATH": str(installed), "XDG_CACHE_HOME": "/caches"},
        cwd=installed.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    where, modules, there, cache = done.stdout.splitlines()
    assert Path(where) == installed
    assert modules.split() == names
    assert there == "True True"
    assert cache == "/caches/highwater"
