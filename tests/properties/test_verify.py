"""The loop says what failed, whatever a stage printed, and forgets what passed for other files."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from properties import verify
from properties.verify import PassedStages, Stage, StageResult

PASSED = StageResult("spec", 0, "all as expected", 1.0, 2.0)


@pytest.fixture
def one_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    missing = str(tmp_path / "[/no such run]")
    loop = (Stage("check", "what is not there is told", ("check", missing)),)
    monkeypatch.setattr(verify, "stages", lambda *args: loop)  # pyright: ignore
    return tmp_path


def test_the_first_failure_is_told_with_its_code_and_its_command(one_stage: Path) -> None:
    ended = CliRunner().invoke(verify.verify, [])
    assert ended.exit_code == 2, ended.output
    assert "First to fail: check, exit 2." in ended.output
    assert f"To see it again: highwater check '{one_stage}/[/no such run]'" in ended.output


def test_an_unknown_stage_is_the_users_mistake(one_stage: Path) -> None:
    ended = CliRunner().invoke(verify.verify, ["--only", "chek"])
    assert ended.exit_code == 2
    assert "no stage chek; there are: check" in ended.output


def test_what_a_stage_started_ends_with_the_loop(
    one_stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_show", lambda *args: os.kill(os.getpid(), signal.SIGTERM))  # pyright: ignore
    assert CliRunner().invoke(verify.verify, []).exit_code == 128 + signal.SIGTERM


def test_what_passed_is_remembered_for_exactly_these_files(tmp_path: Path) -> None:
    path = tmp_path / "passed.json"
    PassedStages(path, "these files").add(PASSED)
    assert PassedStages(path, "these files").passed() == {"spec": PASSED}
    assert PassedStages(path, "other files").passed() == {}


def test_what_stages_cost_is_a_page_if_all_passed(
    one_stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = one_stage / "page.md"
    ended = CliRunner().invoke(verify.verify, ["--write", str(page)])
    assert (ended.exit_code, page.exists()) == (2, False)
    loop = (Stage("help", "a stage that passes", ("check", "--help")),)
    monkeypatch.setattr(verify, "stages", lambda *args: loop)  # pyright: ignore
    ended = CliRunner().invoke(verify.verify, ["--write", str(page)])
    assert ended.exit_code == 0, ended.output
    *_, row, total = page.read_text().splitlines()
    assert row.startswith("| `help` | a stage that passes | ")
    assert total.startswith("| | | ")
    text = verify.page(loop, [StageResult("help", 0, "", 1234.4, 5.0)], 7.0)
    assert text.endswith("| `help` | a stage that passes | 1,234 | 5 |\n| | | 1,234 | 7 |\n")
    ended = CliRunner().invoke(verify.verify, ["--write", str(page), "--resume"])
    assert (ended.exit_code, "--resume skips some" in ended.output) == (2, True)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Mapping[str, str]], None]:
    """Stages that are lines of shell, in an empty folder with a named pipe, on two cores."""
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ncd {tmp_path}\nshift 2\nexec timeout 120 sh -c "$1"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    os.mkfifo(tmp_path / "pipe")

    def of(lines: Mapping[str, str]) -> None:
        loop = tuple(Stage(name, "", (line,)) for name, line in lines.items())
        monkeypatch.setattr(verify, "stages", lambda *args: loop)  # pyright: ignore

    return of


def test_two_stages_run_at_once(shell: Callable[[Mapping[str, str]], None]) -> None:
    shell({"first": "read said < pipe; echo $said", "second": "echo 'a word' > pipe"})
    ended = CliRunner().invoke(verify.verify, [])
    assert ended.exit_code == 0, ended.output
    assert "✓ first     a word" in ended.output


def test_a_failure_ends_the_stage_beside_it_and_its_code_is_kept(
    shell: Callable[[Mapping[str, str]], None], tmp_path: Path
) -> None:
    waits = "echo $$ > pid; echo > pipe; exec cat pipe"
    shell({"waits": waits, "fails": "read said < pipe; exit 7", "later": "touch later"})
    ended = CliRunner().invoke(verify.verify, [])
    assert ended.exit_code == 7, ended.output
    assert "First to fail: fails, exit 7." in ended.output
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not (tmp_path / "later").exists()


def test_later_stages_run_after_a_failure_if_asked(
    shell: Callable[[Mapping[str, str]], None], tmp_path: Path
) -> None:
    shell({"passes": "true", "fails": "exit 7", "fails, too": "touch later; exit 8"})
    ended = CliRunner().invoke(verify.verify, ["--keep-going"])
    assert (ended.exit_code, (tmp_path / "later").exists()) == (7, True), ended.output


def test_what_a_stage_reads_is_written_by_stages_that_ended_before(tmp_path: Path) -> None:
    loop = verify.stages(tmp_path, full=True)
    written = {str(folder): stage.name for stage in loop for folder in stage.writes}
    for stage in loop:
        needs = {written[word] for word in stage.command if word in written} - {stage.name}
        assert needs <= set(stage.after), stage.name
    assert {"record", "faults"} <= set(written.values())
    validate = next(stage for stage in loop if stage.name == "validate")
    faults = next(stage for stage in loop if stage.name == "faults")
    assert list(verify._next([validate, faults], [])) == [faults]  # pyright: ignore


def test_the_large_models_are_asked_only_where_that_is_wanted(tmp_path: Path) -> None:
    loops = verify.stages(tmp_path), verify.stages(tmp_path, full=True)
    asked = [{stage.name for stage in loop if "--full" in stage.command} for loop in loops]
    assert asked == [set(), {"spec", "prove", "conform"}]
