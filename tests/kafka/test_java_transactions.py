"""Transactions of the Java client, on our brokers and on Kafka's, in both versions; and the records
that they leave in `__transaction_state`, as both tools print them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.real.kafka.judge import Judge, KafkaBroker, java
from refimpl.dump.command import dump_log
from refimpl.edge.testing.blocking import BlockingCluster

SECONDS = 120
LOOKS_OFTEN = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "1",
}
DECODED = "--transaction-log-decoder"


def played(bootstrap: str) -> list[str]:
    """The Java client's report of its transactions."""
    command = java("Transactions", bootstrap)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("WARN ")]


@pytest.fixture(scope="module")
def of_kafka(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka-transactions"), settings=LOOKS_OFTEN)
    broker.format(judge)
    with broker.running():
        return played(broker.address)


def logs(folder: Path) -> list[Path]:
    return sorted(folder.rglob("__transaction_state-0/*.log"))


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_java_client_is_told_what_kafka_tells_it(
    of_kafka: Sequence[str], judge: Judge, tmp_path: Path, brokers: int
) -> None:
    with BlockingCluster(brokers=brokers, data=tmp_path, configs=LOOKS_OFTEN) as cluster:
        assert played(cluster.bootstrap) == list(of_kafka)
    for log in logs(tmp_path):
        theirs = judge.dump(log, options=(DECODED,))
        ours = CliRunner().invoke(dump_log, [DECODED, str(log)])
        assert ours.output == theirs.out, "its records, as both tools print them"
        assert theirs.out.count("transactionalId") > 10


@pytest.mark.parametrize("version", ["0", "1"])
def test_before_version_2_partitions_are_added_by_the_client(version: str) -> None:
    settings = {**LOOKS_OFTEN, "transaction.version": version}
    with BlockingCluster(brokers=3, configs=settings) as cluster:
        told = played(cluster.bootstrap)
    assert told[:3] == ["offset none", "offset 3", "the zombie commits: ProducerFencedException"]
    assert told[-1] == "[in 0, in 0, in 2, in 2, with offsets, of the newest]"
