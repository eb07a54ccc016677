"""Administrators' clients, recorded: a line for each group and topic, with its own outcome."""

import warnings
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewPartitions,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from tests.traces.record.clients import lines
from traces.record import recorded
from traces.record.confluent_admin import ConfluentAdmin
from traces.record.kafka_python_admin import KafkaPythonAdmin

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own files
    kafka_admin: Any = import_module("kafka.admin")


def settled(error: Exception | None = None) -> Future[None]:
    future: Future[None] = Future()
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    return future


@define
class Topic:
    partitions: dict[int, Any]
    error: None = None


@define
class Listing:
    topics: dict[str, Topic]


def confluent_client(answers: dict[str, Future[None]]) -> Any:
    """An AdminClient of the library's own class, whose requests are answered so."""

    class Answering(AdminClient):
        def delete_consumer_groups(self, group_ids: list[str], **_: Any) -> Any:
            return {name: answers[name] for name in group_ids}

        def alter_consumer_group_offsets(
            self, alter_consumer_group_offsets_request: list[Any], **_: Any
        ) -> Any:
            groups = [one.group_id for one in alter_consumer_group_offsets_request]
            return {name: answers[name] for name in groups}

        def create_partitions(self, new_partitions: list[Any], **_: Any) -> Any:
            return {one.topic: answers[one.topic] for one in new_partitions}

        def list_topics(self, topic: str, timeout: float = 0) -> Any:
            return Listing({topic: Topic({0: None, 1: None})})

    return Answering({"bootstrap.servers": "127.0.0.1:1"})


def test_what_confluents_administrator_does_to_groups_and_partitions(tmp_path: Path) -> None:
    refused = KafkaException(KafkaError(KafkaError.NON_EMPTY_GROUP))
    client = confluent_client({"g": settled(), "h": settled(refused), "t": settled()})
    admin = recorded(client, tmp_path, name="a")
    assert isinstance(admin, ConfluentAdmin)
    admin.delete_consumer_groups(["g", "h"])
    moved = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0, 7)])
    admin.alter_consumer_group_offsets([moved])
    admin.create_partitions([NewPartitions("t", 6)])
    admin.close()
    found = lines(tmp_path, "a#0")
    about = [(x["op"], x["outcome"], x.get("group"), x.get("error")) for x in found[:3]]
    assert about == [
        ("delete_groups", "ok", "g", None),
        ("delete_groups", "fail", "h", "NON_EMPTY_GROUP"),
        ("alter_offsets", "ok", "g", None),
    ]
    assert found[2]["offsets"] == {"t:0": 7}
    counts = [(x["op"], x["partition_counts"]) for x in found[3:5]]
    assert counts == [("metadata", {"t": 2}), ("create_partitions", {"t": 6})]
    assert [x["op"] for x in found[5:]] == ["close"]


def test_what_an_administrator_makes_of_a_topics_settings_is_told(tmp_path: Path) -> None:
    def topic(**more: Any) -> ConfigResource:
        return ConfigResource(ResourceType.TOPIC, "t", **more)

    class Answering(AdminClient):
        def describe_configs(self, resources: list[Any], **_: Any) -> Any:
            future: Future[Any] = Future()
            names = ("unclean.leader.election.enable", "retention.ms")
            future.set_result({n: ConfigEntry(n, "false") for n in names})
            return dict.fromkeys(resources, future)

        def incremental_alter_configs(self, resources: list[Any], **_: Any) -> Any:
            return {one: settled() for one in resources}

        alter_configs = incremental_alter_configs

    admin = recorded(Answering({"bootstrap.servers": "127.0.0.1:1"}), tmp_path, name="a")
    unclean = "unclean.leader.election.enable"
    set_, gone = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    entries = [
        ConfigEntry(unclean, "true", incremental_operation=set_),
        ConfigEntry("min.insync.replicas", "1", incremental_operation=gone),
    ]
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    admin.incremental_alter_configs([topic(incremental_configs=entries), broker])
    admin.alter_configs([topic(set_config={"min.insync.replicas": "1"})])
    admin.incremental_alter_configs([topic(incremental_configs=entries)], validate_only=True)
    admin.close()
    was = {"t": {"unclean_leader_election": False}}
    found = [(x["op"], x["outcome"], x.get("topic_settings")) for x in lines(tmp_path, "a#0")]
    assert found == [
        ("metadata", "ok", was),
        ("alter_configs", "ok", {"t": {"unclean_leader_election": True}}),
        ("metadata", "ok", was),
        ("alter_configs", "ok", {"t": {"min_insync_replicas": 1}}),
        ("close", "ok", None),
    ]


def test_kafka_pythons_administrator_tells_settings_as_well(tmp_path: Path) -> None:
    @define
    class KafkaAdminClient:
        validated: bool = False

        def describe_configs(self, asked: list[Any], config_filter: str) -> Any:
            return {"topic": {one.name: {"min.insync.replicas": {"value": "2"}} for one in asked}}

        def alter_configs(self, asked: list[Any], validate_only: bool = False) -> Any:
            self.validated |= validate_only

        def create_partitions(self) -> None: ...

    KafkaAdminClient.__module__ = "kafka.admin.client"
    admin = recorded(KafkaAdminClient(), tmp_path, name="a")
    configs = {"min.insync.replicas": (kafka_admin.AlterConfigOp.SET, "1")}
    configs["cleanup.policy"] = (kafka_admin.AlterConfigOp.APPEND, "compact")
    topic = kafka_admin.ConfigResource("topic", "t", configs)
    admin.alter_configs([topic])
    admin.alter_configs([topic], validate_only=True)
    admin.close()
    found = [(x["op"], x.get("topic_settings")) for x in lines(tmp_path, "a#0")]
    assert found == [
        ("metadata", {"t": {"min_insync_replicas": 2}}),
        ("alter_configs", {"t": {"min_insync_replicas": 1}}),
        ("close", None),
    ]


def test_what_confluents_administrator_does_to_topics(tmp_path: Path) -> None:
    @define
    class Description:
        topic_id: str

    ids = {"t": ["AQEBAQEBAQEBAQEBAQEBAQ", "AgICAgICAgICAgICAgICAg"], "u": ["A" * 22]}
    exists = settled(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))

    class Answering(AdminClient):
        def create_topics(self, new_topics: list[Any], **_: Any) -> Any:
            return {one.topic: exists if one.topic == "u" else settled() for one in new_topics}

        def delete_topics(self, topics: list[str], **_: Any) -> Any:
            for topic in topics:
                ids[topic].pop(0)
            return {topic: settled() for topic in topics}

        def describe_topics(self, topics: Any, **_: Any) -> Any:
            futures: dict[str, Any] = {}
            for topic in topics.topic_names:
                futures[topic] = Future()
                futures[topic].set_result(Description(ids[topic][0]))
            return futures

    admin = recorded(Answering({"bootstrap.servers": "127.0.0.1:1"}), tmp_path, name="a")
    admin.create_topics([NewTopic("t", 2, 1), NewTopic("u", 1, 1)])
    admin.create_topics([NewTopic("v", 2, 1)], validate_only=True)
    admin.delete_topics(["t"])
    admin.create_topics([NewTopic("t")])
    admin.close()
    found = lines(tmp_path, "a#0")
    changes = [x for x in found if x["op"] not in ("describe_topics", "close")]
    assert [(x["op"], x["topics"], x["outcome"]) for x in changes] == [
        ("create_topics", ["t"], "ok"),
        ("create_topics", ["u"], "fail"),
        ("delete_topics", ["t"], "ok"),
        ("create_topics", ["t"], "ok"),
    ]
    assert [x.get("partition_counts") for x in changes] == [{"t": 2}, {"u": 1}, None, None]
    asked = [x["topic_ids"]["t"][:2] for x in found if x["op"] == "describe_topics"]
    assert list(dict.fromkeys(asked)) == ["AQ", "Ag"]
    before = [x["op"] for x in found[: found.index(changes[2])]]
    assert "describe_topics" in before  # the id is asked for before it is deleted


def test_an_exception_about_several_topics_tells_of_none_for_sure(tmp_path: Path) -> None:
    client = KafkaAdminClient(refusal=GroupIdNotFoundError())
    admin = recorded(client, tmp_path, name="a")
    with suppress(GroupIdNotFoundError):
        admin.delete_topics(["t", "u"])
    with suppress(GroupIdNotFoundError):
        admin.delete_groups(["g", "h"])
    client.refusal, client.answer = None, {"topics": [{"name": "t", "error_code": 36}]}
    admin.create_topics({"t": {"num_partitions": 2}, "u": {}}, raise_errors=False)
    admin.create_topics(["v"], None, True)
    admin.close()
    found = [(x["op"], x["outcome"], x.get("error")) for x in lines(tmp_path, "a#0")]
    assert found == [
        *[("delete_topics", "info", "GROUP_ID_NOT_FOUND")] * 2,
        *[("delete_groups", "info", "GROUP_ID_NOT_FOUND")] * 2,
        ("create_topics", "fail", "TOPIC_ALREADY_EXISTS"),
        ("create_topics", "info", None),
        ("close", "ok", None),
    ]


class GroupIdNotFoundError(Exception):
    """As kafka-python's, which tells the broker's code."""

    errno = 69


@define
class KafkaAdminClient:
    """As kafka-python's: it returns with the answer, or raises."""

    refusal: Exception | None = None
    asked: list[Any] = field(factory=list[Any])
    answer: Any = None

    def delete_groups(self, group_ids: list[str]) -> Any:
        return self._answer(group_ids)

    def delete_group_offsets(self, group_id: str, partitions: list[Any]) -> Any:
        return self._answer((group_id, partitions))

    def create_partitions(self, topic_partitions: dict[str, Any]) -> Any:
        return self._answer(topic_partitions)

    def create_topics(self, new_topics: Any, *_: Any, raise_errors: bool = True) -> Any:
        return self._answer(new_topics)

    def delete_topics(self, topics: list[str]) -> Any:
        return self._answer(topics)

    def close(self) -> None:
        pass

    def _answer(self, asked: Any) -> Any:
        self.asked.append(asked)
        if self.refusal is not None:
            raise self.refusal
        return self.answer


KafkaAdminClient.__module__ = "kafka.admin.client"


def test_what_kafka_pythons_administrator_does_to_groups_and_partitions(tmp_path: Path) -> None:
    client = KafkaAdminClient()
    admin = recorded(client, tmp_path, name="a")
    assert isinstance(admin, KafkaPythonAdmin)
    admin.delete_group_offsets("g", [TopicPartition("t", 1)])
    admin.create_partitions({"t": 4})
    client.refusal = GroupIdNotFoundError()
    with suppress(GroupIdNotFoundError):
        admin.delete_groups(["g"])
    client.refusal, client.answer = None, {"g": GroupIdNotFoundError}
    admin.delete_groups(["g"])
    admin.close()
    found = lines(tmp_path, "a#0")
    assert [(x["op"], x["outcome"]) for x in found] == [
        ("delete_offsets", "ok"),
        ("create_partitions", "ok"),
        ("delete_groups", "fail"),
        ("delete_groups", "info"),
        ("close", "ok"),
    ]
    assert found[0]["partitions"] == ["t:1"]
    assert found[1]["partition_counts"] == {"t": 4}
