"""Consumer groups on real brokers, under the agent: joined, grown, timed out, moved, left."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka._model import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from chaos.real.kafka.asking import partitions
from examples.brokers import Node, laid_out, started, until
from examples.kafka_jars import class_path
from refimpl.records.coordinators import OFFSETS_TOPIC, partition_for

TOPIC, GROUP = "orders", "billing"
OFFSETS_PARTITIONS, PATIENCE_S = 4, 90
SETTINGS = f"""\
offsets.topic.num.partitions={OFFSETS_PARTITIONS}
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
"""


def consumer(bootstrap: str, group: str = GROUP) -> Any:
    """A member of the group that commits by itself alone."""
    conf = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
    more = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    member: Any = Consumer({**conf, **more})
    member.subscribe([TOPIC])
    return member


@define
class Grouped:
    """The play, step by step; each step waits until the one before has taken effect."""

    brokers: Mapping[int, Node]
    stack: ExitStack
    members: list[Any] = field(factory=list[Any])
    admin: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        """Of all brokers."""
        return ",".join(node.address for node in self.brokers.values())

    def create(self, size: int) -> None:
        """The topic, with a record in each partition."""
        many = len(self.brokers)
        until("brokers", PATIENCE_S, lambda: len(self.admin.list_topics(timeout=5).brokers) == many)
        new = NewTopic(TOPIC, size, replication_factor=3)
        self.admin.create_topics([new])[TOPIC].result(PATIENCE_S)
        self.write(size)

    def write(self, size: int) -> None:
        """A record in each partition."""
        producer: Any = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for partition in range(size):
            producer.produce(TOPIC, b"x", partition=partition)
        producer.flush(PATIENCE_S)

    def joins(self) -> Any:
        """Another member."""
        member = consumer(self.bootstrap)
        self.members.append(member)
        return member

    def leaves(self, member: Any) -> None:
        """A member says goodbye."""
        self.members.remove(member)
        member.close()

    def poll(self, commits: bool = True) -> None:
        """Each member polls, and commits what it has read."""
        for member in self.members:
            message = member.poll(0.05)
            if message is None or message.error() is not None or not commits:
                continue
            try:
                member.commit(message=message, asynchronous=False)
            except KafkaException as refused:
                print("a commit is refused:", refused, flush=True)

    def balanced(self, size: int, others: int = 0) -> None:
        """Until the members have so many partitions, all but what others have."""

        def shared() -> bool:
            self.poll()
            each = [len(one.assignment()) for one in self.members]
            return sum(each) == size if not others else 0 < sum(each) < size

        until(f"{size} partitions shared", PATIENCE_S, shared)
        print("shared", [len(one.assignment()) for one in self.members], flush=True)

    def coordinator(self) -> int:
        """The leader of the partition that the group is on."""
        number = partition_for(GROUP, OFFSETS_PARTITIONS)
        for node in self.brokers.values():
            with suppress(OSError):
                found = partitions(node.port, OFFSETS_TOPIC)
                if number in found:
                    return found[number].leader
        return -1

    def play(self) -> None:
        """All of it."""
        self.create(4)
        self.joins()
        self.balanced(4)
        self.joins()
        self.balanced(4)
        self.write(4)
        third = self.joins()
        self.balanced(4)
        self.grow(6)
        self.kill()
        self.balanced(6)
        self.leaves(third)
        self.balanced(6)
        self.stop(6)
        self.write(6)
        self.balanced(6)
        for member in [*self.members]:
            self.leaves(member)
        self.reset()
        self.joins()
        self.balanced(6)
        self.leaves(self.members[0])

    def commit_of_another(self) -> None:
        """A member commits in a partition that the other one has."""
        self.create(2)
        first, second = self.joins(), self.joins()

        def one_each() -> bool:
            self.poll()
            return all(len(one.assignment()) == 1 for one in self.members)

        until("one partition each", PATIENCE_S, one_each)
        (theirs,) = second.assignment()
        first.commit(offsets=[TopicPartition(TOPIC, theirs.partition, 1)], asynchronous=False)
        self.leaves(second)
        self.leaves(first)

    def grow(self, size: int) -> None:
        """More partitions."""
        self.admin.create_partitions([NewPartitions(TOPIC, size)])[TOPIC].result(PATIENCE_S)
        self.balanced(size)

    def kill(self) -> None:
        """The coordinator is killed, and comes back when another one is at work."""
        old = self.coordinator()
        node = self.brokers[old]
        assert node.process is not None
        self.write(4)
        self.poll()
        node.signal(signal.SIGKILL)
        node.wait()
        until("another coordinator", PATIENCE_S, lambda: self.coordinator() not in (old, -1))
        self.write(4)
        for _ in range(40):
            self.poll()
        node.start()

    def stop(self, size: int) -> None:
        """A member is paused for longer than its session, and comes back as a zombie."""
        command = [sys.executable, "-m", "tests.kafka.grouped", "member", self.bootstrap]
        paused = subprocess.Popen(command)
        self.stack.callback(paused.wait)
        self.stack.callback(paused.kill)
        self.balanced(size, others=1)
        paused.send_signal(signal.SIGSTOP)
        self.balanced(size)
        paused.send_signal(signal.SIGCONT)
        self.balanced(size, others=1)
        paused.send_signal(signal.SIGKILL)
        paused.wait()
        self.balanced(size)

    def reset(self) -> None:
        """Offsets of the empty group are set by hand."""
        request = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 1)])

        def done() -> bool:
            try:
                self.admin.alter_consumer_group_offsets([request])[GROUP].result(PATIENCE_S)
            except KafkaException:
                return False
            return True

        until("offsets are set", PATIENCE_S, done)


def played(play: str, folder: Path, jars: Path | None = None) -> None:
    """Play all of it, or the method of this name, on three brokers of this folder."""
    with ExitStack() as stack:
        nodes = laid_out(folder, class_path(jars))
        for node in nodes.values():
            node.settings += SETTINGS
        brokers = stack.enter_context(started(nodes))
        getattr(Grouped(brokers, stack), play)()


def member(bootstrap: str) -> None:
    """A member, until it is killed."""
    one = consumer(bootstrap)
    while True:
        message = one.poll(0.1)
        if message is not None and message.error() is None:
            try:
                one.commit(message=message, asynchronous=False)
            except KafkaException as refused:
                print("a commit of the other is refused:", refused, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "member":
        member(sys.argv[2])
    else:
        played(sys.argv[1], *map(Path, sys.argv[2:]))
