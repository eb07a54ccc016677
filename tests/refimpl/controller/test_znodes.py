"""Znodes as Kafka 3.9 writes them, and what it must find in ours."""

import json

from refimpl.controller import znodes
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BROKER,
    CLUSTER_DEFAULT,
    GROUP,
    TOPIC,
    BrokerRegistration,
    ConfigResource,
    Endpoint,
    FeaturesUpdated,
    PartitionRegistration,
    QuotaEntity,
)

# What a cluster of three brokers of Kafka 3.9.1 had in ZooKeeper, by path.
CAPTURED = {
    "/brokers/ids/1": b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:19091"],"rack":"r1","jmx_port":-1,"port":19091,'
    b'"host":"127.0.0.1","version":5,"timestamp":"1795337949693"}',
    "/brokers/topics/t": b'{"partitions":{"0":[3,1],"1":[1,2],"2":[2,3],"3":[3,2]},'
    b'"topic_id":"hz1TNfS9Tj-_EO8Of8bOpw","adding_replicas":{},"removing_replicas":{},"version":3}',
    "/brokers/topics/t/partitions/0/state": b'{"controller_epoch":1,"leader":3,"version":1,'
    b'"leader_epoch":0,"isr":[3,1]}',
    "/config/topics/u": b'{"version":1,"config":{"min.insync.replicas":"2",'
    b'"retention.ms":"100000"}}',
    "/config/brokers/<default>": b'{"version":1,"config":{"log.cleaner.threads":"2"}}',
    "/controller": b'{"version":2,"brokerid":1,"timestamp":"1795337949973",'
    b'"kraftControllerEpoch":-1}',
}
ID = bytes.fromhex("873d5335f4bd4e3fbf10ef0e7fc6cea7")
LISTENER = Endpoint("PLAINTEXT", "127.0.0.1", 19091)
REGISTRATION = BrokerRegistration(1, 63, 0, (LISTENER,), "r1")
PARTITIONS = {0: (3, 1), 1: (1, 2), 2: (2, 3), 3: (3, 2)}


def registration(number: int, replicas: tuple[int, ...]) -> PartitionRegistration:
    decision = LeaderAndIsr(0, replicas[0], frozenset(replicas), 4)
    return PartitionRegistration(TopicPartition("t", number), ID, decision, replicas)


def without_ours(data: bytes, captured: bytes) -> object:
    """Our data with the fields that Kafka knows; times are not compared."""
    ours, theirs = json.loads(data), json.loads(captured)
    assert set(theirs) <= set(ours)
    return {key: theirs[key] if key == "timestamp" else ours[key] for key in theirs}


def test_what_kafka_wrote_is_read() -> None:
    found = znodes.broker_of(CAPTURED["/brokers/ids/1"], 1, 63)
    assert found == znodes.BrokerIdZNode(REGISTRATION, -1)
    topic_id, assigned = znodes.topic_of(CAPTURED["/brokers/topics/t"])
    assert topic_id == ID
    assert {number: one.replicas for number, one in assigned.items()} == PARTITIONS
    state = znodes.state_of(CAPTURED["/brokers/topics/t/partitions/0/state"], 7)
    assert state.decision == LeaderAndIsr(0, 3, frozenset((1, 3)), 7)
    assert (state.elr, state.last_known_leader, state.controller_epoch) == (frozenset(), None, 1)
    values = znodes.config_of(CAPTURED["/config/topics/u"])
    assert values == {"min.insync.replicas": "2", "retention.ms": "100000"}
    assert znodes.entity_of("/config/topics/u") == ConfigResource(TOPIC, "u")
    default = ConfigResource(BROKER, CLUSTER_DEFAULT)
    assert znodes.entity_of("/config/brokers/<default>") == default
    assert znodes.controller_of(CAPTURED["/controller"]) == 1


def test_what_we_write_has_all_that_kafka_reads() -> None:
    for written, path in (
        (znodes.broker(REGISTRATION, -1), "/brokers/ids/1"),
        (
            znodes.topic(ID, [registration(number, one) for number, one in PARTITIONS.items()]),
            "/brokers/topics/t",
        ),
        (znodes.config({"log.cleaner.threads": 2}), "/config/brokers/<default>"),
        (znodes.controller(1), "/controller"),
    ):
        captured = CAPTURED[path]
        assert without_ours(written, captured) == json.loads(captured), path
    path = "/brokers/topics/t/partitions/0/state"
    found = without_ours(znodes.state(registration(0, (3, 1)), 1), CAPTURED[path])
    assert found == {**json.loads(CAPTURED[path]), "isr": [1, 3]}  # a set to both of us


def test_a_group_may_have_any_name() -> None:
    group = ConfigResource(GROUP, "a/b c<default>")
    assert znodes.entity_of(znodes.config_path(group)) == group
    assert znodes.config_path(group).count("/") == 3


def test_whose_configuration_or_quotas_a_path_holds() -> None:
    entities = {
        "topics/t": ConfigResource(TOPIC, "t"),
        "brokers/1": ConfigResource(BROKER, "1"),
        "brokers/<default>": ConfigResource(BROKER, CLUSTER_DEFAULT),
        "groups/a%2Fb": ConfigResource(GROUP, "a/b"),
        "users/a%20b": frozenset({("user", "a b")}),
        "users/<default>": frozenset({("user", None)}),
        "users/a/clients/<default>": frozenset({("user", "a"), ("client-id", None)}),
        "clients/app": frozenset({("client-id", "app")}),
        "ips/127.0.0.1": frozenset({("ip", "127.0.0.1")}),
    }
    for path, entity in entities.items():
        assert znodes.entity_of(f"{znodes.CONFIGS}/{path}") == entity


PATHS = {
    "topics/t": ConfigResource(TOPIC, "t"),
    "topics/": ConfigResource(TOPIC, ""),
    "brokers/0": ConfigResource(BROKER, "0"),
    "brokers/<default>": ConfigResource(BROKER, CLUSTER_DEFAULT),
    "groups/a%2Fb%20c": ConfigResource(GROUP, "a/b c"),
    "groups/": ConfigResource(GROUP, ""),
}
QUOTAS: dict[tuple[str, ...], QuotaEntity] = {
    ("users/a%20b",): frozenset({("user", "a b")}),
    ("users/<default>",): frozenset({("user", None)}),
    ("users/a", "users/a/clients", "users/a/clients/<default>"): frozenset(
        {("user", "a"), ("client-id", None)}
    ),
    ("clients/a%2Fb",): frozenset({("client-id", "a/b")}),
    ("ips/<default>",): frozenset({("ip", None)}),
}


def test_where_configurations_and_quotas_are() -> None:
    for path, resource in PATHS.items():
        assert znodes.config_path(resource) == f"{znodes.CONFIGS}/{path}"
    for paths, entity in QUOTAS.items():
        assert znodes.quota_path(entity) == tuple(f"{znodes.CONFIGS}/{path}" for path in paths)
        assert znodes.entity_of(znodes.quota_path(entity)[-1]) == entity


def test_nobody_has_the_number_that_no_broker_has() -> None:
    decision = LeaderAndIsr(3, None, frozenset({1}), 9)
    alone = registration(0, (1, 2))._replace(decision=decision)
    for one, leader, last in (
        (alone, -1, -1),
        (alone._replace(last_known_leader=2, elr=frozenset({2, 0})), -1, 2),
        (alone._replace(decision=LeaderAndIsr(3, 0, frozenset({0}), 9)), 0, -1),
    ):
        data = znodes.state(one, 4)
        written = json.loads(data)
        assert (written["leader"], written["last_known_leader"]) == (leader, last)
        assert (written["version"], written["controller_epoch"]) == (1, 4)
        assert written["elr"] == sorted(one.elr)
        found = znodes.state_of(data, 77)
        assert found == znodes.TopicPartitionStateZNode(
            one.decision, one.elr, one.last_known_leader, 4
        )


def test_a_broker_without_listeners_is_a_registration_as_well() -> None:
    one = BrokerRegistration(0, 5, 2, (), None, (b"d" * 16,))
    data = znodes.broker(one, 3)
    written = json.loads(data)
    assert (written["host"], written["port"], written["jmx_port"]) == ("", -1, -1)
    assert znodes.broker_of(data, 0, 5) == znodes.BrokerIdZNode(one, 3)


def test_a_block_of_producer_ids_ends_before_the_next_one() -> None:
    data = znodes.producer_ids(5_000)
    assert json.loads(data) == {
        "version": 1,
        "broker": -1,
        "block_start": "4000",
        "block_end": "4999",
    }
    assert [znodes.next_producer_id(one) for one in (data, b"", None)] == [5_000, 0, 0]


def test_features_are_as_kafka_has_them_and_have_their_epoch() -> None:
    updated = FeaturesUpdated(3, {"transaction.version": 1})
    data = znodes.features(updated)
    levels = {"transaction.version": 1}
    assert json.loads(data) == {"version": 2, "status": 1, "features": levels, "epoch": 3}
    assert znodes.features_of(data) == updated


def test_what_is_gone_or_there_for_its_children_has_no_configurations() -> None:
    assert znodes.config_of(b"") == znodes.config_of(None) == {}
    assert znodes.config_of(znodes.config({"a": 1.5})) == {"a": "1.5"}


def test_replicas_that_come_and_go_are_those_of_the_partitions_that_move() -> None:
    moving = registration(0, (3, 2, 1))._replace(adding=(3,), removing=(1,))
    topic_id, assigned = znodes.topic_of(znodes.topic(ID, [moving, registration(1, (1, 2))]))
    assert topic_id == ID
    assert assigned == {
        0: znodes.Assigned((3, 2, 1), (3,), (1,)),
        1: znodes.Assigned((1, 2), (), ()),
    }
