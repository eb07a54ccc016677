"""A failover of the coordinator undoes the rebalance of a group that has just become classic.

The finding: docs/findings/kafka-downgrade-forgotten.md.
"""

import re
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.cluster import KafkaCluster
from chaos.real.kafka.cluster import cluster as kafka_cluster
from chaos.real.kafka.judge import Judge
from refimpl.records.coordinators import OFFSETS_TOPIC, partition_for
from tests.kafka.played import ATTEMPTS, NOT_PLAYED, python
from tests.kafka.test_java_groups import PARTITIONS, Member, shared, topic, until

admin: Any = import_module("confluent_kafka.admin")
NAME = "examples/kafka-downgrade-forgotten"
OFFSETS_PARTITIONS = 3
#: For so long nobody joins, on a cluster whose classic members send a heartbeat each 3 s.
SECONDS_ALONE = 40


def played(*arguments: str) -> "tuple[int, str]":
    """The exit code of the example and what it said, in the first attempt that could be played."""
    tries = (python(NAME, *arguments) for _ in range(ATTEMPTS))
    found = next((one for one in tries if one.returncode != NOT_PLAYED), None)
    assert found is not None, f"the scenario could not be played in {ATTEMPTS} attempts"
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return found.returncode, found.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--failover", "kill", "--patience", "30"),
        ("--silent", "--patience", "30"),
        ("--classics", "2", "--patience", "30"),
        ("--policy", "downgrade", "--patience", "30"),
    ],
    ids=lambda given: " ".join(given) or "as it is",
)
def test_nobody_owns_what_the_last_member_of_the_consumer_protocol_had(
    arguments: tuple[str, ...],
) -> None:
    """All the while the group is stable, no heartbeat is refused, and records come."""
    code, said = played(*arguments)
    assert code == 1, "this Kafka assigns it: say so in docs/findings/kafka-downgrade-forgotten.md"
    described = re.findall(r"(?:group is|later it is) (\w+) and (\w+),", said)
    assert described == [("CLASSIC", "STABLE")] * 2
    heartbeats = re.findall(r"(\d+) heartbeats, (\d+) of them refused", said)
    assert heartbeats
    assert all(int(sent) > 5 and refused == "0" for sent, refused in heartbeats)
    records = re.findall(r"partition \d+: (\d+) records, of which (\d+) were read", said)
    read = sorted(int(one) for _, one in records)
    assert all(int(written) > 0 for written, _ in records)
    assert (read[0], read[1] > 0) == (0, True)
    assert "now they own" in said


@pytest.mark.parametrize(
    "arguments", [("--failover", "none"), ("--in-time",), ("--all-classic",)], ids=" ".join
)
def test_without_the_failover_the_downgrade_or_with_members_that_have_joined_all_is_well(
    arguments: tuple[str, ...],
) -> None:
    code, said = played(*arguments)
    assert code == 0, said


@pytest.mark.parametrize("classic", ["range", "cooperative"])
def test_so_it_is_with_consumers_of_java(classic: str, judge: Judge, tmp_path: Path) -> None:
    with kafka_cluster(tmp_path, judge) as kafka, ExitStack() as members:
        groups = (f"{classic}-{number}" for number in range(ATTEMPTS))
        assert any(left_alone(kafka, group, classic, members) for group in groups)


def left_alone(kafka: KafkaCluster, group: str, classic: str, members: ExitStack) -> bool:
    """True if a classic consumer still owns only half of the partitions after the other owner left.

    The other half's owner, of KIP-848, has left for some time, and the coordinator was killed. If
    False, a heartbeat may have come between the two.
    """

    def start(kind: str) -> Member:
        one = Member(kafka.bootstrap, group, kind).start()
        members.callback(one.end)
        return one

    topic(kafka.bootstrap, group)
    stays, goes = start(classic), start("consumer")
    until([stays, goes], lambda: shared([stays, goes]))
    until([stays, goes], lambda: described(kafka, group) == ("CONSUMER", "STABLE"))
    partition = partition_for(group, OFFSETS_PARTITIONS)
    coordinator = kafka.nodes[kafka.partitions(OFFSETS_TOPIC)[partition].leader]
    goes.stop()
    coordinator.kill()
    end = time.monotonic() + SECONDS_ALONE
    while time.monotonic() < end and len(stays.owned) < PARTITIONS:
        time.sleep(0.05)
    alone = len(stays.owned) == PARTITIONS // 2
    if alone:
        assert described(kafka, group) == ("CLASSIC", "STABLE")
        joins = start(classic)
        until([stays, joins], lambda: shared([stays, joins]))
    coordinator.start()
    kafka.wait_until_healed(OFFSETS_TOPIC)
    return alone


def described(kafka: KafkaCluster, group: str) -> tuple[str, str]:
    client = admin.AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    told = client.describe_consumer_groups([group], request_timeout=30)[group].result(60)
    return told.type.name, told.state.name
