"""`highwater configs`, `offsets`, `elect` and `reassign` of our own brokers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from confluent_kafka import Producer

from refimpl.edge import BlockingCluster
from refimpl.edge.commands.configs import configs
from refimpl.edge.commands.elect import elect
from refimpl.edge.commands.offsets import offsets
from refimpl.edge.commands.reassign import reassign
from tests.refimpl.edge.asking import alone, refused, rows, told
from tests.refimpl.edge.patience import PATIENCE_S


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=3, seed=1) as cluster:
        cluster.create_topic("set", configs={"retention.ms": "1000"})
        yield cluster


def file_of(folder: Path, text: str) -> str:
    file = folder / "given.json"
    file.write_text(text)
    return str(file)


def moves(folder: Path, *partitions: tuple[str, int, list[int]]) -> str:
    said = [{"topic": t, "partition": n, "replicas": ids} for t, n, ids in partitions]
    return file_of(folder, json.dumps({"version": 1, "partitions": said}))


# configs


def test_settings_of_a_topic_are_set_described_and_deleted(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    at, topic = cluster.bootstrap, ("--entity-type", "topics", "--entity-name", "set")
    both = "cleanup.policy=[compact,delete],min.insync.replicas=2"
    done = "Completed updating config for topic set.\n"
    assert told(configs, at, "--alter", *topic, "--add-config", both) == done
    head, *lines = told(configs, at, "--describe", *topic).splitlines()
    assert head == "Dynamic configs for topic set are:"
    assert [line.split(" sensitive")[0].strip() for line in lines] == [
        "cleanup.policy=compact,delete",
        "min.insync.replicas=2",
        "retention.ms=1000",
    ]
    assert "sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000" in lines[2]
    assert told(configs, at, "--alter", "--topic", "set", "--delete-config", "retention.ms") == done
    (found,) = rows(configs, at, tmp_path / "j", "--describe", "--topic", "set")
    assert [one["name"] for one in found["configs"]] == ["cleanup.policy", "min.insync.replicas"]
    every = told(configs, at, "--describe", "--topic", "set", "--all")
    assert every.startswith("All configs for topic set are:\n")
    assert "  retention.ms=604800000 sensitive=false synonyms={" in every


def test_settings_come_from_a_file(cluster: BlockingCluster, tmp_path: Path) -> None:
    cluster.create_topic("filed")
    file = tmp_path / "topic.properties"
    file.write_text("# mine\nretention.ms = 5\n")
    told(configs, cluster.bootstrap, "--alter", "--topic", "filed", "--add-config-file", str(file))
    assert "  retention.ms=5 " in told(configs, cluster.bootstrap, "--describe", "--topic", "filed")


def test_settings_of_brokers_are_set_for_one_and_for_all(cluster: BlockingCluster) -> None:
    at = cluster.bootstrap
    one, every = ("--entity-type", "brokers", "--entity-name", "2"), ("--broker-defaults",)
    setting = ("--alter", "--add-config", "log.retention.ms=7000")
    assert told(configs, at, *setting, *one) == "Completed updating config for broker 2.\n"
    said = "Completed updating default config for brokers in the cluster.\n"
    assert told(configs, at, *setting, *every) == said
    of_one = told(configs, at, "--describe", *one)
    assert of_one.startswith("Dynamic configs for broker 2 are:\n  log.retention.ms=7000 ")
    of_all = told(configs, at, "--describe", "--entity-type", "brokers", "--entity-default")
    assert of_all.startswith("Default configs for brokers in the cluster are:\n")
    assert "  log.retention.ms=7000 " in of_all
    both = told(configs, at, "--describe", "--entity-type", "brokers")
    assert [line for line in both.splitlines() if line.endswith("are:")] == [
        *(f"Dynamic configs for broker {number} are:" for number in (1, 2, 3)),
        "Default configs for brokers in the cluster are:",
    ]


# offsets


@pytest.fixture(scope="module")
def written(cluster: BlockingCluster) -> str:
    """A topic with 3 and 1 records and none, at the times 1000, 2000 and so on."""
    cluster.create_topic("written", partitions=3, replicas=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for partition, count in ((0, 3), (1, 1)):
        for number in range(count):
            producer.produce("written", b"x", partition=partition, timestamp=1000 * (number + 1))
    assert producer.flush(PATIENCE_S) == 0
    return cluster.bootstrap


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), "written:0:3 written:1:1 written:2:0"),
        (("--time", "earliest"), "written:0:0 written:1:0 written:2:0"),
        (("--time", "-1"), "written:0:3 written:1:1 written:2:0"),
        (("--time", "1500"), "written:0:1"),
        (("--time", "max-timestamp"), "written:0:2 written:1:0"),
        (("--partitions", "0-2"), "written:0:3 written:1:1"),
        (("--partitions", "1,2"), "written:1:1 written:2:0"),
        (("--partitions", "2-"), "written:2:0"),
    ],
)
def test_offsets_are_told_by_time(written: str, arguments: tuple[str, ...], found: str) -> None:
    answer = told(offsets, written, "--topic", "written", *arguments)
    assert answer.split() == found.split()


def test_offsets_of_partitions_by_topic(written: str, tmp_path: Path) -> None:
    chosen = ("--topic-partitions", "writ.*:1-,none:0")
    assert told(offsets, written, *chosen).split() == ["written:1:1", "written:2:0"]
    assert rows(offsets, written, tmp_path / "j", *chosen)[0] == {
        "topic": "written",
        "partition": 1,
        "offset": 1,
    }


# elect


def test_preferred_and_unclean_leaders_are_elected(tmp_path: Path) -> None:
    with BlockingCluster(brokers=3, seed=1) as cluster:
        at = cluster.bootstrap
        cluster.create_topic("led", assignments={0: [1, 2], 1: [2, 3]})
        preferred = ("--election-type", "preferred")
        one = ("--topic", "led", "--partition", "0")
        assert told(elect, at, *preferred, *one) == (
            "Valid replica already elected for partitions led-0\n"
        )
        cluster.kill(1, expire=True)
        cluster.until(lambda: cluster.leader("led", 0) == 2)
        code, said = alone(elect, at, *preferred, *one)
        assert (code, "led-0: PREFERRED_LEADER_NOT_AVAILABLE" in said) == (2, True), said
        cluster.restart(1)
        cluster.until(lambda: cluster.isr("led", 0) == frozenset({1, 2}))
        file = file_of(
            tmp_path,
            '{"partitions": [{"topic": "led", "partition": 1}, {"topic": "led", "partition": 0}]}',
        )
        assert told(elect, at, *preferred, "--path-to-json-file", file) == (
            "Successfully completed leader election (PREFERRED) for partitions led-0\n"
            "Valid replica already elected for partitions led-1\n"
        )
        assert cluster.leader("led", 0) == 1
        assert told(elect, at, *preferred, "--all-topic-partitions") == ""


# reassign


def test_partitions_are_moved_verified_and_listed(tmp_path: Path) -> None:
    with BlockingCluster(brokers=3, seed=1) as cluster:
        at = cluster.bootstrap
        cluster.create_topic("moved", assignments={0: [1], 1: [2]})
        given = ("--reassignment-json-file", moves(tmp_path, ("moved", 0, [3]), ("moved", 1, [2])))
        assert told(reassign, at, "--verify", *given).splitlines() == [
            "Status of partition reassignment:",
            "There is no active reassignment of partition moved-0, "
            "but replica set is 1 rather than 3.",
            "Reassignment of partition moved-1 is completed.",
        ]
        begun = told(reassign, at, "--execute", *given).splitlines()
        assert begun[0] == "Current partition replica assignment"
        assert json.loads(begun[2])["partitions"][0] == {
            "topic": "moved",
            "partition": 0,
            "replicas": [1],
            "log_dirs": ["any"],
        }
        assert begun[-1] == "Successfully started partition reassignments for moved-0,moved-1"
        cluster.until(lambda: cluster.isr("moved", 0) == frozenset({3}))
        verified = rows(reassign, at, tmp_path / "j", "--verify", *given)
        assert [one["state"] for one in verified] == ["completed"] * 2
        assert told(reassign, at, "--list") == "No partition reassignments found.\n"


def test_a_move_that_cannot_end_is_listed_and_cancelled(tmp_path: Path) -> None:
    with BlockingCluster(brokers=3, seed=1) as cluster:
        at = cluster.bootstrap
        cluster.create_topic("moved", assignments={0: [1]})
        cluster.cut(3, "brokers")
        given = ("--reassignment-json-file", moves(tmp_path, ("moved", 0, [3])))
        told(reassign, at, "--execute", *given)
        assert told(reassign, at, "--list").splitlines() == [
            "Current partition reassignments:",
            "moved-0: replicas: 3,1. adding: 3. removing: 1.",
        ]
        assert "moved-0 is still in progress." in told(reassign, at, "--verify", *given)
        assert "--additional adds to it" in refused(reassign, at, "--execute", *given)
        (still,) = rows(reassign, at, tmp_path / "j", "--list")
        assert (still["adding_replicas"], still["removing_replicas"]) == ([3], [1])
        assert told(reassign, at, "--cancel", *given) == (
            "Successfully cancelled partition reassignment for: moved-0\n"
            "None of the specified partition moves are active.\n"
        )
        none = "None of the specified partition reassignments are active.\n"
        assert told(reassign, at, "--cancel", *given).startswith(none)
        assert cluster.isr("moved", 0) == {1}
        cluster.heal()


def test_replicas_are_proposed_on_the_brokers_that_are_listed(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    cluster.create_topic("spread", partitions=4, replicas=2)
    file = file_of(tmp_path, '{"topics": [{"topic": "spread"}], "version": 1}')
    generate = ("--generate", "--topics-to-move-json-file", file, "--broker-list", "2,3")
    text = told(reassign, cluster.bootstrap, *generate).splitlines()
    assert [text[0], text[3]] == [
        "Current partition replica assignment",
        "Proposed partition reassignment configuration",
    ]
    proposed = json.loads(text[4])["partitions"]
    assert [sorted(one["replicas"]) for one in proposed] == [[2, 3]] * 4
    assert sorted(one["replicas"][0] for one in proposed) == [2, 2, 3, 3]
    said = told(
        reassign,
        cluster.bootstrap,
        "--verify",
        "--reassignment-json-file",
        file_of(tmp_path, text[4]),
    )
    assert said.startswith("Status of partition reassignment:\n")


# Mistakes

NAMED = ("--entity-type", "topics", "--entity-name", "nope")
PREFERRED = ("--election-type", "preferred")
MISTAKES: list[tuple[click.Command, tuple[str, ...], str]] = [
    (configs, (), "say --describe or --alter"),
    (configs, ("--describe",), "say one of --entity-type, --topic, --broker, --group"),
    (configs, ("--describe", *NAMED), "the cluster has no topic nope"),
    (configs, ("--alter", *NAMED), "--alter needs --add-config"),
    (configs, ("--alter", *NAMED, "--add-config", "x"), "expected KEY=VALUE, found 'x'"),
    (configs, ("--alter", *NAMED, "--add-config", "a=1"), "the cluster has no topic nope"),
    (configs, ("--alter", "--topic", "set", "--add-config", "no.such=1"), "no.such"),
    (configs, ("--alter", "--topic", "set", "--delete-config", "flush.ms"), "Invalid config(s)"),
    (configs, ("--describe", "--broker", "x"), "expected the id of a broker"),
    (configs, ("--describe", "--broker", "9"), "the cluster has no broker 9"),
    (configs, ("--describe", *NAMED, "--entity-default"), "goes with --entity-type brokers"),
    (configs, ("--alter", "--entity-type", "topics", "--add-config", "a=1"), "needs --entity-name"),
    (offsets, ("--topic", "nope"), "the cluster has no such topic and partition"),
    (offsets, ("--time", "noon"), "--time: expected latest"),
    (offsets, ("--topic", "set", "--partitions", "a"), "expected partitions such as 0,2-5"),
    (offsets, ("--topic", "("), "no pattern"),
    (offsets, ("--topic-partitions", "a:0", "--topic", "a"), "tells topics and partitions already"),
    (elect, (*PREFERRED,), "say one of --topic with --partition"),
    (elect, (*PREFERRED, "--topic", "set"), "--topic and --partition go together"),
    (elect, (*PREFERRED, "--topic", "set", "--partition", "7"), "UNKNOWN_TOPIC_OR_PARTITION"),
    (elect, ("--election-type", "fair", "--all-topic-partitions"), "'fair' is not one of"),
    (reassign, (), "say --generate, --execute"),
    (reassign, ("--execute",), "--execute needs --reassignment-json-file"),
    (reassign, ("--generate", "--broker-list", "1"), "needs --topics-to-move-json-file"),
]


@pytest.mark.parametrize(("verb", "arguments", "complaint"), MISTAKES)
def test_mistakes_are_one_line(
    cluster: BlockingCluster, verb: Any, arguments: tuple[str, ...], complaint: str
) -> None:
    assert complaint in refused(verb, cluster.bootstrap, *arguments)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "given.json: unexpected end"),
        ("[]", 'expected {"partitions": […]}'),
        ('{"partitions": []}', "partitions is empty"),
        ('{"partitions": [{"topic": "t"}]}', "partitions[0]: expected a topic and a partition"),
        ('{"partitions": [{"topic": "set", "partition": 0}]}', "expected replicas such as"),
        ('{"partitions": [{"topic": "set", "partition": 0, "replicas": [9]}]}', "broker id 9"),
        ('{"partitions": [{"topic": "no", "partition": 0, "replicas": [1]}]}', "topic no: UNKNOWN"),
        ('{"partitions": [{"topic": "set", "partition": 8, "replicas": [1]}]}', "find partition"),
    ],
)
def test_files_are_refused_by_their_fields(
    cluster: BlockingCluster, tmp_path: Path, text: str, complaint: str
) -> None:
    given = ("--reassignment-json-file", file_of(tmp_path, text))
    assert complaint in refused(reassign, cluster.bootstrap, "--execute", *given)
