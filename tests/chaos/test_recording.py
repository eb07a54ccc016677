"""What a run writes down: protocol events and client histories."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.protocol_events import Trace
from chaos.recording import write_events, write_history
from chaos.settings import Settings
from chaos.sim.simulator import Run, build


@pytest.fixture(scope="module")
def run() -> Run:
    settings = {
        "fault_ms": 2500,
        "isr_at_once": True,
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
        ("Truncation", "orders:0"),
        ("Truncation", "orders:1"),
        ("ConsumerCommit", "g/orders:0"),
        ("ConsumerCommit", "g/orders:1"),
    ]
    for header in headers:
        events = [e for e in written if "seq" in e and e["subject"] == header["subject"]]
        assert [e["seq"] for e in events] == list(range(len(events)))
        assert [e["at_ms"] for e in events] == sorted(e["at_ms"] for e in events)
        assert len(events) > 50


def test_a_reserved_step_keeps_its_place_and_counts_as_lost_if_nothing_comes() -> None:
    trace = Trace("Truncation", "orders:0", {"highWatermark": [0, 0, 0]})
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


def test_a_run_whose_partition_nobody_may_lead_is_not_complete() -> None:
    seeds = (
        build(Settings.draw(s, elr=True, lossy=True, unclean=False, overlap=True)).go()
        for s in range(60)
    )
    dead = next(r for r in seeds if any(p.unavailable() for p in r.partitions))
    assert dead.violation is None
    assert not dead.complete


@pytest.mark.java
def test_tlc_follows_the_events_and_stops_where_one_is_missing(run: Run, tmp_path: Path) -> None:
    from properties.tla.specs import SpecTree
    from properties.tla.tracecheck import validate_all
    from properties.tla.tracefile import read_traces

    file = write_events(run, tmp_path)
    assert all(verdict.accepted for verdict in validate_all(read_traces([file]), SpecTree()))
    kept = file.read_bytes().splitlines(keepends=True)
    missing = next(i for i, line in enumerate(kept) if b'"BecomeFollower"' in line)
    cut = tmp_path / "cut.events.ndjson"
    cut.write_bytes(b"".join(kept[:missing] + kept[missing + 1 :]))
    assert not all(verdict.accepted for verdict in validate_all(read_traces([cut]), SpecTree()))
