"""A small folder of specs made for these tests, and one cache for all of them."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner, Result

from properties.tla import SpecTree
from tests.properties.linked import linked_cache
from tests.properties.tla.scratch import SPECS, Install, Run, Scratch


@pytest.fixture(scope="package", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of these tests: none depends on files of an earlier run."""
    folder = linked_cache(tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIGHWATER_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def tree() -> SpecTree:
    return SpecTree(SPECS)


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    shutil.copytree(SPECS, tmp_path / "specs")
    return Scratch(SpecTree(tmp_path / "specs"))


@pytest.fixture
def run() -> Run:
    """Call a verb as the command line does."""

    def call(command: Command, arguments: Sequence[object]) -> Result:
        return CliRunner().invoke(command, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a program of this name, a shell script, in front of all others on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def install(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return install
