"""`highwater chaos` as its users see it."""

from functools import partial
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from click.testing import CliRunner, Result

from chaos import cli
from chaos.cli import chaos
from chaos.script_file import load, save
from chaos.shrink import shrink
from chaos.sim.settings import Settings
from chaos.simulator import build
from refimpl.broker.produce import Produces

SEED_RESULT: dict[str, Any] = {"events": 1, "simulated_ms": 1, "cpu_s": 0.1, "counts": {}}
PARKED_KEPT = patch.object(Produces, "give_up")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(chaos, arguments, catch_exceptions=False)


def test_seeds_without_a_failure_exit_with_0_and_say_what_was_seen() -> None:
    result = call("--seeds", "3..6", "--jobs", "1")
    assert result.exit_code == 0
    assert "4 seeds, 0 failed" in result.output
    assert "events per CPU-second" in " ".join(result.output.split())


def test_several_processes_see_what_one_sees() -> None:
    one, two = (call("--seeds", "0..5", "--jobs", jobs).output for jobs in ("1", "2"))
    assert one.split("seeds,")[0] == two.split("seeds,")[0]


def test_one_seed_tells_its_settings_its_counts_and_its_trace_hash() -> None:
    result = call("--seed", "7", "--config", "fault_ms=500")
    assert result.exit_code == 0
    assert "fault_ms=500" in result.output
    assert "trace hash" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--config", "acks"), "NAME=VALUE"),
        (("--config", "speed=3"), "there is no setting 'speed'"),
        (("--config", "min_isr=lots"), "min_isr: expected a whole number, found 'lots'"),
        (("--config", "min_isr=7"), "min_isr: expected 1, 2, 3, found 7"),
        (("--config", "acks=all,2"), "acks: expected 0, 1, all, found 2"),
        (("--config", "lossy=yes"), "lossy: expected true or false"),
        (("--config", "tick_ms=0"), "tick_ms: expected at least 1"),
        (("--seeds", "9..3"), "no seed in '9..3'"),
        (("--seeds", "many"), "expected a number, or two as in 0..999"),
        (("--seeds", "3", "--seed", "3"), "choose one of"),
        (("--replay", "nowhere.json"), "does not exist"),
    ],
)
def test_bad_input_exits_with_2_and_says_what_was_expected(
    arguments: tuple[str, ...], told: str
) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 9}, "format: expected 1, found 9"),
        ({"settings": None}, "settings: expected an object"),
        ({"settings": {"min_isr": 0}}, "min_isr: expected 1, 2, 3, found 0"),
        ({"settings": {"acks": "all"}}, "acks: expected a list"),
        ({"settings": {"lag_ms": "long"}}, "lag_ms: expected a whole number, found 'long'"),
        ({"settings": {"colour": 8}}, "colour"),
        ({"script": 5}, "script: expected a list"),
        ({"script": [{"at_ms": 1}]}, "script[0]"),
        ({"script": [{"at_ms": 1, "what": "earthquake"}]}, "script[0]: what: expected one of"),
        ({"script": [{"at_ms": 1, "what": "crash", "who": 8}]}, "script[0]"),
        ({"script": [{"at_ms": "soon", "what": "crash"}]}, "script[0]"),
        ({"script": [{"at_ms": 1, "what": "cut", "how": "red"}]}, "script[0]: how: expected one"),
    ],
)
def test_a_bad_script_file_is_refused_by_field(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    path = tmp_path / "script.json"
    save(build(Settings.draw(1)), path)
    value = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps(value | change))
    result = call("--replay", str(path))
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


def test_a_script_file_is_the_same_run(tmp_path: Path) -> None:
    run = build(Settings.draw(11)).go()
    save(run, tmp_path / "script.json")
    assert load(tmp_path / "script.json") == (run.settings, run.script)


def test_a_failure_exits_with_1_tells_its_story_and_can_be_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(cli, "shrink", partial(shrink, budget=10, cpu_s=inf))
    with PARKED_KEPT:
        result = call("--seeds", "101..125", "--jobs", "1")
        assert result.exit_code == 1
        assert "breaks AckedSurvives" in result.output
        assert "show it again: highwater chaos --seed" in result.output
        (file,) = tmp_path.rglob("failed-seed-*.json")
        again = call("--replay", str(file), "--no-shrink")
    assert again.exit_code == 1
    assert "BecomeFollower(" in again.output
    assert call("--replay", str(file)).exit_code == 0


def test_writes_protocol_events_and_histories_where_told(tmp_path: Path) -> None:
    events, out = tmp_path / "events", tmp_path / "histories"
    settings = ("--config", "fault_ms=500", "--jobs", "1")
    result = call("--seeds", "2", "--events", str(events), "--out", str(out), *settings)
    assert result.exit_code == 0
    assert sorted(file.name for file in events.iterdir()) == [
        "seed-0.events.ndjson",
        "seed-1.events.ndjson",
    ]
    assert sorted(folder.name for folder in out.iterdir()) == ["seed-0", "seed-1"]


def test_a_campaign_goes_on_where_it_was_and_names_every_seed_that_failed(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "campaign.json"
    options = ("--config", "fault_ms=300", "--jobs", "1", "--ledger", str(ledger))
    whole = call("--seeds", "0..5", *options)
    assert whole.exit_code == 0
    assert "6 seeds, 0 failed" in whole.output
    written = orjson.loads(ledger.read_bytes())
    written["following"] = 4
    written["tally"]["seeds"] = 4
    written["tally"]["failed"] = [
        {**SEED_RESULT, "seed": 2, "oracle": "LogMatching", "what": "orders:0: differs"}
    ]
    ledger.write_bytes(orjson.dumps(written))
    rest = call("--seeds", "0..5", *options)
    assert rest.exit_code == 1
    assert "6 seeds, 1 failed" in rest.output
    assert "seed 2 breaks LogMatching" in rest.output
    assert "highwater chaos --seed 2 --config fault_ms=300" in " ".join(rest.output.split())


def test_a_campaign_runs_on_behind_a_seed_that_fails(tmp_path: Path) -> None:
    ledger = tmp_path / "campaign.json"
    with PARKED_KEPT:
        plain = "--config", "static_members=false", "--config", "reconfigures=false"
        options = ("--jobs", "1", "--ledger", str(ledger), *plain)
        found = call("--seeds", "101..102", *options)
    assert found.exit_code == 1
    assert "2 seeds, 1 failed" in found.output
    assert "seed 101 breaks AckedSurvives" in found.output
    assert orjson.loads(ledger.read_bytes())["following"] == 103


def test_a_ledger_of_another_campaign_is_refused(tmp_path: Path) -> None:
    ledger = tmp_path / "campaign.json"
    options = ("--jobs", "1", "--ledger", str(ledger))
    call("--seeds", "1", "--config", "fault_ms=300", *options)
    other = call("--seeds", "2", "--config", "fault_ms=300", *options)
    assert other.exit_code == 2
    assert "seeds is [0, 0], and now it is [0, 1]" in " ".join(other.output.split())
    ledger.write_text("{}")
    assert call("--seeds", "1", *options).exit_code == 2
    assert call("--ledger", str(ledger)).exit_code == 2
