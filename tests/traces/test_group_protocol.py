"""The meaning of a generation depends on the protocol of the group (KIP-848)."""

from pathlib import Path

import pytest

from tests.traces.judging import judged_lines
from tests.traces.small import record, scan, trace

OLD = ("c0#0", "assigned", {"partitions": ["t:0"], "group": "g", "generation": 3})
NEW = ("c1#0", "assigned", {"partitions": ["t:1"], "group": "g", "generation": 5})
COMMIT = ("c0#0", "commit", {"offsets": {"t:0": 1}, "group": "g", "generation": 3})
SAME = ("c1#0", "assigned", {"partitions": ["t:0"], "group": "g", "generation": 3})
SENT = ("p0#0", "send", {"records": [record(1, 0)]})


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("classic", "violated"), ("consumer", "not checked"), (None, "not checked")],
)
@pytest.mark.parametrize(
    ("id", "calls"), [("G4", (OLD, NEW, COMMIT)), ("G1", (OLD, SAME))], ids=["G4", "G1"]
)
def test_only_the_classic_protocol_has_generations_of_the_group(
    id: str, calls: tuple[object, ...], protocol: str | None, expected: str, tmp_path: Path
) -> None:
    lines, meta = trace(SENT, *calls, scan(record(1, 0), end=1))  # pyright: ignore[reportArgumentType]
    for consumer in meta["consumers"].values():
        consumer["group_protocol"] = protocol
        if protocol is None:
            del consumer["group_protocol"]
    meta["topics"]["t"]["partitions"] = 2
    said = {v.check: v for v in judged_lines(tmp_path, lines, meta).verdicts}[id]
    assert said.verdict == expected, said.reason
    if protocol is None:
        assert "consumers.group_protocol" in said.reason


@pytest.mark.parametrize("protocol", [None, "consumer"])
def test_whatever_the_protocol_is_a_commit_of_the_newest_generation_holds(
    protocol: str | None, tmp_path: Path
) -> None:
    """A commit that no protocol forbids holds under any; under KIP-848 nothing is promised."""
    newer = ("c0#0", "commit", {"offsets": {"t:0": 1}, "group": "g", "generation": 5})
    lines, meta = trace(SENT, OLD, NEW, newer, scan(record(1, 0), end=1))
    for consumer in meta["consumers"].values():
        consumer["group_protocol"] = protocol
    meta["topics"]["t"]["partitions"] = 2
    said = {v.check: v.verdict for v in judged_lines(tmp_path, lines, meta).verdicts}
    assert said["G4"] == ("holds" if protocol is None else "not checked")
