"""`highwater topics` of our own brokers, and how any verb reaches a cluster."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from refimpl.edge import BlockingCluster
from refimpl.edge.commands.topics import topics
from tests.refimpl.edge.asking import alone, ask, refused, rows, told


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=3, seed=1) as cluster:
        yield cluster


def test_a_topic_is_created_listed_described_altered_and_deleted(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    at = cluster.bootstrap
    sizes = ("--partitions", "2", "--replication-factor", "3")
    create = ("--create", "--topic", "made", *sizes, "--config", "min.insync.replicas=2")
    assert told(topics, at, *create) == "Created topic made.\n"
    assert told(topics, at, *create, "--if-not-exists") == ""
    assert "made" in told(topics, at, "--list").split()
    (described,) = rows(topics, at, tmp_path / "j", "--describe", "--topic", "made")
    assert described["configs"] == {"min.insync.replicas": "2"}
    assert [sorted(one["replicas"]) for one in described["partitions"]] == [[1, 2, 3]] * 2
    head, *lines = told(topics, at, "--describe", "--topic", "made").splitlines()
    assert re.fullmatch(
        r"Topic: made\tTopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 3"
        r"\tConfigs: min.insync.replicas=2",
        head,
    )
    assert len(lines) == 2
    assert told(topics, at, "--alter", "--topic", "made", "--partitions", "3") == ""
    assert told(topics, at, "--describe", "--topic", "made").count("\tPartition: ") == 3
    assert told(topics, at, "--delete", "--topic", "made") == ""
    assert "made" not in told(topics, at, "--list").split()
    assert told(topics, at, "--delete", "--topic", "made", "--if-exists") == ""


def test_what_is_done_to_topics_is_recorded(cluster: BlockingCluster, tmp_path: Path) -> None:
    at, of_topic = cluster.bootstrap, ("--topic", "told", "--record", str(tmp_path / "run"))
    told(topics, at, "--create", *of_topic, "--partitions", "2")
    told(topics, at, "--alter", *of_topic, "--partitions", "3")
    told(topics, at, "--delete", *of_topic)
    told(topics, at, "--create", "--topic", "there")
    assert "TOPIC_ALREADY" in refused(topics, at, "--create", "--topic", "there", *of_topic[2:])
    files = sorted((tmp_path / "run").glob("*.ndjson"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    changes = [line for line in found if line["op"] not in ("close", "describe_topics")]
    ops = ["create_topics", "metadata", "create_partitions", "delete_topics", "create_topics"]
    assert [line["op"] for line in changes] == ops
    assert [line["outcome"] == "ok" for line in changes] == [True, True, True, True, False]
    counts = [line.get("partition_counts") for line in changes]
    assert counts == [{"told": 2}, {"told": 2}, {"told": 3}, None, None]
    made, asked = changes[0], next(x for x in found if x["op"] == "describe_topics")
    assert made["topic_ids"] == asked["topic_ids"] != {}


def test_replicas_are_assigned_by_hand(cluster: BlockingCluster, tmp_path: Path) -> None:
    at = cluster.bootstrap
    told(topics, at, "--create", "--topic", "hand", "--replica-assignment", "3:1,2:3")
    (described,) = rows(topics, at, tmp_path / "j", "--describe", "--topic", "hand")
    assert [one["replicas"] for one in described["partitions"]] == [[3, 1], [2, 3]]


def test_partitions_without_a_leader_or_a_replica_are_found() -> None:
    with BlockingCluster(brokers=2, seed=1) as cluster:
        for name, assigned in (("both", "1:2"), ("one", "1"), ("two", "2")):
            create = ("--create", "--topic", name, "--replica-assignment", assigned)
            told(topics, cluster.bootstrap, *create)
        describe = ("--describe", "--topic", "both|one|two")
        assert told(topics, cluster.bootstrap, *describe, "--unavailable-partitions") == ""
        assert told(topics, cluster.bootstrap, *describe, "--under-replicated-partitions") == ""
        cluster.kill(1, expire=True)
        _, gone = alone(topics, cluster.bootstrap, *describe, "--unavailable-partitions")
        assert re.findall(r"Topic: (\w+)\tPartition: 0\tLeader: (\w+)", gone) == [("one", "none")]
        _, lacking = alone(topics, cluster.bootstrap, *describe, "--under-replicated-partitions")
        assert "both" in re.findall(r"Topic: (\w+)", lacking)
        assert "two" not in re.findall(r"Topic: (\w+)", lacking)
        _, least = alone(topics, cluster.bootstrap, *describe, "--at-min-isr-partitions")
        assert {"both", "two"} <= set(re.findall(r"Topic: (\w+)", least))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "say --list"),
        (("--list", "--record", "run"), "--record goes with --create, --alter or --delete"),
        (("--create",), "--create needs --topic"),
        (("--describe", "--topic", "nope"), "the cluster has no topic nope"),
        (("--delete", "--topic", "nope"), "the cluster has no topic nope"),
        (("--describe", "--topic", "("), "no pattern"),
        (("--create", "--topic", "a b"), "INVALID_TOPIC_EXCEPTION"),
        (("--create", "--topic", "n", "--config", "no.such=1"), "no.such"),
        (("--create", "--topic", "n", "--config", "x"), "'x' is no KEY=VALUE"),
        (("--create", "--topic", "n", "--replication-factor", "4"), "only 3 broker(s)"),
        (("--create", "--topic", "n", "--replica-assignment", "1:"), "expected such as"),
        (("--alter", "--topic", "nope"), "--alter needs --partitions"),
        (("--list", "--unavailable-partitions"), "go with --describe"),
        (("--list", "--command-property", "acks"), "'acks' is no KEY=VALUE"),
        (
            ("--list", "--command-property", "client.idd=1"),
            "client.idd: unknown setting; did you mean client.id?",
        ),
        (("--list", "--command-property", "retry.backoff.ms=x"), "expected a number, found 'x'"),
        (("--list", "--command-config", "nope.properties"), "'nope.properties' does not exist"),
    ],
)
def test_mistakes_are_one_line(
    cluster: BlockingCluster, arguments: tuple[str, ...], complaint: str
) -> None:
    assert complaint in refused(topics, cluster.bootstrap, *arguments)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("127.0.0.1", "'127.0.0.1' is no HOST:PORT"),
        ("127.0.0.1:65536", "is no HOST:PORT"),
        ("127.0.0.1:1", "Error: no answer from 127.0.0.1:1 in 0.5 s"),
    ],
)
def test_who_does_not_answer_is_named(address: str, complaint: str) -> None:
    code, said = alone(topics, address, "--list", "--timeout", "0.5")
    assert (code, complaint in said.splitlines()[-1]) == (2, True), said


def test_settings_come_from_a_file_and_the_command_line(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# mine\nclient.id = me\nretry.backoff.ms=x\n")
    config = ("--list", "--command-config", str(file))
    assert "retry.backoff.ms: expected a number" in refused(topics, cluster.bootstrap, *config)
    better = (*config, "--command-property", "retry.backoff.ms=50")
    assert ask(topics, cluster.bootstrap, *better).exit_code == 0
    file.write_text("a=\\u12\n")
    said = refused(topics, cluster.bootstrap, *config)
    assert f"{file}:1: " in said
    file.write_text("ssl.truststore.location=nowhere.jks\n")
    said = refused(topics, cluster.bootstrap, *config)
    assert "nowhere.jks for configuration ssl.truststore.location: The file cannot be read" in said
