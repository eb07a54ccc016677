"""Let a failover of the coordinator undo the rebalance of a group that has just become classic.

Starts a controller and three brokers. Classic consumers and one of KIP-848 share the partitions of
a topic; that of KIP-848 goes, so the group is a classic one again. Between two heartbeats of the
classic consumers its coordinator goes, too. Exit code 1: the partition of the one that went has no
owner at the end, although all others poll and beat their hearts; 0: it has; 2: the scenario could
not be played.
"""

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, TopicPartition

from examples.brokers import CONTROLLER, Node, NotInTimeError, laid_out, playing, started, until
from examples.kafka_jars import class_path, classes_option, jars_option
from refimpl.records.coordinators import OFFSETS_TOPIC

TOPIC = GROUP = "downgrade"
OLD, REPLICAS = 1, [1, 2, 3]
TOGETHER_S, POLL_S, EACH_S = 3, 0.05, 0.5
#: The session of a classic consumer; its heartbeat interval is librdkafka's default.
SESSION_MS, HEARTBEAT_MS = 15_000, 3_000
#: What a heartbeat is answered that goes to the coordinator before.
ELSEWHERE = re.compile("Not coordinator|Coordinator not available|transport failure|Timed out")
BROKERS = "offsets.topic.num.partitions=1\ngroup.consumer.migration.policy={policy}\n"
#: What a member of KIP-848 that falls silent is given, when one is to.
SHORT_SESSION = """\
group.consumer.min.session.timeout.ms=6000
group.consumer.session.timeout.ms=6000
"""
#: A consumer of KIP-848 in a process of its own, to be killed.
MEMBER = """\
from sys import argv
from confluent_kafka import Consumer
where, group = argv[1:]
protocol = {"group.protocol": "consumer", "enable.auto.commit": False}
one = Consumer({"bootstrap.servers": where, "group.id": group, **protocol})
one.subscribe([group])
while True:
    one.poll(0.1)
    print(*(each.partition for each in one.assignment()), flush=True)
"""


@define
class Member:
    """A consumer in this process, and what it has heard."""

    bootstrap: str
    conf: Mapping[str, Any]
    consumer: Any = field(init=False)
    read: dict[int, int] = field(factory=dict[int, int])
    """Records by partition."""
    heard: list[str] = field(factory=list[str])
    """What librdkafka says of its heartbeats."""
    lost: bool = False
    """Whether it gave up waiting for a coordinator, and joined anew."""

    def __attrs_post_init__(self) -> None:
        common = {"bootstrap.servers": self.bootstrap, "group.id": GROUP, "debug": "cgrp"}
        offsets = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        made = {**common, **offsets, **self.conf}
        self.consumer = Consumer(made, logger=self)
        self.consumer.subscribe([TOPIC])

    def log(self, level: int, message: str, *rest: object) -> None:
        """As a logger does: lines of heartbeats are kept."""
        line = message % rest if rest else message
        self.lost |= "session timed out" in line
        if "eartbeat" in line:
            self.heard.append(line)

    @property
    def beats(self) -> int:
        """Heartbeats that it has sent."""
        return sum("Heartbeat for group" in line for line in self.heard)

    @property
    def told(self) -> bool:
        """Whether a heartbeat told it to join again."""
        return any("rebalance in progress" in line for line in self.heard)

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            partition = message.partition()
            self.read[partition] = self.read.get(partition, 0) + 1

    def close(self) -> None:
        self.consumer.close()


@define
class Silent:
    """A consumer of KIP-848 in another process, which is killed and says nothing."""

    bootstrap: str
    process: "subprocess.Popen[str]" = field(init=False)
    owned: set[int] = field(factory=set[int])

    def __attrs_post_init__(self) -> None:
        command = [sys.executable, "-c", MEMBER, self.bootstrap, GROUP]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def poll(self) -> None:
        """Hear what it owns now."""
        assert self.process.stdout is not None
        self.owned = set(map(int, self.process.stdout.readline().split()))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@define
class Scenario:
    """What happens, step by step; each step waits until the one before has taken effect."""

    brokers: Mapping[int, Node]
    clients: ExitStack
    classics: int
    how: signal.Signals | None
    """How the coordinator goes; None: it stays."""
    in_time: bool
    silent: bool
    all_classic: bool
    upgrades: bool
    """Whether a classic group may become a consumer group; if not, it begins as one."""
    patience_s: float
    admin: Any = field(init=False)
    producer: Any = field(init=False)
    began: float = field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        where: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        self.admin, self.producer = AdminClient(where), Producer(where)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers.values())

    @property
    def last(self) -> str:
        return "another classic one" if self.all_classic else "one of KIP-848"

    @property
    def partitions(self) -> set[int]:
        return set(range(self.classics + 1))

    def play(self) -> set[int]:
        """The partitions without an owner at the end."""
        self.create()
        if self.upgrades:
            members = [self.classic() for _ in range(self.classics)]
            self.wait(members, lambda: self.all_owned(members), "classic consumers own")
            last = self.modern()
        else:
            last = self.modern()
            self.wait([last], lambda: self.all_owned([last]), "a consumer of KIP-848 owns")
            members = [self.classic() for _ in range(self.classics)]
        everybody = [*members, last]
        self.wait(
            everybody,
            lambda: all(len(one.owned) == 1 for one in everybody),
            f"classic ones and {self.last} own",
        )
        self.poll(everybody, lambda: False, TOGETHER_S)  # until the group is at rest
        self.describe("it is")
        self.go(members, last)
        if self.in_time:
            self.wait(members, lambda: self.all_owned(members), "classic consumers own again")
        if self.how is not None:
            self.fail_over(members)
        self.watch(members)
        unowned = self.partitions - set[int]().union(*(one.owned for one in members))
        if unowned:
            self.mend(members)
        return unowned

    def mend(self, members: list[Member]) -> None:
        """One of several leaves, or another joins: that is a rebalance."""
        if len(members) > 1:
            members.pop().close()
            self.say("a classic consumer leaves")
        else:
            members.append(self.classic())
            self.say("another classic consumer joins")
        self.wait(members, lambda: self.all_owned(members), "now they own")

    def create(self) -> None:
        until("three brokers", 60, lambda: len(self.admin.list_topics(timeout=5).brokers) == 3)
        offsets = NewTopic(
            OFFSETS_TOPIC, 1, replica_assignment=[REPLICAS], config={"cleanup.policy": "compact"}
        )
        topic = NewTopic(TOPIC, len(self.partitions), 3)
        for created in self.admin.create_topics([offsets, topic]).values():
            created.result(60)

    def classic(self) -> Member:
        timing = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        made = Member(self.bootstrap, {"group.protocol": "classic", **timing})
        self.clients.callback(made.close)
        return made

    def modern(self) -> Any:
        if self.all_classic:
            return self.classic()
        how = {"group.protocol": "consumer"}
        made: Any = Silent(self.bootstrap) if self.silent else Member(self.bootstrap, how)
        self.clients.callback(made.close)
        return made

    def go(self, members: list[Member], last: Any) -> None:
        """That of KIP-848 goes, just after the heartbeats of the others: the next are far away."""
        for one in members:
            one.heard.clear()
        old = self.brokers[OLD]
        converted = "Converted the consumer group to a classic group"
        if self.silent:
            last.close()
            self.say("that of KIP-848 is killed, and falls silent")
            self.wait(members, lambda: old.said(converted), "its session has ended")
            return
        self.poll(members, lambda: all(one.beats for one in members), 10)
        last.close()
        until("the group to be classic", 10, lambda: self.all_classic or old.said(converted))
        self.say(f"{self.last} has left")

    def fail_over(self, members: list[Member]) -> None:
        assert self.how is not None
        self.brokers[OLD].signal(self.how)
        self.say(f"{self.how.name} to broker {OLD}, the coordinator")
        others = [node for id, node in self.brokers.items() if id != OLD]
        over = f"Finished loading of metadata from {OFFSETS_TOPIC}-0 "
        self.poll(members, lambda: any(one.said(over) for one in others), 60)
        self.check(members)
        (new,) = (node.id for node in others if node.said(over))
        self.say(f"broker {new} has loaded the group")

    def check(self, members: list[Member]) -> None:
        self.poll(members, lambda: False, 4 * POLL_S)  # what they have heard is told as they poll
        if not self.in_time and any(one.told for one in members):
            raise NotInTimeError("a heartbeat came between the downgrade and the failover")

    def watch(self, members: list[Member]) -> None:
        """Records come all the time; who reads them?"""
        for one in members:
            one.heard.clear()
        # The first heartbeat behind a failover may go to the coordinator before.
        self.poll(members, lambda: all(one.beats for one in members), SESSION_MS / 1000)
        self.poll(members, lambda: False, 1)
        before = {number: self.count(members, number) for number in self.partitions}
        for one in members:
            one.heard.clear()
        self.describe("the group is")
        began = time.monotonic()
        self.poll(members, lambda: self.all_owned(members), self.patience_s, EACH_S)
        seconds = time.monotonic() - began
        if any(one.lost for one in members):
            raise NotInTimeError("a classic consumer heard of no coordinator for its session")
        self.describe(f"{seconds:.0f} s later it is")
        for one in members:
            refused = sum(
                "error response" in line and not ELSEWHERE.search(line) for line in one.heard
            )
            self.say(f"a classic consumer: {one.beats} heartbeats, {refused} of them refused")
        for number in sorted(self.partitions):
            low, high = members[0].consumer.get_watermark_offsets(TopicPartition(TOPIC, number), 30)
            got = self.count(members, number) - before[number]
            self.say(f"partition {number}: {high - low} records, of which {got} were read")

    def count(self, members: list[Member], partition: int) -> int:
        return sum(one.read.get(partition, 0) for one in members)

    def all_owned(self, members: list[Any]) -> bool:
        return set[int]().union(*(one.owned for one in members)) == self.partitions

    def poll(
        self, members: list[Any], done: Callable[[], bool], seconds: float, each_s: float = 0
    ) -> bool:
        """Poll until it is done; records come every `each_s` seconds, if that is not 0."""
        end, due = time.monotonic() + seconds, time.monotonic()
        while not done():
            now = time.monotonic()
            if now > end:
                return False
            if each_s and now >= due:
                due = now + each_s
                for number in self.partitions:
                    self.producer.produce(TOPIC, b"a record", partition=number)
                self.producer.poll(0)
            for one in members:
                one.poll()
        return True

    def wait(self, members: list[Any], done: Callable[[], bool], what: str) -> None:
        if not self.poll(members, done, 120):
            raise NotInTimeError(f"{what}: not within 120 s")
        self.say(f"{what}: {', '.join(str(sorted(one.owned)) for one in members)}")

    def describe(self, what: str) -> None:
        """What the coordinator says of the group, to a client that begins at another broker than
        the one that goes: that one names itself for a while."""
        found: list[Any] = []
        there = ",".join(node.address for id, node in self.brokers.items() if id != OLD)

        def answered() -> bool:
            try:
                admin: Any = AdminClient({"bootstrap.servers": there, "log_level": 0})
                asked = admin.describe_consumer_groups([GROUP], request_timeout=5)
                found.append(asked[GROUP].result(10))
            except (KafkaException, TimeoutError):  # it asks the coordinator before, still
                return False
            return True

        until("the group is described", 60, answered)
        (group,) = found
        told = [
            sorted(each.partition for each in one.assignment.topic_partitions)
            for one in group.members
        ]
        self.say(f"{what} {group.type.name} and {group.state.name}, its members own {told}")

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.began:7.3f} s  {what}")


@click.command(help=__doc__)
@jars_option
@classes_option
@click.option("--classics", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--failover",
    type=click.Choice(["stop", "kill", "none"]),
    default="stop",
    show_default=True,
    help="The coordinator shuts down in good order, is killed, or stays.",
)
@click.option("--in-time", is_flag=True, help="It goes after the others have joined again.")
@click.option("--silent", is_flag=True, help="The one of KIP-848 does not leave: it is killed.")
@click.option("--all-classic", is_flag=True, help="No member is of KIP-848.")
@click.option("--policy", default="bidirectional", show_default=True)
@click.option("--patience", type=float, default=60, show_default=True, help="Seconds to wait.")
def main(
    jars: Path | None,
    classes: Path | None,
    classics: int,
    failover: str,
    in_time: bool,
    silent: bool,
    all_classic: bool,
    policy: str,
    patience: float,
) -> None:
    how = {"stop": signal.SIGTERM, "kill": signal.SIGKILL, "none": None}[failover]
    with playing(), ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        nodes = laid_out(folder / "cluster", class_path(jars, classes))
        for id, node in nodes.items():
            if id != CONTROLLER:
                node.settings = BROKERS.format(policy=policy) + SHORT_SESSION * silent
        brokers = running.enter_context(started(nodes))
        with ExitStack() as clients:
            scenario = Scenario(
                *(brokers, clients, classics, how, in_time, silent, all_classic),
                policy != "downgrade",
                patience,
            )
            unowned = scenario.play()
    click.echo(f"no owner: {sorted(unowned)}" if unowned else "every partition has an owner")
    sys.exit(int(bool(unowned)))


if __name__ == "__main__":
    main()
