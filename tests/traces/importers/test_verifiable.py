"""Logs of the verifiable clients as runs: nothing is guessed, and nothing is dropped in silence."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from traces.commands.check import check
from traces.importers.cli import import_
from traces.importers.verifiable import ToolSettings, id_of_value, import_verifiable
from traces.ingest.run import read_trace
from traces.model.problems import BadInput

Event = dict[str, Any]
Line = dict[str, Any]


def sent(number: int, offset: int, prefix: str = "", **more: Any) -> Event:
    name = "producer_send_success"
    where = {"topic": "t", "partition": 0, "offset": offset, "key": None}
    return {"timestamp": 5, "name": name, "value": f"{prefix}{number}", **where, **more}


def refused(number: int, exception: str) -> Event:
    about = {"topic": "t", "key": None, "value": str(number), "message": "…"}
    name = "producer_send_error"
    return {"timestamp": 6, "name": name, "exception": f"class {exception}", **about}


def read(offset: int, value: str) -> Event:
    where = {"topic": "t", "partition": 0, "offset": offset, "key": None}
    return {"timestamp": 7, "name": "record_data", "value": value, **where}


def consumed(*ranges: tuple[int, int, int]) -> Event:
    parts = [
        {"topic": "t", "partition": 0, "count": count, "minOffset": first, "maxOffset": last}
        for count, first, last in ranges
    ]
    total = sum(count for count, _, _ in ranges)
    return {"timestamp": 7, "name": "records_consumed", "count": total, "partitions": parts}


def committed(offset: int, success: bool = True, **more: Any) -> Event:
    partitions = [{"topic": "t", "partition": 0, "offset": offset}]
    return {
        "timestamp": 8,
        "name": "offsets_committed",
        "offsets": partitions,
        "success": success,
    } | more


STARTED: Event = {"timestamp": 1, "name": "startup_complete"}
STOPPED: Event = {"timestamp": 9, "name": "shutdown_complete"}


def tool_data(count: int) -> Event:
    return {"timestamp": 9, "name": "tool_data", "sent": count, "acked": count}


def log(folder: Path, name: str, *events: Event | bytes) -> Path:
    raw = [event if isinstance(event, bytes) else orjson.dumps(event) + b"\n" for event in events]
    file = folder / name
    file.write_bytes(b"".join(raw))
    return file


def lines(run: Path, process: str) -> list[Line]:
    raw = (run / f"{process}.ndjson").read_bytes()
    return [orjson.loads(line) for line in raw.splitlines()]


def highwater_import(*arguments: str | Path) -> Result:
    return CliRunner().invoke(import_, [str(argument) for argument in arguments])


def test_sends_stand_in_the_order_of_their_values(tmp_path: Path) -> None:
    source = log(tmp_path, "p.log", STARTED, sent(1, 1), sent(0, 0), sent(2, 2), STOPPED)
    import_verifiable([source], tmp_path / "run")
    found = lines(tmp_path / "run", "p#0")
    assert [line["records"][0]["id"] for line in found[:-1]] == ["0", "1", "2"]
    assert [line["seq"] for line in found] == [0, 1, 2, 3]
    assert found[-1]["op"] == "close"
    # Nobody told when it was called; it was answered before it was printed.
    assert all("invoked_ns" not in line for line in found[:-1])
    assert found[0]["returned_ns"] == 5_000_000


def test_what_was_sent_and_never_answered_is_unknown(tmp_path: Path) -> None:
    events = (sent(0, 0, "7."), sent(3, 1, "7."), STOPPED, tool_data(6))
    imported = import_verifiable([log(tmp_path, "p.log", *events)], tmp_path / "run")
    sends = lines(tmp_path / "run", "p#0")[:-1]
    assert [send["outcome"] for send in sends] == ["ok", "info", "info", "ok", "info", "info"]
    assert [send["records"][0]["id"] for send in sends] == [f"7.{n}" for n in range(6)]
    assert any("4 values were sent and never answered" in str(w) for w in imported.warnings)


@pytest.mark.parametrize(
    ("exception", "outcome", "error"),
    [
        ("org.apache.kafka.common.errors.TimeoutException", "info", "REQUEST_TIMED_OUT"),
        ("org.apache.kafka.common.errors.RecordTooLargeException", "fail", "MESSAGE_TOO_LARGE"),
        (
            "org.apache.kafka.common.errors.NotEnoughReplicasException",
            "info",
            "NOT_ENOUGH_REPLICAS",
        ),
        ("java.lang.IllegalStateException", "info", "IllegalStateException"),
    ],
)
def test_an_error_is_a_certain_no_only_where_the_record_was_refused(
    tmp_path: Path, exception: str, outcome: str, error: str
) -> None:
    import_verifiable([log(tmp_path, "p.log", refused(0, exception))], tmp_path / "run")
    send = lines(tmp_path / "run", "p#0")[0]
    assert (send["outcome"], send["error"]) == (outcome, error)


def test_a_log_that_was_cut_off_stays_cut_off(tmp_path: Path) -> None:
    source = log(tmp_path, "p.log", sent(0, 0), b'{"timestamp":5,"na')
    done = highwater_import("kafka-verifiable", source, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "p.log:2: the last line is incomplete" in done.output
    assert "p.log: the log ends without shutdown_complete: cut off" in done.output
    assert lines(tmp_path / "run", "p#0")[-1]["op"] == "send"
    assert "producers.whole" in read_trace(tmp_path / "run").evidence.missing


def test_verbose_records_belong_to_the_poll_that_is_printed_after_them(tmp_path: Path) -> None:
    events = (read(0, "0"), read(1, "1"), consumed((2, 0, 1)), committed(2), STOPPED)
    known = ToolSettings(group="g", isolation="read_committed")
    import_verifiable([log(tmp_path, "c.log", *events)], tmp_path / "run", known)
    poll, commit, close = lines(tmp_path / "run", "c#0")
    assert [(r["offset"], r["id"]) for r in poll["records"]] == [(0, "0"), (1, "1")]
    assert (poll["group"], poll["isolation"]) == ("g", "read_committed")
    assert (commit["offsets"], commit["outcome"]) == ({"t:0": 2}, "ok")
    assert close["op"] == "close"


def test_a_range_without_gaps_tells_its_offsets_and_one_with_gaps_does_not(tmp_path: Path) -> None:
    source = log(tmp_path, "c.log", consumed((3, 4, 6)), consumed((2, 7, 9)), STOPPED)
    imported = import_verifiable([source], tmp_path / "run")
    whole, gaps, _ = lines(tmp_path / "run", "c#0")
    assert [r["offset"] for r in whole["records"]] == [4, 5, 6]
    assert [r.get("offset") for r in gaps["records"]] == [None, None]
    assert sum(imported.skipped.values()) == 2
    missing = read_trace(tmp_path / "run").evidence.missing
    assert "read.offset" in missing
    assert "read.id" in missing


def test_rebalances_and_failed_commits_are_told(tmp_path: Path) -> None:
    where = {"partitions": [{"topic": "t", "partition": 0}]}
    given_ = {"timestamp": 2, "name": "partitions_assigned", **where}
    taken = {"timestamp": 3, "name": "partitions_revoked", **where}
    events = (given_, committed(4, success=False, error="CommitFailedException"), taken, STOPPED)
    import_verifiable([log(tmp_path, "c.log", *events)], tmp_path / "run")
    found = lines(tmp_path / "run", "c#0")
    assert [line["op"] for line in found] == ["assigned", "commit", "revoked", "close"]
    assert found[0]["partitions"] == ["t:0"]
    assert (found[1]["outcome"], found[1]["error"]) == ("info", "CommitFailedException")


def moved(name: str, at: int) -> Event:
    return {"timestamp": at, "name": name, "partitions": [{"topic": "t", "partition": 0}]}


def quiet_consumer(*offsets: int, at: tuple[int, ...] = (10, 20, 30)) -> list[Event]:
    """A consumer without --verbose that was given two records at a time, from these offsets on."""
    polls = [(consumed((2, first, first + 1)), t) for first, t in zip(offsets, at, strict=True)]
    answers = [committed(first + 2) for first in offsets]
    times = [
        (poll | {"timestamp": t}, answer | {"timestamp": t})
        for (poll, t), answer in zip(polls, answers, strict=True)
    ]
    events = [event for pair in times for event in pair]
    return [STARTED, moved("partitions_assigned", 2), *events, STOPPED | {"timestamp": 99}]


def judged_run(tmp_path: Path, *events: Event) -> tuple[int, dict[str, str], str]:
    """The exit code of `highwater check`, what it says of each promise, and all its words."""
    import_verifiable([log(tmp_path, "c.log", *events)], tmp_path / "run", ToolSettings(group="g"))
    meta, out = tmp_path / "run" / "meta.json", tmp_path / "said.json"
    safe = {"t": {"unclean_leader_election": False, "min_insync_replicas": 2}}
    meta.write_bytes(orjson.dumps(orjson.loads(meta.read_bytes()) | {"topics": safe}))
    done = CliRunner().invoke(check, [str(tmp_path / "run"), "--json", str(out)])
    (run,) = orjson.loads(out.read_bytes())["runs"]
    return done.exit_code, {id: one["verdict"] for id, one in run["checks"].items()}, done.output


def test_without_values_a_consumer_is_judged_by_its_offsets(tmp_path: Path) -> None:
    """It calls after it has printed the event before; a callback runs inside its poll."""
    code, said, _ = judged_run(tmp_path, *quiet_consumer(0, 2, 4))
    assert (code, {id for id, what in said.items() if what == "holds"}) == (
        0,
        {"C1", "C2", "C4", "G6"},
    )
    assigned, first, commit, second = lines(tmp_path / "run", "c#0")[:4]
    ms = 1_000_000
    assert [assigned["invoked_ns"], first["invoked_ns"]] == [1 * ms, 1 * ms]
    assert [first["returned_ns"], commit["invoked_ns"], second["invoked_ns"]] == [10 * ms] * 3
    assert second["returned_ns"] == 20 * ms


def test_a_consumer_that_goes_back_is_seen_without_values(tmp_path: Path) -> None:
    code, said, _ = judged_run(tmp_path, *quiet_consumer(0, 2, 2))
    assert (code, said["C2"]) == (1, "violated")


def test_of_a_log_whose_clock_was_set_back_nothing_is_judged_and_the_reasons_are_told(
    tmp_path: Path,
) -> None:
    code, said, output = judged_run(tmp_path, *quiet_consumer(0, 2, 2, at=(10, 5, 30)))
    assert (code, set(said.values())) == (2, {"not checked"})
    assert "invoked_ns is missing" in output
    assert not {"invoked_ns", "returned_ns"} & {
        k for x in lines(tmp_path / "run", "c#0") for k in x
    }


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (b"{nonsense}\n", "x.log:1: expected JSON"),
        (b'{"name":"start_up"}\n', "x.log:1: name: expected an event of a verifiable client"),
        (b'{"timestamp":1}\n', "x.log:1: name: is missing"),
        (sent(0, 0) | {"offset": "0"}, "x.log:1: offset: expected a whole number, found '0'"),
        (sent(0, 0) | {"offset": -1}, "x.log:1: offset: expected a whole number of at least 0"),
        (sent(0, 0) | {"value": "abc"}, "x.log:1: value: expected a number, or PREFIX.number"),
        (sent(0, 0) | {"topic": None}, "x.log:1: topic: is missing"),
        (committed(1) | {"offsets": [3]}, "x.log:1: offsets[0]: expected an object, found 3"),
        (consumed((1, 0, 0)) | {"count": 9}, "x.log:1: count: expected 1, as listed, found 9"),
        (committed(1) | {"success": "yes"}, "x.log:1: success: expected a bool, found 'yes'"),
    ],
)
def test_what_is_malformed_is_said_by_line_and_field_and_nothing_is_written(
    tmp_path: Path, event: Event | bytes, said: str
) -> None:
    out = tmp_path / "run"
    done = highwater_import("kafka-verifiable", log(tmp_path, "x.log", event), "--out", out)
    assert done.exit_code == 2
    assert said in done.output
    assert "nothing was written" in done.output
    assert not out.exists()


def test_one_log_is_one_process(tmp_path: Path) -> None:
    source = log(tmp_path, "both.log", sent(0, 0), committed(1))
    with pytest.raises(BadInput, match=r"both\.log:2: name: .* in the log of a producer"):
        import_verifiable([source], tmp_path / "run")


def test_a_value_that_was_answered_twice_is_no_verifiable_log(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="0 was answered before"):
        import_verifiable([log(tmp_path, "p.log", sent(0, 0), sent(0, 1))], tmp_path / "run")


def test_lines_of_the_tools_own_log_are_counted(tmp_path: Path) -> None:
    source = log(tmp_path, "p.log", b"[2026-11-21] WARN retrying\n", b"\n", sent(0, 0), STOPPED)
    done = highwater_import("kafka-verifiable", source, "--out", tmp_path / "run")
    assert "not taken over: 1 lines that are not JSON" in done.output
    assert "the source cannot tell:" in done.output


def test_an_import_wants_a_folder_of_its_own(tmp_path: Path) -> None:
    source = log(tmp_path, "p.log", sent(0, 0))
    done = highwater_import("kafka-verifiable", source, "--out", tmp_path)
    assert done.exit_code == 2
    assert "is not empty" in done.output


def test_logs_of_one_name_are_processes_of_their_own(tmp_path: Path) -> None:
    sources: list[Path] = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        sources.append(log(tmp_path / folder, "p.log", sent(0, 0, f"{folder}."), STOPPED))
    import_verifiable(sources, tmp_path / "run", ToolSettings(acks="all"))
    run = read_trace(tmp_path / "run")
    assert run.meta.producer("p#1").acks == "all"
    assert run.warnings == []


def test_the_scan_finds_a_message_by_its_value() -> None:
    assert id_of_value("t", None, b"7.3", []) == "7.3"


@given(
    st.permutations(range(8)),
    st.sets(st.integers(0, 7)),
    st.sampled_from(["", "3."]),
)
def test_every_send_of_a_log_is_in_the_run_once(
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    unanswered: set[int],
    prefix: str,
) -> None:
    folder = tmp_path_factory.mktemp("log")
    events = [sent(n, at, prefix) for at, n in enumerate(order) if n not in unanswered]
    import_verifiable([log(folder, "p.log", *events, STOPPED, tool_data(8))], folder / "run")
    sends = lines(folder / "run", "p#0")[:-1]
    if not events:  # not even the topic is known, so the file does not claim to be whole
        assert (folder / "run" / "p#0.ndjson").read_bytes() == b""
        return
    assert [send["records"][0]["id"] for send in sends] == [f"{prefix}{n}" for n in range(8)]
    assert [s["outcome"] == "info" for s in sends] == [n in unanswered for n in range(8)]


@pytest.mark.parametrize(
    ("known", "values", "said"),
    [
        (ToolSettings(), ("0", "1"), {"topics": {"t": {"senders": "all"}}}),
        (ToolSettings(), ("0", "9"), {"topics": {"t": {"senders": "some"}}}),
        (ToolSettings(all_senders=True), ("0", "9"), {"senders": "all"}),
    ],
)
def test_values_that_no_imported_producer_sent_are_those_of_others(
    tmp_path: Path, known: ToolSettings, values: tuple[str, ...], said: dict[str, Any]
) -> None:
    producer = log(tmp_path, "producer.log", sent(0, 0), sent(1, 1), STOPPED)
    given = [read(n, value) for n, value in enumerate(values)]
    consumer = log(tmp_path, "consumer.log", *given, consumed((2, 0, 1)), STOPPED)
    import_verifiable([producer, consumer], tmp_path / "run", known)
    meta = orjson.loads((tmp_path / "run/meta.json").read_bytes())
    assert {name: meta[name] for name in ("senders", "topics") if name in meta} == said
