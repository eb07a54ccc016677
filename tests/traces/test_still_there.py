"""Records that compaction may remove, and that the final scan still has, were there before.

A reader that passed over one before that scan began has missed it, although a later record of its
key had replaced it.
"""

import pytest

from tests.traces.evidence import Trace
from tests.traces.needs import looked
from tests.traces.small import trace
from tests.traces.stories import story
from traces.checks.catalogue import CHECKS
from traces.verdicts.verdict import ALLOWED, HOLDS, VIOLATED

NAMED = {
    "SENT": "p0 send 1@0:j; p0 send 2@1:k; p0 send 3@2:k",
    "READ_0": "c0 poll 1@0 group=g",
    "READ_2": "c0 poll 3@2 group=g",
    "COMMIT": "c0 commit group=g generation=1 member=c0",
    "SHARED": "group=s member=s0",
}
PASSED = {
    "C1": "READ_0; READ_2",
    "C3": "c0 seek offsets=1; READ_2",
    "C5": "c0 poll 1@0 replica=1 high_watermark=3; c0 poll 3@2 replica=2 high_watermark=3",
    "G6": "READ_0; COMMIT offsets=2",
    "G8": "READ_0; c0 process 1@0 group=g; COMMIT offsets=2",
    "G10": "COMMIT offsets=1; c1 poll 3@2 group=g",
    "S4": """
        s0 acquire 1@0(delivery_count=1) SHARED; s0 acknowledge 1@0(ack=accept) SHARED
        s0 acquire 3@2(delivery_count=1) SHARED; s0 acknowledge 3@2(ack=accept) SHARED
    """,
}


@pytest.mark.parametrize("id", PASSED)
def test_what_the_final_scan_still_holds_was_there_to_be_read(id: str) -> None:
    broken = ALLOWED if id == "S4" else VIOLATED
    assert _said(id, f"SENT; {PASSED[id]}; scan 1@0 2@1 3@2 end=3") == broken


@pytest.mark.parametrize("id", PASSED)
def test_what_it_lacks_may_have_been_removed_before(id: str) -> None:
    assert _said(id, f"SENT; {PASSED[id]}; scan 1@0 3@2 end=3") == HOLDS


def test_and_what_it_holds_may_be_gone_when_it_has_begun() -> None:
    late = "READ_2 returned_ns=10000"
    assert _said("C1", f"SENT; READ_0; {late}; scan 1@0 2@1 3@2 end=3") == HOLDS


def _said(id: str, text: str) -> str:
    return looked(_compacted(text)).verdict(CHECKS[id]).verdict


def _compacted(text: str) -> Trace:
    lines, meta = trace(*story(text, **NAMED))
    meta["topics"]["t"]["cleanup_policy"] = "compact"
    return lines, meta
