"""A scenario in which replicas are removed, moved between brokers or log directories, and elected.

Its records are many and large, so that a replica which copies them can be caught in between. The
throttles are those that kafka-reassign-partitions sets.
"""

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.asking import ask
from examples.brokers import NotInTimeError, listens, until
from examples.scenario import Scenario, Sent

METADATA, ALTER_REPLICA_LOG_DIRS, ALTER_PARTITION_REASSIGNMENTS = 3, 34, 45
INCREMENTAL_ALTER_CONFIGS, DESCRIBE_TOPIC_PARTITIONS = 44, 75
TOPIC_RESOURCE, BROKER_RESOURCE, SET = 2, 4, 0
NO_TOPICS: Mapping[str, Any] = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
#: A broker that is killed is fenced after broker.session.timeout.ms (9 s), and the next leads.
ELECTED_S = 20
#: Until a broker has applied a setting that it has been sent, in seconds, and more.
APPLIED_S = 1.0
THROTTLED, UNTHROTTLED = 300_000, 300_000_000
#: The leader of a partition that has none, and of one of which a broker does not answer.
NOBODY, UNKNOWN = -1, -2


@frozen
class Known:
    """A partition, as DescribeTopicPartitions has it."""

    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int]

    def __str__(self) -> str:
        leader = "none" if self.leader == NOBODY else self.leader
        isr, elr = sorted(self.isr), sorted(self.elr)
        return f"leader {leader}, replicas {[*self.replicas]}, ISR {isr}, ELR {elr}"


@define
class ControlPlane(Scenario):
    """Records of one partition, and what the controller knows of it."""

    number: int = 0
    """The partition."""
    asked: int = 3
    """The broker that is asked for all of it: it stays up."""
    sent: list[Sent] = field(factory=list[Sent], init=False)

    def loss(self, values: list[bytes]) -> str | None:
        lost = [one.value for one in self.sent if one.value.encode() not in values]
        if not lost:
            return None
        return f"{len(lost)} of {len(self.sent)} acknowledged records are lost."

    def kept(self) -> str:
        return f"All {len(self.sent)} acknowledged records are read."

    def create(self, assignment: list[list[int]], **config: object) -> None:
        """A topic of as many partitions, all of whose replicas are in sync."""
        until("the brokers", 60, lambda: self.alive() == {*self.brokers})
        settings = {name.replace("_", "."): str(value) for name, value in config.items()}
        settings = {"min.insync.replicas": str(self.min_isr), **settings}
        topic = NewTopic(
            self.topic, len(assignment), replica_assignment=assignment, config=settings
        )
        self.admin.create_topics([topic])[self.topic].result(60)
        for number, replicas in enumerate(assignment):
            self.await_isr(set(replicas), number)

    def known(self, number: int | None = None) -> Known | None:
        """The partition, if its broker knows of it."""
        body = {"topics": [{"name": self.topic}], "response_partition_limit": 100, "cursor": None}
        try:
            answer = ask(self.brokers[self.asked].port, DESCRIBE_TOPIC_PARTITIONS, 0, body)
        except OSError:
            return None
        number = self.number if number is None else number
        for topic in answer.topics:
            for one in topic.partitions:
                if one.partition_index == number:
                    elr = frozenset(map(int, one.eligible_leader_replicas or ()))
                    replicas, isr = map(int, one.replica_nodes), map(int, one.isr_nodes)
                    return Known(int(one.leader_id), tuple(replicas), frozenset(isr), elr)
        return None

    def state(self) -> tuple[int, set[int]]:
        known = self.known()
        return (UNKNOWN, set()) if known is None else (known.leader, {*known.isr})

    def alive(self) -> set[int]:
        """The brokers that are not fenced, as the broker says that is asked."""
        try:
            answer = ask(self.brokers[self.asked].port, METADATA, 8, NO_TOPICS)
        except OSError:
            return set()
        return {int(one.node_id) for one in answer.brokers}

    def await_isr(self, isr: set[int], number: int | None = None, seconds: float = 120) -> None:
        def in_sync() -> bool:
            known = self.known(number)
            return known is not None and {*known.isr} == isr and known.leader in isr

        until(f"ISR {isr}", seconds, in_sync)

    def reassign(self, target: Mapping[int, list[int] | None]) -> None:
        """As kafka-reassign-partitions --execute does, or --cancel where no target is named."""
        parts = [{"partition_index": one, "replicas": to} for one, to in target.items()]
        asked = {"timeout": 60_000, "topics": [{"name": self.topic, "partitions": parts}]}
        answer = self._ask(self.asked, ALTER_PARTITION_REASSIGNMENTS, 0, asked)
        errors = [one.error_code for topic in answer.responses for one in topic.partitions]
        if refused := [error for error in [answer.error_code, *errors] if error]:
            raise NotInTimeError(f"the reassignment is refused: error code {refused[0]}")
        moved = {one: "cancelled" if to is None else to for one, to in target.items()}
        self.fault(f"reassignment: {moved}")

    def move(self, broker: int, directory: Path) -> None:
        """Move the replica of a broker to another log directory of it, as the same tool does."""
        topics = [{"name": self.topic, "partitions": [self.number]}]
        asked = {"dirs": [{"path": str(directory), "topics": topics}]}
        answer = self._ask(broker, ALTER_REPLICA_LOG_DIRS, 1, asked)
        ((error,),) = [[one.error_code for one in each.partitions] for each in answer.results]
        if error:
            raise NotInTimeError(f"the move is refused: error code {error}")
        self.fault(f"the replica of broker {broker} is moved to {directory.name}")

    def throttle(self, broker: int, rate: int = THROTTLED) -> None:
        """The bytes a second that a leader sends to throttled replicas."""
        self.configure_topic(**{"leader.replication.throttled.replicas": "*"})
        self.configure_broker(broker, **{"leader.replication.throttled.rate": rate})

    def configure_topic(self, **settings: object) -> None:
        self._configure(self.asked, TOPIC_RESOURCE, self.topic, settings)

    def configure_broker(self, broker: int, **settings: object) -> None:
        self._configure(broker, BROKER_RESOURCE, str(broker), settings)

    def _configure(self, asked: int, kind: int, name: str, settings: Mapping[str, object]) -> None:
        """A client of Kafka might ask a broker that is down, and a broker answers for itself."""
        configs = [
            {"name": key.replace("_", "."), "config_operation": SET, "value": str(value)}
            for key, value in settings.items()
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        body = {"resources": [resource], "validate_only": False}
        (answer,) = self._ask(asked, INCREMENTAL_ALTER_CONFIGS, 0, body).responses
        if answer.error_code:
            raise NotInTimeError(f"the configuration is refused: {answer.error_message}")
        time.sleep(APPLIED_S)

    def _ask(self, broker: int, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """The answer of a broker that is up, and has to give one."""
        try:
            return ask(self.brokers[broker].port, key, version, body, patience_s=60)
        except OSError as silent:
            raise NotInTimeError(f"broker {broker} does not answer: {silent}") from silent

    def write_many(self, count: int, size: int = 0, prefix: str = "") -> None:
        """Records of this size or more, all acknowledged."""
        first = len(self.sent)
        new = [
            Sent(self.producer, self.topic, f"{prefix}{first + one}".ljust(size, "."), self.number)
            for one in range(count)
        ]
        for one in new:
            one.wait(60)
        self.sent += new
        self.say(f"{count} records acknowledged, at {new[0].offset} to {new[-1].offset}")

    def write(self, value: str, seconds: float) -> None:
        """One more, which is not among those that may be lost."""
        sent = Sent(self.producer, self.topic, value, self.number)
        sent.wait(seconds)
        self.say(f"{value} acknowledged at offset {sent.offset}")

    def read(self) -> list[bytes]:
        """Everything in the partition, by a consumer of its own."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "log_level": 0}
        consumer: Any = Consumer({**settings, "enable.auto.commit": False})
        where = TopicPartition(self.topic, self.number)
        start, end = consumer.get_watermark_offsets(where, 30)
        consumer.assign([TopicPartition(self.topic, self.number, start)])
        values: list[bytes] = []
        while len(values) < end - start and (message := consumer.poll(30)) is not None:
            values.append(message.value())
        consumer.close()
        self.say(f"a consumer reads {len(values)} records, at {start} to {end - 1}")
        return values

    def stop(self, broker: int) -> None:
        """In good order."""
        self.fault(f"SIGTERM broker {broker}")
        self.brokers[broker].signal(signal.SIGTERM)
        self.brokers[broker].wait()

    def kill(self, broker: int) -> None:
        self.say(self.logs())
        self.fault(f"SIGKILL broker {broker}")
        self.brokers[broker].signal(signal.SIGKILL)
        self.brokers[broker].wait()

    def start(self, broker: int) -> None:
        """The broker is unfenced, and answers."""
        node = self.brokers[broker]
        node.start()
        until(f"broker {broker}", 120, lambda: broker in self.alive() and listens(node))

    def see_who_is_elected(self, after: int) -> None:
        """As soon as a leader is gone; nobody may be."""
        until("the leader to go", ELECTED_S, lambda: self.state()[0] not in (after, UNKNOWN))
        try:
            until("a leader", APPLIED_S, lambda: self.state()[0] >= 0)
        except NotInTimeError:
            self.say(f"nobody is elected: {self.known()}")
        else:
            self.say(f"broker {self.state()[0]} is elected: {self.known()}")

    def refuse_whole_copy(self, of: int) -> None:
        """Raise NotInTimeError if the new leader has all of this broker's log: nothing is lost."""
        leader = self.state()[0]
        if leader >= 0 and self.copied(leader) >= self.copied(of):
            raise NotInTimeError(f"broker {leader} had copied all before broker {of} was killed")

    def await_whole(self, isr: set[int], said: str = "all in sync") -> None:
        """All brokers run again: somebody leads, and without a throttle all replicas are copied."""
        until("a leader", 60, lambda: self.state()[0] >= 0)
        self.throttle(1, UNTHROTTLED)
        self.await_isr(isr)
        self.say(f"{said}: {self.known()}; {self.logs()}")

    def folders(self, broker: int) -> list[Path]:
        """The folders of the partition: its log, or copies and remains of it."""
        found = self.brokers[broker].folder.glob(f"data*/{self.topic}-{self.number}*")
        return sorted(found)

    def copied(self, broker: int) -> int:
        """Bytes in the first segment of the partition."""
        logs = self.brokers[broker].folder.glob(f"data*/{self.topic}-{self.number}/{0:020}.log")
        return sum(log.stat().st_size for log in logs)

    def logs(self) -> str:
        """The bytes of the first segments, by broker and directory."""
        found = [
            f"{broker}/{folder.parent.name}{self._kind(folder)} {one.stat().st_size}"
            for broker in self.brokers
            for folder in self.folders(broker)
            for one in folder.glob(f"{0:020}.log")
            if one.stat().st_size or not self._kind(folder)
        ]
        return f"log sizes {', '.join(found)}"

    def _kind(self, folder: Path) -> str:
        """Empty for a log, else `future` or `delete`: a copy, or what is about to be deleted."""
        kind = folder.name.removeprefix(f"{self.topic}-{self.number}").rpartition("-")[2]
        return f" ({kind})" if kind else ""
