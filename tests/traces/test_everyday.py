"""Small recordings of what people do to a healthy cluster, made on Kafka 4.3.1: nobody is accused.

They were made by `make test-everyday`, and kept by tests/kafka/everyday/keep.py.
"""

import gzip
import json
from pathlib import Path

import pytest

from tests.traces.fixture import Line
from tests.traces.judging import judged, judged_lines
from traces.model.problems import BadInput

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


def _lines(folder: Path) -> dict[str, list[Line]]:
    files = sorted(folder.glob("*.ndjson*"))
    return {file.name.partition(".")[0]: [*map(json.loads, text_of(file))] for file in files}


def text_of(file: Path) -> list[bytes]:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines()


@pytest.mark.parametrize("step_ns", [0, 1, 10**9])
def test_a_clock_that_goes_back_once_accuses_nobody(step_ns: int, tmp_path: Path) -> None:
    """A call returns at the time when it was made, or before that, which is refused by its line."""
    lines = _lines(KEPT / "group-deleted")
    meta = json.loads((KEPT / "group-deleted" / "meta.json").read_bytes())
    for process, mine in lines.items():
        kept = mine[len(mine) // 2]
        back = kept | {"returned_ns": kept["invoked_ns"] - step_ns}
        stepped = lines | {process: [back if line is kept else line for line in mine]}
        folder = tmp_path / process
        if step_ns:
            with pytest.raises(BadInput, match="returned_ns"):
                judged_lines(folder, stepped, meta)
        else:
            found = judged_lines(folder, stepped, meta).verdicts
            assert [one.check for one in found if one.verdict == "violated"] == []
