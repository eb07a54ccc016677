"""Share groups of Kafka's clients and tools, on our brokers and on Kafka's: the same answers."""

import subprocess
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.real.kafka.judge import Judge, KafkaBroker, java
from refimpl.dump.command import dump_log
from refimpl.edge.testing.blocking import BlockingCluster

SECONDS = 240
SETTINGS = {"share.coordinator.state.topic.num.partitions": "1"}
ONE_REPLICA = {
    **SETTINGS,
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
DECODED = "--share-group-state-decoder"


def played(bootstrap: str) -> list[str]:
    """The Java client's report of its share groups."""
    command = java("Shares", bootstrap)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("WARN ")]


@pytest.fixture(scope="module")
def of_kafka(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka-shares"), settings=ONE_REPLICA)
    broker.format(judge)
    with broker.running():
        return played(broker.address)


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_java_client_is_told_what_kafka_tells_it(
    of_kafka: Sequence[str], judge: Judge, tmp_path: Path, brokers: int
) -> None:
    with BlockingCluster(brokers=brokers, data=tmp_path, configs=SETTINGS) as cluster:
        assert played(cluster.bootstrap) == list(of_kafka)
    logs = list(tmp_path.rglob("__share_group_state-0/*.log"))
    assert len(logs) == brokers
    theirs = judge.dump(logs[0], options=(DECODED,))
    ours = CliRunner().invoke(dump_log, [DECODED, str(logs[0])])
    assert ours.output == theirs.out, "its records, as both tools print them"
    assert theirs.out.count("stateBatches") > 5


def test_the_share_consumer_of_confluent_kafka_reads_from_our_brokers(tmp_path: Path) -> None:
    confluent: Any = import_module("confluent_kafka")
    admin: Any = import_module("confluent_kafka.admin")
    with BlockingCluster(brokers=3, data=tmp_path) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap}
        client = admin.AdminClient(servers)
        client.create_topics([admin.NewTopic("t", 2, 3)])["t"].result()
        earliest = admin.ConfigEntry(
            *("share.auto.offset.reset", "earliest"),
            incremental_operation=admin.AlterConfigOpType.SET,
        )
        group = admin.ConfigResource("group", "g", incremental_configs=[earliest])
        client.incremental_alter_configs([group])[group].result()
        producer = confluent.Producer(servers)
        for number in range(20):
            producer.produce("t", str(number).encode(), partition=number % 2)
        assert producer.flush(30) == 0
        consumer = confluent.ShareConsumer({**servers, "group.id": "g"})
        consumer.subscribe(["t"])
        found = list[tuple[int, int]]()
        for _ in range(60):
            for message in consumer.poll(timeout=1.0) or ():
                assert message.error() is None
                found.append((message.partition(), message.offset()))
            if len(found) >= 20:
                break
        consumer.close()
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(10)]
