"""Administrators' clients, recorded: a line for each group and topic, with its own outcome."""

from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,  # pyright: ignore[reportPrivateImportUsage]
)

from tests.traces.record.clients import lines
from traces.record import recorded
from traces.record.admin import ConfluentAdmin, KafkaPythonAdmin


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
