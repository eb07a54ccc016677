"""Cues and rules with real clients: they act when something has happened, and say if it did not."""

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge.server.cues import Event
from refimpl.edge.testing.cluster import ClusterError
from refimpl.edge.testing.kafka import Kafka, UnmetError

ck: Any = import_module("confluent_kafka")

QUIET = {"log_level": 0}
READ = {
    **QUIET,
    "group_id": "shop",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 50,
}


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka(brokers=3, topics={"orders": 1}, seed=1) as cluster:
        yield cluster


def send(kafka: Kafka, *values: bytes, topic: str = "orders", **conf: Any) -> list[Any]:
    """Send the values in turn; return the offset of each, or its error's name."""
    told: list[Any] = []
    producer = ck.Producer(kafka.conf(**{"acks": "all", "linger_ms": 0, **QUIET, **conf}))

    def done(error: Any, message: Any) -> None:
        told.append(error.name() if error else message.offset())

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=done)
        producer.flush(20)
    return told


def leader_of(kafka: Kafka, topic: str = "orders") -> int:
    """The leader that its partition 0 has."""
    leader = kafka.leader(topic, 0)
    assert leader is not None
    return leader


def unmet(test: Callable[[Kafka], object]) -> list[str]:
    """The lines of the error that a test with one broker ends with."""
    with pytest.raises(UnmetError) as error:
        _run(test)
    return str(error.value).splitlines()


def _run(test: Callable[[Kafka], object]) -> None:
    with Kafka(topics={"orders": 1}) as kafka:
        test(kafka)


@contextmanager
def reading(kafka: Kafka, **conf: Any) -> Generator[Any]:
    consumer = ck.Consumer(kafka.conf(**{**READ, **conf}))
    consumer.subscribe(["orders"])
    try:
        yield consumer
    finally:
        consumer.close()


# Records


def test_a_leader_dies_with_a_record_that_nobody_else_has(kafka: Kafka) -> None:
    found: list[int] = []

    def die(event: Event) -> None:
        ends = {one: kafka.log_end("orders", 0, one) for one in (1, 2, 3)}
        found.extend(ends[one] for one in ends if one != event.broker)
        assert ends[event.broker] == 3
        kafka.kill(event.broker, expire=True)

    first = kafka.leader("orders", 0)
    cue = kafka.when("written", topic="orders", partition=0, count=3, do=die)
    assert send(kafka, b"a", b"b", b"c", b"d") == [0, 1, 2, 3]
    kafka.met(cue)
    assert found == [2, 2]
    assert kafka.leader("orders", 0) != first
    assert kafka.values("orders") == [b"a", b"b", b"c", b"d"]


def test_a_leader_hangs_with_a_record_and_goes_on_later(kafka: Kafka) -> None:
    leader = leader_of(kafka)
    told: list[Any] = []

    def pause(event: Event) -> None:
        kafka.pause(event.broker)

    def done(error: Any, message: Any) -> None:
        told.append(error or message)

    cue = kafka.when("written", topic="orders", count=2, do=pause)
    producer = ck.Producer(kafka.conf(acks="all", linger_ms=0, **QUIET))
    for value, patience_s in ((b"a", 20), (b"b", 0)):
        producer.produce("orders", value, partition=0, on_delivery=done)
        producer.flush(patience_s)
    kafka.met(cue)
    assert len(told) == 1
    assert [kafka.log_end("orders", 0, one) for one in (1, 2, 3) if one != leader] == [1, 1]
    kafka.resume(leader)
    assert producer.flush(20) == 0
    assert [message.offset() for message in told] == [0, 1]


def test_each_stage_of_a_record_is_a_cue_of_its_own(kafka: Kafka) -> None:
    stages = ("written", "committed", "acknowledged")
    seen: list[str] = []

    def see(event: Event) -> None:
        seen.append(event.what)

    cues = [kafka.when(one, topic="orders", count=2, do=see) for one in stages]
    read = kafka.when("read", topic="orders", count=2, client_id="reader")
    other = kafka.when("read", topic="orders", client_id="nobody", required=False)
    assert send(kafka, b"a", b"b", client_id="sender") == [0, 1]
    for cue in cues:
        kafka.met(cue)
    assert seen == list(stages)
    with reading(kafka, client_id="reader") as consumer:
        assert len(consumer.consume(2, 20)) == 2
    kafka.met(read)
    assert other.met == 0


def test_records_are_told_apart_by_their_producers(kafka: Kafka) -> None:
    mine = kafka.when("written", topic="orders", client_id="mine", count=2)
    acknowledged = kafka.when("acknowledged", client_id="mine", count=2)
    send(kafka, b"a", client_id="other")
    send(kafka, b"b", b"c", client_id="mine")
    kafka.met(acknowledged)
    assert (mine.met, acknowledged.met) == (2, 2)


def test_a_high_watermark_that_a_new_leader_moves_again_is_not_counted_twice(kafka: Kafka) -> None:
    send(kafka, b"a", b"b")
    cue = kafka.when("committed", topic="orders", required=False)
    leader = leader_of(kafka)
    kafka.kill(leader, expire=True)
    kafka.until(lambda: kafka.leader("orders", 0) not in (None, leader))
    kafka.until(lambda: kafka.high_watermark("orders", 0, leader_of(kafka)) == 2)
    assert cue.met == 0
    send(kafka, b"c")
    assert cue.met == 1


def test_a_record_that_a_new_leader_commits_again_is_counted_once(kafka: Kafka) -> None:
    def die(event: Event) -> None:
        kafka.kill(event.broker, expire=True)

    died = kafka.when("committed", topic="orders", do=die)
    assert send(kafka, b"a", b"b", enable_idempotence=True) == [0, 1]
    kafka.met(died)
    assert died.met == 2


# Groups


def test_a_member_joins_is_assigned_and_commits(kafka: Kafka) -> None:
    send(kafka, b"a")
    joined = kafka.when("joined", group="shop", client_id="m")
    assigned = kafka.when("assigned", group="shop")
    two = kafka.when("assigned", group="shop", members=2, required=False)
    committed = kafka.when("offset_committed", group="shop", topic="orders", partition=0)
    with reading(kafka, client_id="m") as consumer:
        assert consumer.consume(1, 20)
        kafka.met(joined)
        kafka.met(assigned)
        assert committed.met == 0
        consumer.commit(asynchronous=False)
        kafka.met(committed)
        assert kafka.when("assigned", group="shop").met == 1  # it is so now
    assert two.met == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_rebalances_on_demand(protocol: str) -> None:
    interval = ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms")
    quick: dict[str, str] = dict.fromkeys(interval, "50")
    with Kafka(topics={"orders": 4}, configs=quick) as kafka:
        conf = {**READ, "group_protocol": protocol}
        if protocol == "consumer":
            conf.pop("heartbeat_interval_ms")
        changes: list[int] = []

        def revoke(consumer: Any, partitions: list[Any]) -> None:
            changes.append(-len(partitions))

        def assign(consumer: Any, partitions: list[Any]) -> None:
            changes.extend([len(partitions)] if partitions else [])

        consumer = ck.Consumer(kafka.conf(**conf))
        consumer.subscribe(["orders"], on_assign=assign, on_revoke=revoke)
        while not changes:
            consumer.poll(0.05)
        kafka.rebalance("shop")
        for _ in range(400):  # 20 s: a member that only falls silent is missed after 45
            if len(changes) < 3:
                consumer.poll(0.05)
        consumer.close()
        assert changes[:3] == ([4, -4, 4] if protocol == "classic" else [4, -2, 2])


def test_a_group_without_members_cannot_rebalance(kafka: Kafka) -> None:
    with pytest.raises(Exception, match="no broker knows of a group 'nobody'"):
        kafka.rebalance("nobody")


# What is done at a cue


def test_a_cue_may_do_what_takes_time(kafka: Kafka) -> None:
    def create(event: Event) -> None:
        kafka.create_topic("invoices", replicas=3)

    cue = kafka.when("written", topic="orders", do=create)
    send(kafka, b"a")
    kafka.met(cue)
    assert kafka.leader("invoices", 0) is not None


def test_a_cue_hears_of_what_fails_later(kafka: Kafka) -> None:
    def create(event: Event) -> None:
        kafka.create_topic("orders")

    cue = kafka.when("written", topic="orders", do=create, required=False)
    send(kafka, b"a")
    with pytest.raises(ClusterError, match="TOPIC_ALREADY_EXISTS"):
        kafka.met(cue)
    assert len(kafka.forget()) == 1


def test_a_cue_whose_deed_fails_says_so() -> None:
    def divide(event: Event) -> float:
        return 1 // 0

    def test(kafka: Kafka) -> None:
        cue = kafka.when("written", topic="orders", do=divide)
        send(kafka, b"a")
        with pytest.raises(ZeroDivisionError):
            kafka.met(cue)

    assert unmet(test) == [
        "when('written', topic='orders'): what it had to do failed: "
        "ZeroDivisionError: integer division or modulo by zero"
    ]


def test_what_met_nothing_is_an_error_at_the_end() -> None:
    def test(kafka: Kafka) -> None:
        kafka.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", count=1)
        kafka.drop("Produce", client_id="nobody", required=False)
        kafka.when("written", topic="orders", partition=0)
        kafka.when("read", required=False)

    assert unmet(test) == [
        "fail('OffsetCommit', 'GROUP_AUTHORIZATION_FAILED', count=1) met nothing: "
        "no such request came",
        "when('written', topic='orders', partition=0) met nothing: that did not happen",
    ]


def test_an_error_of_the_test_itself_comes_first() -> None:
    def test(kafka: Kafka) -> None:
        kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
        raise KeyError

    with pytest.raises(KeyError):
        _run(test)


@pytest.mark.parametrize(
    ("what", "which", "why"),
    [
        ("writen", {}, "expected one of requested, written"),
        ("written", {"group": "g"}, "expected topic, partition, client_id, count; found group"),
        ("assigned", {"topic": "t"}, "expected group, members, count; found topic"),
        ("written", {"count": 0}, "expected a count of 1 or more, found 0"),
    ],
)
def test_a_cue_that_can_never_be_met_is_refused(
    kafka: Kafka, what: str, which: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        kafka.when(what, **which)


def test_waiting_in_vain_ends_with_what_was_waited_for(kafka: Kafka) -> None:
    rule = kafka.hold("Produce", client_id="nobody", required=False)
    with pytest.raises(TimeoutError, match=r"hold\('Produce', client_id='nobody'\) met 0 of 1"):
        kafka.met(rule, timeout_ms=10)
    cue = kafka.when("read", topic="orders", count=3, required=False)
    with pytest.raises(TimeoutError, match=r"when\('read', topic='orders', count=3\) met 0 of 3"):
        kafka.met(cue, timeout_ms=10)


# Rules


def test_a_rule_lets_the_first_requests_pass(kafka: Kafka) -> None:
    rule = kafka.fail("Produce", "INVALID_RECORD", after=2, count=1)
    assert send(kafka, b"a", b"b", b"c", b"d", retries=0) == [0, 1, "INVALID_RECORD", 2]
    assert (rule.seen, rule.met) == (4, 1)


def test_each_rule_counts_all_requests(kafka: Kafka) -> None:
    kafka.fail("Produce", "INVALID_RECORD", count=1)
    kafka.fail("Produce", "INVALID_TIMESTAMP", after=1, count=1)
    assert send(kafka, b"a", b"b", b"c") == ["INVALID_RECORD", "INVALID_TIMESTAMP", 0]


def test_a_rule_that_lets_all_pass_says_how_many_came() -> None:
    def test(kafka: Kafka) -> None:
        kafka.fail("Produce", "INVALID_RECORD", after=2)
        send(kafka, b"a", b"b")

    assert unmet(test) == [
        "fail('Produce', 'INVALID_RECORD', after=2) met nothing: "
        "2 such requests came, all of them let pass"
    ]


@pytest.mark.parametrize(("handled", "idempotent", "stored"), [
    (True, True, 1), (True, False, 2), (False, False, 1),
])  # fmt: skip
def test_a_connection_ends_in_place_of_an_answer(
    kafka: Kafka, handled: bool, idempotent: bool, stored: int
) -> None:
    cut = kafka.disconnect("Produce", handled=handled, count=1)
    assert len(send(kafka, b"a", enable_idempotence=idempotent)) == 1
    assert cut.met == 1
    assert kafka.values("orders") == [b"a"] * stored


@pytest.mark.parametrize("what", ["drop", "drop_response"])
def test_after_heal_no_client_waits_for_an_answer_that_will_not_come(
    kafka: Kafka, what: str
) -> None:
    rule = getattr(kafka, what)("Produce", count=1)
    producer = ck.Producer(kafka.conf(enable_idempotence=True, linger_ms=0, **QUIET))
    producer.produce("orders", b"a", partition=0)
    kafka.met(rule)
    kafka.heal()
    assert producer.flush(30) == 0  # by itself it waits 60 s before it asks again
    assert kafka.values("orders") == [b"a"]


# Async tests


def test_a_wait_that_would_block_its_own_loop_is_refused(kafka: Kafka) -> None:
    rule = kafka.hold("Produce", required=False)

    async def test() -> None:
        with pytest.raises(RuntimeError, match=r"use `await cluster.aio.met\(…\)`"):
            kafka.met(rule)
        with pytest.raises(RuntimeError, match=r"use `await cluster.aio.until\(…\)`"):
            kafka.until(lambda: True)
        await kafka.aio.until(lambda: True)
        await kafka.aio.create_topic("invoices")
        with pytest.raises(TimeoutError):
            await kafka.aio.met(rule, timeout_ms=10)
        with pytest.raises(AttributeError, match="no method 'mett'"):
            _ = kafka.aio.mett

    asyncio.run(test())
    assert kafka.leader("invoices", 0) is not None


# What a test finds


def test_lost_and_repeated_records_are_found(kafka: Kafka) -> None:
    kafka.create_topic("invoices", partitions=2)
    send(kafka, b"a", b"b", b"c")
    send(kafka, b"a", b"c", topic="invoices")
    producer = ck.Producer(kafka.conf(**QUIET))
    producer.produce("invoices", b"c", partition=1)
    producer.flush(20)
    assert kafka.unmatched("orders", "invoices") == ([b"b"], [b"c"])
    assert kafka.values("invoices", 1) == [b"c"]


def test_only_committed_values_are_told(kafka: Kafka) -> None:
    kafka.create_topic("pairs", replicas=2, min_insync_replicas=1)
    leader = leader_of(kafka, "pairs")
    kafka.cut(leader, "brokers")
    send(kafka, b"a", topic="pairs", acks=1)
    assert kafka.log_end("pairs", 0, leader) == 1
    assert kafka.values("pairs") == []
    kafka.heal()
    kafka.until(lambda: kafka.high_watermark("pairs", 0, leader) == 1)
    assert kafka.values("pairs") == [b"a"]


def test_after_recovery_everything_is_committed(kafka: Kafka) -> None:
    leader = leader_of(kafka)
    kafka.cut(leader, "brokers")
    assert send(kafka, b"a", acks=1) == [0]
    kafka.kill(leader % 3 + 1, expire=True)
    assert kafka.values("orders") == []
    kafka.recover()
    assert kafka.values("orders") == [b"a"]
    assert all(host.up for host in kafka.hosts.values())


@pytest.mark.parametrize("fault", ["hold", "delay"])
def test_no_batch_overtakes_another_of_its_connection(kafka: Kafka, fault: str) -> None:
    """A producer without idempotence, whose first batch is late, has its records in order."""
    options = {"by_ms": 400} if fault == "delay" else {}
    rule = getattr(kafka, fault)("Produce", count=1, **options)
    one_each = {"batch_num_messages": 1, "linger_ms": 0, "enable_idempotence": False}
    producer = ck.Producer(kafka.conf(**QUIET, acks="all", **one_each))
    for number in range(9):
        producer.produce("orders", b"%d" % number, partition=0)
    kafka.met(rule)
    kafka.until(lambda: rule.seen > 1)
    kafka.release(rule)
    assert producer.flush(20) == 0
    assert kafka.values("orders") == [b"%d" % number for number in range(9)]


def test_a_failed_assertion_shows_no_more_than_a_reader_can_take(kafka: Kafka) -> None:
    rule = kafka.hold("Produce", client_id="c", required=False)
    assert repr(rule) == "hold('Produce', client_id='c')"
    replica = kafka.replica("orders", 0, 1)
    for shown in (kafka, kafka.hosts, kafka.network, kafka.controller, replica):
        assert len(repr(shown)) < 1000
