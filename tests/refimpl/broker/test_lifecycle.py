"""A process from its registration to its end, and what it does by the clock (KIP-631, KIP-841)."""

from typing import Any

from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.file_logs import FileLogs
from refimpl.broker.log_manager import CHECKPOINT, CLEANER, FLUSH, PRODUCERS, RETENTION
from refimpl.broker.node import FETCH, HEARTBEAT, ISR, NEVER, OFFLINE, REGISTER, Node
from refimpl.errors import CorruptFile
from refimpl.messages import broker as m
from refimpl.messages.cluster import TopicDeleted
from refimpl.messages.controller import (
    CONTROLLER,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Stopped,
)
from refimpl.messages.observations import BrokerEpochTaken, Ignored, Refused, WentOffline
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from tests.refimpl.broker.node_cases import (
    EPOCH,
    ORDERS,
    TOPIC_ID,
    Cluster,
    FailingDisk,
    answer,
    batch_of,
    following,
    leading,
)

NOW = 1_000
QUICK = BrokerConfig(log_flush_interval_ms=70)


def started(config: BrokerConfig = QUICK) -> tuple[Node, list[Any]]:
    """A node that nobody has answered, and what it said first."""
    logs = FileLogs(MemoryDisk(), lambda: NOW, LogConfig())
    node = Node(1, config, logs, {}, 3)
    return node, [*node.start(NOW, ())]


def answered(node: Node, asked: m.Request, body: Any) -> list[Any]:
    return [*node.handle(NOW, m.Response(CONTROLLER, 1, asked.correlation_id, body))]


def tick(node: Node, name: str) -> list[Any]:
    return [*node.handle(NOW, m.Timer(NOW, name))]


def requests(outputs: list[Any]) -> list[m.Request]:
    return [one for one in outputs if isinstance(one, m.Request)]


# Registration


def test_a_process_registers_and_asks_again_until_it_is_answered() -> None:
    node, outputs = started()
    again = NOW + QUICK.broker_heartbeat_interval_ms
    (asked,) = requests(outputs)
    assert (asked.target, asked.body) == (CONTROLLER, BrokerRegistrationRequest(1, 3, -1))
    assert m.Timer(again, REGISTER) in outputs
    outputs = tick(node, REGISTER)
    assert [one.body for one in requests(outputs)] == [asked.body]
    assert m.Timer(again, REGISTER) in outputs
    answered(node, asked, BrokerRegistrationResponse(None, 0))
    assert node.lifecycle.registered, "0 is an epoch"
    assert tick(node, REGISTER) == []


def test_a_refused_process_is_not_registered_and_says_why() -> None:
    node, outputs = started()
    (asked,) = requests(outputs)
    refused = BrokerRegistrationResponse("DUPLICATE_BROKER_REGISTRATION", -1)
    assert answered(node, asked, refused) == [
        Refused("BrokerRegistration", "DUPLICATE_BROKER_REGISTRATION")
    ]
    assert requests(tick(node, REGISTER))


def test_registered_a_process_has_an_epoch_and_begins_its_work_once() -> None:
    node, outputs = started()
    (asked,) = requests(outputs)
    outputs = answered(node, asked, BrokerRegistrationResponse(None, 9))
    assert BrokerEpochTaken(1, 3, 9) in outputs
    timers = {one.name: one.at_ms - NOW for one in outputs if isinstance(one, m.Timer)}
    assert timers == {
        HEARTBEAT: 0,
        FETCH: QUICK.replica_fetch_backoff_ms,
        ISR: QUICK.replica_lag_time_max_ms // 2,
        FLUSH: 70,
        CHECKPOINT: QUICK.replica_high_watermark_checkpoint_interval_ms,
        RETENTION: QUICK.log_retention_check_interval_ms,
        CLEANER: QUICK.log_cleaner_backoff_ms,
        PRODUCERS: QUICK.producer_id_expiration_check_interval_ms,
    }
    assert answered(node, asked, BrokerRegistrationResponse(None, 10)) == []
    assert node.context.broker_epoch == 9


def test_what_never_comes_and_what_is_switched_off_has_no_timer() -> None:
    config = BrokerConfig(log_flush_interval_ms=NEVER, log_cleaner_enable=False)
    node, outputs = started(config)
    (asked,) = requests(outputs)
    outputs = answered(node, asked, BrokerRegistrationResponse(None, 9))
    timers = {one.name for one in outputs if isinstance(one, m.Timer)}
    assert timers == {HEARTBEAT, FETCH, ISR, CHECKPOINT, RETENTION, PRODUCERS}


def test_timers_come_again_after_their_time() -> None:
    cluster = leading(config=QUICK)
    config, now = cluster.config, cluster.now
    for name, period in (
        (HEARTBEAT, config.broker_heartbeat_interval_ms),
        (FETCH, config.replica_fetch_backoff_ms),
        (ISR, config.replica_lag_time_max_ms // 2),
        (FLUSH, 70),
        (CHECKPOINT, config.replica_high_watermark_checkpoint_interval_ms),
    ):
        outputs = cluster.node.handle(now, m.Timer(now, name))
        assert m.Timer(now + period, name) in outputs, name
    short = leading(config=BrokerConfig(replica_lag_time_max_ms=1))
    assert m.Timer(now + 1, ISR) in short.node.handle(now, m.Timer(now, ISR))


# Heartbeats and the end


def heartbeat(cluster: Cluster) -> m.Request:
    (asked,) = requests(list(cluster.node.handle(cluster.now, m.Timer(cluster.now, HEARTBEAT))))
    return asked


def test_a_heartbeat_says_what_is_known() -> None:
    cluster = leading()
    version = cluster.versions
    assert heartbeat(cluster).body == BrokerHeartbeatRequest(1, EPOCH, version, False, 0)


def test_a_process_stops_when_it_wants_to_and_the_controller_agrees() -> None:
    cluster = leading()
    agreed = BrokerHeartbeatResponse(None, True)
    assert answered(cluster.node, heartbeat(cluster), agreed) == [], "it has not asked"
    (asked,) = requests(list(cluster.node.stop(cluster.now)))
    assert asked.body.want_shut_down
    assert answered(cluster.node, asked, BrokerHeartbeatResponse(None, False)) == []
    assert answered(cluster.node, asked, agreed) == [Stopped()]
    assert answered(cluster.node, asked, agreed) == [], "once"


def test_who_is_not_registered_has_nobody_to_ask_for_its_end() -> None:
    node, _ = started()
    assert list(node.stop(NOW)) == []


def test_a_heartbeat_that_is_refused_is_told() -> None:
    cluster = leading()
    cluster.node.stop(cluster.now)
    refused = BrokerHeartbeatResponse("STALE_BROKER_EPOCH", True)
    assert answered(cluster.node, heartbeat(cluster), refused) == [
        Refused("BrokerHeartbeat", "STALE_BROKER_EPOCH")
    ]


def test_an_unregistered_process_stops_without_the_controller() -> None:
    cluster = Cluster()
    (asked,) = requests(list(cluster.node.stop(cluster.now)))
    refused = BrokerHeartbeatResponse("BROKER_ID_NOT_REGISTERED", False)
    outputs = answered(cluster.node, asked, refused)
    assert outputs == [Refused("BrokerHeartbeat", "BROKER_ID_NOT_REGISTERED"), Stopped()]


def test_who_was_stopped_in_good_order_names_its_epoch_when_it_starts_again() -> None:
    """KIP-966: it has lost nothing."""
    for closed in (True, False):
        disk = MemoryDisk()
        cluster = leading(disk=disk)
        cluster.produce(batch_of(b"a"))
        cluster.catch_up()
        if closed:
            cluster.node.close()
        again = Cluster(disk=disk)
        assert again.node.lifecycle.previous_broker_epoch == (EPOCH if closed else -1)
        again.decide(2, 2)
        assert again.partition.replica.high_watermark == int(closed)


def test_a_disk_that_fails_at_the_end_or_by_the_clock_is_told() -> None:
    disk = FailingDisk()
    cluster = leading(disk=disk, config=QUICK)
    cluster.produce(batch_of(b"a"))
    disk.broken = True
    outputs = cluster.node.handle(cluster.now, m.Timer(cluster.now, CHECKPOINT))
    assert Refused(CHECKPOINT, "KAFKA_STORAGE_ERROR") in outputs
    cluster.node.close()
    assert Refused("shutdown", "KAFKA_STORAGE_ERROR") in cluster.node.context.outputs


def test_a_log_that_fails_takes_no_other_with_it_and_is_not_followed() -> None:
    other = m.TopicPartition("orders", 1)
    cluster, asked = following(partitions=(ORDERS, other))
    assert isinstance(cluster.node.logs, FileLogs)
    cluster.node.logs.directory.damaged[ORDERS] = CorruptFile("orders-0", 0, "bad")
    outputs = cluster.node.handle(cluster.now, m.Timer(cluster.now, OFFLINE))
    assert WentOffline(ORDERS) in outputs
    assert set(cluster.node.partitions) == {other}
    (asked,) = answer(cluster, asked, m.FetchedPartition(ORDERS, None, 0, 0, 0))
    assert [one.partition for one in asked.body.partitions] == [other]


def test_who_is_not_registered_tells_nobody_that_a_log_has_failed() -> None:
    logs = FileLogs(MemoryDisk(), lambda: NOW, LogConfig())
    node = Node(1, QUICK, logs, {}, 3)
    node.start(NOW, (ORDERS,))
    logs.directory.damaged[ORDERS] = CorruptFile("orders-0", 0, "bad")
    assert tick(node, OFFLINE) == [WentOffline(ORDERS)]


def test_a_disk_that_fails_when_a_partition_goes_is_told() -> None:
    disk = FailingDisk()
    cluster = leading(disk=disk)
    disk.broken = True
    cluster.news(TopicDeleted(ORDERS.topic, TOPIC_ID))
    assert Refused("StopReplica", "KAFKA_STORAGE_ERROR") in cluster.told


def test_a_log_of_a_topic_without_an_id_is_found_again() -> None:
    elsewhere = m.TopicPartition("elsewhere", 0)
    cluster = Cluster()
    cluster.decide(1, 1, partitions=(ORDERS, elsewhere))
    cluster.ask(m.ProduceRequest(1, 100, [(elsewhere, batch_of(b"a"))]))
    again = Cluster(disk=cluster.disk)
    again.decide(1, 2, partitions=(ORDERS, elsewhere))
    assert again.node.partitions[elsewhere].log.end == 1


def test_a_partition_that_was_made_later_is_compacted_as_well() -> None:
    compacted = LogConfig(
        cleanup_policy=frozenset({"compact"}), segment_bytes=100, min_cleanable_dirty_ratio=0.0
    )
    cluster = leading(logs=compacted)
    for number in range(4):
        cluster.produce(encode_batch([Record(0, number, b"key", b"%d" % number)]))
    cluster.catch_up()
    cluster.catch_up()
    kept = cluster.partition.log.size
    cluster.node.handle(cluster.now, m.Timer(cluster.now, CLEANER))
    assert cluster.partition.log.size < kept


# Numbers of requests


def test_requests_of_two_processes_have_different_numbers_of_31_bits() -> None:
    numbers = [Context(1, BrokerConfig(), n).request(2, None) for n in (0, 1, 2047, 2048)]
    assert numbers == [1, (1 << 20) + 1, (2047 << 20) + 1, 1]
    assert max(numbers) < 1 << 31


def test_an_answer_to_an_earlier_process_means_nothing() -> None:
    cluster = leading()
    late = m.Response(CONTROLLER, 1, 7, BrokerHeartbeatResponse("STALE_BROKER_EPOCH", True))
    assert list(cluster.node.handle(cluster.now, late)) == [
        Ignored("answers to an earlier process")
    ]


def test_a_request_to_nobody_is_counted_and_not_sent() -> None:
    context = Context(1, BrokerConfig(), 0)
    assert (context.request(-1, None), context.outputs) == (1, [])
    assert (context.request(0, None), len(context.outputs)) == (2, 1)
