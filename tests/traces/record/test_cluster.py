"""Facts that a cluster tells: each of its brokers is asked, and only if the answer counts."""

from typing import Any

import pytest

from highwater import BlockingCluster
from traces.record.cluster import LEAST_RETENTION_NS, describe, library

LONG, SHORT = 5 * LEAST_RETENTION_NS, LEAST_RETENTION_NS // 10


@pytest.mark.parametrize(("lasted", "expected"), [(None, 20), (LONG, 20), (SHORT, None)])
def test_all_brokers_tell_when_groups_expire_unless_a_run_is_too_short_for_that(
    lasted: int | None, expected: int | None
) -> None:
    settings: Any = {"offsets.retention.minutes": "20"}
    with BlockingCluster(brokers=3, configs=settings) as cluster:
        cluster.create_topic("t", replicas=3)
        found = describe(library(), {"bootstrap.servers": cluster.bootstrap}, ["t"], lasted)
    assert found.group_retention == expected
    assert found.topics["t"]["replication_factor"] == 3
