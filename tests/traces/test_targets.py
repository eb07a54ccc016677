"""Paths of results: one that is not writable, or goes away meanwhile, is no bug of ours.

Exit code 3 says that this program has one; the other codes are verdicts. So a target that fails is
2, with one line that names it, and a file that is missing anywhere else is still 3.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from refimpl.__main__ import highwater
from refimpl.outputs import CannotBeWrittenError, write_json
from tests.traces.fixture import fixture, meta, write
from traces.model.output import Refusal, staying

HISTORY = Path(__file__).parent / "data" / "histories" / "basic.edn"
GONE = "No such file or directory"


def ran(*arguments: Any) -> Result:
    return CliRunner().invoke(highwater, [str(argument) for argument in arguments])


def refused(result: Result, by: Path) -> bool:
    """True if there was one line about this path, and no traceback."""
    said = f"{by}: {GONE}" in result.stderr.splitlines()[-1]
    return said and (result.exit_code, type(result.exception)) == (2, SystemExit)


def vanishing(monkeypatch: pytest.MonkeyPatch, function: str, folder: Path) -> None:
    """Let somebody remove the folder while this function of ours is called."""
    module, _, name = function.rpartition(".")
    work: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)

    def and_removed(*arguments: Any, **more: Any) -> Any:
        done = work(*arguments, **more)
        shutil.rmtree(folder)
        return done

    monkeypatch.setattr(function, and_removed)


@pytest.mark.parametrize("option", ["--json", "--html", "--junit"])
def test_a_folder_that_takes_no_files_is_told_before_the_work(option: str) -> None:
    """Root may write to /proc, says the system, and finds no such folder when it does."""
    result = ran("check", HISTORY, option, "/proc/x")
    assert refused(result, Path("/proc/x"))
    assert "basic.edn" not in result.output


def test_a_link_that_leads_nowhere_is_told_before_the_work(tmp_path: Path) -> None:
    link = tmp_path / "out.json"
    link.symlink_to(tmp_path / "missing" / "out.json")
    result = ran("check", HISTORY, "--json", link)
    assert refused(result, link)
    assert "basic.edn" not in result.output


@pytest.mark.parametrize("option", ["--json", "--html", "--junit"])
def test_a_folder_that_goes_while_a_run_is_judged(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is told all the same."""
    folder = tmp_path / "results"
    folder.mkdir()
    vanishing(monkeypatch, "traces.commands.check.judge_all", folder)
    result = ran("check", HISTORY, option, folder / "out")
    assert refused(result, folder / "out")
    assert "basic.edn" in result.stdout


def test_a_folder_that_goes_while_a_trace_is_generated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "traces"
    vanishing(monkeypatch, "tempfile.mkdtemp", folder)
    result = ran("generate", folder / "run", "--small")
    assert refused(result, folder / "run")


def test_a_trace_that_is_there_when_another_one_is_ready_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    def made(*_: Any) -> None:
        (next(tmp_path.glob(".run.*")) / "run").mkdir()
        run.mkdir()
        (run / "meta.json").touch()

    monkeypatch.setattr("traces.generate.cli.write_small", made)
    result = ran("generate", run, "--small")
    assert (result.exit_code, f"{run} is there already" in result.stderr) == (2, True)
    assert [path.name for path in tmp_path.glob("*/*")] == ["meta.json"]


def test_a_disk_that_is_full_is_told_by_the_trace_that_was_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("traces.generate.cli.write_small", full)
    result = ran("generate", tmp_path / "run", "--small")
    assert result.exit_code == 2
    assert f"{tmp_path / 'run'}: {os.strerror(errno.ENOSPC)}" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_table_whose_folder_goes_while_a_run_is_ingested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = write(tmp_path / "run", fixture(0).lines, meta()), tmp_path / "ops"
    vanishing(monkeypatch, "traces.ingest.ingesting.beside", out)
    result = ran("ingest", run, "--out", out, "--jobs", 1)
    assert result.exit_code == 2
    assert str(out) in result.output
    assert GONE in result.output.splitlines()[-1]


def test_a_file_that_is_missing_in_a_folder_that_is_there_is_a_bug_of_ours(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), staying(tmp_path):
        (tmp_path / "ours").read_bytes()
    with pytest.raises(Refusal, match=f"{tmp_path}/gone: {GONE}"), staying(tmp_path / "gone"):
        (tmp_path / "gone" / "ours").read_bytes()


def test_other_rooms_refuse_a_file_whose_folder_has_gone(tmp_path: Path) -> None:
    with pytest.raises(CannotBeWrittenError, match=GONE) as said:
        write_json(tmp_path / "gone" / "out.json", {})
    assert said.value.exit_code == 2
    assert isinstance(said.value, click.ClickException)
