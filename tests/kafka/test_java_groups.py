"""Whole groups of Java consumers, on three of our brokers and on three of Kafka's: both protocols,
static members, cooperative ones, and groups that move from one protocol to the other."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from attrs import define, field

from chaos.real.kafka.cluster import cluster as kafka_cluster
from chaos.real.kafka.judge import Judge, java
from refimpl.edge.testing.blocking import BlockingCluster
from tests.kafka.test_tools import TOOLS

confluent: Any = import_module("confluent_kafka")
admin: Any = import_module("confluent_kafka.admin")
PARTITIONS = 6
SECONDS = 240
ASSIGNOR = "org.apache.kafka.clients.consumer"
CLASSIC = ("--group-protocol", "classic", "--session-timeout", "30000")
KINDS: Mapping[str, Sequence[str]] = {
    "range": (*CLASSIC, "--assignment-strategy", f"{ASSIGNOR}.RangeAssignor"),
    "cooperative": (*CLASSIC, "--assignment-strategy", f"{ASSIGNOR}.CooperativeStickyAssignor"),
    "consumer": ("--group-protocol", "consumer"),
}


@pytest.fixture(scope="module", params=["ours", "kafka"])
def bootstrap(
    request: pytest.FixtureRequest, judge: Judge, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("java-groups")
    if request.param == "ours":
        with BlockingCluster(brokers=3, data=folder) as ours:
            yield ours.bootstrap
    else:
        with kafka_cluster(folder, judge) as theirs:
            yield theirs.bootstrap


@define(eq=False)
class Member:
    """A VerifiableConsumer: what it tells of what it owns and reads, line by line."""

    bootstrap: str
    group: str
    kind: str
    instance: str = ""
    owned: set[int] = field(factory=set[int])
    read: list[tuple[int, int, int]] = field(factory=list[tuple[int, int, int]])
    #: The partitions of each assignment and revocation
    moves: list[tuple[str, set[int]]] = field(factory=list[tuple[str, set[int]]])
    process: Any = None
    listener: Any = None

    def start(self) -> "Member":
        static = ("--group-instance-id", self.instance) if self.instance else ()
        command = java(
            f"{TOOLS}.VerifiableConsumer",
            "--bootstrap-server",
            self.bootstrap,
            "--topic",
            self.group,
            "--group-id",
            self.group,
            *KINDS[self.kind],
            *static,
            "--reset-policy",
            "earliest",
        )
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.listener = threading.Thread(target=self._listen)
        self.listener.start()
        return self

    def _listen(self) -> None:
        for line in self.process.stdout:
            if line.startswith("{"):
                self._hear(json.loads(line))

    def _hear(self, event: dict[str, Any]) -> None:
        name = event["name"]
        if name in ("partitions_assigned", "partitions_revoked"):
            those = {one["partition"] for one in event["partitions"]}
            self.owned = self.owned | those if name.endswith("assigned") else self.owned - those
            self.moves.append((name, those))
        elif name == "records_consumed":
            told = event["partitions"]
            self.read += [(p["partition"], p["minOffset"], p["maxOffset"]) for p in told]

    def stop(self) -> None:
        """As an operator would: it leaves in order, and commits what it has read."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(SECONDS)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.listener.join()
        self.process.stdout.close()


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The members that are started; all are ended after the test."""
    started: list[Member] = []
    yield started
    for one in started:
        one.end()


def until(members: Sequence[Member], holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        told = [(one.process.poll(), one.owned, one.moves) for one in members]
        assert time.monotonic() < end, told
        time.sleep(0.05)


def shared(members: Sequence[Member]) -> bool:
    """True if all members own equally many partitions, and no partition is owned twice."""
    owned = [set(one.owned) for one in members]
    fair = {len(one) for one in owned} == {PARTITIONS // len(members)}
    return fair and set[int]().union(*owned) == set(range(PARTITIONS))


def topic(bootstrap: str, name: str) -> None:
    new = admin.NewTopic(name, PARTITIONS, 3)
    client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    client.create_topics([new])[name].result(60)


def fill(bootstrap: str, topic: str, each: int) -> None:
    producer = confluent.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(each * PARTITIONS):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def offsets_read(members: Sequence[Member]) -> list[tuple[int, int]]:
    """Partition and offset of all that was read, in order."""
    return sorted(
        (partition, offset)
        for one in members
        for partition, first, last in list(one.read)
        for offset in range(first, last + 1)
    )


def has_read(members: Sequence[Member], wanted: set[tuple[int, int]]) -> bool:
    return wanted <= set(offsets_read(members))


def everything(each: int) -> list[tuple[int, int]]:
    return [(number, offset) for number in range(PARTITIONS) for offset in range(each)]


def type_of(bootstrap: str, group: str) -> str:
    client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    groups = client.list_consumer_groups(request_timeout=60).result(60).valid
    return next(str(one.type).rpartition(".")[2] for one in groups if one.group_id == group)


@pytest.mark.parametrize("kind", KINDS)
def test_static_members_share_and_come_back_to_what_they_had(
    bootstrap: str, kind: str, members: list[Member]
) -> None:
    group = f"static-{kind}"
    topic(bootstrap, group)
    members += [Member(bootstrap, group, kind, f"i{n}").start() for n in range(2)]
    until(members, lambda: shared(members))
    fill(bootstrap, group, 10)
    until(members, lambda: offsets_read(members) == everything(10))
    first, second = members
    had, quiet = set(second.owned), len(first.moves)
    second.stop()
    back = Member(bootstrap, group, kind, "i1").start()
    members.append(back)
    until([first, back], lambda: shared([first, back]))
    assert back.owned == had
    assert len(first.moves) == quiet, "a static member that comes back moves nothing"
    fill(bootstrap, group, 10)
    until(members, lambda: offsets_read(members) == everything(20))


def test_a_cooperative_member_keeps_what_does_not_move(
    bootstrap: str, members: list[Member]
) -> None:
    group = "keeps"
    topic(bootstrap, group)
    members.append(Member(bootstrap, group, "cooperative", "i0").start())
    until(members, lambda: shared(members))
    members.append(Member(bootstrap, group, "cooperative", "i1").start())
    until(members, lambda: shared(members))
    revoked = [those for name, those in members[0].moves if name == "partitions_revoked" and those]
    assert revoked == [members[1].owned]


@pytest.mark.parametrize("classic", ["range", "cooperative"])
def test_a_group_moves_to_the_other_protocol_and_back(
    bootstrap: str, classic: str, members: list[Member]
) -> None:
    group = f"moves-{classic}"
    topic(bootstrap, group)
    there = [Member(bootstrap, group, classic).start() for _ in range(2)]
    members += there
    until(there, lambda: shared(there))
    each, moves = 0, [(0, "consumer", "CONSUMER"), (1, "consumer", "CONSUMER")]
    for at, kind, expected in [*moves, (0, classic, "CONSUMER"), (1, classic, "CLASSIC")]:
        each += 10
        fill(bootstrap, group, 10)
        wanted = set(everything(each))
        until(there, partial(has_read, members, wanted))
        there[at].stop()
        there[at] = Member(bootstrap, group, kind).start()
        members.append(there[at])
        until(there, lambda: shared(there))
        assert type_of(bootstrap, group) == expected
    assert offsets_read(members) == everything(each), "what was committed came again"
