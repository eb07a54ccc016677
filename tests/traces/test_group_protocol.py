"""The meaning of a generation depends on the protocol of the group (KIP-848)."""

from pathlib import Path

import pytest

from tests.traces.judging import judged_lines
from tests.traces.small import trace
from tests.traces.stories import story

OLD = "p0 send 1@0; c0 assigned group=g generation=3"
NEW = 'c1 assigned partitions=["t:1"] group=g generation=5'
COMMIT = "c0 commit offsets=1 group=g generation=3"
SAME = "c1 assigned group=g generation=3"


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("classic", "violated"), ("consumer", "not checked"), (None, "not checked")],
)
@pytest.mark.parametrize(
    ("id", "calls"), [("G4", f"{NEW}; {COMMIT}"), ("G1", SAME)], ids=["G4", "G1"]
)
def test_only_the_classic_protocol_has_generations_of_the_group(
    id: str, calls: str, protocol: str | None, expected: str, tmp_path: Path
) -> None:
    lines, meta = trace(*story(f"{OLD}; {calls}; scan 1@0 end=1"))
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
    lines, meta = trace(*story(f"{OLD}; {NEW}; {COMMIT} generation=5; scan 1@0 end=1"))
    for consumer in meta["consumers"].values():
        consumer["group_protocol"] = protocol
    meta["topics"]["t"]["partitions"] = 2
    said = {v.check: v.verdict for v in judged_lines(tmp_path, lines, meta).verdicts}
    assert said["G4"] == ("holds" if protocol is None else "not checked")
