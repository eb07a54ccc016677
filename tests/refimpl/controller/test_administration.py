"""Operators' requests to the controller: the changes each makes, and everything that it keeps."""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define

from refimpl.controller.administration import DASH, METADATA_TOPIC, ZERO_ID
from refimpl.controller.configs import MIN_ISR
from refimpl.controller.state import ControllerConfig
from refimpl.controller.topics import MOST_PARTITIONS, Defaults
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BROKER,
    TOPIC,
    ConfigResource,
    ConfigsAltered,
    QuotasAltered,
)
from tests.refimpl.controller.asking import Asking

TEN = ControllerConfig(topics=Defaults(10, 1))
APP = (("client-id", "app"),)


def version(asking: Asking) -> int:
    """Grows with each change of the metadata."""
    return asking.controller.metadata.metadata_version


def errors(results: Sequence[Any]) -> dict[Any, str | None]:
    return {one[0]: one.error for one in results}


def set_config(
    asking: Asking, resource: ConfigResource, key: str, value: str | None, **of: Any
) -> str | None:
    change = c.ConfigAlteration(key, c.DELETE if value is None else c.SET, value)
    body = c.IncrementalAlterConfigsRequest(((resource, (change,)),), **of)
    (result,) = asking.ask(body).resources
    return result.error


def of_topic(name: str) -> ConfigResource:
    return ConfigResource(TOPIC, name)


# Topics


@define
class Scripted(Random):
    """Says these bytes, one after the other."""

    said: list[bytes]

    def randbytes(self, n: int) -> bytes:
        return self.said.pop(0)[:n]


def test_a_topics_id_is_a_random_uuid_that_can_be_written_as_an_argument_and_is_new() -> None:
    """Version 4 of RFC 4122; in text it does not begin with a dash, as options do."""
    asking = Asking()
    known = bytes.fromhex("ffffffffffff4fffbfffffffffffffff")
    dash = bytes([DASH << 2 | 3]) + bytes(15)
    zero = bytes.fromhex("00000000000040008000000000000000")
    asking.controller.administration.rng = Scripted([b"\xff" * 16, dash, b"\xff" * 16, bytes(16)])
    asking.create("t", (1,))
    asking.create("u", (1,))
    topics = asking.controller.metadata.topics
    assert [topics[name].topic_id for name in "tu"] == [known, zero]


def test_the_name_of_the_metadata_log_is_taken() -> None:
    (refused,) = Asking().ask(c.CreateTopicsRequest((c.CreatableTopic(METADATA_TOPIC),))).topics
    assert (refused.error, refused.message) == (
        "INVALID_REQUEST",
        f"Creation of internal topic {METADATA_TOPIC} is prohibited.",
    )


def test_as_many_partitions_as_may_be_asked_for_at_once_are_counted_over_all_topics() -> None:
    def made(*counts: int) -> set[str | None]:
        topics = tuple(c.CreatableTopic(f"t{n}", count, 1) for n, count in enumerate(counts))
        request = c.CreateTopicsRequest(topics, validate_only=True)
        return {one.error for one in Asking(TEN).ask(request).topics}

    assert made(MOST_PARTITIONS - 10, 10) == {None}
    assert made(MOST_PARTITIONS - 10, 11) == {"POLICY_VIOLATION"}
    assert made(MOST_PARTITIONS - 10, -1) == {None}, "the default is 10"
    assert made(MOST_PARTITIONS - 9, -1) == {"POLICY_VIOLATION"}
    assert made(MOST_PARTITIONS, -5) == {None, "INVALID_PARTITIONS"}


def test_a_topic_without_configurations_has_none() -> None:
    asking = Asking()
    asking.create("t", (1,))
    assert not [one for one in asking.news[-1].changes if isinstance(one, ConfigsAltered)]
    asking.create("u", (1,), **{"retention.ms": "1"})
    assert ConfigsAltered(of_topic("u"), {"retention.ms": "1"}) in asking.news[-1].changes


def test_who_cannot_be_found_or_is_meant_twice_is_not_deleted() -> None:
    asking = Asking()
    asking.create("t", (1,))
    asking.create("u", (1,))
    one, two = (asking.controller.metadata.topics[name].topic_id for name in "tu")
    stranger = b"s" * 16
    results = asking.ask(c.DeleteTopicsRequest((), (ZERO_ID, stranger, two))).topics
    assert {of.topic_id: of.error for of in results} == {
        ZERO_ID: "INVALID_REQUEST",
        stranger: "UNKNOWN_TOPIC_ID",
        two: None,
    }
    results = asking.ask(c.DeleteTopicsRequest(("t", "nobody"), (one, one))).topics
    assert [of.error for of in results] == [
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert list(asking.controller.metadata.topics) == ["t"]


def test_deletion_is_forbidden_by_id_as_well() -> None:
    asking = Asking(ControllerConfig(delete_topic_enable=False))
    asking.create("t", (1,))
    topic_id = asking.controller.metadata.topics["t"].topic_id
    (result,) = asking.ask(c.DeleteTopicsRequest((), (topic_id,))).topics
    assert (result.error, result.topic_id) == ("TOPIC_DELETION_DISABLED", topic_id)
    assert "t" in asking.controller.metadata.topics


def test_one_topic_twice_does_not_grow_and_others_do() -> None:
    asking = Asking()
    for name in "tu":
        asking.create(name, (1,))
    wanted = tuple(c.NewPartitions(name, 2) for name in "tut")
    results = asking.ask(c.CreatePartitionsRequest(wanted)).topics
    assert errors(results) == {"t": "INVALID_REQUEST", "u": None}
    topics = asking.controller.metadata.topics
    assert [len(topics[name].partitions) for name in "tu"] == [1, 2]


def test_topics_do_not_grow_by_more_than_may_be_made_at_once() -> None:
    def grown(*counts: int) -> set[str | None]:
        asking = Asking()
        for name in "tuv":
            asking.create(name, (1,))
        wanted = tuple(c.NewPartitions(*one) for one in zip("tuvw", counts, strict=False))
        request = c.CreatePartitionsRequest(wanted, validate_only=True)
        return {one.error for one in asking.ask(request).topics}

    assert grown(MOST_PARTITIONS, 2) == {None}
    assert grown(MOST_PARTITIONS, 3) == {"POLICY_VIOLATION"}
    assert grown(MOST_PARTITIONS + 1, 0) == {None, "INVALID_PARTITIONS"}, "less is not taken off"
    assert grown(2, 2, 2, 10**6) == {None, "UNKNOWN_TOPIC_OR_PARTITION"}


# Leaders and replicas


def test_what_is_not_there_has_no_leader_to_elect() -> None:
    asking = Asking()
    asking.create("t", (1,))
    wanted = (TopicPartition("u", 0), TopicPartition("t", 1))
    results = asking.ask(c.ElectLeadersRequest(c.PREFERRED, wanted)).partitions
    assert [one.message for one in results] == ["No such topic as u", "No such partition as t-1"]
    assert {one.error for one in results} == {"UNKNOWN_TOPIC_OR_PARTITION"}


def test_a_move_to_where_the_replicas_are_changes_nothing() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    before = version(asking)
    assert asking.move("t", 1, 2) is None
    assert version(asking) == before


# Configurations


def test_a_resource_that_is_named_twice_keeps_what_it_has_and_others_do_not() -> None:
    asking = Asking()
    for name in "tu":
        asking.create(name, (1,))
    change = (c.ConfigAlteration("flush.ms", c.SET, "5"),)
    wanted = tuple((of_topic(name), change) for name in "tut")
    results = asking.ask(c.IncrementalAlterConfigsRequest(wanted)).resources
    assert errors(results) == {of_topic("t"): "INVALID_REQUEST", of_topic("u"): None}
    assert asking.controller.metadata.configs == {of_topic("u"): {"flush.ms": "5"}}


def test_only_asking_configures_nothing() -> None:
    asking = Asking()
    asking.create("t", (1,))
    before = version(asking)
    assert set_config(asking, of_topic("t"), "flush.ms", "5", validate_only=True) is None
    body = c.AlterConfigsRequest(((of_topic("t"), {"flush.ms": "5"}),), validate_only=True)
    assert asking.ask(body).resources[0].error is None
    assert version(asking) == before


def test_what_is_configured_so_already_is_news_to_brokers_alone() -> None:
    """KAFKA-14136: a broker reads the files again that its configuration names."""
    asking = Asking()
    asking.create("t", (1,))
    for resource, again in ((of_topic("t"), 0), (ConfigResource(BROKER, "1"), 1)):
        key, value = (MIN_ISR, "2") if again == 0 else ("log.cleaner.threads", "2")
        assert set_config(asking, resource, key, value) is None
        before = version(asking)
        assert set_config(asking, resource, key, value) is None
        assert version(asking) == before + again


def test_min_insync_replicas_of_one_topic_is_no_matter_of_another() -> None:
    asking = Asking()
    for name in "tu":
        asking.create(name, (1, 2), **{MIN_ISR: "2"})
        asking.alter_isr(name, 1)
    assert set_config(asking, of_topic("t"), "flush.ms", "5") is None
    assert asking.partition("t").elr == {2}, "another configuration says nothing of the ELR"
    assert set_config(asking, of_topic("t"), MIN_ISR, "1") is None
    assert (asking.partition("t").elr, asking.partition("u").elr) == (frozenset(), {2})
    states = asking.controller.partitions
    assert [states[TopicPartition(name, 0)].state.min_isr for name in "tu"] == [1, 2]


def test_min_insync_replicas_of_all_brokers_is_every_topics_that_has_none_of_its_own() -> None:
    asking = Asking()
    asking.create("t", (1, 2, 3))
    asking.create("u", (1, 2, 3), **{MIN_ISR: "3"})
    assert set_config(asking, ConfigResource(BROKER, ""), MIN_ISR, "2") is None
    states = asking.controller.partitions
    assert [states[TopicPartition(name, 0)].state.min_isr for name in "tu"] == [2, 3]


# Quotas


def test_quotas_change_where_something_changes() -> None:
    asking = Asking()

    def alter(value: float | None, times: int = 1, **of: Any) -> list[str | None]:
        one = c.QuotaAlteration(APP, (("producer_byte_rate", value),))
        request = c.AlterClientQuotasRequest((one,) * times, **of)
        return [result.error for result in asking.ask(request).entities]

    before = version(asking)
    assert alter(10.0, validate_only=True) == [None]
    assert alter(None) == [None]
    assert alter(10.0, times=2) == ["INVALID_REQUEST"]
    assert version(asking) == before
    assert alter(10.0) == [None]
    assert QuotasAltered(frozenset(APP), {"producer_byte_rate": 10.0}) in asking.news[-1].changes
    assert alter(10.0) == [None]
    assert version(asking) == before + 1


# Brokers


def test_a_broker_that_is_unregistered_leads_nothing_and_is_not_heard_any_more() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    assert asking.ask(c.UnregisterBrokerRequest(1)).error is None
    here = asking.partition("t").decision
    assert (here.leader, here.isr) == (2, {2})
    assert 1 not in asking.controller.metadata.brokers
    assert asking.ask(c.AllocateProducerIdsRequest(1, 1)).error == "BROKER_ID_NOT_REGISTERED"
    assert asking.ask(c.UnregisterBrokerRequest(1)).error == "BROKER_ID_NOT_REGISTERED"


def test_a_broker_that_is_gone_is_unregistered_without_another_word_to_its_partitions() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    asking.controller.registry.fence(1)
    asking.controller.decisions.broker_fenced(1)
    before = asking.partition("t")
    assert asking.ask(c.UnregisterBrokerRequest(1)).error is None
    assert asking.partition("t") == before
