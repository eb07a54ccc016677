"""Recordings are held to what the `ok_` rows promise under their rules, and to nothing else."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from properties.tla import SpecTree
from properties.tla.promised import kept, validate_promised
from properties.tla.tracecheck import TraceVerdict, validate_all
from properties.tla.tracefile import Trace, read_traces
from properties.tla.validate_command import validate
from tests.properties.tla.scratch import Run

COUNTER = """\
---- MODULE Counter ----
EXTENDS Naturals
CONSTANTS Step, Skips, Max
VARIABLE at
Init == at = 0
Add(n) == n = Step /\\ at + n <= Max /\\ at' = at + n
Skip == Skips /\\ at + 3 <= Max /\\ at' = at + 3
Next == (\\E n \\in 1..2 : Add(n)) \\/ Skip
Spec == Init /\\ [][Next]_at
Even == at % 2 = 0
Within == \\A n \\in 1..Max : n < at => n < Max
===="""
TABLE = """\
rules = ["Step"]

[recordings]
narrow = {Skips = false, Max = 100}
costly = ["Within"]

[[verdict]]
cfg = "ok_2"
kind = "ok"
expect = "pass"

[[verdict]]
cfg = "ok_1"
kind = "ok"
expect = "pass"
"""
MODEL = (
    "CONSTANTS\n  Step = {step}\n  Skips = FALSE\n  Max = 4\nSPECIFICATION Spec\nINVARIANTS {}\n"
)


@pytest.fixture
def counter(tmp_path: Path) -> SpecTree:
    folder = tmp_path / "specs/Counter"
    (folder / "cfg").mkdir(parents=True)
    (folder / "Counter.tla").write_text(COUNTER)
    (folder / "verdicts.toml").write_text(TABLE)
    (folder / "cfg/ok_2.cfg").write_text(MODEL.format("Even Within", step=2))
    (folder / "cfg/ok_1.cfg").write_text(MODEL.format("Within", step=1))
    return SpecTree(tmp_path / "specs")


def recorded(tmp_path: Path, *steps: int, step: int = 2) -> Path:
    """A recording that adds these numbers; 3 is a skip."""
    where = {"run": "1", "spec": "Counter", "subject": "c"}
    lines: list[dict[str, Any]] = [
        {**where, "constants": {"Step": step, "Skips": True, "Max": 1_000_000}}
    ]
    for seq, n in enumerate(steps, start=1):
        params: dict[str, int] = {} if n == 3 else {"n": n}
        action = "Add" if params else "Skip"
        after = {"at": sum(steps[:seq])}
        lines.append({**where, "seq": seq, "action": action, "params": params, "after": after})
    file = tmp_path / "run.events.ndjson"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file


def traces(tmp_path: Path, *steps: int, step: int = 2) -> list[Trace]:
    return read_traces([recorded(tmp_path, *steps, step=step)])


def asked(verdict: TraceVerdict, tree: SpecTree) -> list[str]:
    return [line.split(": ")[1] for line in kept([verdict], tree)]


def test_every_state_keeps_the_promises_of_its_rules(tmp_path: Path, counter: SpecTree) -> None:
    (verdict,) = validate_promised(traces(tmp_path, 2, 2, 2), counter)
    assert verdict.accepted
    assert asked(verdict, counter) == ["Even holds in 3 states", "Within holds in 3 states"]


def test_a_promise_that_breaks_is_named_at_its_step(tmp_path: Path, counter: SpecTree) -> None:
    found = traces(tmp_path, 2, 3, 2)
    assert validate_all(found, counter)[0].accepted, "the spec allows the steps"
    (verdict,) = validate_promised(found, counter)
    assert (verdict.accepted, verdict.event, verdict.promise) == (False, 2, "Even")


def test_what_other_rules_promise_is_not_asked(tmp_path: Path, counter: SpecTree) -> None:
    (verdict,) = validate_promised(traces(tmp_path, 1, 1, step=1), counter)
    assert verdict.accepted, "at = 1 is not even, which Step = 2 promises alone"
    assert asked(verdict, counter) == ["Within holds in 2 states"]


def test_a_costly_promise_is_not_asked_beyond_the_narrow_bounds(
    tmp_path: Path, counter: SpecTree
) -> None:
    (verdict,) = validate_promised(traces(tmp_path, *[2] * 60), counter)
    assert verdict.accepted
    assert asked(verdict, counter) == ["Even holds in 60 states"]


def test_a_step_that_no_setting_allows_is_rejected_by_its_own_constants(
    tmp_path: Path, counter: SpecTree
) -> None:
    (verdict,) = validate_promised(traces(tmp_path, 2, 1), counter)
    assert (verdict.accepted, verdict.event, verdict.promise) == (False, 2, "")
    assert (verdict.trace.constants or {})["Max"] == 1_000_000


def test_the_verb_says_how_often_each_promise_was_asked(
    run: Run, tmp_path: Path, counter: SpecTree
) -> None:
    options = ["--promises", "--specs", counter.root]
    good = run(validate, [recorded(tmp_path, 2, 2), *options])
    assert good.exit_code == 0
    assert "Counter: Even holds in 2 states\n" in good.output
    bad = run(validate, [recorded(tmp_path, 2, 3), *options])
    assert bad.exit_code == 1
    assert "because        after it Even does not hold" in bad.output


def test_runs_of_kafka_are_asked_already(run: Run, tmp_path: Path) -> None:
    result = run(validate, ["--kafka", tmp_path, "--promises"])
    assert result.exit_code == 2
    assert "--kafka asks for promises by itself." in result.output
