"""Kafka's own tools for share groups against our brokers: three in this process, on files."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from chaos.real.kafka.judge import Judge
from refimpl.edge.testing.blocking import BlockingCluster
from tests.kafka.test_tools import CONFIGS, TOOLS, Tools

confluent: Any = import_module("confluent_kafka")
SHARES = f"{TOOLS}.consumer.group.ShareGroupCommand"
QUIET_MS = "20000"
SECONDS = 60


@pytest.fixture(scope="module")
def tools(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    data = tmp_path_factory.mktemp("share-tools")
    with BlockingCluster(brokers=3, data=data) as cluster:
        yield Tools(judge, cluster.bootstrap, data)


def consume(tools: Tools, topic: str, count: int, *more: str) -> list[str]:
    """So many lines, by Kafka's console share consumer."""
    out = tools.alone(
        *("consumer.ConsoleShareConsumer", "--topic", topic, "--group", "g"),
        *("--max-messages", str(count), "--timeout-ms", QUIET_MS, *more),
    )
    return re.findall(r"^line\d+$", out, re.MULTILINE)


def start_and_lag(tools: Tools, group: str) -> tuple[str, str]:
    """The start offset of a group's one partition, and its lag."""
    out = tools.out(SHARES, "--describe", "--group", group)
    (row,) = [line.split() for line in out.splitlines() if line.startswith(f"{group} ")]
    return row[3], row[4]


def test_a_share_group_reads_is_described_reset_and_deleted(tools: Tools) -> None:
    tools.create("t")
    of_group = ("--entity-type", "groups", "--entity-name", "g")
    tools.out(CONFIGS, "--alter", *of_group, "--add-config", "share.auto.offset.reset=earliest")
    producer = confluent.Producer({"bootstrap.servers": tools.bootstrap})
    for number in range(10):
        producer.produce("t", f"line{number}".encode())
    assert producer.flush(SECONDS) == 0
    assert consume(tools, "t", 10) == [f"line{number}" for number in range(10)]
    assert re.search(r"^g$", tools.out(SHARES, "--list"), re.MULTILINE)
    assert start_and_lag(tools, "g")[1] == "0"
    states = tools.out(SHARES, "--list", "--state")
    assert re.search(r"^g +Empty", states, re.MULTILINE), states
    to_earliest = ("--reset-offsets", "--group", "g", "--topic", "t", "--to-earliest")
    tools.out(SHARES, *to_earliest, "--execute")
    assert start_and_lag(tools, "g") == ("0", "10")
    assert consume(tools, "t", 10, "--reject") == [f"line{number}" for number in range(10)]
    assert start_and_lag(tools, "g")[1] == "0"
    tools.out(SHARES, "--delete-offsets", "--group", "g", "--topic", "t")
    tools.out(SHARES, "--delete", "--group", "g")
    assert not re.search(r"^g$", tools.out(SHARES, "--list"), re.MULTILINE)
    missing = tools.run(SHARES, "--describe", "--group", "g")
    assert "g" in missing.out + missing.complaints
    assert "not found" in missing.out + missing.complaints
