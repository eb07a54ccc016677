"""A journal beside the files of a run is a process that is not over: it is read and left alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define
from click.testing import CliRunner

import traces
from tests.traces.judging import judged, said
from tests.traces.record.healthy import META, Healthy
from traces.commands.check import check
from traces.record import settle
from traces.record.process import Process, now, open_process
from traces.record.run import TAKEN
from traces.second_checker import Confirmed
from traces.verdicts.second import ask_again


@define
class Alive:
    """A run whose consumer and scan are over, and whose producer goes on."""

    folder: Path
    producer: Process

    def send(self, offset: int) -> int:
        """Send and hear where it was stored; answers the id."""
        seq = self.producer.next_seq()
        id = self.producer.first_id + seq
        self.producer.journal.append_send(1, seq, id, None, now())
        self.producer.journal.append_report(seq, 0, offset, 1)
        return id


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Alive]:
    """Five records are sent and read; one more is read whose send nobody has written down yet."""
    head: Any = {"role": "producer", "client": "a client", "configured": {}}
    run = Alive(tmp_path, open_process(tmp_path, "p", head, TAKEN, settle))
    run.producer.write({"context": 1, "topic": "t", "inside": {}})
    log = [*map(run.send, range(5)), 17]
    records = [
        {"topic": "t", "partition": 0, "offset": offset, "id": id} for offset, id in enumerate(log)
    ]
    reader = open_process(tmp_path, "s", head | {"role": "scan"}, TAKEN, settle)
    reader.note("scan", records=records, offsets={"t:0": 6}, isolation="read_uncommitted")
    reader.end()
    topics = {"t": META["topics"]["t"]}
    meta = META | {"topics": topics, "processes": ["s#0"], "consumers": {}}
    meta |= {"producers": {"p": META["producers"]["p"]}}
    (tmp_path / "meta.json").write_bytes(orjson.dumps(meta))
    yield run
    run.producer.end()


def reasons(one: Any) -> dict[str, str]:
    return {verdict.check: verdict.reason for verdict in one.verdicts}


def test_a_process_that_still_runs_is_not_over(alive: Alive) -> None:
    """Its sends count; that nobody sent what was read, and that anything is lost, is not said."""
    before = (alive.folder / "p#0.journal").read_bytes()
    one = judged(alive.folder)
    assert one.run is not None
    assert one.run.calls == 7
    assert [str(warning) for warning in one.run.warnings] == [
        "p#0.journal: its process still runs: the recording is not over"
    ]
    assert not said(one, "violated")
    assert {"L1", "L2", "L8"} & said(one, "holds")
    assert {"L4", "L5"} <= said(one, "not checked")
    assert "the recording of p#0 is not over" in reasons(one)["L4"]
    assert (alive.folder / "p#0.journal").read_bytes() == before


def test_once_it_has_ended_it_is_held_to_what_it_sent(alive: Alive) -> None:
    alive.producer.end()
    assert "L5" in said(judged(alive.folder), "violated")


def test_one_that_was_killed_is_to_be_ended_first(alive: Alive) -> None:
    alive.producer.journal.close()  # as the kernel does
    one = judged(alive.folder)
    assert one.run is not None
    assert [str(warning) for warning in one.run.warnings] == [
        "p#0.journal: its process is gone: run `highwater record-scan` first"
    ]
    assert "L4" in said(one, "not checked")
    assert (alive.folder / "p#0.journal").exists()


def test_a_journal_without_a_head_is_a_process_of_which_nothing_is_known(alive: Alive) -> None:
    alive.producer.end()
    (alive.folder / "p#0.ndjson").unlink()
    (alive.folder / "p#0.journal").write_bytes(bytes(4096))
    one = judged(alive.folder)
    assert one.run is not None
    assert "p#0.journal: byte 0: damaged: expected the beginning of a journal" in map(
        str, one.run.warnings
    )
    assert not said(one, "violated")
    assert one.incomplete == ["the file of p#0 is cut off"]


def test_both_checkers_read_it(alive: Alive) -> None:
    """Two records at one offset: a witness is in the journal, and the second checker finds it."""
    alive.send(0)
    one = judged(alive.folder)
    ask_again(one, always=True)
    assert "L1" in said(one, "violated")
    assert set(map(type, one.opinions.values())) == {Confirmed}
    assert not one.contradictions


def test_the_exit_code_tells_that_it_is_not_all(alive: Alive) -> None:
    run = CliRunner().invoke
    assert run(check, [str(alive.folder)]).exit_code == 4
    assert "not all of it was there" in run(check, [str(alive.folder)]).output
    assert run(check, [str(alive.folder), "--allow-incomplete"]).exit_code == 0
    assert run(check, [str(alive.folder), "--engine", "local", "--mode", "quick"]).exit_code == 4
    assert traces.check(traces.load(alive.folder)).incomplete == ["the file of p#0 is cut off"]
    alive.producer.end()
    assert run(check, [str(alive.folder)]).exit_code == 1


@pytest.mark.parametrize("left", [0, 300])
def test_a_file_that_cannot_be_read_to_its_end_is_told_by_the_exit_code(
    tmp_path: Path, left: int
) -> None:
    healthy = Healthy(tmp_path)
    healthy.record(4)
    run = CliRunner().invoke
    assert run(check, [str(healthy.settled)]).exit_code == 0
    file = healthy.settled / "p#0.ndjson"
    file.write_bytes(file.read_bytes()[:left])
    assert run(check, [str(healthy.settled)]).exit_code == 4
    assert run(check, [str(healthy.settled), "--allow-incomplete"]).exit_code == 0
    file.unlink()
    assert run(check, [str(healthy.settled)]).exit_code == 4


def test_before_the_scan_the_command_that_is_missing_is_named(alive: Alive) -> None:
    (alive.folder / "meta.json").unlink()
    found = CliRunner().invoke(check, [str(alive.folder)])
    assert found.exit_code == 2
    assert "of a recording, run `highwater record-scan` first" in found.output
