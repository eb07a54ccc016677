"""The simulated network and the cheap disk."""

from random import Random

from chaos.faults.script import Fault
from chaos.sim.disk import CachedLog, MemoryLogs
from chaos.sim.network import Message, Network, Timeline
from refimpl.machines.log import Record
from refimpl.messages.broker import Request, TopicPartition
from refimpl.storage.replica.memory import RecordBatch


def network(**settings: float) -> Network:
    values = {"delay_ms": 1, "jitter_ms": 0, "drop": 0.0, "duplicate": 0.0, "stray": 0.0}
    values.update(settings)
    return Network(Timeline(), Random(1), **values)  # pyright: ignore[reportArgumentType]


def message(source: int, target: int, number: int = 0) -> Message:
    return Request(source, target, number, None)


def arrivals(net: Network) -> list[tuple[int, int]]:
    due = net.timeline.due
    return [(when, target) for when in sorted(due) for target, _ in due[when]]


def messages(net: Network) -> list[Message]:
    due = net.timeline.due
    return [sent for when in sorted(due) for _, sent in due[when]]


def test_a_cut_link_lets_nothing_through_in_its_direction_only() -> None:
    net = network()
    net.cut_links([(1, 2)])
    net.send(message(1, 2))
    net.send(message(2, 1))
    assert arrivals(net) == [(1, 1)]
    assert not net.reaches(1, 2)
    assert net.reaches(1, 3)


def test_a_link_that_was_cut_twice_heals_when_both_cuts_are_over() -> None:
    net = network()
    net.cut_links([(1, 2), (2, 1)])
    net.cut_links([(1, 2)])
    net.heal_links([(1, 2), (2, 1)])
    assert not net.reaches(1, 2)
    net.heal_links([(1, 2)])
    assert net.reaches(1, 2)


def test_messages_are_lost_doubled_slowed_and_overtaken() -> None:
    lost, doubled, jumbled = network(drop=0.5), network(duplicate=0.5), network(jitter_ms=50)
    for number in range(200):
        for net in (lost, doubled, jumbled):
            net.send(message(1, 2, number))
    assert 50 < len(messages(lost)) == 200 - lost.lost < 150
    assert 250 < len(messages(doubled)) < 350
    order = [sent.correlation_id for sent in messages(jumbled)]
    assert order != sorted(order)
    slow = network()
    slow.slow_links([(1, 2)], 300)
    slow.send(message(1, 2))
    slow.slow_links([(1, 2)], -300)
    slow.send(message(1, 2))
    assert arrivals(slow) == [(1, 2), (301, 2)]


def test_healing_ends_all_of_it() -> None:
    net = network(drop=1.0, duplicate=1.0, stray=1.0, jitter_ms=900)
    net.cut_links([(1, 2)])
    net.slow_links([(1, 2)], 300)
    net.heal()
    net.send(message(1, 2))
    assert len(arrivals(net)) == 1
    assert arrivals(net)[0][0] <= 6


ORDERS = TopicPartition("orders", 0)


def cached(records: int) -> CachedLog:
    return CachedLog([Record(1, value) for value in range(records)])


def test_a_crash_keeps_what_was_flushed_and_a_part_of_the_rest() -> None:
    logs = MemoryLogs({ORDERS: cached(4)})
    logs.flush()
    log = logs.open(ORDERS).log
    for value in range(6):
        log.append(1, RecordBatch((value,)))
    assert [logs.crashed(part).open(ORDERS).log.end for part in (0.0, 0.5, 1.0)] == [4, 7, 10]


def test_what_was_cut_off_is_not_flushed_any_more() -> None:
    logs = MemoryLogs({ORDERS: cached(8)})
    logs.flush()
    log = logs.open(ORDERS).log
    log.truncate_to(3)
    for value in range(6):
        log.append(2, RecordBatch((value,)))
    assert logs.crashed(0.0).open(ORDERS).log.end == 3


def test_a_restart_finds_no_high_watermark_above_its_log() -> None:
    logs = MemoryLogs({ORDERS: cached(9)})
    logs.checkpoint({ORDERS: 8})
    assert logs.crashed(1.0).open(ORDERS).high_watermark == 8
    assert logs.crashed(0.0).open(ORDERS).high_watermark == 0


def test_a_high_watermark_over_lost_records_does_not_come_back_by_another_restart() -> None:
    """Seed 2923 in memory: a follower showed what was never committed."""
    logs = MemoryLogs({ORDERS: cached(9)})
    logs.checkpoint({ORDERS: 8})
    logs = logs.crashed(0.0)
    logs.open(ORDERS).log.append(2, RecordBatch(tuple(range(6))))
    logs.flush()
    found = logs.crashed(1.0).open(ORDERS)
    assert (found.log.end, found.high_watermark) == (6, 0)


def test_a_fault_reads_as_a_sentence() -> None:
    crash = Fault(10, "crash", for_ms=50, part=0.5, partition=1)
    assert str(crash) == "crash leader of orders:1 for 50 ms, 50% of its page cache survives"
    cut = Fault(10, "cut", who=2, for_ms=50, how="to_brokers")
    assert str(cut) == "cut broker 2 off (to brokers) for 50 ms"
