"""Partitions that are added: a key belongs where the number says that its producer knew."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.small import Call, keyed
from tests.traces.small import trace as made
from tests.traces.test_missed_faults import reported
from traces.verdicts.verdict import HOLDS, NOT_CHECKED, VIOLATED


def knows(process: str, number: int, op: str = "metadata") -> Call:
    return process, op, {"partition_counts": {"t": number}}


LEARNS, DESCRIBES = knows("p0#0", 2), knows("a#0", 2)
ADDS, LEARNS_MORE = knows("a#0", 4, "create_partitions"), knows("p0#0", 4)
# By murmur2 the key `c` belongs to 0 of 2 and to 2 of 4, and `f` to 1 of 2, 0 of 3 and 3 of 4.
FITS, NEVER_FITS = "c", "f"


def sends(key: str) -> Call:
    process, op, fields = keyed("p0#0", 1, 0, key)
    fields["records"][0]["chosen"] = False
    return process, op, fields


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([LEARNS, sends(FITS), DESCRIBES, ADDS, LEARNS_MORE], HOLDS),
        ([LEARNS, sends(NEVER_FITS), DESCRIBES, ADDS, LEARNS_MORE], VIOLATED),
        ([LEARNS, sends(FITS), LEARNS_MORE], NOT_CHECKED),  # it may have known of four
        ([LEARNS, sends(NEVER_FITS), LEARNS_MORE], NOT_CHECKED),  # or of three
        ([sends(FITS), DESCRIBES, ADDS], HOLDS),  # one or two: it is right for both
        ([DESCRIBES, ADDS, sends(FITS), LEARNS_MORE], NOT_CHECKED),  # it may not know yet
        ([DESCRIBES, ADDS, LEARNS_MORE, sends(FITS)], VIOLATED),
        ([sends(FITS)], NOT_CHECKED),
    ],
)
def test_a_key_is_where_each_number_that_was_possible_has_it(
    calls: list[Call], expected: str, tmp_path: Path
) -> None:
    lines, meta = made(*calls, partitioner="murmur2_random")
    meta["topics"]["t"]["partitions"] = 4
    assert reported(tmp_path, lines, meta)["P6"].verdict == expected


def test_one_key_in_a_wrong_place_accuses_no_other(tmp_path: Path) -> None:
    """A key tells how many partitions its producer knew of, but not more than there were."""
    several: list[Any] = [sends("a"), sends("f")]  # to partition 1: `a` belongs there of three
    for n, (_, _, fields) in enumerate(several):
        fields["records"][0] |= {"id": n, "partition": 1, "offset": n}
    lines, meta = made(LEARNS, *several, DESCRIBES, ADDS, LEARNS_MORE, partitioner="murmur2_random")
    meta["topics"]["t"]["partitions"] = 4
    found = reported(tmp_path, lines, meta)["P6"]
    assert (found.verdict, found.count) == (VIOLATED, 1)


def test_a_topic_that_is_made_anew_may_have_fewer_partitions(tmp_path: Path) -> None:
    """Earlier news of the topic says nothing: the key is right for two."""
    deleted: Call = ("a#0", "delete_topics", {"topics": ["t"]})
    calls = [knows("p0#0", 6), deleted, LEARNS, sends(FITS), LEARNS_MORE]
    lines, meta = made(*calls, partitioner="murmur2_random")
    meta["topics"]["t"]["partitions"] = 4
    assert reported(tmp_path, lines, meta)["P6"].verdict == NOT_CHECKED
