"""Topics: made by number or by hand, grown, deleted, and refused in Kafka's words."""

import pytest

from refimpl.controller.state import ControllerConfig
from refimpl.controller.topics import Defaults
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BROKER,
    TOPIC,
    BrokerUnregistered,
    ConfigResource,
    TopicDeleted,
)
from tests.refimpl.controller.asking import Asking

T = c.CreatableTopic


@pytest.mark.parametrize(
    ("topic", "error", "says"),
    [
        (T(""), "INVALID_TOPIC_EXCEPTION", "the empty string"),
        (T(".."), "INVALID_TOPIC_EXCEPTION", "'..' is not allowed"),
        (T("a" * 250), "INVALID_TOPIC_EXCEPTION", "longer than the max allowed length 249"),
        (T("a/b"), "INVALID_TOPIC_EXCEPTION", "other than ASCII alphanumerics"),
        (T("a_b"), "INVALID_TOPIC_EXCEPTION", "collides with existing topic: a.b"),
        (T("a.b"), "TOPIC_ALREADY_EXISTS", "Topic 'a.b' already exists."),
        (T("__cluster_metadata"), "INVALID_REQUEST", "prohibited"),
        (T("t", 1, 4), "INVALID_REPLICATION_FACTOR", "target replication factor of 4"),
        (T("t", 1, 0), "INVALID_REPLICATION_FACTOR", "larger than 0"),
        (T("t", 0, 1), "INVALID_PARTITIONS", "non-positive"),
        (T("t", 10_001), "POLICY_VIOLATION", "Excessively large"),
        (T("t", configs=(("k", None),)), "INVALID_CONFIG", "Null value not supported"),
        (T("t", configs=(("min.insync.replicas", "0"),)), "INVALID_CONFIG", "at least 1"),
        (T("t", 2, assignments=((0, (1,)),)), "INVALID_REQUEST", "numPartitions"),
        (T("t", -1, 2, assignments=((0, (1,)),)), "INVALID_REQUEST", "replication factor"),
        (T("t", assignments=((1, (1,)),)), "INVALID_REPLICA_ASSIGNMENT", "consecutive 0-based"),
        (T("t", assignments=((0, ()),)), "INVALID_REPLICA_ASSIGNMENT", "empty replica list"),
        (T("t", assignments=((0, (9,)),)), "INVALID_REPLICA_ASSIGNMENT", "no such broker"),
        (T("t", assignments=((0, (1, 1)),)), "INVALID_REPLICA_ASSIGNMENT", "more than once"),
        (
            T("t", assignments=((0, (1, 2)), (1, (3,)))),
            "INVALID_REPLICA_ASSIGNMENT",
            "not consistent with previous partitions",
        ),
        (
            T("t", assignments=((0, (1,)), (0, (2,)))),
            "INVALID_REPLICA_ASSIGNMENT",
            "Found multiple manual partition assignments for partition 0",
        ),
    ],
)
def test_a_topic_is_refused_and_nothing_has_changed(topic: T, error: str, says: str) -> None:
    asking = Asking()
    asking.create("a.b", (1,))
    version = asking.controller.metadata.metadata_version
    (created,) = asking.ask(c.CreateTopicsRequest((topic,))).topics
    assert created.error == error
    assert says in created.message
    assert list(asking.controller.metadata.topics) == ["a.b"]
    assert asking.controller.metadata.metadata_version == version


def test_the_name_of_a_deleted_topic_is_free_at_once() -> None:
    asking = Asking()
    for name in ("a", "b"):
        assert asking.ask(c.CreateTopicsRequest((T(name),))).topics[0].error is None
    asking.ask(c.DeleteTopicsRequest(("a",), ()))
    (again,) = asking.ask(c.CreateTopicsRequest((T("a"),))).topics
    assert again.error is None, again.message


def test_what_is_not_said_of_a_topic_is_the_controllers_default() -> None:
    asking = Asking(ControllerConfig(topics=Defaults(3, 2)))
    (created,) = asking.ask(c.CreateTopicsRequest((T("t"),))).topics
    assert (created.num_partitions, created.replication_factor) == (3, 2)
    (other,) = asking.ask(c.CreateTopicsRequest((T("u", 4, 1),))).topics
    assert (other.num_partitions, other.replication_factor) == (4, 1)
    topic = asking.controller.metadata.topics["t"]
    assert {len(one.replicas) for one in topic.partitions.values()} == {2}
    assert topic.topic_id == created.topic_id
    assert (topic.topic_id[6] >> 4, topic.topic_id[8] >> 6) == (4, 2)


def test_partitions_that_are_added_need_as_many_brokers_as_the_others_have() -> None:
    asking = Asking()
    asking.create("t", (1, 2, 3))
    asking.controller.state.change(BrokerUnregistered(3))
    wanted = c.CreatePartitionsRequest((c.NewPartitions("t", 2),))
    (result,) = asking.ask(wanted).topics
    assert result.error == "INVALID_REPLICATION_FACTOR"
    assert "target replication factor of 3" in result.message
    assert not result.message.startswith("Unable to replicate"), "that is said of new topics"
    (new,) = asking.ask(c.CreateTopicsRequest((T("n", 1, 3),))).topics
    assert new.message.startswith("Unable to replicate the partition 3 time(s): The target")


def test_only_asking_makes_nothing() -> None:
    asking = Asking()
    (created,) = asking.ask(c.CreateTopicsRequest((T("t", 2, 2),), validate_only=True)).topics
    assert created.error is None
    assert not asking.controller.metadata.topics


def test_one_topic_twice_is_not_made_and_others_are() -> None:
    asking = Asking()
    results = asking.ask(c.CreateTopicsRequest((T("t"), T("u"), T("t")))).topics
    assert {one.name: one.error for one in results} == {"u": None, "t": "INVALID_REQUEST"}


def test_fenced_brokers_are_in_no_new_isr_and_lead_nothing() -> None:
    asking = Asking()
    asking.controller.registry.fence(2)
    asking.controller.state.broker_changed(2)
    asking.create("t", (2, 1))
    assert asking.partition("t").decision.isr == {1}
    assert asking.partition("t").decision.leader == 1
    topic = T("u", assignments=((0, (2,)),))
    (refused,) = asking.ask(c.CreateTopicsRequest((topic,))).topics
    assert "are fenced or in controlled shutdown" in refused.message


def test_partitions_are_added_at_the_end() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    wanted = c.NewPartitions("t", 3)
    only = asking.ask(c.CreatePartitionsRequest((wanted,), validate_only=True)).topics
    assert only[0].error is None
    assert len(asking.controller.metadata.topics["t"].partitions) == 1
    asking.ask(c.CreatePartitionsRequest((wanted,)))
    assert [*asking.controller.metadata.topics["t"].partitions] == [0, 1, 2]
    by_hand = c.NewPartitions("t", 4, ((3, 1),))
    asking.ask(c.CreatePartitionsRequest((by_hand,)))
    assert asking.partition("t", 3).replicas == (3, 1)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (c.NewPartitions("t", 1), "INVALID_PARTITIONS"),
        (c.NewPartitions("t", 0), "INVALID_PARTITIONS"),
        (c.NewPartitions("u", 2), "UNKNOWN_TOPIC_OR_PARTITION"),
        (c.NewPartitions("t", 3, ((1, 2),)), "INVALID_REPLICA_ASSIGNMENT"),
        (c.NewPartitions("t", 2, ((1,),)), "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_partitions_are_refused(wanted: c.NewPartitions, error: str) -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    (result,) = asking.ask(c.CreatePartitionsRequest((wanted,))).topics
    assert result.error == error
    assert len(asking.controller.metadata.topics["t"].partitions) == 1


def test_topics_are_deleted_by_name_and_by_id_with_their_configurations() -> None:
    asking = Asking()
    asking.create("t", (1,), **{"retention.ms": "1"})
    asking.create("u", (1,))
    topic_id = asking.controller.metadata.topics["u"].topic_id
    results = asking.ask(c.DeleteTopicsRequest(("t", "v"), (topic_id,))).topics
    assert {one.name: one.error for one in results} == {
        "t": None,
        "u": None,
        "v": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    metadata = asking.controller.metadata
    assert (metadata.topics, metadata.partitions, metadata.configs) == ({}, {}, {})
    assert not asking.controller.partitions
    deleted = [one for one in asking.news[-1].changes if isinstance(one, TopicDeleted)]
    assert {one.name for one in deleted} == {"t", "u"}


def test_a_topic_that_is_named_twice_in_any_way_stays() -> None:
    asking = Asking()
    asking.create("t", (1,))
    topic_id = asking.controller.metadata.topics["t"].topic_id
    for body in (
        c.DeleteTopicsRequest(("t", "t")),
        c.DeleteTopicsRequest(("t",), (topic_id,)),
        c.DeleteTopicsRequest((), (topic_id, topic_id)),
    ):
        results = asking.ask(body).topics
        assert {one.error for one in results} == {"INVALID_REQUEST"}
    assert "t" in asking.controller.metadata.topics


def test_a_topic_made_anew_has_another_id() -> None:
    asking = Asking()
    asking.create("t", (1,))
    before = asking.controller.metadata.topics["t"].topic_id
    asking.ask(c.DeleteTopicsRequest(("t",)))
    asking.create("t", (1,))
    assert asking.controller.metadata.topics["t"].topic_id != before


def test_deletion_can_be_forbidden() -> None:
    asking = Asking(ControllerConfig(delete_topic_enable=False))
    asking.create("t", (1,))
    (result,) = asking.ask(c.DeleteTopicsRequest(("t",))).topics
    assert result.error == "TOPIC_DELETION_DISABLED"


def test_configurations_change_one_by_one_or_all_at_once() -> None:
    asking = Asking()
    asking.create("t", (1, 2), **{"retention.ms": "1"})
    topic = ConfigResource(TOPIC, "t")

    def alter(*alterations: tuple[str, int, str | None]) -> str | None:
        changes = tuple(c.ConfigAlteration(*one) for one in alterations)
        body = c.IncrementalAlterConfigsRequest(((topic, changes),))
        (result,) = asking.ask(body).resources
        return result.error

    configs = asking.controller.metadata.configs
    assert alter(("cleanup.policy", c.APPEND, "compact"), ("flush.ms", c.SET, "1")) is None
    assert configs[topic] == {
        "retention.ms": "1",
        "cleanup.policy": "delete,compact",
        "flush.ms": "1",
    }
    assert alter(("cleanup.policy", c.SUBTRACT, "delete"), ("flush.ms", c.DELETE, None)) is None
    assert configs[topic] == {"retention.ms": "1", "cleanup.policy": "compact"}
    assert alter(("retention.ms", c.APPEND, "2")) == "INVALID_CONFIG"
    assert alter(("min.insync.replicas", c.SET, "two")) == "INVALID_CONFIG"
    asking.ask(c.AlterConfigsRequest(((topic, {"min.insync.replicas": "2"}),)))
    assert configs[topic] == {"min.insync.replicas": "2"}
    assert asking.controller.partitions[TopicPartition("t", 0)].state.min_isr == 2


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (ConfigResource(TOPIC, "u"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (ConfigResource(BROKER, "9"), "BROKER_ID_NOT_REGISTERED"),
        (ConfigResource(BROKER, "x"), "INVALID_REQUEST"),
    ],
)
def test_what_is_not_there_has_no_configuration(resource: ConfigResource, error: str) -> None:
    change = c.ConfigAlteration("flush.ms", c.SET, "1")
    body = c.IncrementalAlterConfigsRequest(((resource, (change,)),))
    (result,) = Asking().ask(body).resources
    assert result.error == error


def test_another_min_isr_ends_what_the_elr_stood_for() -> None:
    asking = Asking()
    asking.create("t", (1, 2), **{"min.insync.replicas": "2"})
    asking.alter_isr("t", 1)
    assert asking.partition("t").elr == {2}
    change = c.ConfigAlteration("min.insync.replicas", c.SET, "1")
    resource = ConfigResource(TOPIC, "t")
    asking.ask(c.IncrementalAlterConfigsRequest(((resource, (change,)),)))
    assert asking.partition("t").elr == frozenset()


def test_quotas_are_kept_by_entity() -> None:
    asking = Asking()
    entity = (("user", "u"), ("client-id", None))

    def alter(*operations: tuple[str, float | None], of: object = entity) -> str | None:
        body = c.AlterClientQuotasRequest((c.QuotaAlteration(of, operations),))  # type: ignore[arg-type]
        (result,) = asking.ask(body).entities
        return result.error

    assert alter(("producer_byte_rate", 10.0), ("request_percentage", 0.5)) is None
    assert alter(("request_percentage", None)) is None
    assert asking.controller.metadata.quotas == {frozenset(entity): {"producer_byte_rate": 10.0}}
    assert alter(("producer_byte_rate", 1.5)) == "INVALID_REQUEST"
    assert alter(("producer_byte_rate", 0.0)) == "INVALID_REQUEST"
    assert alter(("connection_creation_rate", 1.0)) == "INVALID_REQUEST"
    assert alter(("connection_creation_rate", 1.0), of=(("ip", "127.0.0.1"),)) is None
    assert alter(("request_percentage", 1.0), of=(("ip", "h"), ("user", "u"))) == "INVALID_REQUEST"
    assert alter(("request_percentage", 1.0), of=()) == "INVALID_REQUEST"


def test_producer_ids_come_in_blocks_that_nobody_else_gets() -> None:
    asking = Asking()
    blocks = [asking.ask(c.AllocateProducerIdsRequest(1, 1)) for _ in range(2)]
    assert [one.first_producer_id for one in blocks] == [0, 1000]
    assert asking.ask(c.AllocateProducerIdsRequest(1, 9)).error == "STALE_BROKER_EPOCH"
