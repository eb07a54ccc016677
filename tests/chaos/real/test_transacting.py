"""Transactional clients as processes: they commit, are killed, sleep and are taken over."""

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

import traces
from chaos.real.transacting.client import FENCED
from chaos.real.transacting.clients import GROUP, PARTITIONS, SINK, Clients, LastingClient
from chaos.real.transacting.outputs import differences, of_applications
from refimpl.edge import BlockingCluster
from tests.refimpl.edge.patience import PATIENCE_S
from traces.record import recorded
from traces.record.cli import record_scan

SOURCE = "orders"
PRODUCER, APPLICATION = LastingClient("p0", "confluent"), LastingClient("app0", "confluent", SOURCE)


def test_clients_are_replaced_and_nothing_is_processed_twice(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with BlockingCluster(brokers=3, seed=1) as cluster:
        for topic in (SOURCE, SINK):
            cluster.create_topic(topic, partitions=PARTITIONS)
        writer: Any = recorded(Producer, run, {"bootstrap.servers": cluster.bootstrap})
        clients = Clients(cluster.bootstrap, run, Random(1))
        try:
            for place in (PRODUCER, APPLICATION):
                clients.start(place)
            everything_moves(clients, writer)
            zombie = clients.current[PRODUCER]
            clients.start(PRODUCER)
            killed = clients.current[APPLICATION]
            killed.process.kill()
            killed.process.wait()
            clients.start(APPLICATION)
            everything_moves(clients, writer)
            assert zombie.process.wait(PATIENCE_S) == FENCED
            clients.stop()
        finally:
            clients.kill()
        writer.close()
        assert clients.stuck == []
        processed, wrong = of_applications(cluster.bootstrap, GROUP, SOURCE, SINK, PARTITIONS)
        assert processed > 0
        assert wrong == []
        scanned: Any = record_scan
        scanned.main([str(run), "--bootstrap", cluster.bootstrap], standalone_mode=False)
    verdicts = traces.check(traces.load(run))
    assert verdicts.verdict == "holds"
    judged = "T1", "T2", "T4", "T8", "T11", "P7"
    assert {name: verdicts[name].verdict for name in judged} == dict.fromkeys(judged, "holds")


def everything_moves(clients: Clients, writer: Any) -> None:
    """Records are written until each client has committed something more."""
    since, ends = clients.marks(), time.monotonic() + PATIENCE_S
    while not clients.have_moved(since):
        for number in range(PARTITIONS):
            writer.produce(SOURCE, b"x", partition=number)
        writer.flush(1)
        assert time.monotonic() < ends, f"{since}, and now {clients.marks()}"


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({(0, 0): 1}, "record 1 of partition 0 has 0 committed outputs"),
        ({(0, 0): 2, (0, 1): 1}, "record 0 of partition 0 has 2 committed outputs"),
        ({(0, 0): 1, (0, 1): 1, (0, 2): 1}, "record 2 of partition 0 has a committed output"),
    ],
    ids=["skipped", "twice", "without its offset"],
)
def test_what_is_not_exactly_once_is_said(made: dict[tuple[int, int], int], sentence: str) -> None:
    assert differences({0: 2}, made) == [f"{sentence}, and the group has committed 2"]
    assert differences({0: 2}, {(0, 0): 1, (0, 1): 1}) == []
