"""The lag of a share group on our brokers; on Kafka's: tests/kafka/test_share_lag.py."""

from pathlib import Path

import pytest

from refimpl.edge import BlockingCluster
from tests.refimpl.edge.share_lag import lag_follows_the_log


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_described_lag_is_that_of_the_log(brokers: int, tmp_path: Path) -> None:
    with BlockingCluster(brokers=brokers, seed=1) as cluster:
        cluster.create_topic("orders", partitions=1, replicas=brokers)
        lag_follows_the_log(cluster.bootstrap, "orders", tmp_path / "rows", seed=brokers)
