"""`highwater generate`: a run with known anomalies, for anybody's checker."""

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from tests.traces.judging import counts, judged, said
from tests.traces.test_small import ELSEWHERE
from traces.checks.catalogue import CHECKS
from traces.generate.catalogue import ANOMALIES
from traces.generate.cli import generate


def run(*arguments: object) -> Result:
    """The result of the command."""
    return CliRunner().invoke(generate, [str(one) for one in arguments])


def test_a_run_holds_the_anomalies_that_were_asked_for(tmp_path: Path) -> None:
    out, report = tmp_path / "run", tmp_path / "report.json"
    asked = ("--anomaly", "duplicate:2", "--anomaly", "lent_to_two", "--rows", 20_000)
    ran = run(out, *asked, "--seed", 3, "--json", report)
    assert ran.exit_code == 0, ran.output
    assert "3 anomalies, seed 3" in ran.output
    truth = orjson.loads((out / "truth.json").read_bytes())
    assert [one["anomaly"] for one in truth["anomalies"]].count("duplicate") == 2
    assert truth["counts"] == {"L2": 2, "S1": 1} == counts(judged(out))
    assert orjson.loads(report.read_bytes())["anomalies"] == truth["anomalies"]


def test_without_anomalies_nothing_is_found(tmp_path: Path) -> None:
    assert run(tmp_path / "run", "--anomalies", 0, "--rows", 20_000).exit_code == 0
    assert counts(judged(tmp_path / "run")) == {}


def test_the_table_is_of_the_same_anomalies(tmp_path: Path) -> None:
    for kind in ("ndjson", "parquet"):
        asked = ("--anomaly", "skipped", "--rows", 20_000, "--format", kind)
        assert run(tmp_path / kind, *asked).exit_code == 0
    truths = [(tmp_path / kind / "truth.json").read_bytes() for kind in ("ndjson", "parquet")]
    assert truths[0] == truths[1]
    assert list((tmp_path / "parquet" / "ops").glob("*.parquet"))


def test_every_anomaly_is_listed_with_what_it_is() -> None:
    listed = run("--list").output
    assert all(one.name in listed and one.summary in listed for one in ANOMALIES.values())
    assert len({one.summary for one in ANOMALIES.values()}) == len(ANOMALIES)


def test_every_check_has_an_anomaly_in_large_traces_and_in_small_ones(tmp_path: Path) -> None:
    assert run("--list", "--json", tmp_path / "list.json").exit_code == 0
    listed = orjson.loads((tmp_path / "list.json").read_bytes())
    assert {id for one in listed for id in one["counts"] or ()} == set(CHECKS)
    small = [one["small"] for one in listed if one["small"]]
    noticed = {id for one in small for way in ("must", "may", "allowed") for id in one[way]}
    assert noticed == set(CHECKS) - ELSEWHERE


def test_an_anomaly_is_the_same_breach_however_it_is_made() -> None:
    """In a large trace each check finds it that has to find it in a small one."""
    twice = [(one.large, one.small) for one in ANOMALIES.values() if one.large and one.small]
    assert twice
    for large, small in twice:
        assert small.must | small.allowed <= set(large.counts), large.name


@pytest.mark.parametrize("name", [None, "lost", "compact_early", "left_over"])
def test_a_small_run_holds_the_anomaly_that_was_asked_for(tmp_path: Path, name: str | None) -> None:
    out, asked = tmp_path / "run", ("--anomaly", name) if name else ()
    ran = run(out, "--small", "--seed", 5, *asked)
    assert ran.exit_code == 0, ran.output
    one = judged(out, strict=name is None)
    truth = orjson.loads((out / "truth.json").read_bytes())
    ways = [
        set(planted[way]) for planted in truth["anomalies"] for way in ("must", "may", "allowed")
    ]
    must, may, allowed = ways or (set[str](), set[str](), set[str]())
    assert must <= said(one, "violated") <= must | may
    assert allowed <= said(one, "allowed")
    assert bool(must | allowed) == bool(name)


def test_one_seed_is_one_small_run(tmp_path: Path) -> None:
    for out in ("one", "other"):
        assert run(tmp_path / out, "--small", "--anomaly", "lost", "--seed", 5).exit_code == 0
    one, other = (
        {file.name: file.read_bytes() for file in (tmp_path / out).iterdir()}
        for out in ("one", "other")
    )
    assert one == other


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--anomaly", "loss"], "no anomaly is called 'loss'; --list names all"),
        (["--anomaly", "duplicate:none"], "a number above 0 behind duplicate:, found 'none'"),
        (["--anomaly", "duplicate", "--anomalies", "1"], "give one of them"),
        (["--anomaly", "duplicate:9999", "--rows", "20000"], "no partition is left"),
        (["--rows", "10"], "not in the range"),
        (["--small", "--anomalies", "1"], "--small makes lines, with one --anomaly or none"),
        (["--small", "--anomaly", "lost:2"], "--small makes lines, with one --anomaly or none"),
        (["--small", "--format", "parquet"], "--small makes lines"),
        (["--small", "--anomaly", "circle"], "made in large traces alone: leave out --small"),
        (["--anomaly", "reorder_poll"], "reorder_poll is made with --small alone"),
    ],
)
def test_a_mistake_is_named_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    ran = run(tmp_path / "run", *arguments)
    assert ran.exit_code == 2
    assert expected in ran.output.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert ran.exit_code == 2
    assert "is there already" in ran.output
    assert run().exit_code == 2


def test_a_folder_that_cannot_be_made_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = run(tmp_path / "file" / "run")
    assert ran.exit_code == 2
    assert f"{tmp_path / 'file'}: File exists" in ran.output
