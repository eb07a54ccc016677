"""Calls without an answer leave a case open: a commit may count, a transaction may have begun."""

from pathlib import Path

import pytest

from tests.traces.fixture import Line
from tests.traces.judging import judged_lines
from tests.traces.small import TXN, record, scan, trace

MEMBER: Line = {"group": "g", "member": "a", "generation": 1}
PROCESS = "c0#0"


def read(process: str, *offsets: int) -> tuple[str, str, Line]:
    records = [record(number + 1, offset=number) for number in offsets]
    return process, "poll", {"records": records, "group": "g"}


def commits(offset: int, outcome: str = "ok") -> tuple[str, str, Line]:
    return PROCESS, "commit", {**MEMBER, "offsets": {"t:0": offset}, "outcome": outcome}


def assigned(process: str, generation: int) -> tuple[str, str, Line]:
    owner = {**MEMBER, "member": process, "generation": generation}
    return process, "assigned", {**owner, "partitions": ["t:0"]}


@pytest.mark.parametrize(
    ("outcome", "first", "verdict"),
    [
        ("info", 2, "holds"),
        ("info", 1, "holds"),
        ("info", 3, "violated"),
        ("fail", 2, "violated"),
        ("fail", 1, "holds"),
        ("ok", 2, "holds"),
    ],
)
def test_the_next_owner_may_begin_where_a_commit_without_an_answer_left_off(
    outcome: str, first: int, verdict: str, tmp_path: Path
) -> None:
    written = [record(number + 1, offset=number) for number in range(5)]
    sends = [("p0#0", "send", {"records": [one]}) for one in written]
    lines, meta = trace(
        *sends,
        assigned(PROCESS, 1),
        read(PROCESS, 0, 1, 2),
        commits(1),
        commits(2, outcome),
        assigned("c1#0", 2),
        read("c1#0", *range(first, 5)),
        scan(*written, end=5),
    )
    for one in meta["consumers"].values():
        one["group"] = "g"
    (one,) = (v for v in judged_lines(tmp_path, lines, meta).verdicts if v.check == "G10")
    assert one.verdict == verdict, one.reason


def test_a_transaction_whose_begin_nobody_answered_leaves_the_others_to_be_judged(
    tmp_path: Path,
) -> None:
    lines, meta = trace(
        ("p0#0", "txn_begin", TXN),
        ("p0#0", "txn_commit", TXN),
        ("p1#0", "txn_begin", TXN | {"outcome": "info"}),
        ("p2#0", "txn_begin", TXN),
        ("p2#0", "txn_commit", TXN),
    )
    del lines["p1#0"][0]["returned_ns"]
    (one,) = (v for v in judged_lines(tmp_path, lines, meta).verdicts if v.check == "T8")
    assert (one.verdict, one.reason) == ("holds", "2 looked at")
