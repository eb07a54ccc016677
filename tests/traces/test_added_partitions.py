"""Partitions that are added: a key belongs where the number says that its producer knew."""

from pathlib import Path

import pytest

from tests.traces.evidence import Trace
from tests.traces.small import trace
from tests.traces.stories import story
from tests.traces.test_missed_faults import reported
from traces.verdicts.verdict import HOLDS, NOT_CHECKED, VIOLATED

# By murmur2 the key `c` belongs to 0 of 2 and to 2 of 4, and `f` to 1 of 2, 0 of 3 and 3 of 4.
NAMED = {
    "FITS": "p0 send 1@0(key=c,tombstone=false,chosen=false)",
    "NEVER_FITS": "p0 send 1@0(key=f,tombstone=false,chosen=false)",
    "LEARNS": 'p0 metadata partition_counts={"t":2}',
    "DESCRIBES": 'a metadata partition_counts={"t":2}',
    "ADDS": 'a create_partitions partition_counts={"t":4}',
    "LEARNS_MORE": 'p0 metadata partition_counts={"t":4}',
}


def made(calls: str) -> Trace:
    lines, meta = trace(*story(calls, **NAMED), partitioner="murmur2_random")
    meta["topics"]["t"]["partitions"] = 4
    return lines, meta


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("LEARNS; FITS; DESCRIBES; ADDS; LEARNS_MORE", HOLDS),
        ("LEARNS; NEVER_FITS; DESCRIBES; ADDS; LEARNS_MORE", VIOLATED),
        ("LEARNS; FITS; LEARNS_MORE", NOT_CHECKED),  # it may have known of four
        ("LEARNS; NEVER_FITS; LEARNS_MORE", NOT_CHECKED),  # or of three
        ("FITS; DESCRIBES; ADDS", HOLDS),  # one or two: it is right for both
        ("DESCRIBES; ADDS; FITS; LEARNS_MORE", NOT_CHECKED),  # it may not know yet
        ("DESCRIBES; ADDS; LEARNS_MORE; FITS", VIOLATED),
        ("FITS", NOT_CHECKED),
    ],
)
def test_a_key_is_where_each_number_that_was_possible_has_it(
    calls: str, expected: str, tmp_path: Path
) -> None:
    assert reported(tmp_path, *made(calls))["P6"].verdict == expected


def test_one_key_in_a_wrong_place_accuses_no_other(tmp_path: Path) -> None:
    """A key tells how many partitions its producer knew of, but not more than there were."""
    # To partition 1: `a` belongs there of three.
    sends = "; ".join(
        f"p0 send {n}@{n}(partition=1,key={key},tombstone=false,chosen=false)"
        for n, key in enumerate("af")
    )
    calls = f"LEARNS; {sends}; DESCRIBES; ADDS; LEARNS_MORE"
    found = reported(tmp_path, *made(calls))["P6"]
    assert (found.verdict, found.count) == (VIOLATED, 1)


def test_a_topic_that_is_made_anew_may_have_fewer_partitions(tmp_path: Path) -> None:
    """Earlier news of the topic says nothing: the key is right for two."""
    first = 'p0 metadata partition_counts={"t":6}; a delete_topics topics=["t"]'
    found = reported(tmp_path, *made(f"{first}; LEARNS; FITS; LEARNS_MORE"))["P6"]
    assert found.verdict == NOT_CHECKED
