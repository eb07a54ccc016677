"""Kafka's own classes with the fix of a finding: what they lose or never end as shipped, they keep
and end. The findings themselves are the tests beside this one."""

from pathlib import Path

import pytest

from tests.kafka.played import mended

#: By fix, the finding.
FINDINGS = {
    "late-alter-partition": "late-alter-partition",
    "equal-partition-epoch": "equal-partition-epoch",
    "unregistered-follower": "unregistered-follower",
    "unregistered-follower-waits": "unregistered-follower",
    "raised-min-isr": "raised-min-isr",
    "deleted-records": "deleted-records",
    "elr-removed-replica": "elr-removed-replica",
    "directory-taken-out": "directory-taken-out",
    "future-copy": "future-copy",
    "electable-not-elected": "electable-not-elected",
    "joins-without-records": "joins-without-records",
    "tiered-again": "tiered-again",
    "tiered-other-lineage": "tiered-other-lineage",
    "reassignment-stuck": "reassignment-stuck",
    "group-stale-after-load": "group-stale-after-load",
    "downgrade-forgotten": "downgrade-forgotten",
    "marker-dropped": "marker-dropped",
    "zombie-aborts": "zombie-aborts",
    "old-timestamps": "old-timestamps",
    "uncommitted-load": "uncommitted-load",
    "stale-batch": "stale-batch",
    "past-window": "past-window",
    "share-late-write": "share-late-write",
    "share-aborted": "share-aborted",
    "share-leader-epoch": "share-leader-epoch",
    "share-hole": "share-hole",
    "share-log-start": "share-log-start",
}


@pytest.mark.parametrize("fix", FINDINGS)
def test_kafka_with_the_fix_does_so_no_more(fix: str, tmp_path: Path) -> None:
    without_run = fix in ("reassignment-stuck", "downgrade-forgotten")
    mended(fix, f"kafka-{FINDINGS[fix]}", None if without_run else tmp_path)
