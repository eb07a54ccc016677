"""The lag of a share group on real Kafka, where nobody fails."""

from pathlib import Path

from chaos.real.kafka.judge import Judge, KafkaBroker
from tests.kafka.clients import create_topics
from tests.kafka.test_share_groups import ONE_REPLICA
from tests.refimpl.edge.share_lag import lag_follows_the_log


def test_the_described_lag_is_that_of_the_log(judge: Judge, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path, settings=ONE_REPLICA)
    broker.format(judge)
    with broker.running():
        create_topics(broker.address, {"orders": {}}, partitions=1)
        lag_follows_the_log(broker.address, "orders", tmp_path / "rows", seed=7)
