"""Metadata applied to a broker's partitions: opened, led, followed, configured, deleted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from refimpl.broker.file_logs import FileLogs
from refimpl.broker.node import FETCH
from refimpl.broker.partition import Partition
from refimpl.broker.replica_manager import MANY, ReplicaManager
from refimpl.configs import Configs
from refimpl.controller.configs import MIN_ISR
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import broker as m
from refimpl.messages.cluster import (
    BROKER,
    TOPIC,
    ConfigResource,
    ConfigsAltered,
    PartitionRegistration,
    TopicDeleted,
)
from refimpl.messages.observations import (
    BecameFollower,
    BecameLeader,
    Deleted,
    HighWatermarkAdvanced,
    Ignored,
    IsrAdopted,
)
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.checkpoints import LEADER_EPOCHS, read_epochs
from tests.refimpl.broker.node_cases import (
    ORDERS,
    TOPIC_ID,
    Cluster,
    answer,
    answer_outputs,
    batch_of,
    following,
    leading,
)
from tests.refimpl.broker.test_fetcher import ALL, served

ELSEWHERE = m.TopicPartition("elsewhere", 0)
EVERYWHERE = ConfigResource(BROKER, "")


def errors(answers: Sequence[Any]) -> list[tuple[type, str | None]]:
    return [(type(one), one.partitions[0].error) for one in answers]


def waited_for(cluster: Cluster) -> None:
    """A producer, a consumer and an operator wait for the leader."""
    cluster.produce(batch_of(b"a"))
    cluster.catch_up()
    assert cluster.ask(m.DeleteRecordsRequest(((ORDERS, 1),), 10**6)) == []
    assert cluster.produce(batch_of(b"b"), acks=-1, timeout_ms=10**6) == []
    assert cluster.fetch(1, max_wait_ms=10**6) == []


def registered(cluster: Cluster, *replicas: int) -> PartitionRegistration:
    """The first of these leads in epoch 1."""
    decision = LeaderAndIsr(1, replicas[0], frozenset(replicas), cluster.versions + 1)
    return PartitionRegistration(ORDERS, TOPIC_ID, decision, replicas)


# What goes


@pytest.mark.parametrize(
    ("why", "fetched"),
    [("topic", "UNKNOWN_TOPIC_OR_PARTITION"), ("replicas", "NOT_LEADER_OR_FOLLOWER")],
)
def test_who_waits_for_a_partition_that_goes_is_told_and_its_log_is_gone(
    why: str, fetched: str
) -> None:
    disk = MemoryDisk()
    cluster = leading(disk=disk)
    waited_for(cluster)
    cluster.told.clear()
    if why == "topic":
        told = cluster.news(TopicDeleted(ORDERS.topic, TOPIC_ID))
    else:
        told = cluster.news(registered(cluster, 2, 3))
    assert sorted(errors(told), key=str) == [
        (m.DeleteRecordsResponse, "NOT_LEADER_OR_FOLLOWER"),
        (m.FetchResponse, fetched),
        (m.ProduceResponse, "NOT_LEADER_OR_FOLLOWER"),
    ]
    assert Deleted(ORDERS) in cluster.told
    assert ORDERS not in cluster.node.partitions
    again = Cluster(disk=disk, here=(ORDERS,))
    assert again.partition.log.end == 0, "it is made anew"


def test_a_partition_that_goes_is_not_followed_any_more() -> None:
    cluster, asked = following()
    cluster.news(TopicDeleted(ORDERS.topic, TOPIC_ID))
    assert list(answer_outputs(cluster, asked, served())) == [Ignored("void answers")]
    assert list(cluster.node.handle(cluster.now + 10**6, m.Timer(0, FETCH)))[:-1] == []


def test_another_topics_end_is_no_matter_of_this_one() -> None:
    cluster = leading()
    cluster.news(TopicDeleted("elsewhere", TOPIC_ID))
    assert ORDERS in cluster.node.partitions


def test_what_is_found_at_the_start_and_is_not_told_goes_and_nothing_while_nothing_is_told() -> (
    None
):
    cluster = Cluster(here=(ORDERS, ELSEWHERE))
    cluster.news(full=True)
    assert set(cluster.node.partitions) == {ORDERS, ELSEWHERE}
    cluster.decide(1, 1)
    assert set(cluster.node.partitions) == {ORDERS}


def test_what_others_have_is_no_matter_of_this_broker() -> None:
    cluster = Cluster()
    cluster.decide(2, 1, replicas=(2, 3), partitions=(ORDERS, ELSEWHERE))
    assert not cluster.node.partitions
    assert not [one for one in cluster.told if isinstance(one, Deleted)]
    many = tuple(m.TopicPartition("many", number) for number in range(MANY))
    cluster.decide(2, 1, replicas=(2, 3), partitions=many)
    assert not set(map(str, many)) & set(cluster.disk.folders()), "no folder is made"
    cluster.decide(2, 1, partitions=many)
    assert set(map(str, many)) <= set(cluster.disk.folders())


@pytest.mark.parametrize(("noted", "kept"), [(TOPIC_ID, 0), (b"", 1)])
def test_what_is_found_of_an_earlier_topic_of_the_same_name_goes(noted: bytes, kept: int) -> None:
    """KIP-516; a log of which no id was noted belongs to the topic that is told of first."""
    disk = MemoryDisk()
    leading(disk=disk).produce(batch_of(b"a"))
    cluster = Cluster(disk=disk, here=(ORDERS,))
    assert cluster.partition.log.end == 1
    cluster.partition.topic_id = noted
    another = b"another".ljust(16, b"-")
    cluster.decide(1, 2, topic_id=another)
    assert (Deleted(ORDERS) in cluster.told, cluster.partition.log.end) == (not kept, kept)
    assert cluster.partition.topic_id == another


# Leaders and followers


@pytest.mark.parametrize("how_many", [MANY - 1, MANY])
def test_many_epochs_that_begin_at_once_are_written_together(
    how_many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As each alone would have it, and nothing of epochs that others begin, or that are old."""
    together: list[int] = []
    begin = FileLogs.begin_epochs

    def counted(logs: FileLogs, epochs: Mapping[m.TopicPartition, int]) -> None:
        together.append(len(epochs))
        begin(logs, epochs)

    monkeypatch.setattr(FileLogs, "begin_epochs", counted)
    cluster = Cluster()
    many = tuple(m.TopicPartition("many", number) for number in range(how_many))
    for leader, epoch in ((1, 3), (2, 4), (1, 2), (1, 5)):
        cluster.decide(leader, epoch, partitions=many)
    assert together == [how_many] * 2 * (how_many >= MANY)
    for name in many:
        assert cluster.node.partitions[name].replica.leads
        assert read_epochs(cluster.disk, f"{name}/{LEADER_EPOCHS}") == [(5, 0)]


def test_a_decision_about_replicas_that_stay_does_not_configure_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = leading()
    configured: list[Partition] = []

    def noted(manager: ReplicaManager, them: Iterable[Partition]) -> None:
        configured.extend(them)

    monkeypatch.setattr(ReplicaManager, "_configure", noted)
    cluster.decide(1, 2)
    assert configured == []
    cluster.decide(1, 3, replicas=(1, 2))
    assert configured == [cluster.partition]


def test_who_leads_again_is_told_with_what_it_had() -> None:
    cluster = leading()
    assert BecameLeader(ORDERS, False, 0) in cluster.told
    cluster.produce(batch_of(b"a"))
    cluster.catch_up()
    cluster.decide(1, 2)
    assert BecameLeader(ORDERS, True, 1) in cluster.told


def test_what_is_no_news_is_not_obeyed() -> None:
    cluster = leading()
    same = registered(cluster, 1, 2, 3)
    decision = evolve(same.decision, partition_epoch=cluster.versions)
    cluster.told.clear()
    cluster.news(same._replace(decision=decision))
    assert cluster.told == []
    cluster.decide(1, 1)
    assert cluster.told == [IsrAdopted(ORDERS)]


def test_who_leads_does_not_ask_the_leader_before_it() -> None:
    cluster, asked = following()
    (asked,) = answer(cluster, asked, served(high_watermark=0))
    cluster.told.clear()
    cluster.decide(1, 2)
    assert BecameLeader(ORDERS, False, 0) in cluster.told
    assert list(answer_outputs(cluster, asked, served())) == [Ignored("void answers")]
    assert cluster.partition.replica.high_watermark == 0, "the others have to be heard of"


def test_a_leader_alone_in_sync_commits_what_it_has_when_it_is_elected() -> None:
    cluster, asked = following()
    answer(cluster, asked, served(high_watermark=0))
    cluster.decide(1, 2, (1,))
    assert HighWatermarkAdvanced(ORDERS, 0, ALL) in cluster.told
    assert cluster.partition.replica.high_watermark == ALL


def test_a_follower_that_waits_hears_of_another_leader_epoch() -> None:
    cluster = leading()
    asked = m.FetchPartition(ORDERS, 0, 1, -1, 1)
    first = m.FetchRequest((asked,), 500, replica_id=2, replica_epoch=2, session_epoch=0)
    (begun,) = cluster.ask(first, 2)
    waiting = first._replace(partitions=(), session_id=begun.session_id, session_epoch=1)
    assert cluster.ask(waiting, 2) == []
    assert errors(cluster.decide(1, 2)) == [(m.FetchResponse, "FENCED_LEADER_EPOCH")]


def test_who_waits_for_a_leader_that_follows_is_told_so() -> None:
    cluster = leading()
    waited_for(cluster)
    cluster.told.clear()
    told = [one for one in cluster.decide(2, 2) if not isinstance(one, m.FetchRequest)]
    assert sorted(errors(told), key=str) == [
        (m.DeleteRecordsResponse, "NOT_LEADER_OR_FOLLOWER"),
        (m.FetchResponse, "NOT_LEADER_OR_FOLLOWER"),
        (m.ProduceResponse, "NOT_LEADER_OR_FOLLOWER"),
    ]
    assert BecameFollower(ORDERS, 2) in cluster.told
    (asked,) = [one for one in cluster.told if isinstance(one, m.Request)]
    assert (asked.target, asked.body.partitions[0].fetch_offset) == (2, 2)


# Configurations


def test_min_insync_replicas_are_the_topics_or_all_brokers_and_never_more_than_there_are() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, partitions=(ORDERS, ELSEWHERE))

    def required() -> list[int]:
        partitions = cluster.node.partitions
        return [partitions[one].replica.min_isr for one in (ORDERS, ELSEWHERE)]

    def alter(resource: ConfigResource, **values: str) -> list[int]:
        named = {name.replace("_", "."): value for name, value in values.items()}
        cluster.news(ConfigsAltered(resource, named))
        return required()

    assert required() == [1, 1]
    assert alter(ConfigResource(TOPIC, "orders"), min_insync_replicas="2") == [2, 1]
    assert alter(EVERYWHERE, min_insync_replicas="3") == [2, 3]
    assert alter(ConfigResource(TOPIC, "orders")) == [3, 3]
    assert alter(ConfigResource(TOPIC, "elsewhere"), min_insync_replicas="9") == [3, 3]


def test_a_partition_that_nobody_has_told_of_is_configured_as_well() -> None:
    cluster = Cluster(here=(ORDERS,))
    cluster.news(full=True)
    cluster.news(ConfigsAltered(EVERYWHERE, {MIN_ISR: "2"}))
    assert cluster.partition.replica.min_isr == 2


def test_topics_are_configured_by_kafkas_names_where_there_is_a_file() -> None:
    cluster = leading(configs=Configs({"min.insync.replicas": "2", "message.max.bytes": "100"}))
    assert cluster.partition.replica.min_isr == 2
    large, small = batch_of(b"a" * 200), batch_of(b"a")
    assert errors(cluster.produce(large)) == [(m.ProduceResponse, "MESSAGE_TOO_LARGE")]
    assert errors(cluster.produce(small)) == [(m.ProduceResponse, None)]
    wanted = {"max.message.bytes": "1000", MIN_ISR: "3"}
    cluster.news(ConfigsAltered(ConfigResource(TOPIC, "orders"), wanted))
    assert cluster.partition.replica.min_isr == 3
    assert errors(cluster.produce(large)) == [(m.ProduceResponse, None)]
