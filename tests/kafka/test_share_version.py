"""Share groups switched off and on again: Kafka's answers, and ours."""

from pathlib import Path

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.edge.testing.blocking import BlockingCluster
from tests.kafka.test_share_groups import ONE_REPLICA
from tests.wire.share_version import without_share_groups


def test_without_share_groups_we_answer_as_kafka_does(judge: Judge, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path, settings=ONE_REPLICA)
    broker.format(judge)
    with broker.running():
        port = int(broker.address.rpartition(":")[2])
        theirs = without_share_groups(port, port)
    with BlockingCluster(brokers=1) as cluster:
        port = int(cluster.bootstrap.rpartition(":")[2])
        assert without_share_groups(port, port) == theirs
