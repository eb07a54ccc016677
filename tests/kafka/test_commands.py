"""Our verbs beside Kafka's own tools: the same words to a real broker, the answers compared."""

import json
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from chaos.real.kafka.cluster import cluster
from chaos.real.kafka.judge import SECONDS_TO_START, Judge, KafkaBroker
from refimpl.edge.commands.configs import configs
from refimpl.edge.commands.elect import elect
from refimpl.edge.commands.groups import groups_
from refimpl.edge.commands.offsets import offsets
from refimpl.edge.commands.reassign import reassign
from refimpl.edge.commands.topics import topics
from tests.refimpl.edge.asking import told

ck: Any = import_module("confluent_kafka")
TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = f"{TOOLS}.GetOffsetShell"
ELECT = f"{TOOLS}.LeaderElectionCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
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
    broker = KafkaBroker(tmp_path)
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


TIMEOUT = "consumer.session.timeout.ms=50000"
TOPIC_OURS = ("--entity-type", "topics", "--entity-name", "ours")
BROKER = ("--entity-type", "brokers", "--entity-name", "1")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")
#: Settings that our verb alters; Kafka's tool describes them afterwards, and as many again
ALTERED = (
    (*TOPIC_OURS, "--add-config", "cleanup.policy=[compact,delete],min.insync.replicas=1"),
    (*TOPIC_OURS, "--delete-config", "retention.ms"),
    (*BROKER, "--add-config", "log.retention.ms=7000"),
    (*ALL_BROKERS, "--add-config", "log.retention.ms=8000"),
    ("--entity-type", "groups", "--entity-name", "readers", "--add-config", TIMEOUT),
)
DESCRIBED = (
    TOPIC_OURS,
    (*TOPIC_OURS, "--all"),
    ("--topic", "ours"),
    ("--entity-type", "topics"),
    BROKER,
    ("--broker", "1", "--all"),
    ALL_BROKERS,
    ("--broker-defaults",),
    ("--entity-type", "brokers"),
    ("--entity-type", "groups", "--entity-name", "readers"),
)
TIMES = (
    (),
    ("--time", "-1"),
    ("--time", "earliest"),
    ("--time", "max-timestamp"),
    ("--time", "2500"),
    ("--time", "99999"),
    ("--partitions", "0"),
    ("--partitions", "0,1"),
    ("--topic-partitions", "our.*:0-1,theirs:1"),
    ("--topic-partitions", "our.*"),
)


def test_settings_and_offsets_are_those_that_kafkas_own_tools_print(
    judge: Judge, tmp_path: Path
) -> None:
    broker = KafkaBroker(tmp_path)
    broker.format(judge)
    with broker.running():
        at = broker.address
        sizes = ("--partitions", "2", "--replication-factor", "1")
        for name in ("ours", "theirs"):
            told(topics, at, "--create", "--topic", name, *sizes, "--config", "retention.ms=99999")
        for arguments in ALTERED:
            theirs = ("theirs" if one == "ours" else one for one in arguments)
            said = kafkas(judge, at, CONFIGS, "--alter", *theirs)
            ours = told(configs, at, "--alter", *arguments)
            assert ours == said.replace("theirs", "ours"), arguments
        for arguments in DESCRIBED:
            said = kafkas(judge, at, CONFIGS, "--describe", *arguments)
            assert cells(told(configs, at, "--describe", *arguments)) == cells(said), arguments
        producer = ck.Producer({"bootstrap.servers": at})
        for number in range(4):
            stamp = 1000 * (number + 1)
            producer.produce("ours", b"x", partition=number % 2, timestamp=stamp)
        assert producer.flush(30) == 0
        for arguments in TIMES:
            said = kafkas(judge, at, OFFSETS, "--exclude-internal-topics", *arguments)
            ours = told(offsets, at, "--exclude-internal-topics", *arguments)
            assert ours == said, arguments


def test_elections_and_moves_are_told_as_by_kafkas_own_tools(judge: Judge, tmp_path: Path) -> None:
    with cluster(tmp_path, judge) as brokers:
        at = brokers.bootstrap
        for name in ("ours", "theirs"):
            told(topics, at, "--create", "--topic", name, "--replica-assignment", "1:2,2:3")
            brokers.wait_until_healed(name)
        files = {name: moves(tmp_path / f"{name}.json", name) for name in ("ours", "theirs")}

        def both(tool: str, verb: click.Command, *arguments: str, file: str = "") -> None:
            """Tell both the same, each of its own topic."""

            def mine(name: str) -> list[str]:
                more = [file, str(files[name])] if file else []
                return [*(name if one == "TOPIC" else one for one in arguments), *more]

            said = kafkas(judge, at, tool, *mine("theirs")).replace("theirs", "ours")
            wait_until_moved(at)
            ours = told(verb, at, *mine("ours"))
            wait_until_moved(at)
            assert words(ours) == words(said), arguments

        given = "--reassignment-json-file"
        both(REASSIGN, reassign, "--verify", "--preserve-throttles", file=given)
        both(REASSIGN, reassign, "--list")
        both(REASSIGN, reassign, "--cancel", "--preserve-throttles", file=given)
        both(REASSIGN, reassign, "--execute", file=given)
        both(REASSIGN, reassign, "--verify", "--preserve-throttles", file=given)
        preferred = ("--election-type", "preferred")
        both(ELECT, elect, *preferred, "--topic", "TOPIC", "--partition", "0")
        both(ELECT, elect, *preferred, "--topic", "TOPIC", "--partition", "0")
        both(ELECT, elect, *preferred, file="--path-to-json-file")


def wait_until_moved(at: str) -> None:
    """Until nothing is being moved; polled."""
    until = time.monotonic() + SECONDS_TO_START
    while told(reassign, at, "--list") != "No partition reassignments found.\n":
        assert time.monotonic() < until


def moves(file: Path, topic: str) -> Path:
    """A file that gives both partitions of a topic to other brokers."""
    said = [
        {"topic": topic, "partition": number, "replicas": ids}
        for number, ids in ((0, [3, 1]), (1, [1, 2]))
    ]
    file.write_text(json.dumps({"version": 1, "partitions": said}))
    return file


def words(text: str) -> list[Any]:
    """Lines that are not empty, those of JSON by their replicas: ours names no folders."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [replicas(json.loads(line)) if line.startswith("{") else line for line in lines]


def replicas(assignment: Any) -> list[Any]:
    return [(one["topic"], one["partition"], one["replicas"]) for one in assignment["partitions"]]
