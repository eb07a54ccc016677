"""A broker that comes back with an empty or older disk is another process: it leads nothing that it
has lost, and is copied to until it is in sync."""

from pathlib import Path
from shutil import copytree, move, rmtree

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from refimpl.edge.server.log_directory import FileDirectory
from refimpl.edge.testing.blocking import BlockingCluster
from tests.refimpl.edge.patience import PATIENCE_S

COUNT = 50


def begun(path: Path) -> int:
    """The number of a process that begins in this directory."""
    directory = FileDirectory(path, 1, "cluster")
    directory.open()
    number = directory.begin().incarnation
    directory.release()
    return number


def test_numbers_of_processes_grow_though_the_disk_forgets_them(tmp_path: Path) -> None:
    place = tmp_path / "log"
    first = begun(place)
    copytree(place, tmp_path / "copy")
    second = begun(place)
    rmtree(place)
    third = begun(place)
    rmtree(place)
    fourth = begun(tmp_path / "copy")
    assert first < second < third < fourth


def test_numbers_of_processes_grow_though_the_clock_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begun(tmp_path)
    monkeypatch.setattr("refimpl.edge.server.log_directory._clock_us", lambda: 1)
    assert begun(tmp_path) == first + 1


def test_a_leader_whose_disk_was_emptied_does_not_lead_on(tmp_path: Path) -> None:
    """It starts within its session: the controller must not take it for the process before."""
    with BlockingCluster(brokers=3, data=tmp_path) as cluster:
        cluster.create_topic("t", assignments={0: [3, 1, 2]}, configs={"min.insync.replicas": "2"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for number in range(COUNT):
            producer.produce("t", b"%d" % number)
        assert producer.flush(PATIENCE_S) == 0
        assert cluster.leader("t", 0) == 3
        cluster.kill(3)
        (place,) = tmp_path.glob("*3")
        rmtree(place)
        cluster.restart(3)
        cluster.until(lambda: set(cluster.isr("t", 0)) == {1, 2, 3})
        assert cluster.leader("t", 0) != 3
        settings = {"group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
        consumer.assign([TopicPartition("t", 0, 0)])
        read = consumer.consume(COUNT, PATIENCE_S)
        consumer.close()
        assert [one.value() for one in read] == [b"%d" % number for number in range(COUNT)]


def test_a_broker_with_an_older_disk_is_in_sync_again(tmp_path: Path) -> None:
    """Its number was that of its process before, so the controller kept it out of the ISR."""
    with BlockingCluster(brokers=3, data=tmp_path / "logs") as cluster:
        cluster.create_topic("t", assignments={0: [3, 1, 2]}, configs={"min.insync.replicas": "2"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

        def write() -> None:
            for number in range(COUNT):
                producer.produce("t", b"%d" % number)
            assert producer.flush(PATIENCE_S) == 0

        def all_in_sync() -> None:
            cluster.until(lambda: set(cluster.isr("t", 0)) == {1, 2, 3})

        write()
        (place,) = (tmp_path / "logs").glob("*2")
        cluster.stop(2)
        copytree(place, tmp_path / "copy")
        for _ in range(2):
            cluster.restart(2)
            all_in_sync()
            write()
            cluster.stop(2)
        cluster.restart(2)
        cluster.kill(2)
        rmtree(place)
        move(tmp_path / "copy", place)
        cluster.restart(2)
        all_in_sync()
