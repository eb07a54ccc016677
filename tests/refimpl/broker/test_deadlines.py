"""When delayed operations end: in their order, and none is kept that has ended long before."""

from functools import partial
from random import Random

from refimpl.broker.delayed import ANSWERED, PURGE_INTERVAL, Deadlines, DelayedProduce
from refimpl.messages.broker import ProduceRequest, ProduceResponse, Request
from tests.refimpl.broker.node_cases import batch_of, leading

MANY = 5 * PURGE_INTERVAL


def _delayed() -> DelayedProduce:
    return DelayedProduce(Request(-1, 1, 7, ProduceRequest(-1, 30_000, ())), 1, {})


def test_what_is_completed_is_not_kept_until_its_time() -> None:
    deadlines = Deadlines()
    for number in range(MANY):
        delayed = _delayed()
        deadlines.add(30_000 + number, lambda one: None, delayed)
        delayed.completed = True
        assert len(deadlines.heap) <= PURGE_INTERVAL


def test_what_waits_ends_at_its_time_and_in_order_whatever_was_completed_meanwhile() -> None:
    deadlines, rng = Deadlines(), Random(7)
    waiting: list[tuple[int, int]] = []
    ended: list[int] = []
    for number in range(MANY):
        at_ms, delayed = rng.randrange(100, 200), _delayed()
        deadlines.add(at_ms, partial(_end, ended, number), delayed)
        delayed.completed = rng.random() < 0.5
        if not delayed.completed:
            waiting.append((at_ms, number))
    now, count = 0, 0
    for now in range(100, 200):
        again = deadlines.expire(now)
        count += again is not None
    assert ended == [number for _, number in sorted(waiting)]
    assert count > 50
    assert deadlines.heap == []


def test_a_timer_is_set_for_what_ends_before_all_others() -> None:
    deadlines = Deadlines()
    sooner = [deadlines.add(at_ms, lambda one: None, _delayed()) for at_ms in (30, 30, 40, 20)]
    assert sooner == [True, False, False, True]
    assert [deadlines.expire(now) for now in (19, 20, 29, 30)] == [None, 30, None, 40]


def test_the_next_purge_waits_until_there_may_be_as_many_again() -> None:
    deadlines = Deadlines()
    several = [_delayed() for _ in range(PURGE_INTERVAL + 1)]
    for delayed in several:
        deadlines.add(1, lambda one: None, delayed)
    assert deadlines.most == 2 * PURGE_INTERVAL, "none was completed"
    for delayed in several:
        delayed.completed = True
    for _ in range(PURGE_INTERVAL):
        deadlines.add(1, lambda one: None, several[0])
    assert (deadlines.most, len(deadlines.heap)) == (PURGE_INTERVAL, 1)


def _end(ended: list[int], number: int, delayed: DelayedProduce) -> None:
    if not delayed.completed:
        ended.append(number)


def test_an_acknowledged_request_lets_go_of_its_records() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"), acks=-1)
    (_, _, _, waiting) = cluster.node.deadlines.heap[0]
    assert waiting.request.body.batches
    answers = [one.body for one in cluster.catch_up() if isinstance(one.body, ProduceResponse)]
    assert [one.partitions[0].base_offset for one in answers] == [0]
    assert waiting.completed
    assert waiting.request is ANSWERED
