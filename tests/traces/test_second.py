"""When two checkers disagree, a user hears of it: bugs of the first one, told by the second."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner
from rich.console import Console

from tests.traces.fixture import Fixture, fixture, write
from tests.traces.judging import judged
from traces.checks.base import Found, witness
from traces.checks.catalogue import CHECKS
from traces.checks.partition import Partition
from traces.commands.check import check
from traces.generate.small import IN_CALLS, injected
from traces.model.context import Ints
from traces.model.schema import Op
from traces.second_checker import Refuted
from traces.verdicts import second
from traces.verdicts.report import show
from traces.verdicts.second import ask_again


def found(*columns: Ints) -> list[Found]:
    rows = witness(*columns)
    return [Found(len(rows), rows, np.zeros(len(rows), np.int64))]


def neighbours(rows: Ints) -> list[Found]:
    return found(rows[:-1], rows[1:])


# Mistakes that a check could make: it looks at the right rows and forgets half of the condition.
BUGS: dict[str, Callable[[Partition], list[Found]]] = {
    "L1": lambda p: neighbours(p.log),  # forgets that the offsets have to be the same
    "L4": lambda p: found(p.sends),  # forgets to look into the final scan
    "L5": lambda p: found(p.reads),
    "L9": lambda p: neighbours(p.acked),
    "L12": lambda p: neighbours(p.final[np.argsort(p.offset[p.final], kind="stable")]),
    "L20": lambda p: neighbours(p.where(Op.EARLIEST, Op.LATEST)),
    "P1": lambda p: neighbours(p.acked),
    "T4": lambda p: found(p.reads[: len(p.acked)], p.acked[: len(p.reads)]),
    "C1": lambda p: neighbours(p.reads),  # takes every step for a gap
    "C2": lambda p: neighbours(p.reads),
    "G1": lambda p: neighbours(p.where(Op.ASSIGNED)),
    "G5": lambda p: neighbours(p.where(Op.COMMIT)),
    "G9": lambda p: neighbours(p.where(Op.POLL)),
}


def peaceful(folder: Path) -> Path:
    w: Fixture = fixture(3, steps=8)
    return write(folder, w.lines, w.meta)


@pytest.mark.parametrize("id", BUGS)
def test_what_a_broken_check_invents_is_refuted(
    id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = CHECKS[id]
    monkeypatch.setitem(CHECKS, id, evolve(right, function=BUGS[id]))
    one = judged(peaceful(tmp_path))
    assert one.verdict == "violated"
    ask_again(one, always=True)
    assert one.opinions
    assert all(isinstance(opinion, Refuted) for opinion in one.opinions.values())
    shown = StringIO()
    show(Console(file=shown, width=200), one)
    assert "Two checkers of Highwater disagree" in shown.getvalue()
    assert f"{id} witness 1: " in shown.getvalue()


def test_a_large_run_is_judged_again_only_if_asked_for(tmp_path: Path) -> None:
    one = judged(write(tmp_path, *injected(fixture(1), IN_CALLS["lost"])))
    assert one.run is not None
    one.run.calls = 10**7
    ask_again(one, always=False)
    assert not one.opinions
    ask_again(one, always=True)
    assert one.opinions


def as_json(path: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    out = path.parent / "out.json"
    done = CliRunner().invoke(
        check, [str(path), "--json", str(out), *options], catch_exceptions=False
    )
    return done.exit_code, json.loads(out.read_text())["runs"][0], done.output


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_command_tells_what_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write(tmp_path / "run", *injected(fixture(1), IN_CALLS["phantom"]))
    code, one, _ = as_json(run)
    assert (code, one["checks"]["L5"]["witnesses"][0]["confirmed"]) == (1, True)
    code, one, _ = as_json(run, "--no-recheck")
    assert (code, one["checks"]["L5"]["witnesses"][0]["confirmed"]) == (1, None)

    def deny(*_: Any) -> Refuted:
        return Refuted("it is all right")

    monkeypatch.setattr("traces.verdicts.second.opinion_on", deny)
    code, one, output = as_json(run)
    assert (code, one["verdict"]) == (3, "violated")
    assert one["contradictions"] == ["L5 witness 1: it is all right"]
    shown = one["checks"]["L5"]["witnesses"][0]
    assert (shown["confirmed"], shown["refuted"]) == (False, "it is all right")
    assert "Please report it" in output


def test_of_many_rows_in_few_calls_nobody_is_asked_again_unless_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = judged(write(tmp_path, *injected(fixture(2), IN_CALLS["lost"])))
    monkeypatch.setattr(second, "ROWS", one.rows - 1)
    ask_again(one, always=False)
    assert not one.opinions
    ask_again(one, always=True)
    assert one.opinions
