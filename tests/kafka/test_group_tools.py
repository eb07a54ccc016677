"""Kafka's own tools for groups against our brokers: three in this process, on files.

Each protocol in turn: what consumes, what describes it, what moves its offsets, what deletes it;
and Kafka's reading of the coordinator's log.
"""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.judge import Judge, java
from refimpl.edge.testing.blocking import BlockingCluster
from tests.kafka.test_tools import TOOLS, Tools

confluent: Any = import_module("confluent_kafka")
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
PROTOCOLS = ("classic", "consumer")
CONFIGS = {"offsets.topic.num.partitions": "5"}
QUIET_MS = "40000"
#: A minute is enough on a machine that is busy
SECONDS = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingCluster]:
    data = tmp_path_factory.mktemp("groups")
    with BlockingCluster(brokers=3, data=data, configs=CONFIGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tools(judge: Judge, cluster: BlockingCluster) -> Tools:
    assert cluster.data is not None
    return Tools(judge, cluster.bootstrap, cluster.data)


def fill(tools: Tools, topic: str, values: Iterable[object], partitions: int = 1) -> None:
    """Records, spread over the partitions."""
    producer = confluent.Producer({"bootstrap.servers": tools.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, str(value).encode(), partition=number % partitions)
    assert producer.flush(SECONDS) == 0


def of(protocol: str) -> tuple[str, ...]:
    """The options by which a console consumer uses a protocol."""
    return ("--command-property", f"group.protocol={protocol}")


def consume(tools: Tools, protocol: str, group: str, topic: str, count: int) -> list[str]:
    """So many lines, by Kafka's console consumer."""
    out = tools.alone(
        "consumer.ConsoleConsumer",
        "--topic",
        topic,
        "--group",
        group,
        "--from-beginning",
        "--max-messages",
        str(count),
        "--timeout-ms",
        QUIET_MS,
        *of(protocol),
    )
    return re.findall(r"^(?:line)?\d+$", out, re.MULTILINE)  # and no complaints about brokers


def offsets(tools: Tools, group: str) -> dict[int, tuple[str, ...]]:
    """By partition: the current offset, the log end offset and the lag of a group."""
    out = tools.out(GROUPS, "--describe", "--group", group)
    rows = [line.split() for line in out.splitlines() if line.startswith(f"{group} ")]
    return {int(row[2]): tuple(row[3:6]) for row in rows}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_reads_commits_is_described_reset_and_deleted(tools: Tools, protocol: str) -> None:
    topic, group = f"read-{protocol}", f"g-{protocol}"
    tools.create(topic)
    fill(tools, topic, (f"line{n}" for n in range(10)))
    assert consume(tools, protocol, group, topic, 6) == [f"line{n}" for n in range(6)]
    assert offsets(tools, group) == {0: ("6", "10", "4")}
    assert consume(tools, protocol, group, topic, 4) == [f"line{n}" for n in range(6, 10)]
    listed = tools.out(GROUPS, "--list", "--state")
    assert re.search(rf"^{group} +Empty", listed, re.MULTILINE), listed
    kinds = tools.out(GROUPS, "--list", "--type")
    assert re.search(rf"^{group} +{protocol}", kinds, re.MULTILINE | re.IGNORECASE), kinds
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    tools.out(GROUPS, *reset, "--to-offset", "2", "--execute")
    assert offsets(tools, group) == {0: ("2", "10", "8")}
    assert consume(tools, protocol, group, topic, 8) == [f"line{n}" for n in range(2, 10)]
    forgot = tools.out(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in forgot
    tools.out(GROUPS, "--delete", "--group", group)
    assert group not in tools.out(GROUPS, "--list").split()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_described_while_they_run(tools: Tools, protocol: str) -> None:
    topic, group = f"run-{protocol}", f"v-{protocol}"
    tools.create(topic, partitions=4)
    fill(tools, topic, range(40), 4)
    command = java(
        f"{TOOLS}.VerifiableConsumer",
        "--bootstrap-server",
        tools.bootstrap,
        "--topic",
        topic,
        "--group-id",
        group,
        "--group-protocol",
        protocol,
    )
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        until = time.monotonic() + SECONDS
        while True:
            out = tools.out(GROUPS, "--describe", "--group", group, "--members", "--verbose")
            rows = [line for line in out.splitlines() if line.startswith(f"{group} ")]
            if len(rows) == 2 and all(f"{topic}:" in row or f"{topic}(" in row for row in rows):
                break
            assert time.monotonic() < until, out
        while "Stable" not in tools.out(GROUPS, "--describe", "--group", group, "--state"):
            assert time.monotonic() < until + SECONDS
        refused = tools.run(GROUPS, "--delete", "--group", group)
        assert "GroupNotEmptyException" in refused.out + refused.complaints
    finally:
        for one in running:
            one.terminate()
        told = [one.communicate(timeout=SECONDS)[0] for one in running]
    events = [json.loads(line) for out in told for line in out.splitlines() if line[:1] == "{"]
    read = [e for e in events if e["name"] == "records_consumed"]
    assert sum(one["count"] for one in read) == 40
    assert all(e["success"] for e in events if e["name"] == "offsets_committed")
    assert sum(e["name"] == "shutdown_complete" for e in events) == 2
    assert {lag for _, _, lag in offsets(tools, group).values()} == {"0"}


def test_kcat_shares_a_topic(tools: Tools) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not on PATH")
    tools.create("kcat-group")
    fill(tools, "kcat-group", "abc")
    command = ["kcat", "-b", tools.bootstrap, "-G", "kcat", "-q", "-c", "3", "-X"]
    arguments = ["auto.offset.reset=earliest", "kcat-group"]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.split() == ["a", "b", "c"]
    assert offsets(tools, "kcat") == {0: ("3", "3", "0")}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_performance_tool_consumes_in_a_group(tools: Tools, protocol: str) -> None:
    topic = f"perf-{protocol}"
    tools.create(topic, partitions=3)
    fill(tools, topic, range(300), 3)
    out = tools.alone(
        "ConsumerPerformance",
        "--topic",
        topic,
        "--num-records",
        "300",
        "--group",
        f"p-{protocol}",
        "--timeout",
        "20000",
        *of(protocol),
    )
    assert re.search(r", 300, ", out), out


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_goes_on_when_its_coordinator_is_killed(
    tools: Tools, cluster: BlockingCluster, protocol: str
) -> None:
    topic, group = f"killed-{protocol}", f"k-{protocol}"
    tools.create(topic, partitions=2)
    fill(tools, topic, range(10), 2)
    assert len(consume(tools, protocol, group, topic, 10)) == 10
    state = tools.out(GROUPS, "--describe", "--group", group, "--state")
    found = re.search(r"127\.0\.0\.1:\d+ +\((\d)\)", state)
    assert found is not None, state
    coordinator = int(found[1])
    cluster.kill(coordinator)
    try:
        fill(tools, topic, range(10, 14), 2)
        assert sorted(consume(tools, protocol, group, topic, 4)) == ["10", "11", "12", "13"]
        assert sum(int(row[0]) for row in offsets(tools, group).values()) == 14
    finally:
        cluster.restart(coordinator)


def test_kafka_reads_what_our_coordinators_wrote(tools: Tools, tmp_path: Path) -> None:
    """DumpLogSegments opens every record of __consumer_offsets, and knows its type."""
    kinds: set[str] = set()
    for folder in sorted(Path(tools.data).glob("broker-1/__consumer_offsets-*")):
        for log in folder.glob("*.log"):
            if os.path.getsize(log):
                dumped = ("--offsets-decoder", "--deep-iteration", "--files", str(log))
                out = tools.judge.run(f"{TOOLS}.DumpLogSegments", *dumped).out
                assert "isvalid: false" not in out
                kinds |= set(re.findall(r'key: \{"type":"?(\w+)"?', out))
    assert {"1", "2", "3", "5", "6", "7", "8"} <= kinds, kinds
