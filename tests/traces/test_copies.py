"""One record sent by several calls: what is known of one copy is not known of the other."""

from pathlib import Path

import pytest

from tests.traces.judging import judged_lines
from tests.traces.search import broken_somewhere
from tests.traces.small import (
    STARTS,
    TXN,
    Call,
    aborted_and_sent_again,
    polled,
    record,
    scan,
    sent,
    trace,
)
from traces.second_checker import from_lines


def unanswered(acked: int | None, *others: Call) -> list[Call]:
    """Of two records of a transaction one was read as committed, and the other is gone."""
    ended: Call = ("p0#0", "txn_commit", TXN | {"outcome": "info"})
    first = sent("p0#0", 1, acked, outcome="info" if acked is None else "ok", **TXN)
    sends = [("p0#0", "txn_begin", TXN), first, sent("p0#0", 2, 1, **TXN), ended]
    return [*sends, *others, polled("c0#0", record(1, 2)), STARTS, scan(record(1, 2), end=3)]


CASES: dict[str, tuple[str, list[Call], bool]] = {
    "what was acknowledged outside of a transaction lies where it was acknowledged": (
        *("C1", aborted_and_sent_again(at=3, again=1)),
        True,
    ),
    "what was acknowledged inside of one that was aborted may be passed over there": (
        *("C1", aborted_and_sent_again(at=1, again=3)),
        False,
    ),
    "what both were acknowledged with is either's": (
        *("C1", aborted_and_sent_again(at=1, again=1)),
        False,
    ),
    "a copy of which nobody knows where it is need not be the one that is there": (
        *("C1", aborted_and_sent_again(at=1, again=None)),
        False,
    ),
    "one record that was read proves that its transaction was committed": (
        *("T1", unanswered(None)),
        True,
    ),
    "so does one that was read where it was acknowledged": ("T1", unanswered(2), True),
    "but not what another call may have stored": (
        *("T1", unanswered(None, sent("p1#0", 1, 2))),
        False,
    ),
    "nor what was read elsewhere than it was acknowledged": (
        *("T1", unanswered(0, sent("p1#0", 1, 2))),
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_both_say_the_same_of_a_record_that_was_sent_again(tmp_path: Path, case: str) -> None:
    id, calls, broken = CASES[case]
    lines, meta = trace(*calls)
    (verdict,) = (v for v in judged_lines(tmp_path, lines, meta).verdicts if v.check == id)
    assert (verdict.verdict == "violated") == broken
    assert (broken_somewhere(from_lines(lines, meta), id) is not None) == broken
