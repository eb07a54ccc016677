"""Writes to a store: fenced, and in an order from which a successor can continue."""

from typing import Any

import pytest

from refimpl.controller import store_writes, znodes
from refimpl.controller.store_writes import MOST_BYTES, StoreWrites, question, was_applied
from refimpl.machines.election import Controllership
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import TopicPartition
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
)
from refimpl.metadata.contract import (
    Check,
    Create,
    Data,
    Delete,
    Existence,
    Exists,
    GetData,
    Multi,
    SetData,
    Stat,
)
from refimpl.metadata.errors import NoNode

T0, T_ID = TopicPartition("t", 0), b"t" * 16
FENCE = Check(znodes.CONTROLLER_EPOCH, 9)
TOPIC_PATH, STATE = znodes.topic_path("t"), znodes.state_path(T0)
PARTITION = znodes.partition_path(T0)


def decided(epoch: int = 1, **of: Any) -> PartitionRegistration:
    decision = LeaderAndIsr(1, 1, frozenset({1, 2}), epoch)
    return PartitionRegistration(T0, T_ID, decision, (1, 2), **of)


def writes() -> StoreWrites:
    return StoreWrites(Controllership(3, 9), ClusterMetadata(), {})


def written(of: StoreWrites, *changes: Change) -> list[tuple[str, str]]:
    """The operations sent to the store, as kind and path; all of them are applied."""
    for one in changes:
        of.metadata.apply(one)
    found: list[tuple[str, str]] = []
    for multi in of.multis(changes):
        fence, *operations = multi.operations
        assert fence == FENCE
        found += [(type(one).__name__, one.path) for one in operations]
        of.written(multi)
    return found


def with_topic() -> StoreWrites:
    of = writes()
    written(of, TopicCreated("t", T_ID), decided())
    return of


def test_a_topic_comes_before_the_states_of_its_partitions() -> None:
    assert written(writes(), TopicCreated("t", T_ID), decided()) == [
        ("Create", TOPIC_PATH),
        ("Create", f"{TOPIC_PATH}/partitions"),
        ("Create", PARTITION),
        ("Create", STATE),
    ]


def test_a_decision_alone_is_the_partitions_state() -> None:
    of = with_topic()
    assert written(of, decided(2)) == [("SetData", STATE)]
    assert of.controllership.versions[STATE] == 1
    assert written(of, decided(3)) == [("SetData", STATE)]
    assert of.controllership.versions[STATE] == 2


def test_who_comes_is_written_before_and_who_goes_behind() -> None:
    """KIP-455."""
    of = with_topic()
    adds = decided(2, adding=(3,))._replace(replicas=(1, 2, 3))
    assert written(of, adds) == [("SetData", TOPIC_PATH), ("SetData", STATE)]
    removes = decided(3)._replace(replicas=(1, 3))
    assert written(of, removes) == [("SetData", STATE), ("SetData", TOPIC_PATH)]


def test_a_partition_that_was_deleted_meanwhile_is_not_written() -> None:
    assert written(writes(), decided()) == []


def test_a_deletion_is_asked_for_before_anything_goes_and_forgotten_at_the_end() -> None:
    of = with_topic()
    written(of, ConfigsAltered(ConfigResource(TOPIC, "t"), {"flush.ms": "1"}))
    request = f"{znodes.DELETE_TOPICS}/t"
    whole = [
        ("Create", request),
        *(("Delete", path) for path in (STATE, PARTITION, f"{TOPIC_PATH}/partitions", TOPIC_PATH)),
        ("Delete", f"{znodes.CONFIGS}/topics/t"),
        ("Delete", request),
    ]
    assert written(of, TopicDeleted("t", T_ID)) == whole
    assert of.controllership.versions == {}
    again = written(of, TopicCreated("t", T_ID), decided())
    assert again[0] == ("Create", TOPIC_PATH), "it is made anew"
    of.controllership.read(request, 0)
    (rest,) = of.deletions("t")
    assert [type(one).__name__ for one in rest.operations][:2] == ["Check", "Delete"]


def test_a_topic_of_a_longer_name_stays() -> None:
    of = with_topic()
    of.metadata.apply(TopicCreated("tt", b"u" * 16))
    other = decided()._replace(partition=TopicPartition("tt", 0), topic_id=b"u" * 16)
    written(of, other)
    written(of, TopicDeleted("t", T_ID))
    assert znodes.topic_path("tt") in of.controllership.versions


def test_configurations_go_and_quotas_of_users_stay_as_empty_znodes() -> None:
    of = writes()
    resource = ConfigResource(BROKER, "1")
    entity = frozenset({("user", "a"), ("client-id", "app")})
    path = znodes.config_path(resource)
    *parents, quota = znodes.quota_path(entity)
    assert written(of, ConfigsAltered(resource, {})) == []
    assert written(of, ConfigsAltered(resource, {"a": "1"})) == [("Create", path)]
    assert written(of, ConfigsAltered(resource, {"a": "2"})) == [("SetData", path)]
    assert written(of, ConfigsAltered(resource, {})) == [("Delete", path)]
    made = [("Create", one) for one in (*parents, quota)]
    assert written(of, QuotasAltered(entity, {"producer_byte_rate": 1.0})) == made
    assert written(of, QuotasAltered(entity, {})) == [("SetData", quota)]


def test_features_have_a_znode_once_they_are_updated() -> None:
    of = writes()
    for epoch, what in ((1, "Create"), (2, "SetData")):
        updated = FeaturesUpdated(epoch, {"transaction.version": 1})
        assert written(of, updated) == [(what, znodes.FEATURES)]


def test_producer_ids_and_epochs_of_brokers_are_written_when_they_change() -> None:
    of = writes()
    assert written(of, ProducerIdsAllocated(1000)) == [("Create", znodes.PRODUCER_IDS)]
    assert written(of, ProducerIdsAllocated(2000)) == [("SetData", znodes.PRODUCER_IDS)]
    path = f"{znodes.BROKER_EPOCHS}/1"
    assert written(of, BrokerRegistration(1, 5, 1)) == [("Create", path)]
    assert written(of, BrokerRegistration(1, 5, 1, fenced=True)) == []
    assert written(of, BrokerRegistration(1, 6, 2)) == [("SetData", path)]
    assert written(of, BrokerUnregistered(1)) == [("Delete", path)]
    assert written(of, BrokerUnregistered(1)) == []
    assert written(of, BrokerRegistration(1, 6, 2)) == [("Create", path)]


def test_many_writes_are_several_multis_each_of_them_fenced() -> None:
    of = writes()
    large = {"a": "x" * (MOST_BYTES // 2)}
    changes = [ConfigsAltered(ConfigResource(BROKER, str(n)), large) for n in range(3)]
    multis = of.multis(changes)
    assert [len(one.operations) for one in multis] == [2, 2, 2]
    small = [ConfigsAltered(ConfigResource(TOPIC, str(n)), {"a": "x"}) for n in range(3)]
    assert [len(one.operations) for one in of.multis(small)] == [4]
    assert of.multis([]) == []


def test_a_topic_is_written_whether_or_not_it_has_partitions() -> None:
    assert written(writes(), TopicCreated("t", T_ID)) == [
        ("Create", TOPIC_PATH),
        ("Create", f"{TOPIC_PATH}/partitions"),
    ]


def test_a_multi_has_so_many_bytes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [ConfigsAltered(ConfigResource(TOPIC, f"{n}"), {"a": "x"}) for n in range(3)]
    (all_together,) = writes().multis(changes)
    one = all_together.operations[1]
    assert isinstance(one, Create)
    size = store_writes.PER_OPERATION + len(one.path) + len(one.data)
    for most, parts in ((3 * size, [3]), (3 * size - 1, [2, 1]), (2 * size - 1, [1, 1, 1])):
        monkeypatch.setattr(store_writes, "MOST_BYTES", most)
        assert [len(multi.operations) - 1 for multi in writes().multis(changes)] == parts


# After an answer was lost


def stat(version: int) -> Stat:
    return Stat(1, 1, 1, version, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("operations", "asked", "applied", "not_applied"),
    [
        (
            (Create("/a", b"x"),),
            GetData("/a"),
            [Data(b"x", stat(0))],
            [NoNode("/a")],
        ),
        (
            (Create("/a"), SetData("/b", b"x", 4)),
            GetData("/b"),
            [Data(b"x", stat(5))],
            [Data(b"x", stat(4)), Data(b"y", stat(5)), NoNode("/b")],
        ),
        (
            (SetData("/b", b"x", 4), Delete("/c")),
            Exists("/c"),
            [Existence(None)],
            [Existence(stat(1))],
        ),
        (
            (Create("/a"), Delete("/c"), Delete("/a")),
            Exists("/c"),
            [Existence(None)],
            [Existence(stat(1))],
        ),
    ],
)
def test_one_of_its_writes_tells_whether_a_multi_was_applied(
    operations: tuple[Any, ...], asked: Any, applied: list[Any], not_applied: list[Any]
) -> None:
    multi = Multi((FENCE, *operations))
    assert question(multi) == asked
    assert all(was_applied(multi, answer) for answer in applied)
    assert not any(was_applied(multi, answer) for answer in not_applied)
