"""`highwater groups` of real Kafka, beside Kafka's own tools for groups."""

import re
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.edge.commands.configs import configs
from refimpl.edge.commands.groups import groups_
from tests.kafka.clients import create_topics
from tests.kafka.test_share_groups import ONE_REPLICA
from tests.refimpl.edge.asking import rows, told

ck: Any = import_module("confluent_kafka")
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SECONDS = 60
COLUMNS = 9


def consumer(address: str, protocol: str, name: str) -> Any:
    """A member that has yet to be assigned something."""
    conf = {"bootstrap.servers": address, "group.id": f"{protocol} readers", "client.id": name}
    member = ck.Consumer({**conf, "group.protocol": protocol, "auto.offset.reset": "earliest"})
    member.subscribe(["orders"])
    return member


def ours(address: str, group: str, file: Path) -> list[list[str]]:
    found = rows(groups_, address, file, "--describe", "--group", group)
    return sorted(["-" if one is None else str(one) for one in row.values()] for row in found)


def kafkas(judge: Judge, address: str, group: str, tool: str = TOOL) -> list[list[str]]:
    answer = judge.run(tool, "--bootstrap-server", address, "--describe", "--group", group)
    assert answer.status == 0, answer.complaints
    lines = [line for line in answer.out.splitlines() if line.startswith(group)]
    return sorted([group, *line.removeprefix(group).split()] for line in lines)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_described_as_by_kafkas_own_tool(
    judge: Judge, tmp_path: Path, protocol: str
) -> None:
    broker = KafkaBroker(tmp_path)
    broker.format(judge)
    with broker.running():
        create_topics(broker.address, {"orders": {}}, partitions=2)
        producer = ck.Producer({"bootstrap.servers": broker.address})
        for number in range(10):
            producer.produce("orders", str(number), partition=number % 2)
        assert producer.flush(30) == 0
        members = [consumer(broker.address, protocol, name) for name in ("one", "two", "three")]
        group, found = f"{protocol} readers", list[list[str]]()
        while len(found) != 3:
            for member in members:
                message = member.poll(0.1)
                if message is not None and message.error() is None:
                    member.commit(message, asynchronous=False)
            if sorted(len(member.assignment()) for member in members) == [0, 1, 1]:
                found = ours(broker.address, group, tmp_path / "rows")
        # Kafka's tool leaves out the member that has no partition.
        idle, *busy = found
        assert idle[1] == "-"
        assert busy == kafkas(judge, broker.address, group)
        for member in members:
            member.close()
        left = ours(broker.address, group, tmp_path / "rows")
        assert left == kafkas(judge, broker.address, group)
        assert {len(row) for row in found + left} == {COLUMNS}


def test_share_groups_are_described_as_by_kafkas_own_tool(judge: Judge, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path, settings=ONE_REPLICA)
    broker.format(judge)
    with broker.running():
        create_topics(broker.address, {"orders": {}}, partitions=1)
        group, file = "share readers", tmp_path / "rows"
        earliest = ("--group", group, "--add-config", "share.auto.offset.reset=earliest")
        told(configs, broker.address, "--alter", *earliest)
        producer = ck.Producer({"bootstrap.servers": broker.address})
        for number in range(10):
            producer.produce("orders", str(number))
        assert producer.flush(30) == 0
        conf = {"bootstrap.servers": broker.address, "group.id": group}
        members = [ck.ShareConsumer({**conf, "client.id": name}) for name in ("one", "two")]
        for member in members:
            member.subscribe(["orders"])
            member.poll(timeout=0.1)
        found, until = list[list[str]](), time.monotonic() + SECONDS
        while [row[-2:] for row in found] != [["0", "2"]]:  # no lag, two members
            assert time.monotonic() < until, found
            for member in members:
                member.poll(timeout=0.1)
            if group in told(groups_, broker.address, "--list"):
                found = ours(broker.address, group, file)
        listed = told(groups_, broker.address, "--list")
        assert [group, "Share", "Stable"] in [re.split(" {2,}", x) for x in listed.splitlines()]
        shown = rows(groups_, broker.address, file, "--describe", "--group", group, "--members")
        assert {one["assignment"] for one in shown} == {"orders:0"}
        for member in members:
            member.close()
        # From here on nothing is read, and the group's state stays as it is.
        (last,) = ours(broker.address, group, file)
        assert [last[:-1]] == kafkas(judge, broker.address, group, SHARE_TOOL)
        assert last[-2:] == ["0", "0"]
