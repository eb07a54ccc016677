"""Promises that need a final scan are *not checked* without one, whatever was found."""

from pathlib import Path

import pytest

from tests.traces.judging import judged_lines
from tests.traces.small import PARTITION, trace
from tests.traces.stories import story

Said = dict[str, tuple[str, int, str]]
LOST = ("L3", "L4", "T1")
# All of the log is there from offset 0 on, so nothing was deleted.
SENT = "p0 send 1@0; p0 send 2@1; STARTS"
FROM_1 = "c0 assign offsets=1; c0 poll 2@1"
IN_TXN = "p0 txn_begin TXN; p0 send 1@0 TXN; p0 send 2@1 TXN; p0 txn_commit TXN; STARTS"


def said(folder: Path, calls: str, complete: bool = True) -> Said:
    lines, meta = trace(*story(calls))
    meta["complete"] = complete
    judged = judged_lines(folder, lines, meta)
    return {v.check: (v.verdict, v.count, v.reason) for v in judged.verdicts}


@pytest.mark.parametrize(
    "calls",
    [
        SENT,
        f"{SENT}; {FROM_1}",
        f"{IN_TXN}; {FROM_1}",
        "p0 send 1@0; scan 1@0 end=1; p0 send 2@1; STARTS",
    ],
    ids=["nobody read", "one began later", "in a transaction", "a scan in the middle"],
)
def test_nothing_is_lost_in_a_run_that_is_not_complete(calls: str, tmp_path: Path) -> None:
    """A consumer may begin anywhere, and what nobody read may still be there."""
    found = said(tmp_path, calls, complete=False)
    for id in LOST:
        assert found[id][:2] == ("not checked", 0), (id, found[id])
    assert "violated" not in {verdict for verdict, *_ in found.values()}


def test_with_a_final_scan_the_same_is_lost(tmp_path: Path) -> None:
    found = said(tmp_path, f"{SENT}; {FROM_1}; scan 2@1 end=2")
    assert [found[id][0] for id in ("L3", "L4")] == ["violated", "violated"]


def test_a_scan_is_not_final_if_somebody_sent_after_it(tmp_path: Path) -> None:
    """Whatever meta.json says of the run: the trace contradicts it."""
    found = said(tmp_path, "p0 send 1@0; scan 1@0 end=1; p0 send 2@1")
    for id in LOST:
        assert found[id] == (
            "not checked",
            0,
            f"records were sent after the final scan of {PARTITION}",
        )
    found = said(tmp_path / "failed", "p0 send 1@0; scan 1@0 end=1; p0 send 2 outcome=fail")
    assert found["L4"][0] == "holds"


@pytest.mark.parametrize("untold", ["offsets=-", "offsets=- partitions=-"])
def test_a_scan_that_does_not_tell_its_end_passed_over_nothing(untold: str, tmp_path: Path) -> None:
    """A committed record that a reader of committed records passed over was aborted: T7."""
    calls = """
        p0 txn_begin TXN; p0 send 2@1 TXN; p0 txn_commit TXN; p0 send 1@0; p0 send 3@3
        scan#1 1@0 2@1 3@3 end=5; scan 1@0 3@3 end=5 isolation=read_committed
    """.rstrip()
    assert said(tmp_path / "whole", calls)["T7"][0] == "violated"
    assert said(tmp_path / "less", f"{calls} {untold}")["T7"][0] == "not checked"
