"""The network, the disk and what an idempotent producer's leader knows."""

from random import Random

from chaos.disk import Disk
from chaos.network import Network, Timeline
from chaos.producer_state import STRIDE, ProducerState
from chaos.script import Fault
from refimpl.machines.log import Log, Record
from refimpl.machines.replica import Replica


def network(**settings: float) -> Network:
    values = {"delay_ms": 1, "jitter_ms": 0, "drop": 0.0, "duplicate": 0.0, "stray": 0.0}
    values.update(settings)
    return Network(Timeline(), Random(1), **values)  # pyright: ignore[reportArgumentType]


def arrivals(net: Network) -> list[tuple[int, int]]:
    return sorted((when, target) for when, _, target, _ in net.timeline.heap)


def test_a_cut_link_lets_nothing_through_in_its_direction_only() -> None:
    net = network()
    net.cut_links([(1, 2)])
    net.send((0, 1, 2))
    net.send((0, 2, 1))
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
            net.send((number, 1, 2))
    assert 50 < len(lost.timeline.heap) == 200 - lost.lost < 150
    assert 250 < len(doubled.timeline.heap) < 350
    order = [message[0] for *_, message in sorted(jumbled.timeline.heap)]
    assert order != sorted(order)
    slow = network()
    slow.slow_links([(1, 2)], 300)
    slow.send((0, 1, 2))
    slow.slow_links([(1, 2)], -300)
    slow.send((0, 1, 2))
    assert arrivals(slow) == [(1, 2), (301, 2)]


def test_healing_ends_all_of_it() -> None:
    net = network(drop=1.0, duplicate=1.0, stray=1.0, jitter_ms=900)
    net.cut_links([(1, 2)])
    net.slow_links([(1, 2)], 300)
    net.heal()
    net.send((0, 1, 2))
    assert len(arrivals(net)) == 1
    assert arrivals(net)[0][0] <= 6


def replica(records: int, high_watermark: int) -> Replica:
    log = Log([Record(1, value) for value in range(records)])
    return Replica(1, log, high_watermark=high_watermark)


def test_a_crash_keeps_what_was_flushed_and_a_part_of_the_rest() -> None:
    disk = Disk()
    disk.flush(replica(4, 0))
    after = replica(10, 0)
    assert [disk.kept(after, part) for part in (0.0, 0.5, 1.0)] == [4, 7, 10]


def test_what_was_cut_off_is_not_flushed_any_more() -> None:
    disk = Disk()
    disk.flush(replica(8, 0))
    disk.truncated(3)
    assert disk.kept(replica(9, 0), 0.0) == 3


def test_a_restart_finds_no_high_watermark_above_its_log() -> None:
    disk = Disk()
    disk.write_checkpoint(replica(9, 8))
    assert disk.restored(replica(9, 8), 6) == 6


def test_a_leader_knows_an_idempotent_producers_records_from_the_log_alone() -> None:
    log = Log([Record(1, STRIDE + 3), Record(1, 7), Record(2, STRIDE + 4)])
    known = ProducerState()
    known.rebuild(log)
    assert known.offset_of(STRIDE + 3) == 0
    assert known.offset_of(STRIDE + 4) == 2
    assert known.offset_of(STRIDE + 5) is None
    assert known.offset_of(STRIDE + 2) == -1


def test_a_fault_reads_as_a_sentence() -> None:
    crash = Fault(10, "crash", for_ms=50, part=0.5, partition=1)
    assert str(crash) == "crash leader of orders:1 for 50 ms, 50% of its page cache survives"
    cut = Fault(10, "cut", who=2, for_ms=50, how="to_brokers")
    assert str(cut) == "cut broker 2 off (to brokers) for 50 ms"
