"""An ensemble of ZooKeeper that breaks under broker processes, while a real client writes to them.

In each story everything that was acknowledged is where it was acknowledged, and the cluster goes
on afterwards: it elects, makes topics, and takes records.
"""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient  # pyright: ignore[reportMissingTypeStubs]

from chaos.real.stored.brokers import ROOT, BrokerProcess, Stored, until
from chaos.real.stored.proxy import ZooKeeperProxy
from chaos.real.stored.zookeeper import Server, zookeeper
from tests.kafka.test_stored_brokers import lives

SECONDS = 300
BROKERS = (1, 2, 3)


@define(eq=False)
class Way:
    """A broker's way to ZooKeeper: a proxy before each server."""

    proxies: list[ZooKeeperProxy]

    @property
    def address(self) -> str:
        return ",".join(one.address for one in self.proxies)

    def cut(self) -> None:
        for one in self.proxies:
            one.sever()

    def heal(self) -> None:
        for one in self.proxies:
            one.cut = False


@define(eq=False)
class Ensemble:
    """Three servers, three brokers, and their ways to the servers."""

    servers: list[Server]
    stored: Stored
    ways: dict[int, Way]

    def leader(self) -> Server | None:
        """The server that leads the ensemble, if one says so."""
        found = (one for one in self.servers if one.running and one.mode() == "leader")
        return next(found, None)

    def is_whole(self, topic: str) -> bool:
        return sorted(self.stored.state(topic)["isr"]) == list(BROKERS)


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    folder = tmp_path_factory.mktemp("ensemble")
    with zookeeper(folder, 3) as servers:
        client: Any = KazooClient(",".join(one.address for one in servers))
        client.start()
        ways = {id: Way([ZooKeeperProxy(one.port) for one in servers]) for id in BROKERS}
        brokers = {id: BrokerProcess(id, ways[id], folder) for id in BROKERS}  # type: ignore[arg-type]
        try:
            for id, one in brokers.items():
                for proxy in ways[id].proxies:
                    proxy.start()
                one.start()
            for one in brokers.values():
                one.wait_until_ready()
            yield Ensemble(servers, Stored(brokers, client), ways)
        finally:
            for one in brokers.values():
                one.kill()
            for way in ways.values():
                for proxy in way.proxies:
                    proxy.close()
            client.stop()
            client.close()


@define(eq=False)
class Writer:
    """A client that writes numbers to a topic, and keeps at which offset each was acknowledged."""

    bootstrap: str
    topic: str
    sent: int = 0
    acknowledged: dict[int, str] = field(factory=dict[int, str])
    _producer: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "delivery.timeout.ms": SECONDS * 1000,
                "request.timeout.ms": 5000,
                "socket.timeout.ms": 6000,
                "linger.ms": 0,
                "log_level": 0,
            }
        )

    def write(self) -> None:
        self.sent += 1
        self._producer.produce(self.topic, str(self.sent), on_delivery=self._delivered)
        self._producer.poll(0.02)

    def until(self, condition: Callable[[], bool]) -> None:
        """Go on writing until this is so; what fails meanwhile is asked again."""
        ends, last = time.monotonic() + SECONDS, None
        while time.monotonic() < ends:
            for _ in range(10):
                self.write()
            try:
                if condition():
                    return
            except Exception as failure:
                last = failure
        raise TimeoutError(f"not so within {SECONDS} s; {last!r}")

    def until_acknowledged(self, more: int) -> None:
        """Go on until so many more are acknowledged."""
        wanted = len(self.acknowledged) + more
        self.until(lambda: len(self.acknowledged) >= wanted)

    def flush(self) -> None:
        assert self._producer.flush(SECONDS) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.offset()] = message.value().decode()


def read(bootstrap: str, topic: str) -> dict[int, str]:
    """All records by offset."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0}
    consumer: Any = Consumer({**settings, "enable.auto.commit": False})
    partition = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=60)
    consumer.assign([partition])
    found: dict[int, str] = {}
    ends = time.monotonic() + SECONDS
    while len(found) < end and time.monotonic() < ends:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found[message.offset()] = message.value().decode()
    consumer.close()
    return found


def story(ensemble: Ensemble, topic: str, breaks: Callable[[Writer], None]) -> None:
    """Let it break while a client writes; then nothing acknowledged is lost, and all goes on."""
    stored = ensemble.stored
    stored.create(topic)
    writer = Writer(stored.bootstrap, topic)
    writer.until_acknowledged(50)
    breaks(writer)
    writer.until_acknowledged(50)
    writer.until(lambda: ensemble.is_whole(topic))
    writer.flush()
    assert len(set(writer.acknowledged.values())) == len(writer.acknowledged)
    found = read(stored.bootstrap, topic)
    assert found | writer.acknowledged == found
    stored.create(f"{topic}-afterwards")
    stored.produce(f"{topic}-afterwards", ["it goes on"])


def test_the_ensembles_leader_may_be_killed(ensemble: Ensemble) -> None:
    """Another server leads, brokers go over to it with the sessions that they have or with new
    ones, and the server comes back."""
    leader = ensemble.leader()
    assert leader is not None

    def breaks(writer: Writer) -> None:
        leader.kill()
        writer.until(lambda: ensemble.leader() is not None)
        writer.until_acknowledged(50)
        leader.start()
        writer.until(lambda: leader.mode() == "follower")

    story(ensemble, "leader-killed", breaks)


def test_the_ensembles_leader_may_be_frozen(ensemble: Ensemble) -> None:
    """SIGSTOP, until the others have given it up; what it still believes changes nothing."""
    leader = ensemble.leader()
    assert leader is not None

    def another() -> bool:
        others = [one.mode() for one in ensemble.servers if one is not leader]
        return "leader" in others

    def breaks(writer: Writer) -> None:
        leader.freeze()
        try:
            writer.until(another)
            writer.until_acknowledged(50)
        finally:
            leader.thaw()
        writer.until(lambda: leader.mode() == "follower")

    story(ensemble, "leader-frozen", breaks)


def test_the_whole_ensemble_may_be_frozen(ensemble: Ensemble) -> None:
    """While ZooKeeper answers nobody, leaders go on leading: they need it for changes alone."""

    def breaks(writer: Writer) -> None:
        for one in ensemble.servers:
            one.freeze()
        try:
            writer.until_acknowledged(50)
        finally:
            for one in ensemble.servers:
                one.thaw()
        writer.until(lambda: ensemble.leader() is not None)

    story(ensemble, "all-frozen", breaks)


def test_the_controllers_session_may_expire_while_it_lives(ensemble: Ensemble) -> None:
    """Cut from ZooKeeper and from nobody else: another one is elected, and what the deposed one
    still believes reaches nobody. It comes back with another broker epoch."""
    stored = ensemble.stored
    old, before = stored.controller(), lives(stored)

    def breaks(writer: Writer) -> None:
        ensemble.ways[old].cut()
        try:
            writer.until(lambda: stored.controller() != old)
            writer.until_acknowledged(50)
        finally:
            ensemble.ways[old].heal()
        path = f"{ROOT}/brokers/ids/{old}"
        writer.until(lambda: stored.zk.exists(path).czxid > before[old])

    story(ensemble, "controller-cut", breaks)
    assert lives(stored)[0] > before[0]


def test_the_leaders_session_may_expire_while_it_lives(ensemble: Ensemble) -> None:
    """Its clients and followers still reach it, and it leads no more."""
    stored = ensemble.stored

    def breaks(writer: Writer) -> None:
        leader = stored.state("leader-cut")["leader"]
        ensemble.ways[leader].cut()
        try:
            writer.until(lambda: stored.state("leader-cut")["leader"] not in (leader, -1))
            writer.until_acknowledged(50)
        finally:
            ensemble.ways[leader].heal()

    story(ensemble, "leader-cut", breaks)


def test_connections_to_zookeeper_may_break_again_and_again(ensemble: Ensemble) -> None:
    """Cut and healed at once, so that answers are lost and sessions go on or not; meanwhile topics
    are made, and one of the servers is killed."""
    stored = ensemble.stored

    def breaks(writer: Writer) -> None:
        follower = next(one for one in ensemble.servers if one.mode() == "follower")
        follower.kill()
        for number in range(10):
            way = ensemble.ways[BROKERS[number % len(BROKERS)]]
            way.cut()
            way.heal()
            writer.until_acknowledged(10)
            stored.create(f"cut-{number}")
        follower.start()
        writer.until(lambda: follower.mode() == "follower")

    story(ensemble, "cuts", breaks)


def test_a_broker_returns_while_the_controllers_session_expires(ensemble: Ensemble) -> None:
    """The controller and another broker are killed, and both come back at about the time when the
    controller's session ends: each is registered, whatever it saw first."""
    stored = ensemble.stored

    def breaks(writer: Writer) -> None:
        old = stored.controller()
        other = next(id for id in BROKERS if id != old)
        for id in (other, old):
            stored.brokers[id].signal(signal.SIGKILL)
            stored.brokers[id].kill()
        stored.brokers[other].start()
        until(lambda: stored.zk.exists(f"{ROOT}/controller") is None or stored.controller() != old)
        stored.brokers[old].start()
        for id in (other, old):
            stored.brokers[id].wait_until_ready()

    story(ensemble, "returns", breaks)


def test_a_second_broker_of_the_same_id_is_refused(ensemble: Ensemble, tmp_path: Path) -> None:
    second = BrokerProcess(1, ensemble.ways[2], tmp_path)  # type: ignore[arg-type]
    second.start("initial.broker.registration.timeout.ms=3000")
    assert second.process.wait(SECONDS) == 2
    said = (tmp_path / "broker-1.err").read_text()
    second.kill()
    assert "broker 1 was not taken into the cluster within 3 s" in said
    assert "is another broker of this id running?" in said
    assert "Traceback" not in said
