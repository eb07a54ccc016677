"""`highwater generate`: a run with known anomalies, for anybody's checker."""

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from tests.traces.judging import counts, judged
from traces.generate.anomalies import ANOMALIES
from traces.generate.cli import generate


def run(*arguments: object) -> Result:
    """What the command answers."""
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
    said = run("--list").output
    assert all(one.name in said and one.summary in said for one in ANOMALIES.values())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--anomaly", "loss"], "no anomaly is called 'loss'; --list names all"),
        (["--anomaly", "duplicate:none"], "a number above 0 behind duplicate:, found 'none'"),
        (["--anomaly", "duplicate", "--anomalies", "1"], "give one of them"),
        (["--anomaly", "duplicate:9999", "--rows", "20000"], "no partition is left"),
        (["--rows", "10"], "not in the range"),
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
