"""Kafka's own classes with the fix of a finding: what they lose or never end as shipped, they keep
and end. The findings themselves are the tests beside this one."""

from pathlib import Path

import pytest

from tests.kafka.judge import CACHE
from tests.kafka.played import ATTEMPTS, NOT_PLAYED, python

#: By fix, the finding.
FINDINGS = {
    "late-alter-partition": "late-alter-partition",
    "equal-partition-epoch": "equal-partition-epoch",
    "unregistered-follower": "unregistered-follower",
    "unregistered-follower-waits": "unregistered-follower",
    "raised-min-isr": "raised-min-isr",
    "deleted-records": "deleted-records",
    "reassignment-stuck": "reassignment-stuck",
    "group-stale-after-load": "group-stale-after-load",
}


@pytest.mark.parametrize("fix", FINDINGS)
def test_kafka_with_the_fix_does_so_no_more(fix: str, tmp_path: Path) -> None:
    classes, finding = CACHE / "fixes" / fix, FINDINGS[fix]
    made = python("examples/kafka_fixes.py", fix, classes)
    assert made.returncode == 0, made.stdout + made.stderr
    runs = [[] if finding == "reassignment-stuck" else [tmp_path / str(n)] for n in range(ATTEMPTS)]
    tries = (python(f"examples/kafka-{finding}", *run, "--classes", classes) for run in runs)
    played = next((one for one in tries if one.returncode != NOT_PLAYED), None)
    assert played is not None, f"the scenario could not be played in {ATTEMPTS} attempts"
    assert played.returncode == 0, played.stdout + played.stderr
