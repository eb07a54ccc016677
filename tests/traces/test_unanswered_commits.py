"""Calls without an answer leave a case open: a commit may count, a transaction may have begun."""

from pathlib import Path

import pytest

from tests.traces.judging import judged_lines
from tests.traces.small import trace
from tests.traces.stories import story

SENT = "p0 send 1@0; p0 send 2@1; p0 send 3@2; p0 send 4@3; p0 send 5@4"


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
    rest = " ".join(f"{n + 1}@{n}" for n in range(first, 5))
    calls = story(
        f"""
        {SENT}; c0 assigned group=g member=c0#0 generation=1
        c0 poll 1@0 2@1 3@2 group=g isolation=-
        c0 commit OF offsets=1; c0 commit OF offsets=2 outcome={outcome}
        c1 assigned group=g member=c1#0 generation=2; c1 poll {rest} group=g isolation=-
        scan 1@0 2@1 3@2 4@3 5@4 end=5
    """,
        OF="group=g member=a generation=1",
    )
    lines, meta = trace(*calls)
    for one in meta["consumers"].values():
        one["group"] = "g"
    (one,) = (v for v in judged_lines(tmp_path, lines, meta).verdicts if v.check == "G10")
    assert one.verdict == verdict, one.reason


def test_a_transaction_whose_begin_nobody_answered_leaves_the_others_to_be_judged(
    tmp_path: Path,
) -> None:
    lines, meta = trace(
        *story("""
        p0 txn_begin TXN; p0 txn_commit TXN; p1 txn_begin TXN outcome=info
        p2 txn_begin TXN; p2 txn_commit TXN
    """)
    )
    del lines["p1#0"][0]["returned_ns"]
    (one,) = (v for v in judged_lines(tmp_path, lines, meta).verdicts if v.check == "T8")
    assert (one.verdict, one.reason) == ("holds", "2 looked at")
