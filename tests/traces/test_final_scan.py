"""Promises that need a final scan are *not checked* without one, whatever was found."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged_lines
from tests.traces.small import PARTITION, record, scan, trace

Said = dict[str, tuple[str, int, str]]
LOST = ("L3", "L4", "T1")
TXN: dict[str, Any] = {"txn": 0, "transactional_id": "x"}
# All of the log is there from offset 0 on, so nothing was deleted.
EARLIEST = ("scan#0", "list_offsets", {"query": "earliest", "offsets": {PARTITION: 0}})
BEGIN, COMMIT = ("p0#0", "txn_begin", TXN), ("p0#0", "txn_commit", TXN)
FROM_1 = ("c0#0", "assign", {"partitions": [PARTITION], "offsets": {PARTITION: 1}})
READ_1 = ("c0#0", "poll", {"records": [record(2, 1)], "isolation": "read_committed"})


def sent(id: int, offset: int, **more: Any) -> Any:
    return "p0#0", "send", {"records": [record(id, offset)], **more}


def said(folder: Path, *calls: Any, complete: bool = True) -> Said:
    lines, meta = trace(*calls)
    meta["complete"] = complete
    judged = judged_lines(folder, lines, meta)
    return {v.check: (v.verdict, v.count, v.reason) for v in judged.verdicts}


@pytest.mark.parametrize(
    "calls",
    [
        (sent(1, 0), sent(2, 1), EARLIEST),
        (sent(1, 0), sent(2, 1), EARLIEST, FROM_1, READ_1),
        (BEGIN, sent(1, 0, **TXN), sent(2, 1, **TXN), COMMIT, EARLIEST, FROM_1, READ_1),
        (sent(1, 0), scan(record(1, 0), end=1), sent(2, 1), EARLIEST),
    ],
    ids=["nobody read", "one began later", "in a transaction", "a scan in the middle"],
)
def test_nothing_is_lost_in_a_run_that_is_not_complete(calls: Any, tmp_path: Path) -> None:
    """A consumer may begin anywhere, and what nobody read may still be there."""
    found = said(tmp_path, *calls, complete=False)
    for id in LOST:
        assert found[id][:2] == ("not checked", 0), (id, found[id])
    assert "violated" not in {verdict for verdict, *_ in found.values()}


def test_with_a_final_scan_the_same_is_lost(tmp_path: Path) -> None:
    calls = (sent(1, 0), sent(2, 1), EARLIEST, FROM_1, READ_1, scan(record(2, 1), end=2))
    found = said(tmp_path, *calls)
    assert [found[id][0] for id in ("L3", "L4")] == ["violated", "violated"]


def test_a_scan_is_not_final_if_somebody_sent_after_it(tmp_path: Path) -> None:
    """Whatever meta.json says of the run: the trace contradicts it."""
    found = said(tmp_path, sent(1, 0), scan(record(1, 0), end=1), sent(2, 1))
    for id in LOST:
        assert found[id] == (
            "not checked",
            0,
            f"records were sent after the final scan of {PARTITION}",
        )
    failed = ("p0#0", "send", {"records": [record(2)], "outcome": "fail"})
    found = said(tmp_path / "failed", sent(1, 0), scan(record(1, 0), end=1), failed)
    assert found["L4"][0] == "holds"


@pytest.mark.parametrize("untold", [["offsets"], ["offsets", "partitions"]], ids="-".join)
def test_a_scan_that_does_not_tell_its_end_passed_over_nothing(
    untold: list[str], tmp_path: Path
) -> None:
    """A committed record that a reader of committed records passed over was aborted: T7."""
    hidden = scan(record(1, 0), record(3, 3), end=5, isolation="read_committed")
    for name in untold:
        del hidden[2][name]
    calls = (BEGIN, sent(2, 1, **TXN), COMMIT, sent(1, 0), sent(3, 3))
    everything = ("scan#1", *scan(record(1, 0), record(2, 1), record(3, 3), end=5)[1:])
    whole = scan(record(1, 0), record(3, 3), end=5, isolation="read_committed")
    assert said(tmp_path / "whole", *calls, everything, whole)["T7"][0] == "violated"
    assert said(tmp_path / "less", *calls, everything, hidden)["T7"][0] == "not checked"
