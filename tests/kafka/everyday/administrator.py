"""An administrator of a cluster: Kafka's own tools and an admin client, none recorded."""

import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
from attrs import define, field
from confluent_kafka import TopicPartition
from confluent_kafka import admin as confluent_admin
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.cluster import KafkaCluster
from chaos.real.kafka.judge import Judge, ToolOutput
from tests.kafka.everyday.waiting import until

confluent: Any = confluent_kafka
admin_client: Any = confluent_admin
PATIENCE_S = 60
TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
NOTHING = -1001


@define
class Administrator:
    """A cluster and the tools for it. The tools share one JVM, so one runs at a time."""

    up: KafkaCluster
    judge: Judge
    folder: Path
    _one: threading.Lock = field(factory=threading.Lock)

    _admin: Any = None

    @classmethod
    def of(cls, client: Any, other: "Administrator") -> "Administrator":
        """That of another cluster, by its admin client: what it asks by tools is the other's."""
        return cls(other.up, other.judge, other.folder, other._one, client)

    @property
    def admin(self) -> Any:
        return self.up.admin if self._admin is None else self._admin

    @contextmanager
    def tools(self) -> Generator[None]:
        """The JVM of the tools, for itself."""
        with self._one:
            yield

    def run(self, tool: str, *arguments: str | Path) -> ToolOutput:
        with self._one:
            return self.judge.run(tool, "--bootstrap-server", self.up.bootstrap, *arguments)

    def out(self, tool: str, *arguments: str | Path) -> str:
        """The output of a tool that must succeed."""
        answer = self.run(tool, *arguments)
        assert answer.status == 0, answer
        return answer.out

    def create(self, topic: str, partitions: int = 1, **settings: Any) -> None:
        """A topic with three replicas, of which two have to be in sync."""
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.up.create(topic, partitions, {"min.insync.replicas": "2", **named})

    def create_at(self, topic: str, *replicas: list[int], **settings: object) -> None:
        """A topic, the replicas of each partition given."""
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = {"min.insync.replicas": "2", **named}
        new: Any = NewTopic
        made = new(topic, len(replicas), replica_assignment=list(replicas), config=config)
        self.admin.create_topics([made])[topic].result(PATIENCE_S)
        self.up.wait_until_healed(topic)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(PATIENCE_S)
        until(f"{topic} to be gone", lambda: topic not in self.admin.list_topics(timeout=9).topics)

    def configure(self, topic: str, **settings: object) -> None:
        """Change some settings of a topic, and wait until they are told so."""
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        change = admin_client.AlterConfigOpType.SET
        entries = [
            admin_client.ConfigEntry(name, value, incremental_operation=change)
            for name, value in named.items()
        ]
        of_topic = admin_client.ResourceType.TOPIC
        resource = admin_client.ConfigResource(of_topic, topic, incremental_configs=entries)
        (done,) = self.admin.incremental_alter_configs([resource]).values()
        done.result(PATIENCE_S)
        until("the settings", lambda: named.items() <= self.settings(topic).items())

    def settings(self, topic: str) -> dict[str, str]:
        resource = admin_client.ConfigResource(admin_client.ResourceType.TOPIC, topic)
        (told,) = self.admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in told.result(PATIENCE_S).items()}

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Log start and high watermark."""
        client = self.quiet_consumer("watermarks")
        try:
            return client.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        finally:
            client.close()

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        asked = [confluent.TopicPartition(topic, partition, before)]
        (done,) = self.admin.delete_records(asked).values()
        done.result(PATIENCE_S)

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        asked = confluent.ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        (done,) = self.admin.list_consumer_group_offsets([asked]).values()
        return done.result(PATIENCE_S).topic_partitions[0].offset

    def empty(self, group: str) -> None:
        """Wait until no member is left."""
        until(f"{group} to be empty", lambda: self.state(group) in ("EMPTY", "DEAD", "UNKNOWN"))

    def state(self, group: str) -> str:
        (done,) = self.admin.describe_consumer_groups([group]).values()
        return done.result(PATIENCE_S).state.name

    def protocol(self, group: str) -> str:
        """`CLASSIC` or `CONSUMER`."""
        (done,) = self.admin.describe_consumer_groups([group]).values()
        return done.result(PATIENCE_S).type.name

    def reset(self, group: str, topic: str, *how: str) -> str:
        """`kafka-consumer-groups --reset-offsets`, once nobody is in the group."""
        self.empty(group)
        named = ("--reset-offsets", "--group", group, "--topic", topic)
        return self.out(GROUPS, *named, *how, "--execute")

    def reassign(self, name: str, moves: list[dict[str, Any]]) -> None:
        """`kafka-reassign-partitions`, until it is complete."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"version": 1, "partitions": moves}))
        named = ("--reassignment-json-file", path)
        self.out(REASSIGN, *named, "--execute", "--additional")
        until("the reassignment", lambda: self._complete(self.out(REASSIGN, *named, "--verify")))

    @staticmethod
    def _complete(said: str) -> bool:
        going_on = re.search(r"still in progress|not found|is not yet", said)
        return "complete" in said and going_on is None

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.up.partitions(topic)[partition].leader

    def quiet_consumer(self, group: str, **more: object) -> Any:
        """A consumer that nobody records."""
        conf: dict[str, Any] = {"bootstrap.servers": self.up.bootstrap, "group.id": group}
        conf |= {"enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0}
        return confluent.Consumer(conf | {k.replace("_", "."): v for k, v in more.items()})

    def quiet_producer(self, **more: object) -> Any:
        """A producer that nobody records."""
        conf: dict[str, Any] = {"bootstrap.servers": self.up.bootstrap, "acks": "all"}
        conf |= {"enable.idempotence": True, "log_level": 0}
        return confluent.Producer(conf | {k.replace("_", "."): v for k, v in more.items()})

    def contents(self, topic: str) -> list[Any]:
        """All messages of a topic, as a dump takes them."""
        partitions = self.up.partitions(topic)
        ends = {number: self.watermarks(topic, number)[1] for number in partitions}
        client = self.quiet_consumer(f"dump-{topic}", enable_partition_eof=True)
        found: list[Any] = []
        try:
            client.assign([TopicPartition(topic, number, 0) for number in partitions])
            at_end: set[int] = set()
            while len(at_end) < len(ends):
                message = client.poll(1)
                if message is not None and message.error():
                    at_end.add(message.partition())
                elif message is not None:
                    found.append(message)
        finally:
            client.close()
        return found
