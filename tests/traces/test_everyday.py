"""Small recordings of what people do to a healthy cluster, made on Kafka 4.3.1: nobody is accused.

They were made by `make test-everyday`, and kept by tests/kafka/everyday/keep.py.
"""

import json
from pathlib import Path

import pytest

from tests.traces.judging import judged

KEPT = Path(__file__).parent / "data" / "everyday"
EXPECTED: dict[str, dict[str, list[str]]] = json.loads((KEPT / "expected.json").read_bytes())
#: Reasons that say nothing of an operation: there were no such events, or no client tells that.
NO_NEWS = ("saw nothing to judge", " is missing on ")


def test_every_recording_has_its_verdicts() -> None:
    assert {folder.name for folder in KEPT.iterdir() if folder.is_dir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_healthy_cluster_is_not_accused(name: str) -> None:
    found = {one.check: one for one in judged(KEPT / name).verdicts}
    assert [id for id, one in found.items() if one.verdict == "violated"] == []
    allowed = [id for id, one in found.items() if one.verdict == "allowed"]
    undecided = [
        id
        for id, one in found.items()
        if one.verdict == "not checked" and not any(words in one.reason for words in NO_NEWS)
    ]
    expected = EXPECTED[name]
    assert allowed == expected["allowed"]
    assert sorted(undecided) == expected["undecided"]
    assert set(expected["holds"]) <= {id for id, one in found.items() if one.verdict == "holds"}
