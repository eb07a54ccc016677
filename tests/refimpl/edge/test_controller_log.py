"""The controller reads its decisions back unchanged, and goes on from them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.configs import Configs
from refimpl.edge.server.controller_host import ControllerHost
from refimpl.edge.server.controller_log import FILE, ControllerLog
from refimpl.edge.server.log_directory import FileDirectory, UnusableDirectory
from refimpl.edge.server.network import Network
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import cluster as c
from refimpl.messages import controller as m
from refimpl.messages.broker import Request, Response, TopicPartition
from refimpl.messages.controller import CONTROLLER

BROKERS = st.integers(1, 4)
IDS = st.binary(min_size=16, max_size=16)
#: No two topics ever have the same id, and one that is made again has another.
TOPICS = [("a", b"1" * 16), ("a", b"2" * 16), ("b", b"3" * 16), ("b", b"4" * 16)]
DECISIONS = st.builds(
    LeaderAndIsr,
    st.integers(0, 9),
    st.none() | BROKERS,
    st.frozensets(BROKERS),
    st.integers(0, 9),
)
CHANGES = st.one_of(
    st.builds(
        c.BrokerRegistration,
        BROKERS,
        st.integers(0, 9),
        st.integers(1, 9),
        st.just((c.Endpoint("PLAINTEXT", "127.0.0.1", 9092),)),
        st.none() | st.text(max_size=3),
        st.lists(IDS, max_size=2).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(c.BrokerUnregistered, BROKERS),
    st.sampled_from(TOPICS).map(lambda named: c.TopicCreated(*named)),
    st.sampled_from(TOPICS).map(lambda named: c.TopicDeleted(*named)),
    st.builds(
        c.PartitionRegistration,
        st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 1)),
        st.sampled_from([b"1" * 16, b"2" * 16]),
        DECISIONS,
        st.permutations([1, 2, 3]).map(tuple),
        st.lists(BROKERS, max_size=1).map(tuple),
        st.lists(BROKERS, max_size=1).map(tuple),
        st.frozensets(BROKERS),
        st.none() | BROKERS,
    ),
    st.builds(
        c.ConfigsAltered,
        st.builds(c.ConfigResource, st.sampled_from(["topic", "broker"]), st.text(max_size=3)),
        st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    ),
    st.builds(
        c.QuotasAltered,
        st.frozensets(st.tuples(st.sampled_from(["user", "ip"]), st.none() | st.text(max_size=2))),
        st.dictionaries(st.text(max_size=3), st.floats(0, 9), max_size=2),
    ),
    st.builds(c.ProducerIdsAllocated, st.integers(0, 9999)),
    st.builds(
        c.FeaturesUpdated,
        st.integers(1, 9),
        st.dictionaries(st.text(max_size=3), st.integers(0, 2), max_size=2),
    ),
)


def opened(folder: Path, least_bytes: int = 0) -> tuple[ControllerLog, c.ClusterMetadata]:
    log = ControllerLog(folder, FileDirectory(folder, 0, "cluster"), least_bytes)
    metadata = c.ClusterMetadata()
    for change in log.open():
        metadata.apply(change)
    return log, metadata


@given(st.lists(st.lists(CHANGES, max_size=4), max_size=6), st.data())
def test_a_restart_knows_all_that_was_written_and_drops_a_torn_line(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[list[c.Change]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("controller")
    log, expected = opened(folder, data.draw(st.sampled_from([0, 500, 1 << 20])))
    for piece in pieces:
        log.append(piece)
        for change in piece:
            expected.apply(change)
    log.close()
    torn = data.draw(st.sampled_from([b"", b"{", b'{"kind":"TopicCreated","name":"a"']))
    (folder / FILE).write_bytes((folder / FILE).read_bytes() + torn)
    again, found = opened(folder)
    again.close()
    subjects = ("topic_names", "partitions", "brokers", "configs", "quotas")
    for name in (*subjects, "next_producer_id", "features"):
        assert getattr(found, name) == getattr(expected, name), name


def test_the_file_is_as_large_as_what_is_in_force_while_it_is_written(tmp_path: Path) -> None:
    log, _ = opened(tmp_path, least_bytes=2_000)
    log.append([c.TopicCreated("a", b"1" * 16)])
    name = TopicPartition("a", 0)
    for epoch in range(500):
        decision = LeaderAndIsr(epoch, 1, frozenset((1, 2, 3)), epoch)
        log.append([c.PartitionRegistration(name, b"1" * 16, decision, (1, 2, 3))])
        assert (tmp_path / FILE).stat().st_size < 4_000
    log.close()
    assert not (tmp_path / FILE).with_suffix(".tmp").exists()
    again, found = opened(tmp_path)
    again.close()
    assert found.partitions[name].decision.partition_epoch == 499


@pytest.mark.parametrize(
    "line", [b"no JSON", b'{"kind":"Nothing"}', b'{"kind":"TopicCreated","nam":"a"}', b"[]"]
)
def test_a_line_that_is_no_change_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / FILE).write_bytes(b'{"kind":"ProducerIdsAllocated","next_producer_id":7}\n')
    with (tmp_path / FILE).open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(UnusableDirectory, match=rf"{FILE}:2: no change"):
        opened(tmp_path)


class Counting(ControllerLog):
    """A log that notes how much its brokers had heard at each write."""

    heard: list[Any]
    at_writes: list[int]

    def append(self, changes: Sequence[c.Change]) -> None:
        """Note it, and write."""
        self.at_writes.append(len(self.heard))
        ControllerLog.append(self, changes)


def test_what_comes_together_is_written_once_before_anybody_hears_of_it(tmp_path: Path) -> None:
    async def play() -> tuple[list[Any], list[int]]:
        network, log = Network(), Counting(tmp_path, FileDirectory(tmp_path, 0, "cluster"))
        log.heard, log.at_writes = [], []
        host = ControllerHost(network, Configs({}), "cluster", log=log)
        host.start()
        network.nodes[1] = log.heard.append

        def send(number: int, body: Any) -> None:
            network.send(Request(1, CONTROLLER, number, body))

        send(1, m.BrokerRegistrationRequest(1, 1, -1))
        network.run()
        del log.heard[:], log.at_writes[:]
        for number in range(20):
            send(2 + number, m.CreateTopicsRequest([m.CreatableTopic(f"t{number}", 5, 1)]))
        assert host.has_told_all
        network.run()
        assert host.has_told_all
        host.close()
        return log.heard, log.at_writes

    heard, at_writes = asyncio.run(play())
    assert at_writes == [0]
    answers = [one.body for one in heard if isinstance(one, Response)]
    assert [one.topics[0].error for one in answers] == [None] * 20
    (news,) = [one.body for one in heard if isinstance(one, Request)]
    assert sum(isinstance(one, c.PartitionRegistration) for one in news.changes) == 100
    again, found = opened(tmp_path)
    again.close()
    assert len(found.partitions) == 100
