"""A record's offset as evidence about one call, if another call may have sent the record."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import STARTS, record, scan, trace
from traces.verdicts.second import ask_again

AGAIN = "p1#0"  # another process, which sends what the first one was not answered about
UNANSWERED: dict[str, Any] = {"outcome": "info"}


def sent(process: str, id: int, offset: int | None = None, **more: Any) -> Any:
    return process, "send", {"records": [record(id, offset)], **more}


def asked(time: int, answer: int) -> Any:
    return "c0#0", "list_offsets", {"query": time, "offsets": {"t:0": answer}}


def stamped(process: str, id: int, offset: int | None, time: int, **more: Any) -> Any:
    return process, "send", {"records": [record(id, offset, timestamp=time)], **more}


def dumped(n: int, one: Any, **batch: Any) -> Any:
    return "d0#0", "dump", {"replica": 1, "records": [one], "seq": n, **batch}


def dump_end(end: int) -> Any:
    reports = {"high_watermark": {"t:0": end}, "log_start": {"t:0": 0}}
    return "d0#0", "dump", {"replica": 1, "offsets": {"t:0": end}, **reports}


CASES: dict[str, tuple[str, list[Any], str]] = {
    "a record that was sent again later is in no producer's order": (
        "P1",
        [
            sent("p0#0", 1, **UNANSWERED),
            sent("p0#0", 2, 0),
            sent(AGAIN, 1, 1),
            scan(record(2, 0), record(1, 1), end=2),
        ],
        "holds",
    ),
    "a record that only one call sent is": (
        "P1",
        [
            sent("p0#0", 1, **UNANSWERED),
            sent("p0#0", 2, 0),
            scan(record(2, 0), record(1, 1), end=2),
        ],
        "violated",
    ),
    "one call may follow another although the record was there before": (
        "L9",
        [
            sent(AGAIN, 1, **UNANSWERED),
            sent("p0#0", 2, 1),
            sent("p0#0", 1, **UNANSWERED),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "holds",
    ),
    "a session stored nothing if another may have": (
        "P2",
        [
            sent("p0#0", 1, producer_id=7, producer_epoch=0, **UNANSWERED),
            sent("p0#0", 2, producer_id=7, producer_epoch=0, **UNANSWERED),
            sent(AGAIN, 2, 0, producer_id=8, producer_epoch=0),
            scan(record(2, 0), end=1),
        ],
        "holds",
    ),
    "a session that stored the second stored the first": (
        "P2",
        [
            sent("p0#0", 1, producer_id=7, producer_epoch=0, **UNANSWERED),
            sent("p0#0", 2, 0, producer_id=7, producer_epoch=0),
            scan(record(2, 0), end=1),
        ],
        "violated",
    ),
    "a batch without a producer id is in no session, and undoes none": (
        "P2",
        [
            sent("p0#0", 1, 0, producer_id=7, producer_epoch=0),
            sent("p0#0", 2, 1, producer_id=-1, producer_epoch=-1),
            dumped(0, record(1, 0, sequence=0), producer_id=7, producer_epoch=0),
            dumped(1, record(2, 1, sequence=0), producer_id=-1, producer_epoch=-1),
            dump_end(2),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "holds",
    ),
    "a transaction may poll what another call had sent": (
        "T5",
        [
            sent(AGAIN, 1, 0),
            ("p0#0", "txn_begin", {"txn": 0, "transactional_id": "x"}),
            sent("p0#0", 1, txn=0, transactional_id="x", **UNANSWERED),
            (
                "p0#0",
                "poll",
                {"records": [record(1, 0)], "txn": 0, "isolation": "read_committed"},
            ),
            ("p0#0", "txn_abort", {"txn": 0, "transactional_id": "x"}),
            scan(record(1, 0), end=1),
        ],
        "holds",
    ),
    "a query by time may find a record below the log start of later": (
        "L16",
        [
            stamped("p0#0", 1, 0, 100),
            asked(50, 0),
            ("c0#0", "list_offsets", {"query": "earliest", "offsets": {"t:0": 1}}),
            stamped("p0#0", 2, 1, 200),
            scan(record(2, 1), end=2),
        ],
        "holds",
    ),
    "a query by time may find a record of unknown place": (
        "L16",
        [
            stamped("p0#0", 1, None, 100, **UNANSWERED),
            stamped("p0#0", 2, 1, 200),
            asked(50, 0),
            scan(record(2, 1), end=2),
        ],
        "holds",
    ),
    "a query by time may not pass over the first": (
        "L16",
        [
            stamped("p0#0", 1, 0, 100),
            stamped("p0#0", 2, 1, 200),
            asked(50, 1),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "violated",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_place_tells_about_a_call_only_if_no_other_can_have_put_it_there(
    case: str, tmp_path: Path
) -> None:
    id, calls, expected = CASES[case]
    one = judged_lines(tmp_path, *trace(*calls))
    said = {v.check: v for v in one.verdicts}[id]
    assert said.verdict == expected, said.reason
    ask_again(one, always=True)
    assert not one.contradictions


def test_a_producer_without_its_file_may_have_sent_what_is_stored(tmp_path: Path) -> None:
    """One record twice is a duplicate only if nobody else may have sent it, too."""
    calls = [sent("p0#0", 1, 0), sent(AGAIN, 2, 2), scan(record(1, 0), record(1, 1), end=3)]
    lines, meta = trace(*calls)
    assert said_of_l2(tmp_path / "whole", lines, meta) == "violated"
    del lines[AGAIN]
    assert said_of_l2(tmp_path / "one is missing", lines, meta) == "not checked"


@pytest.mark.parametrize("unknown", ["p0", "p1"])
def test_of_two_that_are_gone_neither_may_be_one_that_had_to_stay(
    unknown: str, tmp_path: Path
) -> None:
    """Two records at one offset, both gone: L1 is allowed only if each of them could be lost."""
    calls = [sent("p0#0", 1, 0), sent(AGAIN, 2, 0), sent("p0#0", 3, 1)]
    lines, meta = trace(*calls, scan(record(3, 1), end=2), STARTS)
    one = meta["producers"]["p0"]
    weak: dict[str, Any] = {name: one | {"acks": "1"} for name in ("p0", "p1")}
    meta["producers"] = weak
    assert verdicts(judged_lines(tmp_path / "weak", lines, meta))["L1"] == "allowed"
    meta["producers"] = weak | {unknown: one | {"acks": None}}
    assert verdicts(judged_lines(tmp_path / "unknown", lines, meta))["L1"] == "not checked"


def said_of_l2(folder: Path, lines: Any, meta: dict[str, Any]) -> str:
    return {v.check: v.verdict for v in judged_lines(folder, lines, meta).verdicts}["L2"]
