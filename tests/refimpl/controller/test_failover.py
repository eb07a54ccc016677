"""A controller that ends at any operation of the store: its successor goes on where it was."""

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest

from chaos.sim.synchronous import StoredCluster
from properties.mutants.catalogue import Edit, Mutant, applied
from refimpl.controller import store_writes, znodes
from refimpl.controller.state import ControllerConfig
from refimpl.machines.messages import AlterPartitionRequest
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BROKER,
    CLUSTER_DEFAULT,
    TOPIC,
    ConfigResource,
    FeaturesUpdated,
)
from refimpl.metadata.contract import Create

CONFIG = ControllerConfig(leader_imbalance_check_interval_ms=0)
T0 = TopicPartition("t", 0)
STORED = "refimpl.controller.stored_controller:StoredController"


def cluster() -> StoredCluster:
    """Three brokers, of which 1 is controller, and a topic t with replicas 1, 2."""
    made = StoredCluster(CONFIG)
    for broker in (1, 2, 3):
        made.start(broker)
    topic = c.CreatableTopic("t", assignments=((0, (1, 2)), (1, (2, 3))))
    made.ask(c.CreateTopicsRequest((topic,)))
    return made


def create(made: StoredCluster) -> None:
    topic = c.CreatableTopic("u", 3, 2, configs=(("retention.ms", "1"),))
    made.ask(c.CreateTopicsRequest((topic,)))


def delete(made: StoredCluster) -> None:
    made.ask(c.DeleteTopicsRequest(("t",)))


def grow(made: StoredCluster) -> None:
    made.ask(c.CreatePartitionsRequest((c.NewPartitions("t", 4),)))


def move(made: StoredCluster) -> None:
    wanted = c.ReassignablePartition(T0, (1, 3))
    made.ask(c.AlterPartitionReassignmentsRequest((wanted,)))
    acting = made.acting
    if acting is None or acting.controller is None:
        return
    state, epochs = acting.controller.partitions[T0].state, acting.controller.registry.epochs
    assert state.leader is not None
    isr = tuple((one, epochs[one]) for one in sorted(state.isr | {3}))
    change = AlterPartitionRequest(
        state.leader, epochs[state.leader], state.leader_epoch, state.partition_epoch, isr
    )
    made.ask(c.AlterPartitionRequest(T0, change))


def configure(made: StoredCluster) -> None:
    resource = ConfigResource(TOPIC, "t")
    changes = (c.ConfigAlteration("min.insync.replicas", c.SET, "2"),)
    everywhere = ConfigResource(BROKER, CLUSTER_DEFAULT)
    both = ((resource, changes), (everywhere, (c.ConfigAlteration("x", c.SET, "1"),)))
    made.ask(c.IncrementalAlterConfigsRequest(both))
    entity = (("user", "a b"), ("client-id", None))
    quotas = (c.QuotaAlteration(entity, (("producer_byte_rate", 5.0),)),)
    made.ask(c.AlterClientQuotasRequest(quotas))
    made.ask(c.AllocateProducerIdsRequest(2, made.candidates[2].controller.broker_epoch))
    made.ask(c.UpdateFeaturesRequest((c.FeatureUpdate("transaction.version", 1, 2),)))


WORK = [create, delete, grow, move, configure]


def finish(made: StoredCluster) -> None:
    """Let the sessions of crashed nodes expire, and a new controller take over."""
    made.until = -1
    made.wait()
    made.wait()
    assert made.acting is not None


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
@pytest.mark.parametrize("most_bytes", [500_000, 1], ids=["at once", "one by one"])
def test_a_successor_finds_what_was_done_or_does_it_or_nothing_of_it_was(
    work: Callable[[StoredCluster], None], most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was told to anyone is in force afterwards; nothing is half there, even where the
    store takes only one write at a time."""
    monkeypatch.setattr(store_writes, "MOST_BYTES", most_bytes)
    fails_over_anywhere(work)


def fails_over_anywhere(work: Callable[[StoredCluster], None]) -> None:
    """Let the controller end at each operation of this work."""
    done = cluster()
    before = done.operations
    work(done)
    count = done.operations - before
    assert count > 0
    for stop in range(1, count + 1):
        made = cluster()
        made.until = made.operations + stop
        work(made)
        told = dict(made.candidates[3].metadata.partitions)
        assert not made.candidates[1].up
        finish(made)
        assert made.acting is not None
        assert made.acting.controller is not None
        assert made.acting.broker != 1
        metadata = made.acting.controller.metadata
        for name, one in metadata.partitions.items():
            assert one.decision.leader in one.decision.isr
            assert 1 not in one.decision.isr or one.replicas == (1,)
            assert one.decision.isr <= set(one.replicas)
            if name in told and told[name].topic_id == one.topic_id:
                assert one.decision.partition_epoch >= told[name].decision.partition_epoch
        for name, topic in metadata.topics.items():
            _, assigned = znodes.topic_of(made.store.tree.nodes[znodes.topic_path(name)].data)
            assert set(topic.partitions) == set(assigned) == set(range(len(assigned))), name
            assert f"{znodes.DELETE_TOPICS}/{name}" not in made.store.tree.nodes
        left = [path for path in made.store.tree.nodes if path.startswith(f"{znodes.TOPICS}/")]
        assert {path.split("/")[3] for path in left} == set(metadata.topics)
        for follower in (2, 3):
            seen = made.candidates[follower].metadata
            assert seen.partitions == metadata.partitions
            assert seen.configs == metadata.configs
            assert seen.quotas == metadata.quotas
            assert seen.features == metadata.features


BUGS = [
    (delete, f"{STORED}._take_over", "loaded.deleting", "()"),
    (create, f"{STORED}._brokers_are", "controller.decisions.create_missing(loaded.missing)", "[]"),
    (
        grow,
        "refimpl.controller.store_reads:Loaded._topics",
        "{*assigned, *map(int, numbers)}",
        "{0}",
    ),
]


@pytest.mark.parametrize(
    ("work", "function", "old", "new"), BUGS, ids=[bug[1].split(".")[-1] for bug in BUGS]
)
def test_what_a_successor_leaves_undone_is_seen(
    work: Callable[[StoredCluster], None],
    function: str,
    old: str,
    new: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_writes, "MOST_BYTES", 1)
    mutant = Mutant("undone", "A successor does not go on.", (Edit(function, old, new),), ())
    with applied(mutant), pytest.raises((AssertionError, KeyError)):
        fails_over_anywhere(work)


def test_a_new_controller_reads_all_that_the_last_one_wrote() -> None:
    made = cluster()
    for work in (create, grow, configure):
        work(made)
    acting = made.acting
    assert acting is not None
    assert acting.controller is not None
    before = acting.controller.metadata
    made.end(1)
    finish(made)
    again = made.acting
    assert again is not None
    assert again.controller is not None
    after = again.controller.metadata
    assert again.controller.controller_epoch == 2
    assert after.configs == before.configs
    assert after.quotas == before.quotas
    assert after.next_producer_id == before.next_producer_id == 1000
    assert after.features == before.features == FeaturesUpdated(1, {"transaction.version": 1})
    assert {name: one.topic_id for name, one in after.topics.items()} == {
        name: one.topic_id for name, one in before.topics.items()
    }
    assert {name: one.replicas for name, one in after.partitions.items()} == {
        name: one.replicas for name, one in before.partitions.items()
    }
    led_by_1 = [name for name, one in before.partitions.items() if one.decision.leader == 1]
    assert led_by_1
    for name in led_by_1:
        new, old = after.partitions[name].decision, before.partitions[name].decision
        assert new.leader != 1
        assert new.leader_epoch > old.leader_epoch


def test_a_deletion_that_was_only_asked_for_is_carried_out_by_the_next_controller() -> None:
    made = cluster()
    made.store.redo(made.store.zxid + 1, 0, Create(f"{znodes.DELETE_TOPICS}/t"))
    made.end(1)
    finish(made)
    assert made.acting is not None
    assert made.acting.controller is not None
    assert "t" not in made.acting.controller.metadata.topics
    assert znodes.topic_path("t") not in made.store.tree.nodes
    assert f"{znodes.DELETE_TOPICS}/t" not in made.store.tree.nodes


USER_1 = (("user", "user-1"), ("client-id", None))


def limit(made: StoredCluster, rate: float) -> Any:
    """Ask for a quota; the answer, None if none comes."""
    quotas = (c.QuotaAlteration(USER_1, (("producer_byte_rate", rate),)),)
    return made.ask(c.AlterClientQuotasRequest(quotas))


def quotas_seen(made: StoredCluster) -> list[Any]:
    return [made.candidates[one].metadata.quotas.get(frozenset(USER_1)) for one in (1, 2, 3)]


def test_a_quota_is_altered_by_whoever_wrote_it_and_by_the_next_controller() -> None:
    made = cluster()
    for rate in (5.0, 6.0):
        assert limit(made, rate) is not None
    made.end(1)
    finish(made)
    assert limit(made, 7.0) is not None
    assert quotas_seen(made)[1:] == [{"producer_byte_rate": 7.0}] * 2


def test_a_controller_that_reads_again_goes_on_telling_brokers() -> None:
    """Somebody else makes a znode that the controller is about to make."""
    made = cluster()
    create(made)
    zxid = made.store.zxid + 1
    made.store.redo(zxid, 0, Create(f"{znodes.CONFIGS}/users/user-1"))
    assert limit(made, 5.0) is None
    assert limit(made, 6.0) is not None
    acting = made.acting
    assert acting is not None
    assert acting.controller is not None
    assert acting.controller.controller_epoch == 1
    assert quotas_seen(made) == [{"producer_byte_rate": 6.0}] * 3


def test_znodes_are_written_as_kafka_3_9_does() -> None:
    """Against examples/controller/znodes.txt of a running cluster, field by field."""
    made = cluster()
    nodes = made.store.tree.nodes

    def at(path: str) -> dict[str, object]:
        return orjson.loads(nodes[path].data)

    assert at("/controller") == {
        "version": 2,
        "brokerid": 1,
        "timestamp": "0",
        "kraftControllerEpoch": -1,
    }
    assert nodes["/controller_epoch"].data == b"1"
    topic = at("/brokers/topics/t")
    assert topic["partitions"] == {"0": [1, 2], "1": [2, 3]}
    assert topic["version"] == 3
    state = at("/brokers/topics/t/partitions/0/state")
    kafkas = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 1, "isr": [1, 2]}
    assert {key: state[key] for key in kafkas} == kafkas
    broker = at("/brokers/ids/2")
    assert broker["endpoints"] == ["PLAINTEXT://host2:9092"]
    assert broker["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT"}
    assert (broker["host"], broker["port"], broker["version"]) == ("host2", 9092, 5)


def test_a_broker_that_registers_while_a_controller_takes_over_is_heard_of() -> None:
    """Let a broker register after each of the operations with which a controller takes over."""
    for stop in range(1, 60):
        made = cluster()
        made.end(1)
        made.interrupt = made.operations + stop, partial(made.appear, 4)
        finish(made)
        if f"{znodes.BROKER_IDS}/4" not in made.store.tree.nodes:
            assert stop > 20
            return
        acting = made.acting
        assert acting is not None
        assert acting.controller is not None
        assert 4 in acting.controller.registry.alive, stop
    raise AssertionError("taking over has no end")
