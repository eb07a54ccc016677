"""The folder of operations: the same as reading into memory, resumed after any crash, refused."""

import errno
import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from tests.traces.fixture import fixture, meta, write
from tests.traces.judging import judged
from traces.commands.check import check
from traces.commands.ingest import ingest_
from traces.engines import local
from traces.ingest.history import Reading, read_history
from traces.ingest.ingesting import ingest, ingest_history, is_ops, load
from traces.ingest.maps import in_spark, processes
from traces.ingest.run import Run, read_trace
from traces.model.problems import BadInput
from traces.verdicts.judged import Judged

HISTORIES = Path(__file__).parent.parent / "data" / "histories"
SIZE = 3_000


def as_json(path: Path, run: Run) -> dict[str, Any]:
    one = Judged(path, run)
    one.settle(local.find(run.table(0), {0: run.context}), False)
    return one.as_json()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run with a transaction that a reader has to prove, ids in words, and an unplaced send."""
    w = fixture(7)
    ends = [x for x in w.lines["t0#0"] if x["op"] == "txn_commit"]
    ends[-1]["outcome"] = "info"
    victim = next(x for x in w.lines["p0#0"] if x["op"] == "send")
    victim["outcome"] = "info"
    del victim["records"][0]["partition"], victim["records"][0]["offset"]
    for lines in w.lines.values():
        for line in lines:
            line["note"] = "kept"
            line["records"] = [
                r | ({"id": f"id-{r['id']}"} if "id" in r else {}) for r in line.get("records", [])
            ]
            if not line["records"]:
                del line["records"]
    return write(tmp_path / "run", w.lines, w.meta)


def test_judging_the_folder_says_what_the_run_says(run_folder: Path, tmp_path: Path) -> None:
    run = ingest(run_folder, tmp_path / "ops", SIZE)
    assert len(run.parts) > 15
    assert as_json(run_folder, run) == judged(run_folder).as_json()
    assert as_json(run_folder, load(tmp_path / "ops")) == judged(run_folder).as_json()


def test_ids_in_words_are_told_in_witnesses(run_folder: Path, tmp_path: Path) -> None:
    path = run_folder / "c0#0.ndjson"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    polls = [line for line in lines if line["op"] == "poll"]
    polls[-1]["records"][0]["id"] = "id-of-nobody"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = as_json(run_folder, ingest(run_folder, tmp_path / "ops", SIZE))
    assert found == judged(run_folder).as_json()
    witnesses = [w for c in found["checks"].values() for w in c["witnesses"]]
    ids = {str(e["id"]) for w in witnesses for e in w["events"] if "id" in e}
    assert "id-of-nobody" in ids
    assert {id[:3] for id in ids} == {"id-"}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_crash_leaves_the_result_is_the_same_to_the_byte(
    seed: int, run_folder: Path, tmp_path: Path
) -> None:
    """Also with the rows of a piece moved aside and nothing in their place yet."""
    out, random = tmp_path / "ops", Random(seed)
    ingest(run_folder, out, SIZE)
    whole = contents(out)
    files = [path for path in out.rglob("*") if path.is_file() and path.name != "_names.json"]
    for path in random.sample(files, random.randint(1, len(files))):
        path.unlink()
    for path in random.sample(sorted(out.glob("part-*")), min(3, len(list(out.glob("part-*"))))):
        aside = out / "_raw" / (path.name.removeprefix("part-"))
        # A piece whose raw rows were kept has been rewritten: its part is never moved aside.
        if "-placed" not in path.name and f"_raw/{aside.name}" not in whole:
            path.rename(aside)
    (out / "part-of-nothing.parquet").write_bytes(b"left over")
    ingest(run_folder, out, SIZE)
    assert contents(out) == whole


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", [0, 1, 5, 12])
def test_an_interrupted_run_goes_on_where_it_stopped(
    after: int, run_folder: Path, tmp_path: Path
) -> None:
    done: list[Any] = []

    def stops(work: Any, items: Any) -> Any:
        for item in items:
            if len(done) == after:
                raise Killed
            done.append(item)
            yield work(item)

    with pytest.raises(Killed):
        ingest(run_folder, tmp_path / "ops", SIZE, stops)
    assert not is_ops(tmp_path / "ops")
    read: list[Any] = []

    def counts(work: Any, items: Any) -> Any:
        for item in items:
            read.append(item)
            yield work(item)

    ingest(run_folder, tmp_path / "ops", SIZE, counts)
    pieces = {job.piece for job in read if hasattr(job, "state")}
    before = {job.piece for job in done}
    assert pieces.isdisjoint(before)
    ingest(run_folder, tmp_path / "again", SIZE)
    assert contents(tmp_path / "ops") == contents(tmp_path / "again")


def test_only_a_changed_file_is_read_again(run_folder: Path, tmp_path: Path) -> None:
    out, ticks = tmp_path / "ops", list[tuple[int, int]]()
    ingest(run_folder, out, SIZE)
    changed = run_folder / "c0#0.ndjson"
    changed.write_bytes(changed.read_bytes() + b"\n")
    run = ingest(run_folder, out, SIZE, tick=lambda done, all: ticks.append((done, all)))
    pieces = -(-changed.stat().st_size // SIZE)
    assert ticks[0] == (ticks[0][1] - pieces, ticks[0][1])
    assert as_json(run_folder, run) == judged(run_folder).as_json()


def test_a_proof_that_is_gone_is_taken_back(run_folder: Path, tmp_path: Path) -> None:
    """Rows as they were read are kept aside, so that another whole may say something else."""
    out = tmp_path / "ops"
    ingest(run_folder, out, SIZE)
    for path in run_folder.iterdir():
        if path.name.startswith(("c", "scan")):
            path.unlink()
    run = ingest(run_folder, out, SIZE)
    assert as_json(run_folder, run) == judged(run_folder).as_json()
    fresh = as_json(run_folder, ingest(run_folder, tmp_path / "fresh", SIZE))
    assert as_json(run_folder, run) == fresh


def test_nothing_is_read_twice_when_nothing_has_changed(run_folder: Path, tmp_path: Path) -> None:
    ingest(run_folder, tmp_path / "ops", SIZE)

    def never(work: Any, items: Any) -> Any:
        raise AssertionError

    assert ingest(run_folder, tmp_path / "ops", SIZE, never).rows


def test_a_file_that_comes_later_leaves_the_other_pieces_alone(
    run_folder: Path, tmp_path: Path
) -> None:
    out, ticks = tmp_path / "ops", list[tuple[int, int]]()
    aside = tmp_path / "c0#0.ndjson"
    shutil.move(run_folder / "c0#0.ndjson", aside)
    ingest(run_folder, out, SIZE)
    shutil.move(aside, run_folder / "c0#0.ndjson")
    run = ingest(run_folder, out, SIZE, tick=lambda done, all: ticks.append((done, all)))
    assert ticks[0][0] > 0
    whole = judged(run_folder).as_json()
    assert {n: c["verdict"] for n, c in as_json(run_folder, run)["checks"].items()} == {
        n: c["verdict"] for n, c in whole["checks"].items()
    }


def test_a_topic_and_a_producer_that_are_configured_later_count(tmp_path: Path) -> None:
    """The names that the folder was begun with hold neither."""
    record = {"topic": "t", "partition": 0, "offset": 0, "id": 0}
    call = {"seq": 0, "op": "send", "outcome": "ok", "invoked_ns": 1, "returned_ns": 2}
    first = {"p0#0": [call | {"process": "p0#0", "records": [record]}]}
    ingest(write(tmp_path / "run", first, meta()), tmp_path / "ops", SIZE)
    later = call | {"process": "late#0", "records": [record | {"topic": "later", "id": 1}]}
    settings = meta()
    settings["topics"]["later"] = {"partitions": 1, "cleanup_policy": "compact"}
    settings["producers"]["late"] = {"partitioner": "murmur2"}
    folder = write(tmp_path / "run", {**first, "late#0": [later]}, settings)
    counts = ingest(folder, tmp_path / "ops", SIZE).evidence.counts
    assert counts == read_trace(folder).evidence.counts
    assert counts["compacted.key"] == counts["keyed.key"] == (1, 1)


def test_what_is_wrong_is_told_by_line_and_read_again_when_it_was_mended(
    run_folder: Path, tmp_path: Path
) -> None:
    path = run_folder / "c0#0.ndjson"
    good = path.read_bytes()
    lines = good.splitlines(keepends=True)
    lines[30] = lines[30].replace(b'"ok"', b'"OK"')
    path.write_bytes(b"".join(lines))
    for _ in range(2):
        with pytest.raises(BadInput) as caught:
            ingest(run_folder, tmp_path / "ops", SIZE)
        assert (
            str(caught.value)
            == "c0#0.ndjson:31: outcome: expected one of ok, fail, info, found 'OK'"
        )
        assert not is_ops(tmp_path / "ops")
    path.write_bytes(good)
    assert as_json(run_folder, ingest(run_folder, tmp_path / "ops", SIZE)) == (
        judged(run_folder).as_json()
    )


def test_several_processes_write_what_one_writes(run_folder: Path, tmp_path: Path) -> None:
    ingest(run_folder, tmp_path / "one", SIZE)
    with processes(2) as over:
        ingest(run_folder, tmp_path / "two", SIZE, over)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_spark_writes_what_one_process_writes(run_folder: Path, tmp_path: Path, spark: Any) -> None:
    ingest(run_folder, tmp_path / "one", SIZE)
    ingest(run_folder, tmp_path / "two", SIZE, in_spark(spark))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_history_is_one_piece(tmp_path: Path) -> None:
    path, reading = HISTORIES / "basic.edn", Reading()
    run = ingest_history(path, tmp_path / "ops", reading)
    assert as_json(path, run) == as_json(path, read_history(path, reading))
    before = contents(tmp_path / "ops")
    assert ingest_history(path, tmp_path / "ops", reading).rows == run.rows
    assert contents(tmp_path / "ops") == before
    other = ingest_history(path, tmp_path / "ops", attrs.evolve(reading, subscribed=True))
    assert not other.context.positions_known


def test_the_verb_makes_a_folder_that_check_judges(run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "ops"
    made = CliRunner().invoke(ingest_, [str(run_folder), "--out", str(out), "--split-size", "4kB"])
    assert made.exit_code == 0, made.output
    assert "rows" in made.output
    for name, path in (("ops", out), ("run", run_folder)):
        report = tmp_path / f"{name}.json"
        judging = CliRunner().invoke(check, [str(path), "--engine", "local", "--json", str(report)])
        assert judging.exit_code == 0, judging.output
    ops, run = (json.loads((tmp_path / f"{n}.json").read_text())["runs"][0] for n in ("ops", "run"))
    assert ops["checks"] == run["checks"]


def test_several_runs_go_to_folders_of_their_names(run_folder: Path, tmp_path: Path) -> None:
    arguments = [str(run_folder), str(HISTORIES / "basic.edn"), "--out", str(tmp_path / "all")]
    made = CliRunner().invoke(ingest_, arguments)
    assert made.exit_code == 0, made.output
    assert is_ops(tmp_path / "all" / "run")
    assert is_ops(tmp_path / "all" / "basic")
    judging = CliRunner().invoke(check, [str(tmp_path / "all"), "--engine", "local"])
    assert "2 runs" in judging.output


def test_the_verb_says_what_is_wrong(run_folder: Path, tmp_path: Path) -> None:
    (run_folder / "c0#0.ndjson").write_text("{\n")
    made = CliRunner().invoke(ingest_, [str(run_folder), "--out", str(tmp_path / "ops")])
    assert made.exit_code == 2
    assert "c0#0.ndjson:1: expected JSON" in made.output
    size = [str(run_folder), "--out", str(tmp_path / "ops"), "--split-size", "much"]
    assert "expected a number of bytes, such as 64MiB" in CliRunner().invoke(ingest_, size).output


def test_a_folder_of_another_version_is_refused(run_folder: Path, tmp_path: Path) -> None:
    ingest(run_folder, tmp_path / "ops", SIZE)
    run = tmp_path / "ops" / "run.json"
    run.write_bytes(run.read_bytes().replace(b'"reader":"', b'"reader":"0'))
    with pytest.raises(BadInput, match="another version"):
        load(tmp_path / "ops")
    assert ingest(run_folder, tmp_path / "ops", SIZE).rows


def test_a_large_run_is_judged_by_way_of_a_folder(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traces.ingest.inputs.LARGE", 1000)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    report = tmp_path / "large.json"
    assert CliRunner().invoke(check, [str(run_folder), "--json", str(report)]).exit_code == 0
    found = json.loads(report.read_text())["runs"][0]
    assert found["checks"] == judged(run_folder).as_json()["checks"]


def test_two_files_of_one_process_are_refused(tmp_path: Path) -> None:
    line = {"process": "p0#0", "seq": 0, "op": "close", "outcome": "ok"}
    write(tmp_path, {"p0#0": [line], "other": [line]}, meta())
    with pytest.raises(BadInput) as caught:
        ingest(tmp_path, tmp_path / "ops")
    assert str(caught.value) == "p0#0.ndjson: process: 'p0#0' has a file already: other.ndjson"


def test_what_was_half_written_when_somebody_was_killed_goes(tmp_path: Path) -> None:
    w = fixture(1)
    run, out = write(tmp_path / "run", w.lines, w.meta), tmp_path / "ops"
    ingest(run, out)
    halves = [".part-a.parquet.1f", ".run.json.x", "._names.json.x", "_raw/.a.parquet.1f"]
    halves += ["_pieces/.a.json.x", "_ids/.a", "_extra/.a", "_run/.meta.json.x"]
    for half in halves:
        (out / half).write_bytes(b"half")
    (out / ".keep").write_bytes(b"somebody else's")
    ingest(run, out)
    assert {str(p.relative_to(out)) for p in out.rglob(".*")} == {".keep"}


def test_a_full_disk_is_the_fault_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = fixture(1)
    run, out = write(tmp_path / "run", w.lines, w.meta), tmp_path / "ops"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("traces.ingest.folder.write_parquet", full)
    arguments = [str(run), "--out", str(out), "--jobs", "1"]
    result = CliRunner().invoke(ingest_, arguments)
    assert result.exit_code == 2
    assert f"{out}: {os.strerror(errno.ENOSPC)}" in result.output
