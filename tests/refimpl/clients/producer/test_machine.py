"""The producer machine: batches, retries, sequences and time, on a clock that the test moves."""

from itertools import chain, repeat

import pytest

from refimpl.clients.backoff import Backoff
from refimpl.clients.producer.messages import Disconnected, Unauthenticated
from refimpl.configs import ConfigError
from refimpl.messages.broker import ProduceRequest, Request, TopicPartition
from tests.refimpl.clients.producer.world import World

T0 = TopicPartition("t", 0)


def produces(world: World) -> list[Request]:
    return [one for one in world.requests if isinstance(one.body, ProduceRequest)]


def begun(given: dict[str, object] | None = None, **more: int) -> World:
    """A world whose producer has written one record to each partition."""
    world = World({"linger.ms": 0, **(given or {})}, **more)
    for partition in range(world.partitions):
        world.send(b"first", partition, handle=("first", partition))
        world.settle()
        world.advance(1200)
        world.settle()
    assert len(world.written) == world.partitions
    return world


def test_a_record_waits_for_metadata_and_an_id_and_is_then_written() -> None:
    world = World({"linger.ms": 0})
    world.send(b"a")
    assert world.produced() == []
    world.settle()
    assert world.accepted == [b"a"]
    assert world.logs == {T0: [b"a"]}
    assert world.written[b"a"].offset == 0


def test_records_wait_for_linger_and_go_together() -> None:
    world = begun({"linger.ms": 10})
    world.send(b"a")
    world.advance(9)
    world.send(b"b")
    assert world.produced() == []
    world.advance(1)
    assert world.produced() == [(1, [(0, 0, 1)])]
    world.settle()
    assert world.logs[T0] == [b"first", b"a", b"b"]
    assert [world.written[one].offset for one in (b"a", b"b")] == [1, 2]


def test_a_full_batch_does_not_wait() -> None:
    world = begun({"linger.ms": 1000, "batch.size": 10})
    world.send(b"12345")
    assert world.produced() == []
    world.send(b"123456", handle="second")
    assert world.produced() == [(1, [(0, 0, 1)])]


def test_a_flush_sends_at_once_and_says_when_all_is_written() -> None:
    world = begun({"linger.ms": 1000})
    world.send(b"a")
    world.flush()
    assert world.produced()
    assert world.flushed == []
    world.settle()
    assert world.flushed == ["flush"]


def test_five_batches_are_in_flight_with_sequences_that_follow_each_other() -> None:
    world = begun()
    for number in range(7):
        world.send(b"%d" % number)
    assert world.produced() == [(1, [(0, 0, 1 + number)]) for number in range(5)]
    world.settle()
    assert world.logs[T0] == [b"first", *(b"%d" % number for number in range(7))]


def test_the_first_batch_of_an_epoch_goes_alone() -> None:
    world = World({"linger.ms": 0})
    world.send(b"a")
    world.begin()
    world.send(b"b")
    assert world.produced() == [(1, [(0, 0, 0)])]
    world.answer(produces(world)[0], "NOT_ENOUGH_REPLICAS")
    world.advance(1000)
    world.settle()
    world.advance(1000)
    world.settle()
    assert world.logs[T0] == [b"a", b"b"]


def test_batches_in_flight_are_sent_again_in_order_when_the_connection_breaks() -> None:
    world = begun()
    for number in range(4):
        world.send(b"%d" % number)
    world.disconnect(1, handled=2)
    for _ in range(8):
        world.advance(1500)
        world.settle()
    assert world.logs[T0] == [b"first", b"0", b"1", b"2", b"3"]
    assert [world.written[b"%d" % number].offset for number in range(4)] == [1, 2, 3, 4]


def test_a_batch_keeps_its_partition_and_finds_the_new_leader_without_backoff() -> None:
    world = begun({"retry.backoff.ms": 900}, nodes=2)
    world.send(b"a")
    world.leaders[0], world.epoch = 2, 1
    world.answer(produces(world)[0])
    world.begin()
    assert world.produced() == [(2, [(0, 0, 1)])]
    world.settle()
    assert world.logs[T0] == [b"first", b"a"]


def moved(answered: bool) -> World:
    """A world whose first leader has taken b"0" and does not answer, and whose next one leads."""
    world = begun({"metadata.max.age.ms": 1000}, nodes=2)
    world.send(b"0")
    (lost,) = produces(world)
    world.handled(lost)
    world.leaders[0], world.epoch = 2, 1
    world.advance(1000)
    world.settle(but_of=ProduceRequest)
    for value in (b"1", b"2", b"3", b"4", b"5"):
        world.send(value)
        for one in produces(world)[1:]:
            if answered:
                world.answer(one)
    assert world.requests[0] is lost
    return world


def test_an_unanswered_batch_is_as_far_back_as_a_leader_remembers() -> None:
    world = moved(answered=True)
    assert world.logs[T0] == [b"first", b"0", b"1", b"2", b"3", b"4"]
    world.disconnect(1)
    world.settle()
    assert world.logs[T0] == [b"first", b"0", b"1", b"2", b"3", b"4", b"5"]
    assert world.written[b"0"].offset == 1


def test_each_of_two_leaders_whose_answers_are_lost_knows_the_batches_again() -> None:
    world = moved(answered=False)
    assert [node for node, _ in world.produced()] == [1, 2, 2, 2, 2]
    world.disconnect(2, handled=4)
    world.disconnect(1)
    world.advance(2000)
    world.settle()
    assert world.logs[T0] == [b"first", b"0", b"1", b"2", b"3", b"4", b"5"]
    assert world.machine.delivery.epoch == 0
    assert len(world.written) == 7


def test_a_retry_waits_twice_as_long_each_time() -> None:
    world = begun({"retry.backoff.ms": 100, "retry.backoff.max.ms": 350})
    world.machine.accumulator.backoff = world.machine.accumulator.backoff.__class__(
        100, 350, lambda: 0.5
    )
    world.send(b"a")
    for wait in (100, 200, 350, 350):
        world.answer(produces(world)[0], "NOT_ENOUGH_REPLICAS")
        world.advance(wait - 1)
        assert world.produced() == []
        world.advance(1)
        assert world.produced() == [(1, [(0, 0, 1)])]


def test_the_wait_of_a_retry_is_drawn_once() -> None:
    """Drawn again for each look, a batch was ready, was not sent, and had no timer left."""
    world = begun({"retry.backoff.ms": 100})
    draws = chain((0.0, 0.0), repeat(0.99))
    world.machine.accumulator.backoff = Backoff(100, 1000, lambda: next(draws))
    world.send(b"a")
    world.answer(produces(world)[0], "NOT_ENOUGH_REPLICAS")
    world.advance(120)
    assert world.produced() == [(1, [(0, 0, 1)])]


def test_what_expires_fails_and_the_rest_goes_on_in_a_new_epoch() -> None:
    world = begun({"delivery.timeout.ms": 1000, "request.timeout.ms": 900})
    world.send(b"a")
    world.requests.clear()  # lost on the way
    world.advance(500)
    world.send(b"b")
    world.advance(499)
    assert not world.failed
    world.advance(1)
    assert world.failed[b"a"].error == "REQUEST_TIMED_OUT"
    assert not world.failed[b"a"].certain
    for _ in range(6):
        world.advance(100)
        world.settle()
    assert world.logs[T0] == [b"first", b"b"]
    assert world.machine.delivery.epoch == 1


def test_what_was_never_sent_fails_for_certain() -> None:
    world = World({"delivery.timeout.ms": 1000, "request.timeout.ms": 900})
    world.leaders[0] = -1
    world.send(b"a")
    for _ in range(12):
        world.settle()
        world.advance(100)
    assert world.failed[b"a"].certain


def test_a_batch_that_is_too_large_is_split_and_keeps_its_sequences() -> None:
    world = begun({"linger.ms": 10, "batch.size": 100})
    for letter in (b"a", b"b", b"c"):
        world.send(letter * 30, handle=letter)
    world.send(b"d" * 30, handle=b"d")
    world.advance(10)
    first = produces(world)[0]
    assert len(first.body.batches[0][1][0]) == 3
    world.machine.accumulator.config = world.machine.config.__class__.of({"batch.size": 40})
    world.answer(first, "MESSAGE_TOO_LARGE")
    for _ in range(4):
        world.settle()
        world.advance(200)
    assert world.logs[T0][1:] == [letter * 30 for letter in (b"a", b"b", b"c", b"d")]
    assert [world.written[one].offset for one in (b"a", b"b", b"c", b"d")] == [1, 2, 3, 4]


def test_one_record_that_is_too_large_for_the_broker_fails_and_a_new_epoch_begins() -> None:
    world = begun()
    world.send(b"a")
    world.send(b"b")
    world.answer(produces(world)[0], "MESSAGE_TOO_LARGE")
    assert world.failed[b"a"].certain
    for _ in range(4):
        world.advance(1500)
        world.settle()
    assert world.logs[T0] == [b"first", b"b"]


def test_a_record_above_max_request_size_fails_at_once() -> None:
    world = begun({"max.request.size": 200})
    world.send(b"x" * 300, handle="large")
    assert world.failed["large"].error == "MESSAGE_TOO_LARGE"
    assert "max.request.size is 200" in world.failed["large"].message


def test_a_send_waits_for_memory_and_fails_after_max_block_ms() -> None:
    world = begun({"buffer.memory": 32768, "max.block.ms": 5000})
    for number in range(3):
        world.send(b"x" * 16000, handle=number)
    assert not world.failed
    assert len(world.machine.accumulator.incomplete) == 2
    world.advance(5000)
    assert "max.block.ms" in world.failed[2].message
    world.send(b"x" * 16000, handle=3)
    world.settle()
    assert world.accepted[-1] == 3
    assert 3 in world.written


def test_a_topic_that_is_not_there_fails_the_send_after_max_block_ms() -> None:
    world = World({"max.block.ms": 500})
    world.leaders.clear()
    world.send(b"a")
    world.settle()
    for _ in range(5):
        world.advance(100)
        world.settle()
    assert "no metadata of t within 500 ms" in world.failed[b"a"].message


def test_a_partition_that_there_is_not_fails_at_once() -> None:
    world = begun()
    world.send(b"a", 7)
    assert "has 1 partitions" in world.failed[b"a"].message


def test_acks_0_counts_as_written_when_it_is_sent() -> None:
    world = World({"acks": "0", "linger.ms": 0})
    world.send(b"a")
    world.begin()
    assert world.written[b"a"].offset == -1


def test_without_idempotence_and_with_one_in_flight_a_retry_goes_first() -> None:
    world = World(
        {"linger.ms": 0, "enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    )
    world.send(b"a")
    world.begin()
    world.send(b"b")
    assert len(produces(world)) == 1
    world.answer(produces(world)[0], "NOT_ENOUGH_REPLICAS")
    for _ in range(3):
        world.advance(1000)
        world.settle()
    assert world.logs[T0] == [b"a", b"b"]


def test_close_waits_for_all_and_takes_nothing_more() -> None:
    world = begun({"linger.ms": 1000})
    world.send(b"a")
    world.close()
    world.send(b"b")
    assert "closed" in world.failed[b"b"].message
    world.settle()
    assert b"a" in world.written
    assert world.flushed == ["close"]


def test_close_gives_up_after_its_time_out() -> None:
    world = begun({"linger.ms": 1000})
    world.send(b"a")
    world.close(300)
    world.requests.clear()
    world.advance(300)
    assert world.flushed == ["close"]
    assert not world.failed[b"a"].certain


def test_a_request_without_an_answer_costs_the_connection() -> None:
    world = begun({"request.timeout.ms": 700})
    world.send(b"a")
    world.requests.clear()
    world.advance(700)
    for _ in range(4):
        world.advance(1000)
        world.settle()
    assert world.written[b"a"].offset == 1


def test_every_broker_gone_means_the_bootstrap_servers_again() -> None:
    world = begun()
    world.send(b"a")
    world.disconnect(1)
    for _ in range(4):
        world.advance(60)
        if any(one.target == -1 for one in world.requests):
            break
        for one in [*world.requests]:
            world.disconnect(one.target)
    assert any(one.target == -1 for one in world.requests)


def test_the_epochs_end_and_another_producer_id_is_asked_for() -> None:
    world = begun()
    world.machine.delivery.epoch = 2**15 - 1
    world.machine.delivery.of(T0).epoch = 2**15 - 1
    world.states[T0].producers[1].epoch = 2**15 - 1
    world.send(b"a")
    world.send(b"b")
    world.answer(produces(world)[0], "INVALID_RECORD")
    for _ in range(4):
        world.advance(1500)
        world.settle()
    assert world.machine.delivery.producer_id == 2
    assert world.logs[T0] == [b"first", b"b"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_broker_that_lets_nobody_in_ends_a_send_that_waits(idempotent: bool) -> None:
    """Of a producer without an id that is the end; Kafka's sender stops there, too."""
    world = World({"linger.ms": 0, "enable.idempotence": idempotent})
    world.send(b"a")
    world.give(Disconnected(-1, Unauthenticated("SASL_AUTHENTICATION_FAILED", "no such user")))
    failed = world.failed[b"a"]
    assert (failed.error, failed.message) == ("SASL_AUTHENTICATION_FAILED", "no such user")
    assert failed.certain
    world.send(b"b")
    assert (b"b" in world.failed) == idempotent


def test_a_batch_outlives_a_login_that_failed() -> None:
    """The user may be known again before delivery.timeout.ms."""
    world = begun()
    world.send(b"a")
    world.give(Disconnected(1, Unauthenticated("SASL_AUTHENTICATION_FAILED", "no such user")))
    assert not world.failed
    world.advance(1200)
    world.settle()
    assert world.logs[T0] == [b"first", b"a"]


def test_nothing_follows_the_end() -> None:
    world = begun()
    world.close()
    world.give(Disconnected(1))
    assert world.flushed == ["close"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"linger": 5}, "linger: no setting of a producer; did you mean linger.ms?"),
        ({"batch_size": 5}, "batch_size: no setting of a producer; did you mean batch.size?"),
        ({"security.protocols": "SSL"}, "did you mean security.protocol?"),
        ({"acks": "2"}, "Invalid value 2 for configuration acks"),
        ({"enable.idempotence": True, "acks": "1"}, "needs acks=all"),
        ({"enable.idempotence": True, "retries": 0}, "needs retries above 0"),
        ({"max.in.flight.requests.per.connection": 6}, "at most 5"),
        ({"delivery.timeout.ms": 100}, "delivery.timeout.ms is 100"),
        ({"partitioner.class": "Mine"}, "partitioner.class is 'Mine'"),
    ],
)
def test_a_wrong_setting_gets_one_sentence(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")):
        World(dict(given))


def test_defaults_are_those_of_kafka_4_3() -> None:
    config = World().machine.config
    assert (config.acks, config.linger_ms, config.enable_idempotence) == (-1, 5, True)
    assert World({"acks": "1"}).machine.config.enable_idempotence is False
    assert World({"request.timeout.ms": 200_000}).machine.config.delivery_timeout_ms == 200_005
