"""A broker that comes back with an empty disk is another process, and leads nothing it has lost."""

from pathlib import Path
from shutil import rmtree

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
    first, second = begun(place), begun(place)
    assert second == first + 1
    rmtree(place)
    assert begun(place) > second


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
