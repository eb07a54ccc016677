"""Several log directories: logs are spread over them, found again, and one may fail (KIP-112)."""

import asyncio
import errno
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from refimpl.broker.several_logs import SeveralLogs
from refimpl.edge import Cluster
from refimpl.edge.server.log_directory import (
    FileDirectory,
    SeveralDirectories,
    UnusableDirectory,
    properties_of,
)
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import DeleteTopicsRequest
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.format.batch import decode_records as decode
from refimpl.storage.replica.memory_records import whole
from refimpl.wire.messages import read_response, write_request
from tests.refimpl.edge.patience import PATIENCE_S
from tests.refimpl.edge.test_hostile import exchanged

PARTITIONS = 6
DESCRIBE, ALTER = ("DescribeLogDirs", 35, 4), ("AlterReplicaLogDirs", 34, 2)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


def cluster_in(tmp_path: Path, brokers: int, count: int = 2) -> Cluster:
    first, *others = (tmp_path / f"disk-{number}" for number in range(count))
    return Cluster(brokers=brokers, data=first, more_data=others, seed=1)


def slow_cluster(tmp_path: Path) -> Cluster:
    """One broker with two directories, which moves a batch at a time."""
    first, second = (tmp_path / f"disk-{number}" for number in range(2))
    settings = {"replica.fetch.max.bytes": 1, "replica.fetch.response.max.bytes": 1}
    return Cluster(brokers=1, data=first, more_data=[second], seed=1, configs=settings)


@asynccontextmanager
async def filled_cluster(tmp_path: Path) -> AsyncGenerator[Cluster]:
    """The slow cluster, with topic t that has 20 records in each partition."""
    async with slow_cluster(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=PARTITIONS, replicas=1)
        for number in range(20):
            await write(cluster, b"%d" % number)
        yield cluster


async def write(cluster: Cluster, value: bytes) -> dict[int, str | None]:
    """A record to each partition, once its leader is known; the errors by partition."""
    errors: dict[int, str | None] = {}

    def produce() -> None:
        conf: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "acks": "all"}
        producer: Any = Producer(conf | {"linger.ms": 0, "log_level": 0})

        def told(error: Any, message: Any) -> None:
            errors[message.partition()] = None if error is None else error.name()

        for number in range(PARTITIONS):
            producer.produce("t", value, partition=number, callback=told)
        assert producer.flush(PATIENCE_S) == 0

    await asyncio.to_thread(produce)
    return errors


async def asked(cluster: Cluster, broker: int, what: tuple[str, int, int], **values: Any) -> Any:
    """The answer of a broker to this request."""
    name, key, version = what
    body = write_request(key, version, values)
    port = cluster.hosts[broker].port
    answer = await asyncio.to_thread(exchanged, port, key, version, body)
    assert answer is not None, name
    return read_response(key, version, answer)


def folders(path: Path) -> set[int]:
    """The partitions of topic t in a directory."""
    return {int(one.name.rpartition("-")[2]) for one in path.glob("t-[0-9]")}


def logs_of(cluster: Cluster, broker: int) -> SeveralLogs:
    logs = cluster.hosts[broker].node.logs
    assert isinstance(logs, SeveralLogs)
    return logs


def fail(cluster: Cluster, broker: int, directory: int) -> None:
    """From now on every operation in this directory fails, as that of a disk that is gone."""
    broken = CrashDisk(fail=lambda operation, path: errno.EIO)
    logs_of(cluster, broker).directories[directory].directory.disk.disk = broken


def test_logs_are_spread_evenly_and_found_again_where_they_are(tmp_path: Path) -> None:
    found: list[list[set[int]]] = []

    async def test() -> None:
        async with cluster_in(tmp_path, 1, 3) as cluster:
            places = [tmp_path / f"disk-{number}" / "broker-1" for number in range(3)]
            if not found:
                await cluster.create_topic("t", partitions=PARTITIONS, replicas=1)
            assert set((await write(cluster, b"a")).values()) == {None}
            found.append([folders(one) for one in places])
            assert {cluster.log_end("t", one, 1) for one in range(PARTITIONS)} == {len(found)}
            ids = {properties_of(one)["directory.id"] for one in places}
            assert len(ids) == 3
            described = await asked(cluster, 1, DESCRIBE, topics=None)
            assert [one.log_dir for one in described.results] == [str(one) for one in places]
            assert [
                {of.partition_index for topic in one.topics for of in topic.partitions}
                for one in described.results
            ] == found[-1]
            assert all(one.total_bytes > 0 for one in described.results)

    run(test)
    run(test)
    assert found[0] == found[1]
    assert [len(one) for one in found[0]] == [2, 2, 2]


def test_a_failed_directory_is_taken_out_and_others_lead_what_it_had(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster_in(tmp_path, 3) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS, replicas=3)
            await write(cluster, b"a")
            for number in range(PARTITIONS):
                await cluster.until(lambda n=number: len(cluster.isr("t", n)) == 3)
                await cluster.move_leader("t", number, 1)
            bad = folders(tmp_path / "disk-1" / "broker-1")
            assert len(bad) == PARTITIONS // 2
            fail(cluster, 1, 1)
            assert set((await write(cluster, b"b")).values()) == {None}, "clients find the others"
            good = set(range(PARTITIONS)) - bad
            await cluster.until(lambda: all(cluster.leader("t", one) != 1 for one in bad))
            await cluster.until(lambda: all(1 not in cluster.isr("t", one) for one in bad))
            assert {cluster.leader("t", one) for one in good} == {1}
            assert cluster.hosts[1].up
            results = (await asked(cluster, 1, DESCRIBE, topics=None)).results
            codes = [one.error_code.name.upper() for one in results]
            assert codes == ["NONE", "KAFKA_STORAGE_ERROR"]
            assert [one.log_dir for one in results] == [
                str(tmp_path / f"disk-{number}" / "broker-1") for number in range(2)
            ]
            assert results[1].topics == ()
            assert results[1].total_bytes == -1

            await cluster.create_topic("later", partitions=4, replicas=3)
            await cluster.settled()
            assert len([*(tmp_path / "disk-0" / "broker-1").glob("later-*")]) == 4

            cluster.kill(1, expire=True)
            await cluster.restart(1)
            for number in range(PARTITIONS):
                await cluster.until(lambda n=number: len(cluster.isr("t", n)) == 3)
            assert {cluster.log_end("t", one, 1) for one in range(PARTITIONS)} == {2}

    run(test)


def test_a_broker_ends_when_its_last_directory_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        async with cluster_in(tmp_path, 2) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS, replicas=2)
            await write(cluster, b"a")
            fail(cluster, 1, 0)
            fail(cluster, 1, 1)
            await write(cluster, b"b")
            await cluster.until(lambda: not cluster.hosts[1].up)

    run(test)
    assert "Error: broker 1 ends: the log directory is offline" in capfd.readouterr().err


async def move(cluster: Cluster, place: Path, *numbers: int, topic: str = "t") -> set[str]:
    """Have a broker move logs to this directory; the errors that it answers."""
    dirs = [{"path": str(place), "topics": [{"name": topic, "partitions": [*numbers]}]}]
    (found,) = (await asked(cluster, 1, ALTER, dirs=dirs)).results
    assert [one.partition_index for one in found.partitions] == [*numbers]
    return {one.error_code.name for one in found.partitions}


async def described(cluster: Cluster) -> list[dict[int, tuple[bool, int]]]:
    """The logs of topic t in each directory: whether it is a future one, and its lag."""
    results = (await asked(cluster, 1, DESCRIBE, topics=None)).results
    return [
        {
            each.partition_index: (each.is_future_key, each.offset_lag)
            for topic in one.topics
            if topic.name == "t"
            for each in topic.partitions
        }
        for one in results
    ]


def places_of(tmp_path: Path) -> list[Path]:
    return [tmp_path / f"disk-{number}" / "broker-1" for number in range(2)]


def values_of(cluster: Cluster, number: int) -> list[bytes]:
    """The values in a partition of topic t."""
    log = cluster.replica("t", number, 1).log
    found: list[bytes] = []
    while len(found) < log.end:
        records: Any = log.slice(len(found), 1 << 20)
        found += [one.value or b"" for _, batch in whole(records.data) for one in decode(batch)]
    return found


def moving(cluster: Cluster) -> bool:
    """True while the first broker has something to move."""
    return bool(cluster.hosts[1].node.logs.futures())


def test_logs_move_to_another_directory_while_clients_write(tmp_path: Path) -> None:
    async def test() -> None:
        places = places_of(tmp_path)
        async with filled_cluster(tmp_path) as cluster:
            assert await move(cluster, places[1], *range(PARTITIONS)) == {"none"}
            going = await described(cluster)
            assert set(going[0]) == {0, 2, 4}
            assert {future for future, _ in going[1].values()} == {True, False}
            assert all(going[1][number][0] for number in going[0])
            await write(cluster, b"20")
            await cluster.until(lambda: not moving(cluster))
            assert (folders(places[0]), folders(places[1])) == (set(), set(range(PARTITIONS)))
            assert await described(cluster) == [{}, dict.fromkeys(range(PARTITIONS), (False, 0))]
            assert set((await write(cluster, b"21")).values()) == {None}
            for number in range(PARTITIONS):
                values = values_of(cluster, number)
                assert values == [b"%d" % each for each in range(22)]
        async with slow_cluster(tmp_path) as cluster:
            assert {cluster.log_end("t", one, 1) for one in range(PARTITIONS)} == {22}
            assert await move(cluster, places[1], 0) == {"none"}, "it is there"
            assert not moving(cluster)

    run(test)


@pytest.mark.parametrize("killed", [True, False])
def test_a_move_goes_on_after_a_restart(tmp_path: Path, killed: bool) -> None:
    async def test() -> None:
        places = places_of(tmp_path)
        async with filled_cluster(tmp_path) as cluster:
            await move(cluster, places[1], 0, 2, 4)
            assert moving(cluster)
            if killed:
                cluster.kill(1)
            else:
                await cluster.stop(1)
            assert len([*places[1].glob("t-*-future")]) == 3
            await cluster.restart(1)
            await cluster.until(lambda: not moving(cluster))
            assert folders(places[1]) == set(range(PARTITIONS))
            for number in range(PARTITIONS):
                values = values_of(cluster, number)
                assert values == [b"%d" % each for each in range(20)]

    run(test)


def test_a_move_ends_with_its_topic_or_as_an_operator_wants(tmp_path: Path) -> None:
    async def test() -> None:
        places = places_of(tmp_path)
        async with filled_cluster(tmp_path) as cluster:
            await move(cluster, places[1], 0, 2)
            await move(cluster, places[0], 0)
            assert set(cluster.hosts[1].node.logs.futures()) == {TopicPartition("t", 2)}
            await cluster.ask(DeleteTopicsRequest(["t"]))
            await cluster.settled()
            assert not moving(cluster)
            left = [one.name for place in places for one in place.glob("t-*")]
            assert left, "their deletion is delayed"
            assert all(name.endswith("-delete") for name in left)
            await cluster.create_topic("t", partitions=1, replicas=1)
            assert cluster.log_end("t", 0, 1) == 0

    run(test)


@pytest.mark.parametrize("bad", [0, 1])
def test_a_directory_fails_while_logs_move(tmp_path: Path, bad: int) -> None:
    """Logs whose old directory fails are offline; if the new one fails they stay where they are."""

    async def test() -> None:
        places = places_of(tmp_path)
        async with filled_cluster(tmp_path) as cluster:
            await move(cluster, places[1], 0, 2, 4)
            fail(cluster, 1, bad)
            await cluster.until(lambda: not cluster.hosts[1].node.alter_log_dirs.moves)
            partitions = {name.partition for name in cluster.hosts[1].node.partitions}
            assert partitions == ({1, 3, 5} if bad == 0 else {0, 2, 4})
            assert {cluster.log_end("t", one, 1) for one in partitions} == {20}
            assert await move(cluster, places[bad], *partitions) == {"kafka_storage_error"}
            offline = {*range(PARTITIONS)} - partitions
            assert await move(cluster, places[1 - bad], *offline) == {"kafka_storage_error"}
            assert await move(cluster, tmp_path, 0) == {"log_dir_not_found"}

    run(test)


def test_a_partition_that_comes_later_is_put_where_an_operator_wants_it(tmp_path: Path) -> None:
    async def test() -> None:
        places = places_of(tmp_path)
        async with cluster_in(tmp_path, 2) as cluster:
            assert await move(cluster, places[1], 0, 1) == {"unknown_topic_or_partition"}
            await cluster.create_topic("u", 1, assignments={0: [2]})
            assert await move(cluster, places[1], 0, topic="u") == {"replica_not_available"}
            await cluster.create_topic("t", 2, assignments={0: [1], 1: [1]})
            assert (folders(places[0]), folders(places[1])) == (set(), {0, 1})
            long = "x" * 249
            assert await move(cluster, places[1], 0, topic=long) == {"invalid_topic_exception"}

    run(test)


def test_a_log_in_two_directories_is_a_line(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"disk-{number}" / "broker-1" / "t-0").mkdir(parents=True)
    with pytest.raises(UnusableDirectory, match="t-0 is in two log directories: "):
        run(lambda: cluster_in(tmp_path, 1).start())  # type: ignore[arg-type, return-value]


def test_a_broker_ends_at_the_start_if_no_directory_can_be_read(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"disk-{number}").mkdir()
        (tmp_path / f"disk-{number}" / "broker-1").write_text("a file")
    with pytest.raises(UnusableDirectory, match="disk-1/broker-1: "):
        run(lambda: cluster_in(tmp_path, 1).start())  # type: ignore[arg-type, return-value]


def test_a_broker_starts_without_a_directory_that_cannot_be_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its logs are offline and not made anew; new ones go to the others."""
    place, aside = tmp_path / "disk-1" / "broker-1", tmp_path / "aside"
    other = tmp_path / "disk-0" / "broker-1"

    async def before() -> None:
        async with cluster_in(tmp_path, 3) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS, replicas=3)
            assert set((await write(cluster, b"a")).values()) == {None}
            for number in range(PARTITIONS):
                await cluster.until(lambda n=number: len(cluster.isr("t", n)) == 3)

    async def without() -> None:
        async with cluster_in(tmp_path, 3) as cluster:
            await cluster.until(lambda: all(1 not in cluster.isr("t", one) for one in bad))
            assert set((await write(cluster, b"b")).values()) == {None}
            assert folders(other) == good
            results = (await asked(cluster, 1, DESCRIBE, topics=None)).results
            codes = [one.error_code.name.upper() for one in results]
            assert codes == ["NONE", "KAFKA_STORAGE_ERROR"]
            assert results[1].log_dir == str(place)
            await cluster.create_topic("later", partitions=2, replicas=3)
            await cluster.settled()
            assert len([*other.glob("later-*")]) == 2

    async def after() -> None:
        async with cluster_in(tmp_path, 3) as cluster:
            for number in range(PARTITIONS):
                await cluster.until(lambda n=number: len(cluster.isr("t", n)) == 3)
            assert {cluster.log_end("t", one, 1) for one in range(PARTITIONS)} == {2}
            assert (folders(place), folders(other)) == (bad, good)

    run(before)
    bad, good = folders(place), folders(other)
    assert len(bad) == len(good) == PARTITIONS // 2
    place.rename(aside)
    place.write_text("a file")
    run(without)
    said = capfd.readouterr().err
    assert f"highwater: broker 1 starts without {place}: " in said
    place.unlink()
    aside.rename(place)
    run(after)


def begun(*paths: Path, epoch: int) -> tuple[int, int, bool]:
    """A process begins, takes this broker epoch, and is killed."""
    place = SeveralDirectories([FileDirectory(path, 1, "cluster") for path in paths])
    place.open()
    found = place.begin()
    place.registered(epoch)
    place.release()
    return found


@pytest.fixture
def one_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that names the boot of this machine, also where there is no /proc; and its clock,
    from which the first process has its number.
    """
    named = tmp_path / "boot_id"
    named.write_text("one")
    monkeypatch.setattr("refimpl.boots.BOOT_ID", named)
    monkeypatch.setattr("refimpl.boots._session", str)
    monkeypatch.setattr("refimpl.edge.server.log_directory._clock_us", lambda: 1)
    return named


@pytest.mark.usefixtures("one_boot")
def test_a_process_lost_nothing_only_if_every_directory_says_so(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    assert begun(one, two, epoch=5) == (1, -1, True)
    assert begun(one, two, epoch=6) == (2, 5, True)
    assert begun(one, two, three, epoch=7) == (3, 6, True), "a new one had nothing to lose"
    assert begun(one, three, epoch=8) == (4, -1, False), "the logs of the second are gone"
    assert begun(one, two, three, epoch=9) == (5, -1, True), "the second slept meanwhile"
    shutil.rmtree(two)
    assert begun(one, two, three, epoch=10) == (6, -1, False), "an empty one took its place"


def test_a_process_of_another_boot_or_of_one_without_a_name_may_have_lost_what_it_had(
    tmp_path: Path, one_boot: Path
) -> None:
    one, two = (tmp_path / name for name in ("one", "two"))
    assert begun(one, two, epoch=5) == (1, -1, True)
    one_boot.write_text("another")
    assert begun(one, two, epoch=6) == (2, -1, True)
    one_boot.unlink()
    assert begun(one, two, epoch=7) == (3, -1, True)
    assert begun(one, two, epoch=8) == (4, -1, True), "no boot has a name here"


@pytest.mark.usefixtures("one_boot")
def test_a_directory_that_cannot_be_read_is_remembered(tmp_path: Path) -> None:
    """Its logs are made anew once it is named no longer, so records may have been lost."""
    one, two = (tmp_path / name for name in ("one", "two"))
    assert begun(one, two, epoch=5) == (1, -1, True)
    aside = two.rename(tmp_path / "aside")
    two.write_text("a file")
    assert begun(one, two, epoch=6) == (2, -1, False)
    assert begun(one, epoch=7) == (3, -1, False), "it is named no longer, and its logs are gone"
    two.unlink()
    aside.rename(two)
    assert begun(one, two, epoch=8) == (4, -1, True), "it slept meanwhile"


def test_the_directory_with_the_fewest_logs_gets_the_next(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster_in(tmp_path, 1, 3) as cluster:
            await cluster.create_topic("t", partitions=7, replicas=1)
            logs = logs_of(cluster, 1)
            names = [TopicPartition("t", number) for number in range(7)]
            counted = Counter(logs.directory_of(name) for name in names)
            assert counted == {0: 3, 1: 2, 2: 2}
            await cluster.create_topic("u", partitions=1, replicas=1)
            assert logs.directory_of(TopicPartition("u", 0)) == 1
            topics = [{"topic": "u", "partitions": [0]}]
            described = await asked(cluster, 1, DESCRIBE, topics=topics)
            assert [len(one.topics) for one in described.results] == [0, 1, 0]

    run(test)
