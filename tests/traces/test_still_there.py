"""Records that compaction may remove, and that the final scan still has, were there before.

A reader that passed over one before that scan began has missed it, although a later record of its
key had replaced it.
"""

from typing import Any

import pytest

from tests.traces.needs import looked
from tests.traces.small import PARTITION, Call, keyed, polled, record, scan, trace
from traces.checks.catalogue import CHECKS
from traces.verdicts.verdict import ALLOWED, HOLDS, VIOLATED

IN_GROUP: dict[str, Any] = {"group": "g", "generation": 1, "member": "c0"}
SENT = [keyed("p0#0", 1, 0, "j"), keyed("p0#0", 2, 1, "k"), keyed("p0#0", 3, 2, "k")]
READ_0, READ_2 = (polled("c0#0", record(id, id - 1), group="g") for id in (1, 3))


def committed(offset: int) -> Call:
    return "c0#0", "commit", {"offsets": {PARTITION: offset}, **IN_GROUP}


def shared(id: int) -> list[Call]:
    given, taken = record(id, id - 1, delivery_count=1), record(id, id - 1, ack="accept")
    mine = {"group": "s", "member": "s0"}
    return [
        ("s0#0", "acquire", {"records": [given], **mine}),
        ("s0#0", "acknowledge", {"records": [taken], **mine}),
    ]


PASSED = {
    "C1": [READ_0, READ_2],
    "C3": [("c0#0", "seek", {"offsets": {PARTITION: 1}}), READ_2],
    "C5": [
        polled("c0#0", record(1, 0), replica=1, high_watermark={PARTITION: 3}),
        polled("c0#0", record(3, 2), replica=2, high_watermark={PARTITION: 3}),
    ],
    "G6": [READ_0, committed(2)],
    "G8": [
        READ_0,
        ("c0#0", "process", {"records": [record(1, 0)], "group": "g"}),
        committed(2),
    ],
    "G10": [committed(1), ("c1#0", *READ_2[1:])],
    "S4": [*shared(1), *shared(3)],
}


@pytest.mark.parametrize("id", PASSED)
def test_what_the_final_scan_still_holds_was_there_to_be_read(id: str) -> None:
    broken = ALLOWED if id == "S4" else VIOLATED
    assert _said(id, scan(record(1, 0), record(2, 1), record(3, 2), end=3)) == broken


@pytest.mark.parametrize("id", PASSED)
def test_what_it_lacks_may_have_been_removed_before(id: str) -> None:
    assert _said(id, scan(record(1, 0), record(3, 2), end=3)) == HOLDS


def test_and_what_it_holds_may_be_gone_when_it_has_begun() -> None:
    late = ("c0#0", "poll", READ_2[2] | {"returned_ns": 10_000})
    calls = [*SENT, READ_0, late, scan(record(1, 0), record(2, 1), record(3, 2), end=3)]
    assert looked(_compacted(*calls)).verdict(CHECKS["C1"]).verdict == HOLDS


def _said(id: str, scanned: Call) -> str:
    return looked(_compacted(*SENT, *PASSED[id], scanned)).verdict(CHECKS[id]).verdict


def _compacted(*calls: Call) -> Any:
    lines, meta = trace(*calls)
    meta["topics"]["t"]["cleanup_policy"] = "compact"
    return lines, meta
