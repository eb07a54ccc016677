"""The admin clients of librdkafka, kafka-python and aiokafka: what they ask for happens."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import asyncio
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge.testing.blocking import BlockingCluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own files
    kafka_admin: Any = import_module("kafka.admin")
aiokafka: Any = import_module("aiokafka.admin")
resources: Any = import_module("aiokafka.admin.config_resource")
confluent: Any = import_module("confluent_kafka")
confluent_admin: Any = import_module("confluent_kafka.admin")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with BlockingCluster(brokers=3, seed=1) as cluster:
        yield cluster


def result(futures: Any) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(10)


def test_librdkafka_administers(cluster: Any) -> None:
    admin = confluent_admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = confluent_admin.NewTopic("rd", 2, 3, config={"retention.ms": "1000"})
    result(admin.create_topics([new]))
    with pytest.raises(confluent.KafkaException, match=r"Topic 'rd' already exists\."):
        result(admin.create_topics([new]))
    result(admin.create_partitions([confluent_admin.NewPartitions("rd", 4)]))
    assert len(admin.list_topics("rd", timeout=60).topics["rd"].partitions) == 4
    resource = confluent_admin.ConfigResource("topic", "rd")
    assert result(admin.describe_configs([resource]))["retention.ms"].value == "1000"
    operation = confluent_admin.AlterConfigOpType.SET
    entry = confluent_admin.ConfigEntry("retention.ms", "2000", incremental_operation=operation)
    change = confluent_admin.ConfigResource("topic", "rd", incremental_configs=[entry])
    result(admin.incremental_alter_configs([change]))
    assert result(admin.describe_configs([resource]))["retention.ms"].value == "2000"
    partition = confluent.TopicPartition("rd", 0, 0)
    assert result(admin.delete_records([partition])).low_watermark == 0
    preferred = confluent.ElectionType.PREFERRED
    elected = admin.elect_leaders(preferred, [partition]).result(10)
    assert [error.name() for error in elected.values()] == ["ELECTION_NOT_NEEDED"]
    assert len(admin.describe_cluster().result(10).nodes) == 3
    topics = confluent.TopicCollection(["rd"])
    assert len(result(admin.describe_topics(topics)).partitions) == 4
    assert "rd" in admin.list_topics(timeout=60).topics
    result(admin.delete_topics(["rd"]))
    with pytest.raises(confluent.KafkaException, match="Unknown topic"):
        result(admin.describe_topics(topics))


def test_kafka_python_administers(cluster: Any) -> None:
    admin = kafka_admin.KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        new = kafka_admin.NewTopic("py", 2, 3, topic_configs={"retention.ms": "1000"})
        admin.create_topics([new])
        assert "py" in admin.list_topics()
        admin.create_partitions({"py": kafka_admin.NewPartitions(3)})
        (described,) = admin.describe_topics(["py"])
        assert len(described["partitions"]) == 3
        assert len(admin.describe_cluster()["brokers"]) == 3
        admin.delete_topics(["py"])
        assert "py" not in admin.list_topics()
    finally:
        admin.close()


def test_aiokafka_administers(cluster: Any) -> None:
    topic = resources.ConfigResourceType.TOPIC

    async def administer() -> None:
        admin = aiokafka.AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            new = aiokafka.NewTopic("aio", 2, 3, topic_configs={"retention.ms": "1000"})
            await admin.create_topics([new])
            await admin.create_partitions({"aio": aiokafka.NewPartitions(3)})
            (described,) = await admin.describe_topics(["aio"])
            assert len(described["partitions"]) == 3
            change = resources.ConfigResource(topic, "aio", configs={"retention.ms": "2000"})
            await admin.alter_configs([change])
            asked = resources.ConfigResource(topic, "aio", configs={"retention.ms": None})
            (answer,) = await admin.describe_configs([asked])
            assert answer.resources[0][4][0][:2] == ("retention.ms", "2000")
            assert len((await admin.describe_cluster())["brokers"]) == 3
            await admin.delete_topics(["aio"])
            assert "aio" not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(administer())
