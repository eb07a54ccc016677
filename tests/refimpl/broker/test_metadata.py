"""A broker's metadata: the updates that it accepts, their order, and its answers from them."""

from typing import Any

import pytest

from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.metadata import Metadata
from refimpl.controller.configs import MIN_ISR
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import broker as m
from refimpl.messages.cluster import (
    BROKER,
    TOPIC,
    BrokerRegistration,
    BrokerUnregistered,
    Change,
    ClusterMetadata,
    ConfigResource,
    ConfigsAltered,
    FeaturesUpdated,
    PartitionRegistration,
    ProducerIdsAllocated,
    QuotasAltered,
    TopicCreated,
    TopicDeleted,
    newest,
)
from refimpl.messages.controller import UpdateMetadataRequest

T0 = m.TopicPartition("t", 0)
T_ID, U_ID = b"t" * 16, b"u" * 16
CREATED = TopicCreated("t", T_ID)
OF_T, OF_ALL = ConfigResource(TOPIC, "t"), ConfigResource(BROKER, "")
ENTITY = frozenset({("client-id", "app")})


def decided(partition_epoch: int, leader: int | None = 1, **of: Any) -> PartitionRegistration:
    decision = LeaderAndIsr(1, leader, frozenset({1, 2}), partition_epoch)
    return PartitionRegistration(of.pop("of", T0), of.pop("id", T_ID), decision, (1, 2), **of)


def knowing(*changes: Change) -> ClusterMetadata:
    metadata = ClusterMetadata()
    for one in changes:
        metadata.apply(one)
    return metadata


EVERYTHING: tuple[Change, ...] = (
    ProducerIdsAllocated(3000),
    FeaturesUpdated(1, {"transaction.version": 1}),
    BrokerRegistration(1, 5, 1),
    BrokerRegistration(2, 6, 1),
    ConfigsAltered(OF_T, {"flush.ms": "1"}),
    QuotasAltered(ENTITY, {"producer_byte_rate": 1.0}),
    CREATED,
    decided(1),
)


# One piece of news


def test_what_is_known_is_told_to_who_knows_nothing() -> None:
    metadata = knowing(*EVERYTHING)
    assert tuple(metadata.changes()) == EVERYTHING
    assert tuple(knowing(*metadata.changes()).changes()) == EVERYTHING
    assert (metadata.topic_names, metadata.partitions) == ({T_ID: "t"}, {T0: decided(1)})


def test_an_older_process_of_a_broker_is_no_news() -> None:
    metadata = knowing(BrokerRegistration(1, 5, 2))
    assert not metadata.apply(BrokerRegistration(1, 4, 1))
    assert metadata.brokers == {1: BrokerRegistration(1, 5, 2)}
    assert metadata.apply(BrokerRegistration(1, 5, 2, fenced=True))
    assert metadata.brokers[1].fenced
    assert metadata.apply(BrokerUnregistered(1))
    assert metadata.apply(BrokerUnregistered(1))
    assert not metadata.brokers


def test_an_older_decision_is_passed_on_and_not_kept() -> None:
    """The replica itself decides if it is new."""
    metadata = knowing(CREATED, decided(5))
    assert metadata.apply(decided(4, leader=2))
    assert metadata.partitions[T0].decision.leader == 1
    assert metadata.apply(decided(5, leader=2))
    assert metadata.partitions[T0].decision.leader == 2
    assert metadata.topics["t"].partitions == {0: decided(5, leader=2)}


def test_a_partition_of_no_topic_or_of_another_one_of_that_name_is_no_news() -> None:
    metadata = knowing(CREATED)
    assert not metadata.apply(decided(1, id=U_ID))
    assert not metadata.apply(decided(1, of=m.TopicPartition("u", 0)))
    assert not metadata.partitions
    assert not metadata.apply(TopicCreated("t", U_ID))
    assert metadata.topic_names == {T_ID: "t"}


def test_a_topic_goes_with_all_that_is_its_own_and_another_of_its_name_stays() -> None:
    metadata = knowing(*EVERYTHING, TopicCreated("u", U_ID))
    assert not metadata.apply(TopicDeleted("t", U_ID))
    assert not metadata.apply(TopicDeleted("nobody", T_ID))
    assert tuple(metadata.changes()) == (*EVERYTHING, TopicCreated("u", U_ID))
    assert metadata.apply(TopicDeleted("t", T_ID))
    assert (metadata.partitions, metadata.configs) == ({}, {})
    assert (metadata.topic_names, [*metadata.topics]) == ({U_ID: "u"}, ["u"])


def test_who_has_no_configurations_or_quotas_any_more_is_forgotten() -> None:
    metadata = knowing(*EVERYTHING, ConfigsAltered(OF_T, {}), QuotasAltered(ENTITY, {}))
    metadata.apply(ConfigsAltered(OF_ALL, {}))
    assert (metadata.configs, metadata.quotas) == ({}, {})


def test_a_topics_own_configuration_comes_before_that_of_all() -> None:
    metadata = knowing(ConfigsAltered(OF_ALL, {MIN_ISR: "2"}))
    assert metadata.topic_config("t", MIN_ISR) == "2"
    metadata.apply(ConfigsAltered(OF_T, {MIN_ISR: "1"}))
    assert metadata.topic_config("t", MIN_ISR) == "1"
    assert metadata.topic_config("t", "flush.ms") is None


def test_of_what_was_decided_twice_the_last_is_told_in_its_place() -> None:
    one, two, other = decided(1), decided(2), decided(1, of=m.TopicPartition("t", 1))
    again = decided(1, id=U_ID)
    assert newest([one, CREATED, other, again, CREATED, two]) == [
        *(CREATED, other, again, CREATED, two)
    ]


def test_what_is_missing_where_everything_is_told_is_gone() -> None:
    metadata = knowing(*EVERYTHING)
    assert metadata.gone(EVERYTHING) == []
    assert metadata.gone([BrokerRegistration(2, 6, 1), TopicCreated("t", U_ID)]) == [
        TopicDeleted("t", T_ID),
        BrokerUnregistered(1),
        ConfigsAltered(OF_T, {}),
        QuotasAltered(ENTITY, {}),
    ]


# The order of news


def broker() -> Metadata:
    """One that was told everything as version 5 of controller epoch 2."""
    metadata = Metadata(context=Context(1, BrokerConfig(), 1))
    assert list(metadata.take(news(5, *EVERYTHING, full=True))) == [*EVERYTHING]
    return metadata


def news(version: int, *changes: Change, full: bool = False, epoch: int = 2) -> Any:
    return UpdateMetadataRequest(1, version, changes, full, epoch, 7 + epoch, "cluster")


NEW, MORE = BrokerRegistration(3, 9, 1), decided(2)


def test_who_is_told_knows_by_whom() -> None:
    metadata = broker()
    assert (metadata.controller_epoch, metadata.metadata_version) == (2, 5)
    assert (metadata.controller_id, metadata.cluster_id) == (9, "cluster")


def test_what_comes_next_is_taken() -> None:
    metadata = broker()
    assert list(metadata.take(news(6, NEW, TopicCreated("t", U_ID), MORE))) == [NEW, MORE]
    assert (metadata.metadata_version, metadata.brokers[3]) == (6, NEW)


@pytest.mark.parametrize("version", [4, 5, 7])
def test_out_of_order_only_decisions_count(version: int) -> None:
    metadata = broker()
    assert list(metadata.take(news(version, NEW, MORE))) == [MORE]
    assert (metadata.metadata_version, 3 in metadata.brokers) == (5, False)
    assert metadata.partitions[T0] == MORE


def test_everything_again_is_taken_and_everything_of_before_is_not() -> None:
    metadata = broker()
    assert list(metadata.take(news(4, NEW, CREATED, MORE, full=True))) == [MORE]
    assert metadata.metadata_version == 5
    assert list(metadata.take(news(5, NEW, CREATED, MORE, full=True)))[-1] == MORE
    assert set(metadata.brokers) == {3}, "the others are gone"
    metadata.take(news(9, CREATED, full=True))
    assert (metadata.metadata_version, metadata.brokers) == (9, {})


def test_a_newer_controller_begins_with_everything() -> None:
    """KAFKA-4443."""
    metadata = broker()
    assert list(metadata.take(news(6, NEW, MORE, epoch=3))) == []
    assert (metadata.controller_epoch, metadata.metadata_version) == (2, 5)
    assert list(metadata.take(news(0, NEW, epoch=3, full=True)))[-1] == NEW
    assert (metadata.controller_epoch, metadata.metadata_version) == (3, 0)
    assert metadata.controller_id == 10


def test_an_older_controller_is_not_heard() -> None:
    metadata = broker()
    assert list(metadata.take(news(6, NEW, MORE, epoch=1))) == []
    assert list(metadata.take(news(6, NEW, MORE, epoch=1, full=True))) == []
    assert metadata.partitions[T0] == decided(1)


# What clients are told


def test_clients_are_told_who_leads_of_the_topics_that_they_ask_for() -> None:
    metadata = broker()
    metadata.take(news(6, TopicCreated("u", U_ID)))
    u0 = m.TopicPartition("u", 0)
    metadata.take(news(7, decided(1, leader=None, of=u0, id=U_ID)))

    def told(*topics: str) -> list[m.PartitionMetadata]:
        metadata.answer(m.Request(9, 1, 1, m.MetadataRequest(topics or None)), {})
        return [*metadata.context.outputs[-1].body.partitions]

    isr = frozenset({1, 2})
    led = m.PartitionMetadata(T0, None, 1, 1, isr)
    leaderless = m.PartitionMetadata(u0, "LEADER_NOT_AVAILABLE", -1, 1, isr)
    assert told() == [led, leaderless]
    assert (told("t"), told("u"), told("v")) == ([led], [leaderless], [])
