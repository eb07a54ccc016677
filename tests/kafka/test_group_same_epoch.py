"""Kafka takes the commit of a member that has lost the partition; one that mends it is noticed.

The finding: docs/findings/kafka-group-same-epoch.md.
"""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).parents[2]
ATTEMPTS, NOT_PLAYED = 3, 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording; a slow machine may miss the time in which the scenario must be played."""
    for _ in range(ATTEMPTS):
        folder = tmp_path_factory.mktemp("same-epoch") / "run"
        command = [sys.executable, "examples/kafka-group-same-epoch", str(folder)]
        played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if played.returncode != NOT_PLAYED:
            mended = "this Kafka refuses it: say so in docs/findings/kafka-group-same-epoch.md\n"
            said = mended * (not played.returncode) + played.stdout + played.stderr
            assert played.returncode == 1, said
            return folder
    raise AssertionError(f"the scenario could not be played in {ATTEMPTS} attempts")


def test_two_members_committed_the_same_records_in_transactions(run: Path) -> None:
    """The second commit came after the first was answered, from a member of an older epoch."""
    owner, late = (
        {line["op"]: line for line in map(orjson.loads, file.read_bytes().splitlines())}
        for file in (run / f"producer-{name}#0.ndjson" for name in ("second", "slow"))
    )
    for one in (owner, late):
        assert one["txn_offsets"]["outcome"] == one["txn_commit"]["outcome"] == "ok"
    assert owner["txn_offsets"]["offsets"] == late["txn_offsets"]["offsets"]
    assert owner["txn_offsets"]["member"] != late["txn_offsets"]["member"]
    assert late["txn_offsets"]["generation"] < owner["txn_offsets"]["generation"]
    assert owner["txn_commit"]["returned_ns"] < late["txn_offsets"]["invoked_ns"]
