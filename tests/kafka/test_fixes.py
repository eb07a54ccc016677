"""Kafka's own classes with the fix of a finding: what they lose or never end as shipped, they keep
and end. The findings themselves are the tests beside this one."""

from pathlib import Path

import pytest

from tests.kafka.judge import CACHE
from tests.kafka.played import ATTEMPTS, NOT_PLAYED, python

FINDINGS = [
    "late-alter-partition",
    "equal-partition-epoch",
    "unregistered-follower",
    "reassignment-stuck",
    "group-stale-after-load",
]


@pytest.mark.parametrize("finding", FINDINGS)
def test_kafka_with_the_fix_does_so_no_more(finding: str, tmp_path: Path) -> None:
    classes = CACHE / "fixes" / finding
    made = python("examples/kafka_fixes.py", finding, classes)
    assert made.returncode == 0, made.stdout + made.stderr
    runs = [[] if finding == "reassignment-stuck" else [tmp_path / str(n)] for n in range(ATTEMPTS)]
    tries = (python(f"examples/kafka-{finding}", *run, "--classes", classes) for run in runs)
    played = next((one for one in tries if one.returncode != NOT_PLAYED), None)
    assert played is not None, f"the scenario could not be played in {ATTEMPTS} attempts"
    assert played.returncode == 0, played.stdout + played.stderr
