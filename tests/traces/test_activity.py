"""Throughput, latency and processes on the page are the sums of the calls."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.traces.fixture import write
from tests.traces.small import record, trace
from traces.html.canvas import Canvas, Clock, NumberedFault
from traces.html.picture import Picture, picture
from traces.html.series import BINS, CELLS
from traces.ingest.run import read_trace
from traces.model.meta import read_meta

MS = 10**6


def drawn(folder: Path, *calls: tuple[str, str, dict[str, Any]]) -> Picture:
    return picture(read_trace(write(folder, *trace(*calls))))


def sent(id: int, at: int, took: int, **more: Any) -> tuple[str, str, dict[str, Any]]:
    times = {"invoked_ns": at * MS, "returned_ns": (at + took) * MS}
    return "p0#0", "send", {"records": [record(id, id)], **times, **more}


def test_rates_add_up_to_the_records(tmp_path: Path) -> None:
    lost = {"outcome": "info", "records": [record(9)]}
    polled = {"records": [record(0, 0), record(1, 1)], "invoked_ns": 20 * MS}
    seen = drawn(
        tmp_path,
        *(sent(id, 2 * id, 1) for id in range(4)),
        (*sent(9, 10, 1)[:2], sent(9, 10, 1)[2] | lost),
        ("c0#0", "poll", polled | {"returned_ns": 960 * MS}),
    )
    done, seconds = seen.activity, (seen.end - seen.start) / 1e9 / BINS
    rates = done.acknowledged, done.unacknowledged, done.read
    assert [round(rate.sum() * seconds) for rate in rates] == [4, 1, 2]
    assert done.read[-1] == pytest.approx(2 / seconds)


def test_latency_is_from_the_call_to_the_answer(tmp_path: Path) -> None:
    seen = drawn(tmp_path, *(sent(id, id, 100 - id) for id in range(3)), sent(5, 5, 955))
    median, most, highest = seen.activity.latency
    known = ~np.isnan(highest)
    assert (median[known][0], most[known][0], highest[known][0]) == (99 * MS, 100 * MS, 100 * MS)
    assert highest[known][-1] == 955 * MS
    assert np.count_nonzero(known) < BINS / 2  # a bin in which nobody was answered has no latency


def test_a_process_is_busy_from_call_to_answer_and_marked_where_it_failed(tmp_path: Path) -> None:
    first = sent(0, 0, 100)
    refused = sent(1, 500, 100)
    refused[2].update(outcome="fail", records=[record(1)])
    poll: dict[str, Any] = {"records": [], "invoked_ns": 900 * MS, "returned_ns": 1000 * MS}
    crash = ("c0#0", "crash", {"invoked_ns": 1000 * MS, "returned_ns": 1000 * MS})
    lines, meta = trace(first, refused, ("c0#0", "poll", poll), crash)
    lines["c0#0"].pop()  # nobody closes after a crash
    producer, consumer = picture(read_trace(write(tmp_path, lines, meta))).activity.processes
    tenth = CELLS // 10
    assert (producer.sends, consumer.sends) == (True, False)
    assert producer.calls[0] == (0, tenth + 1)
    assert producer.calls[1][0] == producer.troubled[0][0] == 5 * tenth
    assert producer.calls[1][1] >= producer.troubled[0][1] == 6 * tenth + 1
    assert len(producer.troubled) == 1
    assert (producer.crashed_at, consumer.crashed_at) == (None, 1000 * MS)


def test_a_fault_that_was_undone_is_an_interval(tmp_path: Path) -> None:
    lines, meta = trace(sent(0, 0, 900))
    what = {"what": "kill -9 broker 2", "at_ns": 100 * MS}
    meta["faults"] = [what | {"until_ns": 300 * MS}, what, what | {"until_ns": 50 * MS}]
    run = write(tmp_path, lines, meta)
    found = read_meta(run).faults
    assert [fault.until_ns for fault in found] == [300 * MS, None, None]
    seen = picture(read_trace(run))
    faults = [NumberedFault(n, 100 * MS, one.what, one.until_ns) for n, one in enumerate(found, 1)]
    clock = Clock(seen, faults)
    canvas = Canvas(clock)
    canvas.draw_faults()
    svg = canvas.svg("x", "a plot")
    assert "from 100.00\N{NO-BREAK SPACE}ms to 300.00\N{NO-BREAK SPACE}ms" in svg
    assert svg.count("fill: var(--fault)") == 1, json.dumps(svg)[:2000]
