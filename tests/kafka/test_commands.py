"""Our verbs beside Kafka's own tools: the same words to a real broker, the answers compared."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from chaos.real.kafka.judge import Broker, Judge
from refimpl.edge.commands.groups import groups_
from refimpl.edge.commands.topics import topics
from tests.refimpl.edge.asking import told

ck: Any = import_module("confluent_kafka")
TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
#: What both are told, one after the other; each topic and group is made by one of them.
SCRIPT: tuple[tuple[str, click.Command, tuple[str, ...]], ...] = (
    (TOPICS, topics, ("--list", "--exclude-internal")),
    (TOPICS, topics, ("--describe", "--topic", "ours|theirs")),
    (TOPICS, topics, ("--describe", "--topic", "ours", "--at-min-isr-partitions")),
    (TOPICS, topics, ("--describe", "--topic", "ours", "--under-replicated-partitions")),
    (TOPICS, topics, ("--describe", "--topic", "ours", "--unavailable-partitions")),
    (GROUPS, groups_, ("--describe", "--group", "readers")),
    (GROUPS, groups_, ("--describe", "--group", "readers", "--state")),
    (GROUPS, groups_, ("--describe", "--group", "readers", "--members")),
)
RESETS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "2"),
    ("--to-offset", "99"),
    ("--shift-by", "-1"),
    ("--to-datetime", "2001-01-01T00:00:00.000"),
    ("--to-datetime", "2501-01-01T00:00:00.000"),
    ("--by-duration", "P1D"),
)


def cells(text: str) -> list[list[str]]:
    """Lines as words, in any order, without Kafka's warnings."""
    lines = [line.split() for line in text.splitlines()]
    return sorted(line for line in lines if line and line[0] != "Warn:")


def kafkas(judge: Judge, address: str, tool: str, *arguments: str) -> str:
    answer = judge.run(tool, "--bootstrap-server", address, *arguments)
    assert answer.status == 0, answer
    return answer.out


def test_what_is_printed_is_what_kafkas_own_tools_print(judge: Judge, tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.format(judge)
    with broker.running():
        at = broker.address
        sizes = ("--partitions", "2", "--replication-factor", "1")
        more = ("--config", "retention.ms=99999999", "--config", "min.insync.replicas=1")
        made = ("--create", "--topic", "ours", *sizes, *more)
        assert told(topics, at, *made) == "Created topic ours.\n"
        made = ("--create", "--topic", "theirs", *sizes)
        assert kafkas(judge, at, TOPICS, *made) == "Created topic theirs.\n"
        member = reader(at)
        try:
            for tool, verb, arguments in SCRIPT:
                theirs = cells(kafkas(judge, at, tool, *arguments))
                assert cells(told(verb, at, *arguments)) == theirs, arguments
        finally:
            member.close()
        for scenario in RESETS:
            reset = ("--reset-offsets", "--group", "readers", "--topic", "ours", *scenario)
            theirs = cells(kafkas(judge, at, GROUPS, *reset, "--dry-run"))
            assert cells(told(groups_, at, *reset)) == theirs, scenario
            told(groups_, at, *reset, "--execute")
        told(groups_, at, "--delete", "--group", "readers")
        assert kafkas(judge, at, GROUPS, "--list").split() == []
        told(topics, at, "--delete", "--topic", "ours|theirs")
        assert kafkas(judge, at, TOPICS, "--list", "--exclude-internal").split() == []


def reader(address: str) -> Any:
    """A member that has two partitions, and has committed some of one."""
    producer = ck.Producer({"bootstrap.servers": address})
    for number in range(10):
        producer.produce("ours", str(number), partition=number % 2)
    assert producer.flush(30) == 0
    conf = {"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False}
    member = ck.Consumer(conf)
    member.subscribe(["ours"])
    while len(member.assignment()) != 2:
        member.poll(0.1)
    offsets = [ck.TopicPartition("ours", 0, 3), ck.TopicPartition("ours", 1, 5)]
    member.commit(offsets=offsets, asynchronous=False)
    return member
