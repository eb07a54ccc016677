"""Mistakes of users, each with the sentence that they get where they made it.

A fault that nobody notices to be none leaves a test that passes without its fault.
"""

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import fields

from refimpl.edge import BlockingCluster, Cluster, ClusterError, NotRunning
from refimpl.edge.testing.blocking_methods import Settings
from refimpl.messages.cluster import TOPIC, ConfigResource

pytestmark = pytest.mark.filterwarnings("error")
Do = Callable[[Any], object]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three brokers; the third has no replica of `orders`, the second of `lonely` only."""
    with BlockingCluster(brokers=3, seed=1) as cluster:
        cluster.create_topic("orders", assignments={0: [1, 2], 1: [2, 1]})
        yield cluster


# What is asked of brokers

ASKED: dict[str, tuple[Do, str]] = {
    "an API that is misspelt": (
        lambda c: c.fail("Prodoce", "NOT_LEADER_OR_FOLLOWER"),
        "no API of Kafka's is called 'Prodoce'; did you mean Produce?",
    ),
    "an API in another spelling": (
        lambda c: c.hold("list_offsets"),
        "no API of Kafka's is called 'list_offsets'; did you mean ListOffsets?",
    ),
    "an API that is not served": (
        lambda c: c.drop("DescribeDelegationToken"),
        "DescribeDelegationToken is not served here, so no request would meet a rule for it",
    ),
    "an error by half of its name": (
        lambda c: c.fail("Produce", "NOT_LEADER"),
        "no error of Kafka's is called 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER?",
    ),
    "an error by its number": (
        lambda c: c.fail("Produce", 6),
        "an error is given by its name: 6 is NOT_LEADER_OR_FOLLOWER",
    ),
    "an error that is none": (
        lambda c: c.fail("Produce", "NONE"),
        "NONE is no error: a request that is answered with it has not failed",
    ),
    "a rule for no request": (
        lambda c: c.drop("Produce", count=0),
        "count: a whole number from 1 on is expected, found 0",
    ),
    "a rule for one broker that there is not": (
        lambda c: c.drop("Produce", broker=4),
        "BROKER_ID_NOT_REGISTERED: there is no broker 4; there are 1, 2 and 3",
    ),
    "more requests than the rule is for": (
        lambda c: c.met(c.drop("Fetch", client_id="nobody", count=1), count=2),
        "met: the rule is for 1 requests, and never meets 2",
    ),
    "a rule that nothing meets": (
        lambda c: c.met(c.drop("DeleteTopics"), timeout_ms=20),
        "drop('DeleteTopics') met 0 of 1 within 20 ms",
    ),
    "time that goes back": (
        lambda c: c.advance(-5),
        "by_ms: a whole number from 1 on is expected, found -5",
    ),
    "time in seconds": (
        lambda c: c.advance(1.5),
        "by_ms: a whole number from 1 on is expected, found 1.5",
    ),
    "a topic that is misspelt": (
        lambda c: c.leader("order", 0),
        "UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'order'; did you mean orders?",
    ),
    "a topic that nobody made": (
        lambda c: c.leader("nope", 0),
        "UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'nope'; topics: orders",
    ),
    "a partition that there is not": (
        lambda c: c.isr("orders", 2),
        "UNKNOWN_TOPIC_OR_PARTITION: topic orders has no partition 2; partitions: 0 and 1",
    ),
    "the log of a broker without a replica": (
        lambda c: c.log_end("orders", 0, 3),
        "REPLICA_NOT_AVAILABLE: broker 3 has no replica of orders-0; replicas: 1 and 2",
    ),
    "a leader without a replica": (
        lambda c: c.move_leader("orders", 0, 3),
        "INVALID_REPLICA_ASSIGNMENT: broker 3 has no replica of orders-0; replicas: 1 and 2",
    ),
    "a broker that there is not": (
        lambda c: c.kill(0),
        "BROKER_ID_NOT_REGISTERED: there is no broker 0; there are 1, 2 and 3",
    ),
    "nobody, where nobody leads": (
        lambda c: c.kill(None),
        "BROKER_ID_NOT_REGISTERED: there is no broker None, which `leader` answers where nobody "
        "leads; there are 1, 2 and 3",
    ),
    "a restart of a broker that runs": (
        lambda c: c.restart(1),
        "INVALID_REQUEST: broker 1 runs: it cannot be restarted",
    ),
    "a link from a broker to itself": (
        lambda c: c.cut(1, "one", peer=1),
        "peer: broker 1 has no link to itself",
    ),
    "a way to cut that there is not": (
        lambda c: c.cut(1, "both"),
        "how: expected one of all, from, to, controller, brokers, to_brokers, from_brokers, one, "
        "found 'both' of None",
    ),
    "a value in the place of a condition": (
        lambda c: c.until(c.isr("orders", 0) == {1}),
        "until: a function such as `lambda: …` is expected, found False",
    ),
    "a setting of topics that is misspelt": (
        lambda c: c.create_topic("a", configs={"min.insync.replica": 2}),
        "no setting of a topic is called 'min.insync.replica'; did you mean min.insync.replicas?",
    ),
    "more replicas than brokers": (
        lambda c: c.create_topic("a", replicas=4),
        "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 4 time(s): The target "
        "replication factor of 4 cannot be reached because only 3 broker(s) are registered or "
        "some brokers have all their log directories cordoned.",
    ),
    "two numbers of partitions": (
        lambda c: c.create_topic("a", partitions=2, assignments={0: [1]}),
        "topic a: assignments={0: [1]} contradict partitions=2 and replicas=1",
    ),
    "a topic twice": (
        lambda c: c.create_topic("orders"),
        "TOPIC_ALREADY_EXISTS: Topic 'orders' already exists.",
    ),
}


@pytest.mark.parametrize("mistake", ASKED)
def test_what_brokers_cannot_do_is_refused_in_one_sentence(mistake: str, cluster: Any) -> None:
    do, sentence = ASKED[mistake]
    with pytest.raises((ValueError, ClusterError, TimeoutError)) as refused:
        do(cluster)
    assert str(refused.value) == sentence


def test_a_condition_that_stays_false_is_shown(cluster: Any) -> None:
    def never() -> bool:
        return cluster.isr("orders", 0) == {3}

    with pytest.raises(TimeoutError, match=r"not true within 20 ms: .*\.py:\d+: def never") as late:
        cluster.until(never, timeout_ms=20)
    assert Path(__file__).name in str(late.value)


def test_a_coroutine_is_no_condition(cluster: Any) -> None:
    async def condition() -> bool:
        return False

    with pytest.raises(ValueError, match="a condition is no coroutine"):
        cluster.until(condition)


# What brokers are made of

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

MADE: dict[str, tuple[dict[str, Any], str]] = {
    "a setting that there is not": (
        {"configs": {"no.such.setting": "1"}},
        "no setting is called 'no.such.setting'",
    ),
    "a setting that is misspelt": (
        {"configs": {"min.insync.replica": "2"}},
        "no setting is called 'min.insync.replica'; did you mean min.insync.replicas?",
    ),
    "a value of another type": (
        {"configs": {"min.insync.replicas": "two"}},
        "Invalid value two for configuration min.insync.replicas: Not a number of type INT",
    ),
    "a value that no setting has": (
        {"configs": {"min.insync.replicas": [2]}},
        "min.insync.replicas: a text, a number or a bool is expected, found [2]",
    ),
    "a listener with a login": (
        {"configs": {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}},
        "Invalid value GSSAPI for configuration sasl.enabled.mechanisms: Those that are here are "
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
    ),
    "a login without users": (
        {
            "configs": {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "PLAIN",
            }
        },
        "listener.name.sasl_plaintext.plain.sasl.jaas.config is needed: it names the users of "
        "PLAIN",
    ),
    "a login module that is none": (
        {
            "configs": {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": "user_alice=secret",
            }
        },
        "listener.name.sasl_plaintext.plain.sasl.jaas.config: a login module is expected, as in "
        '`PlainLoginModule required key="value";`',
    ),
    "a listener with TLS and without a key": (
        {"configs": {"listeners": "SSL://127.0.0.1:0"}},
        "ssl.keystore.location is needed by a listener with TLS",
    ),
    "a key store that is not there": (
        {"configs": {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": "/none.pem"}},
        "Invalid value /none.pem for configuration ssl.keystore.location: The file cannot be "
        "read: No such file or directory",
    ),
    "a listener of no protocol": (
        {"configs": {"listeners": "CLIENTS://127.0.0.1:0"}},
        "Invalid value CLIENTS://127.0.0.1:0 for configuration listeners: "
        "listener.security.protocol.map has no protocol for CLIENTS",
    ),
    "a super user without a type": (
        {"configs": {"authorizer.class.name": STANDARD, "super.users": "admin"}},
        "super.users: 'admin' is no principal: User:NAME is expected",
    ),
    "a listener elsewhere": (
        {"configs": {"listeners": "PLAINTEXT://127.0.0.1:9092"}},
        "listeners=PLAINTEXT://127.0.0.1:9092, but host='127.0.0.1' and port=0 say where brokers "
        "listen",
    ),
    "a setting without effect": (
        {"configs": {"create.topic.policy.class.name": "org.example.Mine"}},
        "create.topic.policy.class.name has no effect: this broker does not support it",
    ),
    "an authorizer of somebody else": (
        {"configs": {"authorizer.class.name": "org.example.Mine"}},
        "Invalid value org.example.Mine for configuration authorizer.class.name: The authorizer "
        "that is here is org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    "a directory among the settings": (
        {"configs": {"log.dirs": "logs"}},
        "log.dirs has no effect: `data` says where logs are",
    ),
    "no brokers": ({"brokers": 0}, "brokers: a whole number from 1 to 64 is expected, found 0"),
    "no port": ({"port": 65_535}, "port: a whole number from 0 to 65533 is expected, found 65535"),
    "a rack of a broker that there is not": (
        {"racks": {0: "a"}},
        "racks: there is no broker 0 of 3 to be in 'a'",
    ),
}


@pytest.mark.parametrize("mistake", MADE)
@pytest.mark.parametrize("kind", [Cluster, BlockingCluster])
def test_what_a_cluster_cannot_be_is_refused_before_it_starts(mistake: str, kind: Any) -> None:
    settings, sentence = MADE[mistake]
    with pytest.raises((ValueError, UserWarning)) as refused:
        kind(**settings)
    assert str(refused.value) == sentence


def test_numbers_and_bools_are_settings_as_well(tmp_path: Path) -> None:
    configs = {"min.insync.replicas": 2, "auto.create.topics.enable": False}
    with BlockingCluster(brokers=1, configs=configs, data=str(tmp_path)) as cluster:
        cluster.create_topic("orders", configs={"retention.ms": 1000, "preallocate": True})
        values = cluster.hosts[1].configs
        assert values["min.insync.replicas"] == 2
        assert values["auto.create.topics.enable"] is False
        own = cluster.hosts[1].node.metadata.configs
        assert own[ConfigResource(TOPIC, "orders")] == {
            "retention.ms": "1000",
            "preallocate": "true",
        }


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = f"broker 1 cannot listen: 127.0.0.1, port {port}, is in use"
        with (
            pytest.raises(OSError, match=re.escape(sentence)),
            BlockingCluster(brokers=1, port=port),
        ):
            pass


# Brokers that are down

DOWN: dict[str, tuple[Do, str]] = {
    "killed twice": (lambda c: c.kill(2), "broker 2 is down: it cannot be killed"),
    "stopped": (lambda c: c.stop(2), "broker 2 is down: it cannot be stopped"),
    "paused": (lambda c: c.pause(2), "broker 2 is down: it cannot be paused"),
    "resumed": (lambda c: c.resume(2), "broker 2 is down: it cannot go on"),
    "a leader": (
        lambda c: c.move_leader("orders", 0, 2),
        "broker 2 is down: it cannot lead orders-0",
    ),
}


def test_nothing_is_done_to_a_broker_that_is_down() -> None:
    with BlockingCluster(brokers=2) as cluster:
        cluster.create_topic("orders", assignments={0: [1, 2]})
        cluster.kill(2)
        for do, sentence in DOWN.values():
            with pytest.raises(ClusterError) as refused:
                do(cluster)
            assert str(refused.value) == f"BROKER_NOT_AVAILABLE: {sentence}"
        cluster.expire_session(2)
        cluster.restart(2)


def test_a_broker_that_is_out_of_sync_cannot_be_made_leader() -> None:
    with BlockingCluster(brokers=2) as cluster:
        cluster.create_topic("orders", assignments={0: [1, 2]})
        cluster.kill(2)
        cluster.expire_session(2)
        cluster.cut(2, "brokers")
        cluster.restart(2)
        with pytest.raises(ClusterError, match="broker 2 is not in sync for orders-0; ISR: 1"):
            cluster.move_leader("orders", 0, 2)


def test_a_broker_that_keeps_the_cluster_from_settling_is_named() -> None:
    with BlockingCluster(brokers=2) as cluster:
        cluster.pause(2)
        cluster.expire_session(2)
        with pytest.raises(TimeoutError, match="not settled after 20 ms: broker 2 is paused"):
            cluster.settled(timeout_ms=20)


# Clusters that do not run

UNSTARTED: dict[str, Do] = {
    "a topic": lambda c: c.create_topic("orders"),
    "an address": lambda c: c.bootstrap,
    "a fault": lambda c: c.drop("Produce"),
    "time": lambda c: c.advance(1),
    "a broker": lambda c: c.kill(1),
}


@pytest.mark.parametrize("what", UNSTARTED)
def test_a_forgotten_with_is_refused_at_once(what: str) -> None:
    with pytest.raises(NotRunning, match="has not been started: use it inside of `with`"):
        UNSTARTED[what](BlockingCluster(brokers=1))


@pytest.mark.parametrize("what", UNSTARTED)
def test_an_ended_cluster_does_nothing(what: str) -> None:
    with BlockingCluster(brokers=1) as cluster:
        pass
    with pytest.raises(NotRunning, match="this cluster has ended: use it inside of `with`"):
        UNSTARTED[what](cluster)
    with pytest.raises(NotRunning, match="make another one"):
        cluster.start()
    cluster.close()


def test_a_forgotten_async_with_is_refused_at_once() -> None:
    async def forgotten() -> None:
        await Cluster(brokers=1).create_topic("orders")

    with pytest.raises(NotRunning, match="has not been started"):
        asyncio.run(forgotten())


def test_a_call_that_waits_is_refused_in_the_thread_of_the_brokers() -> None:
    refused: list[str] = []

    def observe(broker: int, event: object) -> None:
        if broker == 1 and not refused:
            try:
                cluster.create_topic("late")
            except RuntimeError as error:
                refused.append(str(error))

    cluster = BlockingCluster(brokers=1, observe=observe)
    with cluster:
        cluster.create_topic("orders")
    assert refused == ["create_topic waits for brokers, and so cannot be called in their thread"]


def test_a_cluster_for_threads_has_the_settings_and_methods_of_one_for_a_loop() -> None:
    public = [one for one in fields(Cluster) if not one.name.startswith("_")]
    assert [*Settings.__annotations__] == [one.name for one in public if one.init]
    methods = {name for name in vars(Cluster) if not name.startswith("_")}
    assert {one.name for one in public} | methods <= {*dir(BlockingCluster)}
