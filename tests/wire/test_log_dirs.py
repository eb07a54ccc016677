"""A broker with two log directories answers as Kafka does when logs move between them (KIP-113)."""

import json
from pathlib import Path

from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.log_dirs import RECORDED, played


def test_logs_move_between_directories_as_with_kafka(tmp_path: Path) -> None:
    first, second = tmp_path / "0", tmp_path / "1"
    with BlockingCluster(brokers=1, data=first, more_data=[second]) as cluster:
        port = int(cluster.bootstrap.rpartition(":")[2])
        ours = played(port, [str(one / "broker-1") for one in (first, second)])
    assert ours == json.loads(RECORDED.read_text())
