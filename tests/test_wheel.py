"""What is in the wheel is all that its verbs need: no checkout lies beside it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a folder of packages."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(
        [*command, "--wheel-dir", str(folder), str(ROOT)],
        check=True,
        env={**os.environ, "PATH": path},
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


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
