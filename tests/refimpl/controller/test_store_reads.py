"""A new controller's reading of the store, znode by znode."""

from attrs import define, field

from refimpl.controller import znodes
from refimpl.controller.state import ControllerConfig, ControllerState
from refimpl.controller.store_reads import Loaded
from refimpl.machines.assignment import Assignment
from refimpl.machines.election import Controllership
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    TOPIC,
    ConfigResource,
    FeaturesUpdated,
    PartitionRegistration,
    QuotaEntity,
)
from refimpl.metadata.contract import Children, Data, GetChildren, GetData, Operation, Result, Stat
from refimpl.metadata.errors import NoNode, StoreError

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID = b"t" * 16
DECISION = LeaderAndIsr(3, None, frozenset((1, 2)), 9)
HERE = PartitionRegistration(T0, ID, DECISION, (3, 2, 1), (3,), (1,), frozenset({4}), 2)
USER: QuotaEntity = frozenset({("user", "user-1"), ("client-id", "app")})


@define
class Znodes:
    """The contents of a store: data and version by path, and each parent's version."""

    data: dict[str, tuple[bytes, int]] = field(factory=dict[str, tuple[bytes, int]])
    parents: dict[str, int] = field(factory=dict[str, int])

    def put(self, path: str, data: bytes, version: int = 0) -> None:
        self.data[path] = data, version

    def answer(self, operation: Operation) -> Result | StoreError:
        assert isinstance(operation, GetData | GetChildren)
        path = operation.path
        if isinstance(operation, GetData):
            if path not in self.data:
                return NoNode(path)
            data, version = self.data[path]
            return Data(data, _stat(version))
        depth = path.count("/") + 1
        below = [one for one in self.data if one.startswith(f"{path}/")]
        names = dict.fromkeys(one.split("/")[depth] for one in below)
        if not names and path not in self.parents:
            return NoNode(path)
        return Children(tuple(names), _stat(self.parents.get(path, 0)))

    def read(self) -> Loaded:
        """All of it."""
        loaded = Loaded(ControllerState(ControllerConfig()), Controllership(5, 4))
        reading = loaded.read()
        asked = next(reading)
        while True:
            try:
                asked = reading.send([self.answer(one) for one in asked])
            except StopIteration:
                return loaded


def _stat(version: int) -> Stat:
    return Stat(1, 1, 1, version, 0, 0, 0, 0)


def test_nothing_is_read_where_nothing_is() -> None:
    loaded = Znodes().read()
    assert (loaded.assigned, loaded.missing, loaded.deleting, loaded.last) == ({}, [], [], {})
    assert loaded.controllership.versions == {}
    assert loaded.state.metadata.next_producer_id == 0
    assert not loaded.state.metadata.topics


def test_how_brokers_were_registered_last_is_read_and_not_written_again() -> None:
    store = Znodes()
    path, data = f"{znodes.BROKER_EPOCHS}/3", znodes.last_registration(77, 5)
    store.put(path, data, 6)
    store.parents[znodes.BROKER_EPOCHS] = 2
    loaded = store.read()
    assert loaded.last == {3: znodes.LastRegistration(77, 5)}
    assert loaded.assigned == {path: data}
    assert loaded.controllership.versions == {path: 6, znodes.BROKER_EPOCHS: 2}


def test_features_are_read_with_their_epoch() -> None:
    store = Znodes()
    updated = FeaturesUpdated(3, {"transaction.version": 1})
    store.put(znodes.FEATURES, znodes.features(updated), 2)
    loaded = store.read()
    assert loaded.state.metadata.features == updated
    assert loaded.controllership.versions[znodes.FEATURES] == 2


def test_producer_ids_go_on_behind_the_last_block() -> None:
    store = Znodes()
    store.put(znodes.PRODUCER_IDS, znodes.producer_ids(7_000), 3)
    loaded = store.read()
    assert loaded.state.metadata.next_producer_id == 7_000
    assert loaded.controllership.versions == {znodes.PRODUCER_IDS: 3}


def test_configurations_and_quotas_are_read_with_the_version_of_each() -> None:
    store = Znodes()
    topic = ConfigResource(TOPIC, "t")
    values = {"retention.ms": "5"}
    store.put(znodes.config_path(topic), znodes.config(values), 4)
    user, client = znodes.quota_path(USER)[0], znodes.quota_path(USER)[-1]
    store.put(user, b"", 1)
    store.put(client, znodes.config({"producer_byte_rate": 2.5}), 2)
    loaded = store.read()
    metadata, versions = loaded.state.metadata, loaded.controllership.versions
    assert metadata.configs[topic] == values
    assert metadata.quotas[USER] == {"producer_byte_rate": 2.5}
    assert (versions[znodes.config_path(topic)], versions[user], versions[client]) == (4, 1, 2)


def with_topic(*partitions: PartitionRegistration) -> Znodes:
    store = Znodes()
    store.put(znodes.topic_path("t"), znodes.topic(ID, partitions), 8)
    return store


def test_a_partition_is_as_its_state_says_and_where_its_topic_says() -> None:
    store = with_topic(HERE)
    store.put(znodes.state_path(T0), znodes.state(HERE, 4), 11)
    loaded = store.read()
    state = loaded.state
    assert state.metadata.topics["t"].topic_id == ID
    assert state.metadata.partitions == {T0: HERE}
    one = state.partitions[T0]
    assert (one.topic_id, one.assignment) == (ID, Assignment((3, 2, 1), (3,), (1,)))
    assert (one.state.decision, one.state.replicas) == (DECISION, {1, 2, 3, 4})
    assert (one.state.elr, one.state.last_known, one.state.brokers) == ({4}, 2, state.registry)
    topic = znodes.topic_path("t")
    assert loaded.assigned == {topic: store.data[topic][0]}
    versions = loaded.controllership.versions
    assert (versions[topic], versions[znodes.state_path(T0)]) == (8, 11)
    assert versions[znodes.partition_path(T0)] == 0
    assert loaded.missing == []


def test_who_is_in_sync_or_eligible_is_a_replica_until_a_half_written_move_has_ended() -> None:
    store = with_topic(HERE._replace(replicas=(2, 3), adding=(), removing=()))
    store.put(znodes.state_path(T0), znodes.state(HERE, 4))
    one = store.read().state.partitions[T0]
    assert (one.assignment, one.state.replicas) == (Assignment((2, 3)), {1, 2, 3, 4})


def test_a_partition_without_a_state_is_still_to_be_created_and_one_without_a_place_is_none() -> (
    None
):
    other = HERE._replace(partition=T1, replicas=(2, 1), adding=(), removing=())
    store = with_topic(other)
    store.put(znodes.state_path(T0), znodes.state(HERE, 4), 2)
    loaded = store.read()
    assert loaded.missing == [(T1, (2, 1))]
    assert not loaded.state.partitions
    assert znodes.partition_path(T0) in loaded.controllership.versions
    assert znodes.partition_path(T1) not in loaded.controllership.versions


def test_a_topic_whose_deletion_was_asked_for_is_to_be_deleted_and_is_not_there() -> None:
    store = with_topic(HERE)
    store.put(znodes.state_path(T0), znodes.state(HERE, 4), 2)
    asked = f"{znodes.DELETE_TOPICS}/t"
    store.put(asked, b"", 9)
    loaded = store.read()
    assert loaded.deleting == ["t"]
    assert not loaded.state.partitions
    assert "t" not in loaded.state.metadata.topics
    assert loaded.missing == []
    versions = loaded.controllership.versions
    assert versions[asked] == 0
    assert versions.keys() >= {znodes.topic_path("t"), znodes.state_path(T0)}, "all of it goes"
