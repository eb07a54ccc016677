"""The loop says what failed, whatever a stage printed, and forgets what passed for other files."""

import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from properties import verify
from properties.verify import Memory, Result, Stage

PASSED = Result("spec", 0, "all as expected", 1.0, 2.0)


@pytest.fixture
def one_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    missing = str(tmp_path / "[/no such run]")
    loop = (Stage("check", "what is not there is told", ("check", missing)),)
    monkeypatch.setattr(verify, "stages", lambda work: loop)  # pyright: ignore
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
    Memory(path, "these files").add(PASSED)
    assert Memory(path, "these files").passed() == {"spec": PASSED}
    assert Memory(path, "other files").passed() == {}


def test_what_stages_cost_is_a_page_if_all_passed(
    one_stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = one_stage / "page.md"
    ended = CliRunner().invoke(verify.verify, ["--write", str(page)])
    assert (ended.exit_code, page.exists()) == (2, False)
    loop = (Stage("help", "a stage that passes", ("check", "--help")),)
    monkeypatch.setattr(verify, "stages", lambda work: loop)  # pyright: ignore
    ended = CliRunner().invoke(verify.verify, ["--write", str(page)])
    assert ended.exit_code == 0, ended.output
    *_, row, total = page.read_text().splitlines()
    assert row.startswith("| `help` | a stage that passes | ")
    assert total.startswith("| | | ")
    text = verify.page(loop, [Result("help", 0, "", 1234.4, 5.0)])
    assert text.endswith("| `help` | a stage that passes | 1,234 | 5 |\n| | | 1,234 | 5 |\n")
