"""Recordings of a run: protocol events and client histories."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.recorders.protocol_events import SubjectTrace
from chaos.recording import write_events, write_history
from chaos.sim.settings import Settings
from chaos.simulator import Run, build
from properties.mutants.catalogue import applied, catalogue


@pytest.fixture(scope="module")
def run() -> Run:
    settings = {
        "fault_ms": 2500,
        "store": False,
        "drop": 0.05,
        "duplicate": 0.1,
        "unclean": False,
        "lossy": False,
        "elr": False,
    }
    return build(Settings.draw(4, **settings), events=True, history=True).go()


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_every_trace_has_a_header_and_counts_its_events(run: Run, tmp_path: Path) -> None:
    written = lines(write_events(run, tmp_path))
    headers = [line for line in written if "constants" in line]
    assert [(h["spec"], h["subject"]) for h in headers] == [
        ("Replication", "orders:0"),
        ("Replication", "orders:1"),
        ("Replication", "__consumer_offsets:0"),
        (f"{run.settings.group_protocol.capitalize()}Coordinator", "g"),
    ]
    for header in headers:
        events = [e for e in written if "seq" in e and e["subject"] == header["subject"]]
        assert [e["seq"] for e in events] == list(range(len(events)))
        assert [e["at_ms"] for e in events] == sorted(e["at_ms"] for e in events)
        assert len(events) > (20 if header["subject"] == "g" else 50)


def test_a_reserved_step_keeps_its_place_and_counts_as_lost_if_nothing_comes() -> None:
    trace = SubjectTrace("Replication", "orders:0", {"highWatermark": [0, 0, 0]})
    taken = trace.reserve(1, {"f": 2, "l": 1}, "FetchLost")
    trace.reserve(2, {"f": 3, "l": 1}, "FetchLost")
    trace.reserve(3, {"f": 3, "l": 1}, None)
    trace.add(4, "AdvanceHighWatermark", {"l": 1}, highWatermark=(1, 5))
    taken.becomes("Fetch", {"highWatermark": (2, 4)})
    told = [(e.action, e.at_ms, e.after.get("highWatermark")) for e in trace.events("run")]
    assert told == [
        ("Fetch", 1, [0, 4, 0]),
        ("FetchLost", 2, None),
        ("AdvanceHighWatermark", 4, [5, 4, 0]),
    ]


def test_the_step_that_breaks_a_promise_is_in_the_trace(tmp_path: Path) -> None:
    """The recorder writes before any oracle speaks."""
    with applied(catalogue()["promotion_resets_the_high_watermark"]):
        run = build(Settings.draw(0, files=False), events=True).go()
    assert run.violation is not None
    assert run.violation.oracle == "HighWatermarkMonotone"
    *_, last = [one for one in lines(write_events(run, tmp_path)) if one["subject"] == "orders:0"]
    assert (last["action"], last["at_ms"]) == ("BecomeLeader", run.now_ms)


def test_a_history_is_complete_and_every_process_ends(run: Run, tmp_path: Path) -> None:
    folder = write_history(run, tmp_path)
    meta = orjson.loads((folder / "meta.json").read_bytes())
    assert meta["format"] == 1
    assert meta["complete"] is True
    for file in folder.glob("*.ndjson"):
        calls = lines(file)
        assert [call["seq"] for call in calls] == list(range(len(calls)))
        assert calls[-1]["op"] in ("close", "crash")
        assert {call["process"] for call in calls} == {file.stem}


def test_the_scan_holds_what_was_acknowledged_with_acks_all(run: Run, tmp_path: Path) -> None:
    folder = write_history(run, tmp_path)
    meta = orjson.loads((folder / "meta.json").read_bytes())
    scanned = {
        (record["partition"], record["offset"]): record["id"]
        for call in lines(folder / "scan#0.ndjson")
        for record in call.get("records", ())
    }
    acked = [
        record
        for name, producer in meta["producers"].items()
        if producer["acks"] == "all"
        for call in lines(folder / f"{name}#0.ndjson")
        if call["op"] == "send" and call["outcome"] == "ok"
        for record in call["records"]
    ]
    assert len(acked) > 20
    for record in acked:
        assert scanned[record["partition"], record["offset"]] == record["id"]


def test_what_was_said_to_have_failed_is_in_no_log(tmp_path: Path) -> None:
    """A refused attempt of which the network may bring a copy later is not known to have failed."""
    one_sure = False
    for seed, duplicate in ((109, 0.1), (0, 0.0)):
        settings = Settings.draw(seed, store=False, duplicate=duplicate)
        folder = write_history(build(settings, history=True).go(), tmp_path / f"{seed}-{duplicate}")
        scan = lines(folder / "scan#0.ndjson")
        scanned = {record["id"] for call in scan for record in call.get("records", ())}
        for file in folder.glob("p*.ndjson"):
            sends = (call for call in lines(file) if call["op"] == "send")
            failed = [call for call in sends if call["outcome"] == "fail"]
            assert not scanned & {record["id"] for call in failed for record in call["records"]}
            one_sure |= bool(failed)
    assert one_sure


def test_a_run_whose_partition_nobody_may_lead_is_not_complete() -> None:
    seeds = (
        build(Settings.draw(s, elr=True, lossy=True, unclean=False, overlap=True)).go()
        for s in range(60)
    )
    dead = next(r for r in seeds if any(p.unavailable() for p in r.partitions))
    assert dead.violation is None
    assert not dead.complete


Line = dict[str, Any]


def left_out(action: str) -> Callable[[list[Line]], None]:
    def damage(events: list[Line]) -> None:
        events.remove(next(event for event in events if event["action"] == action))

    return damage


def answer_taken_twice(events: list[Line]) -> None:
    at = next(i for i, event in enumerate(events) if event["action"] == "TakeIsrAnswer")
    events.insert(at, events[at])


def another_partition_epoch(events: list[Line]) -> None:
    changed = next(event for event in events if event["action"] == "AlterPartition")
    changed["after"]["state"]["partitionEpoch"] += 1


def one_record_more(events: list[Line]) -> None:
    next(event for event in events if event["action"] == "Fetch")["params"]["n"] += 1


def a_fenced_broker_joins(events: list[Line]) -> None:
    at, asked = next((i, e) for i, e in enumerate(events) if e["action"] == "ExpandIsr")
    there = {"set": sorted({1, 2, 3} - {asked["params"]["f"]})}
    events.insert(at, {**asked, "action": "Alive", "params": {"those": there}, "after": {}})


DAMAGES: list[Callable[[list[Line]], None]] = [
    *map(left_out, ("BecomeFollower", "ExpandIsr", "AlterPartition", "Fence", "Restart")),
    answer_taken_twice,
    another_partition_epoch,
    one_record_more,
    a_fenced_broker_joins,
]


@pytest.mark.java
def test_tlc_follows_what_ran_and_refuses_what_did_not(run: Run, tmp_path: Path) -> None:
    from properties.tla.tracecheck import coverage, validate_all
    from properties.tla.tracefile import read_traces

    file = write_events(run, tmp_path / "whole")
    told = [line for line in lines(file) if line["subject"] == "orders:0"]
    header, events = told[0], told[1:]
    for number, damage in enumerate(DAMAGES):
        damaged = deepcopy(events)
        damage(damaged)
        rows = [{**header, "run": str(number)}]
        rows += [{**event, "run": str(number), "seq": at} for at, event in enumerate(damaged)]
        path = tmp_path / f"{number}.events.ndjson"
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    verdicts = {v.trace.run + v.trace.subject: v for v in validate_all(read_traces([tmp_path]))}
    refused = {name for name, verdict in verdicts.items() if not verdict.accepted}
    assert refused == {f"{number}orders:0" for number, _ in enumerate(DAMAGES)}
    taken = coverage(verdict for verdict in verdicts.values() if verdict.accepted)
    assert taken["AlterPartition"] > taken["TakeIsrAnswer"] > 0  # one was lost, or doubled
    assert {"FetchLost", "Told", "Restart", "ShrinkIsr", "ExpandIsr"} <= taken.keys()


@pytest.mark.java
def test_tlc_follows_brokers_whose_sessions_end_while_they_live(tmp_path: Path) -> None:
    from properties.tla.tracecheck import coverage, validate_all
    from properties.tla.tracefile import read_traces

    kept = {"unclean": False, "lossy": False, "elr": False, "deletes": False}
    kept |= {"transactions": False, "share_members": 0}
    faults = ("expire", "crash", "cut", "elect")
    settings = Settings.draw(2, store=True, files=False, fault_ms=2500, faults=faults, **kept)
    file = write_events(build(settings, events=True).go(), tmp_path / "whole")
    header, *events = [line for line in lines(file) if line["subject"] == "orders:0"]
    kinds = ("RegisterAgain", "Register")
    for number, action in enumerate(kinds):
        damaged = list(events)
        left_out(action)(damaged)
        rows = [{**header, "run": str(number)}]
        rows += [{**event, "run": str(number), "seq": at} for at, event in enumerate(damaged)]
        path = tmp_path / f"{number}.events.ndjson"
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    verdicts = validate_all(read_traces([tmp_path]))
    of_orders = [v for v in verdicts if v.trace.subject == "orders:0"]
    assert {v.trace.run for v in of_orders if not v.accepted} == {"0", "1"}
    taken = coverage(v for v in of_orders if v.trace.run not in "01")
    assert taken["RegisterAgain"] > 3
    assert taken["Register"] > 3


@pytest.mark.java
@pytest.mark.parametrize("seed", [36, 45])
def test_tlc_follows_what_the_spec_has_no_word_for(seed: int, tmp_path: Path) -> None:
    """A follower begins again at the log start of 36; in 45 a setting clears the ELR."""
    from properties.tla.tracecheck import validate_all
    from properties.tla.tracefile import read_traces

    run = build(Settings.draw(seed, store=False), events=True).go()
    assert run.recorder is not None
    over = [one.trace.over for one in run.recorder.replication.values()]
    assert any(over) == (seed == 36)
    write_events(run, tmp_path)
    verdicts = [v for v in validate_all(read_traces([tmp_path])) if ":" in v.trace.subject]
    assert len(verdicts) == 3
    assert all(v.accepted for v in verdicts)


def test_a_static_member_tells_its_instance(tmp_path: Path) -> None:
    """Its next process has the same assignment in the same generation: no second owner (G1)."""
    run = build(Settings.draw(24, store=False), history=True).go()
    folder = write_history(run, tmp_path)
    assigned = [
        (line["process"][:2], line.get("instance"))
        for file in folder.glob("c*.ndjson")
        for line in lines(file)
        if line["op"] == "assigned"
    ]
    assert set(assigned) == {("c0", "i1"), ("c1", "i2")}
