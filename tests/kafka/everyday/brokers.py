"""Operations on brokers, replicas and disks, while clients of all kinds go on."""

import shutil
from contextlib import suppress
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException, TopicPartition

from tests.kafka.everyday.administrator import Administrator
from tests.kafka.everyday.catalogue import operation
from tests.kafka.everyday.clients import Clients, read, send
from tests.kafka.everyday.waiting import until
from traces.record import fault

#: Partitions on all four brokers, each in three racks.
PLACES = ([1, 2, 3], [2, 4, 1], [3, 1, 2], [4, 2, 1])


def healed(admin: Administrator, topic: str) -> None:
    """Until all replicas are in sync again, those of the coordinators' topics too."""
    for name in (topic, "__consumer_offsets"):
        admin.up.wait_until_healed(name)


@operation("rolling restart", alone=True)
def rolling_restart(admin: Administrator, clients: Clients) -> str:
    """SIGTERM to one broker after the other, each started again, and waited for."""
    topic = "rolling-restart"
    admin.create_at(topic, *PLACES)
    leaders: set[tuple[int, ...]] = set()
    with clients.traffic(topic) as traffic:
        for node in admin.up.nodes.values():
            with fault(clients.run, f"restart broker {node.id}"):
                node.stop()
                leaders.add(tuple(admin.leader(topic, n) for n in range(4)))
                node.start()
                healed(admin, topic)
            traffic.goes_on()
    assert len(leaders) > 1
    return f"{len(leaders)} constellations of leaders; {len(traffic.acknowledged)} acknowledged"


@operation("a rack is lost", alone=True)
def rack_lost(admin: Administrator, clients: Clients) -> str:
    """kill -9 of the two brokers of rack c (one of them a controller) at once; later both start."""
    topic = "rack-lost"
    admin.create_at(topic, *PLACES)
    lost = [admin.up.nodes[3], admin.up.nodes[4]]
    with clients.traffic(topic) as traffic:
        with fault(clients.run, "kill -9 rack c"):
            for node in lost:
                node.kill()
            for node in lost:
                admin.up.wait_for_another_leader(topic, node.id)
            traffic.goes_on()
            left = {len(p.isrs) for p in admin.up.partitions(topic).values()}
            for node in lost:
                node.start()
            healed(admin, topic)
        traffic.goes_on()
    assert left == {2}
    return f"two of three replicas were left; {len(traffic.acknowledged)} acknowledged"


@operation("broker replaced with an empty disk", alone=True)
def empty_disk(admin: Administrator, clients: Clients) -> str:
    """kill -9 of broker 4; its log directories are deleted and formatted anew; it starts under its
    old number and fetches all replicas again."""
    topic = "empty-disk"
    admin.create_at(topic, *PLACES)
    node = admin.up.nodes[4]
    folders = [node.folder / "data", node.folder / "data-2"]
    with clients.traffic(topic) as traffic:
        with fault(clients.run, "broker 4 gets an empty disk"):
            node.kill()
            before = {_directory_id(folder) for folder in folders}
            for folder in folders:
                shutil.rmtree(folder)
            admin.up.wait_for_another_leader(topic, 4)
            traffic.goes_on()
            node.format(admin.judge)
            after = {_directory_id(folder) for folder in folders}
            node.start()
            healed(admin, topic)
        traffic.goes_on()
    assert before.isdisjoint(after)
    return f"new directory ids; {len(traffic.acknowledged)} acknowledged"


def _directory_id(folder: Path) -> str:
    lines = (folder / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("directory.id"))


@operation("log directory moved")
def log_directory_moved(admin: Administrator, clients: Clients) -> str:
    """kafka-reassign-partitions with log_dirs: the replicas of broker 1 go to its other disk."""
    topic = "log-directory-moved"
    admin.create_at(topic, [1, 2, 3], [2, 3, 1])
    folder = admin.up.nodes[1].folder

    def place(number: int) -> str:
        (found,) = (d for d in folder.glob(f"data*/{topic}-{number}") if d.is_dir())
        return found.parent.name

    other = {"data": "data-2", "data-2": "data"}
    with clients.traffic(topic) as traffic:
        before = [place(0), place(1)]
        moves = [
            {
                "topic": topic,
                "partition": number,
                "replicas": replicas,
                "log_dirs": [
                    str(folder / other[before[number]]) if one == 1 else "any" for one in replicas
                ],
            }
            for number, replicas in enumerate(([1, 2, 3], [2, 3, 1]))
        ]
        admin.reassign(topic, moves)
        until("both to have moved", lambda: [place(0), place(1)] == [other[d] for d in before])
        traffic.goes_on()
    return f"{', '.join(before)} to {', '.join(other[d] for d in before)}"


@operation("partitions reassigned to other brokers")
def reassigned(admin: Administrator, clients: Clients) -> str:
    """kafka-reassign-partitions: leaders and followers move, 1, 2, 3 to 4, 1, 2 and 3, 4, 1."""
    topic = "reassigned"
    admin.create_at(topic, [1, 2, 3], [2, 3, 1])
    with clients.traffic(topic) as traffic:
        moves = [
            {"topic": topic, "partition": number, "replicas": replicas}
            for number, replicas in enumerate(([4, 1, 2], [3, 4, 1]))
        ]
        admin.reassign(topic, moves)
        found = [sorted(p.replicas) for p in admin.up.partitions(topic).values()]
        assert found == [[1, 2, 4], [1, 3, 4]], found
        _elect(admin, topic, 2)
        traffic.goes_on()
        leaders = [admin.leader(topic, n) for n in range(2)]
    return f"led by {leaders[0]} and {leaders[1]} now; {len(traffic.acknowledged)} acknowledged"


def _elect(admin: Administrator, topic: str, partitions: int) -> None:
    """kafka-leader-election --election-type preferred."""
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    admin.admin.elect_leaders(ElectionType.PREFERRED, wanted).result(60)
    until(
        "the preferred leaders",
        lambda: all(
            admin.leader(topic, n) == p.replicas[0] for n, p in admin.up.partitions(topic).items()
        ),
    )


@operation("preferred leader election")
def preferred_election(admin: Administrator, clients: Clients) -> str:
    """The order of the replicas is changed, so that others are preferred; then they are elected,
    and back, four times."""
    topic = "preferred-election"
    orders = ([[1, 2, 3], [2, 3, 1]], [[2, 3, 1], [1, 2, 3]])
    admin.create_at(topic, *orders[0])
    told: list[list[int]] = []
    with clients.traffic(topic) as traffic:
        for turn in range(4):
            moves = [
                {"topic": topic, "partition": n, "replicas": replicas}
                for n, replicas in enumerate(orders[(turn + 1) % 2])
            ]
            admin.reassign(topic, moves)
            _elect(admin, topic, 2)
            traffic.goes_on()
            told.append([admin.leader(topic, n) for n in range(2)])
    assert told == [[2, 1], [1, 2], [2, 1], [1, 2]], told
    return f"leaders {told}"


@operation("min.insync.replicas from 2 to 1 and back, while a broker is away", alone=True)
def min_insync_changed(admin: Administrator, clients: Clients) -> str:
    """For a maintenance; nothing is lost."""
    topic = "min-insync-changed"
    admin.create_at(topic, *PLACES)
    node = admin.up.nodes[4]
    with clients.traffic(topic) as traffic:
        admin.configure(topic, min_insync_replicas=1)
        node.stop()
        traffic.goes_on()
        node.start()
        healed(admin, topic)
        admin.configure(topic, min_insync_replicas=2)
        traffic.goes_on()
    return f"{len(traffic.acknowledged)} acknowledged"


@operation(
    "unclean election on for an hour, with one",
    alone=True,
    allowed="L1 L3 L4 L9 L15 C1 P1",
    undecided="L1 L3 L4 L9 L15 C1 C3 G6 G8 G10 P1",
)
def unclean_hour(admin: Administrator, clients: Clients) -> str:
    """For a while unclean.leader.election.enable=true and min.insync.replicas=1. A replica is
    frozen until it leaves the ISR; the other acknowledges alone, and dies; an unclean election
    loses what it had; then both settings are as before. record-scan is run meanwhile, and at the
    end."""
    topic = "unclean-hour"
    admin.create_at(topic, [4, 1])
    last, behind = admin.up.nodes[4], admin.up.nodes[1]
    producer = clients.producer(linger_ms=0)
    send(producer, topic, 20)
    with clients.consumer(f"{topic}-before", topic, name="before") as member:
        read(member, 20)
    admin.configure(topic, min_insync_replicas=1, unclean_leader_election_enable="true")
    clients.look()
    with fault(clients.run, "broker 4 acknowledges alone, then kill -9"):
        behind.freeze()
        until("broker 4 to be alone", lambda: _in_sync(admin, topic) == [4])
        send(producer, topic, 20, 20)
        with clients.consumer(f"{topic}-then", topic, name="then") as member:
            read(member, 40, commit=False)
        last.kill()
        behind.thaw()
        until("broker 1 to be alone", lambda: _in_sync(admin, topic) == [1])
        # The log ends below what the producer knows: it is told so, and its application restarts.
        with suppress(Exception):
            send(producer, topic, 10, 40)
        with suppress(Exception):
            producer.close()
        producer = clients.producer(linger_ms=0)
        send(producer, topic, 10, 40)
        last.start()
        healed(admin, topic)
    admin.configure(topic, min_insync_replicas=2, unclean_leader_election_enable="false")
    end = admin.watermarks(topic)[1]
    with clients.consumer(f"{topic}-after", topic, name="after") as member:
        read(member, end)
    producer.close()
    assert end < 50, end
    return f"50 acknowledged, the log ends at {end}"


def _in_sync(admin: Administrator, topic: str) -> list[int]:
    """The ISR; asked of whoever answers, for a broker that is frozen does not."""
    try:
        return admin.up.admin.list_topics(topic, timeout=5).topics[topic].partitions[0].isrs
    except KafkaException:
        return []
