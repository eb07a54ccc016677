"""`highwater check`: what a user types, sees and gets."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from tests.traces.fixture import fixture, write
from traces.checks.catalogue import CHECKS
from traces.commands.check import check
from traces.generate.small import IN_CALLS, injected

DATA = Path(__file__).parent / "data"
HISTORIES = DATA / "histories"
EXPECTED: dict[str, dict[str, Any]] = json.loads((HISTORIES / "expected.json").read_text())
VERDICTS = {"holds", "violated", "allowed", "not checked"}

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(check, [str(a) for a in arguments], catch_exceptions=False)


def report(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["runs"]


def test_the_json_is_what_it_is_said_to_be(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = run(DATA / "recordings", "--json", out)
    assert result.exit_code == 0, result.output
    runs = report(out)
    assert [Path(one["path"]).name for one in runs] == ["auto-commit", "healthy-acks-all"]
    assert [one["verdict"] for one in runs] == ["allowed", "holds"]
    for one in runs:
        assert list(one["checks"]) == list(CHECKS)
        assert one["anomalies"] == []
        for answer in one["checks"].values():
            assert set(answer) == {"verdict", "reason", "count", "witnesses"}
            assert answer["verdict"] in VERDICTS
            assert answer["reason"]
            assert len(answer["witnesses"]) <= 10
            assert all(1 <= len(w["events"]) <= 4 for w in answer["witnesses"])
    skipped = runs[0]["checks"]["G8"]
    assert (skipped["verdict"], skipped["count"]) == ("allowed", 440)
    record, commit = skipped["witnesses"][0]["events"]
    assert record["op"] == "poll"
    assert commit["op"] in ("commit", "committed")
    assert commit["offset"] > record["offset"]
    assert (commit["partition"], commit["group"]) == (record["partition"], "g")
    assert {"file", "process", "seq", "op", "outcome", "id"} <= set(record)


@pytest.mark.parametrize(
    ("options", "mode", "policy"),
    [
        ([], "assign", "delete"),
        (["--sub-via", "subscribe"], "subscribe", "delete"),
        (["--cleanup-policy", "compact"], "assign", "compact"),
        (["--ww-deps"], "assign", "delete"),
    ],
)
def test_histories_get_their_anomalies_from_the_command_line(
    options: list[str], mode: str, policy: str, tmp_path: Path
) -> None:
    names = [
        name
        for name, expected in EXPECTED.items()
        if (expected["mode"], expected.get("cleanup_policy", "delete")) == (mode, policy)
        and ("--ww-deps" not in options or expected["ww_deps"])
    ]
    assert names
    out = tmp_path / "out.json"
    result = run(*(HISTORIES / name for name in names), *options, "--json", out)
    runs = {Path(one["path"]).name: one for one in report(out)}
    assert {name: runs[name]["anomalies"] for name in names} == {
        name: EXPECTED[name]["expected"] for name in names
    }
    assert result.exit_code == (0 if all(EXPECTED[name]["valid"] for name in names) else 1)


def test_a_violation_ends_with_one_and_shows_its_witness(tmp_path: Path) -> None:
    w = fixture(2)
    lines, meta = injected(w, IN_CALLS["lost"])
    result = run(write(tmp_path / "lossy", lines, meta))
    assert result.exit_code == 1
    assert "L4" in result.output
    assert "violated, 1 incident" in result.output
    assert "  witness  " in result.output
    assert "send ok offset=" in result.output


def test_a_run_with_a_loss_is_told_on_one_screen(tmp_path: Path) -> None:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    faults = [{"at_ns": 100 * n, "what": "kill -9 broker 2"} for n in range(9)]
    path = write(tmp_path / "lossy", lines, {**meta, "faults": faults})
    for of in (path, DATA / "recordings" / "auto-commit"):
        said = run(of).output.splitlines()
        assert len(said) <= 23
        assert max(map(len, said)) <= 80
        assert said[-1].startswith("more: -v for every promise, --html FILE for a page, highwater")


def test_a_truncated_tail_is_one_incident_of_all_its_promises() -> None:
    said = " ".join(run("examples/leader-kill-acks1").output.split())
    assert "allowed, 1 incident that the configuration allows" in said
    assert "allowed 406 acknowledged records are missing from the log at the end" in said
    assert "where orders:0 offsets 6957–7362 when 24.72 to 26.02 s after the first call" in said
    assert "beside SIGSTOP broker 1 (24.72 s)" in said
    assert "kill -9 broker 2 (26.04 s)" in said
    assert "promises L4 L3 L1 L9 P1" in said
    assert "because producers.p0.acks = 1; producers.p1.acks = 1" in said
    assert "67 promises: 5 allowed, 22 kept, 40 not checked" in said


def test_the_readme_shows_what_the_recording_of_a_bug_of_kafka_looks_like() -> None:
    ran = run("examples/kafka-late-alter-partition/run")
    assert ran.exit_code == 1
    shown = Path("README.md").read_text(encoding="utf-8")
    assert f"```\n{ran.output.strip()}\n```" in shown


def test_of_several_runs_each_has_a_headline_and_the_broken_ones_their_incidents(
    tmp_path: Path,
) -> None:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    lossy = write(tmp_path / "lossy", lines, meta)
    said = run(DATA / "recordings", lossy).output.splitlines()
    assert [line.split() for line in said[1:4]] == [
        ["auto-commit", "allowed", "G8", "G9"],
        ["healthy-acks-all", "holds"],
        ["lossy", "violated", "L3", "L4"],
    ]
    assert said[4].startswith("  VIOLATED   t:")
    assert said[6] == "3 runs: 1 allowed, 1 holds, 1 violated"


def test_the_json_tells_the_incidents(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run("examples/leader-kill-acks1", "--json", out)
    (incident,) = report(out)[0]["incidents"]
    assert incident["checks"] == {"L4": 406, "L3": 406, "L1": 406, "L9": 405, "P1": 1}
    assert incident["partitions"] == {"orders:0": [[6957, 7362]]}
    assert incident["verdict"] == "allowed"
    assert "kill -9 broker 2" in incident["faults"]


def test_strict_ends_with_one_where_the_configuration_permits(tmp_path: Path) -> None:
    path = DATA / "recordings" / "auto-commit"
    assert run(path).exit_code == 0
    assert run(path, "--strict").exit_code == 1


def test_what_is_not_checked_is_summed_up_by_its_reason(tmp_path: Path) -> None:
    output = " ".join(run(HISTORIES / "basic.edn", "-v").output.split())
    assert "S1 acquisition is exclusive" in output
    assert "saw nothing to judge: records that a share group was given" in output
    assert "timestamp is missing on 3 of 3 stamped rows" in output


def test_the_first_thing_said_is_what_happened_and_how_often(tmp_path: Path) -> None:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    result = run(write(tmp_path / "lossy", lines, meta), "-v")
    first, second = result.output.splitlines()[2:4]
    assert first.startswith("1 acknowledged record was passed over by readers and given to nobody")
    assert second.startswith("1 acknowledged record is missing from the log at the end: would be")
    allowed = run(DATA / "recordings" / "auto-commit", "-v").output
    assert "440 records below the committed offset were not processed: allowed because" in allowed
    assert "would be allowed only if" not in allowed


def test_what_is_allowed_fails_a_run_if_asked_to() -> None:
    path = DATA / "recordings" / "auto-commit"
    assert run(path, "--fail-on", "violated").exit_code == 0
    result = run(path, "--fail-on", "allowed")
    assert result.exit_code == 1
    assert "because  consumers of group g: commit_order = auto" in result.output


def test_all_checks_are_listed_without_a_run() -> None:
    result = run("--list")
    assert result.exit_code == 0
    assert all(f"{id} " in result.output for id in CHECKS)
    assert "everything acknowledged is in the log at the end" in result.output


def test_bad_input_ends_with_two_and_the_other_runs_are_judged(tmp_path: Path) -> None:
    good, bad = fixture(1), fixture(2)
    write(tmp_path / "runs" / "good", good.lines, good.meta)
    bad.lines["p0#0"][0]["outcome"] = "perhaps"
    write(tmp_path / "runs" / "bad", bad.lines, bad.meta)
    out = tmp_path / "out.json"
    result = run(tmp_path / "runs", "--json", out)
    assert result.exit_code == 2
    message = "p0#0.ndjson:1: outcome: expected one of ok, fail, info, found 'perhaps'"
    assert message in " ".join(result.output.split())
    one, two = report(out)
    assert (one["verdict"], one["errors"], one["checks"]) == ("bad input", [message], {})
    assert two["verdict"] == "holds"


def test_a_folder_of_process_files_without_meta_is_bad_input(tmp_path: Path) -> None:
    w = fixture(1)
    write(tmp_path / "run", w.lines, w.meta)
    (tmp_path / "run" / "meta.json").unlink()
    result = run(tmp_path / "run")
    assert result.exit_code == 2
    assert "meta.json: No such file or directory" in " ".join(result.output.split())


@pytest.mark.parametrize("name", ["empty", "notes.txt"])
def test_a_path_that_holds_no_run_is_a_usage_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.mkdir() if name == "empty" else path.write_text("nothing to judge")
    result = run(path)
    assert result.exit_code == 2
    assert "expected the folder of a run (with meta.json), an .edn file" in result.output


def test_a_path_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_a_json_file_that_cannot_be_written_is_an_error_before_the_work(tmp_path: Path) -> None:
    result = run(HISTORIES / "basic.edn", "--json", tmp_path / "nowhere" / "out.json")
    assert result.exit_code == 2
    assert "nowhere" in result.output


def test_a_session_that_is_there_is_left_alone(spark: SparkSession) -> None:
    run(HISTORIES / "basic.edn", "--engine", "spark")
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_no_table_is_left_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    assert run(HISTORIES / "basic.edn", "--engine", "spark").exit_code == 0
    assert list((tmp_path / "cache").iterdir()) == []
    shutil.rmtree(tmp_path / "cache")
