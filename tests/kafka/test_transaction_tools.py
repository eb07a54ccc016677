"""Kafka's tools for features and transactions: what they print of our brokers and of Kafka's own.

A transaction hangs where its coordinator has forgotten it: the folder of `__transaction_state` is
deleted while the broker is down.
"""

import re
import shutil
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pytest
from attrs import frozen

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.edge.testing.blocking import BlockingCluster
from tests.kafka.clients import create_topics
from tests.kafka.test_tools import TOOLS

confluent: Any = import_module("confluent_kafka")
FEATURES, TRANSACTIONS = f"{TOOLS}.FeatureCommand", f"{TOOLS}.TransactionsCommand"
TV = "transaction.version"
LONG_AGO_MS = 1_790_000_000_000
SECONDS = 60
SETTINGS = {"transaction.state.log.num.partitions": "1"}
OF_ONE = {
    **SETTINGS,
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
STATE = "__transaction_state-0"
#: Ports, the number of a controller, the epoch of features, and minutes that pass
VARIABLE = [
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"Local controller \d+", "Local controller N"),
    (r"Epoch: \d+", "Epoch: N"),
]

Told = list[tuple[str, int, str]]


class Server(Protocol):
    """One broker with files, ours or Kafka's."""

    def running(self) -> AbstractContextManager[str]:
        """Its address while it runs."""
        ...

    def state(self) -> Path:
        """The folder of the coordinator's log."""
        ...


@frozen
class Ours:
    folder: Path

    @contextmanager
    def running(self) -> Generator[str]:
        with BlockingCluster(brokers=1, data=self.folder, configs=OF_ONE) as cluster:
            yield cluster.bootstrap

    def state(self) -> Path:
        return self.folder / "broker-1" / STATE


@frozen
class Kafkas:
    broker: KafkaBroker

    @contextmanager
    def running(self) -> Generator[str]:
        with self.broker.running():
            yield self.broker.address

    def state(self) -> Path:
        return self.broker.log_dir / STATE


@frozen
class Asking:
    """A tool, asked at one address; what it prints is kept."""

    judge: Judge
    address: str
    told: Told

    def features(self, *arguments: str) -> None:
        self._run(FEATURES, *arguments, only=TV if arguments == ("describe",) else "")

    def transactions(self, *arguments: str) -> str:
        return self._run(TRANSACTIONS, *arguments)

    def _run(self, tool: str, *arguments: str, only: str = "") -> str:
        answer = self.judge.run(tool, "--bootstrap-server", self.address, *arguments)
        text = "\n".join((answer.out + answer.complaints).splitlines())
        lines = [line.rstrip() for line in text.splitlines() if only in line]
        for pattern, name in VARIABLE:
            lines = [re.sub(pattern, name, line) for line in lines]
        self.told.append((" ".join(arguments), answer.status, "\n".join(lines)))
        return answer.out


@pytest.fixture(scope="module")
def servers(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kafkas, Ours]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), settings=SETTINGS)
    broker.format(judge)
    return Kafkas(broker), Ours(tmp_path_factory.mktemp("ours"))


def features(asking: Asking) -> None:
    """Each verb that changes a level, granted and refused."""
    for arguments in (
        ("describe",),
        ("downgrade", "--feature", f"{TV}=1", "--dry-run"),
        ("describe",),
        ("downgrade", "--feature", f"{TV}=1"),
        ("describe",),
        ("upgrade", "--feature", f"{TV}=3"),
        ("upgrade", "--feature", f"{TV}=-1"),
        ("upgrade", "--feature", f"{TV}=0"),
        ("downgrade", "--feature", f"{TV}=2"),
        ("downgrade", "--feature", f"{TV}=2", "--unsafe"),
        ("upgrade", "--feature", "nonsense=1"),
        ("disable", "--feature", "nonsense"),
        ("upgrade", "--feature", f"{TV}=2", "--dry-run"),
        ("upgrade", "--feature", f"{TV}=2", "--feature", "nonsense=1"),
        ("describe",),
        ("upgrade", "--feature", f"{TV}=2"),
        ("describe",),
        ("disable", "--feature", TV),
        ("describe",),
        ("upgrade", "--feature", f"{TV}=2"),
    ):
        asking.features(*arguments)


def test_features_are_described_upgraded_and_downgraded_as_in_kafka(
    judge: Judge, servers: tuple[Kafkas, Ours]
) -> None:
    told: list[Told] = []
    for server in servers:
        with server.running() as address:
            asking = Asking(judge, address, [])
            features(asking)
            told.append(asking.told)
    theirs, ours = told
    assert ours == theirs
    assert f"{TV} was downgraded to 1." in theirs[3][2]
    assert re.search(r"FinalizedVersionLevel: 1\s+Epoch: N$", theirs[4][2])
    assert {status for _, status, _ in theirs} == {0, 1}


# Transactions


def begin(address: str, transactional_id: str, topic: str) -> Any:
    """A producer with an open transaction of one record, whose timestamp is of long ago."""
    settings = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": 900_000,
        "log_level": 0,
    }
    producer = confluent.Producer({"bootstrap.servers": address, **settings})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0, timestamp=LONG_AGO_MS)
    assert producer.flush(SECONDS) == 0
    return producer


def known(asking: Asking, topic: str) -> None:
    """Each verb that reads, while the coordinator knows an open transaction and an ended one."""
    begin(asking.address, "ended", topic).commit_transaction(SECONDS)
    producer = begin(asking.address, "open", topic)
    of = ("--topic", topic, "--partition", "0")
    for arguments in (
        ("list",),
        ("list", "--duration-filter", "600000"),
        ("list", "--transactional-id-pattern", "o.*"),
        ("describe", "--transactional-id", "open"),
        ("describe", "--transactional-id", "ended"),
        ("describe", "--transactional-id", "nobody"),
        ("describe-producers", *of),
        ("describe-producers", *of, "--broker-id", "1"),
        ("find-hanging", "--broker-id", "1"),
        ("find-hanging",),
        ("find-hanging", "--partition", "0"),
        ("forceTerminateTransaction", "--transactionalId", "open"),
        ("list",),
        ("describe-producers", *of),
    ):
        asking.transactions(*arguments)
    with pytest.raises(confluent.KafkaException):
        producer.commit_transaction(SECONDS)
    begin(asking.address, "lost", topic)


def forgotten(asking: Asking, topic: str) -> None:
    """Find and abort the transaction whose coordinator has forgotten it."""
    of = ("--topic", topic, "--partition", "0")
    asking.transactions("list")
    asking.transactions("describe", "--transactional-id", "lost")
    asking.transactions("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    found = asking.transactions("find-hanging", *of, "--max-transaction-timeout", "0")
    row = next(line.split() for line in found.splitlines() if line.startswith(topic))
    asking.transactions("abort", *of)
    asking.transactions("abort", *of, "--start-offset", "1")
    asking.transactions("abort", *of, "--start-offset", row[5])
    asking.transactions("find-hanging", *of, "--max-transaction-timeout", "0")
    asking.transactions("describe-producers", *of)


def test_transactions_are_listed_described_found_and_aborted_as_in_kafka(
    judge: Judge, servers: tuple[Kafkas, Ours]
) -> None:
    told: list[Told] = []
    for server in servers:
        asked: Told = []
        with server.running() as address:
            create_topics(address, {"hung": {}})
            known(Asking(judge, address, asked), "hung")
        shutil.rmtree(server.state())
        with server.running() as address:
            forgotten(Asking(judge, address, asked), "hung")
        told.append([(what, status, plain(what, text)) for what, status, text in asked])
    for theirs, ours in zip(*told, strict=True):
        assert ours == theirs


def plain(what: str, text: str) -> str:
    """Without times, how long ago they are, and the spaces that align columns with them; leader
    epochs begin with 0 in Kafka and with 1 in ours."""
    text = re.sub(r"[ \t]+", " ", re.sub(r"\b1[78]\d{11}\b", "TIME", text))
    if what.startswith("describe-producers"):
        return re.sub(r"(?m)^(\d+ \d+) \d+ (-?\d+ TIME)", r"\1 EPOCH \2", text)
    return re.sub(r"TIME \d+", "TIME AGO", text)
