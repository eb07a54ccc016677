"""`highwater proxy`: what passes it, where brokers are, and what its rules do to real clients."""

import asyncio
import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.real.proxy.addresses import (
    Place,
    Upstream,
    limited,
    moved,
    names_brokers,
    newest,
    only_tagged,
    places,
    read_answer,
    written,
)
from chaos.real.proxy.command import proxy as command
from chaos.real.proxy.passing import Answered, Connection, Passing
from chaos.real.proxy.proxy import Proxy
from chaos.real.proxy.words import rule_of, words_of
from refimpl.edge.testing.blocking import BlockingCluster
from refimpl.wire.api_names import api_names
from refimpl.wire.messages import load_response_schema, read_response, write_response
from tests.refimpl.edge.patience import until

READY = re.compile(r"Clients connect to (\S+)")
SECONDS = 30
PRODUCE, FETCH, METADATA, OFFSET_COMMIT, FIND_COORDINATOR, API_VERSIONS = 0, 1, 3, 8, 10, 18


@pytest.fixture
def cluster() -> Generator[BlockingCluster]:
    with BlockingCluster(brokers=3) as made:
        made.create_topic("orders", partitions=3)
        yield made


def values(cluster: BlockingCluster, topic: str) -> list[bytes]:
    """All values of a topic, asked of the brokers themselves."""
    consumer: Any = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "values"})
    numbers = consumer.list_topics(topic, SECONDS).topics[topic].partitions
    found: list[bytes] = []
    for number in numbers:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), SECONDS)
        consumer.assign([TopicPartition(topic, number, 0)])
        found += [one.value() for one in consumer.consume(end, SECONDS)] if end else []
    consumer.close()
    return found


class Unasked:
    """A recorder that no request reaches."""

    def reads(self, key: int) -> bool:
        raise AssertionError(key)

    def asked(self, passing: Passing) -> Answered | None:
        raise AssertionError(passing)

    def gone(self, connection: Connection) -> None:
        raise AssertionError(connection)

    def ending(self) -> None:
        """Nothing was recorded."""


class Running:
    """The command as a process, and the address for clients."""

    def __init__(self, target: str, *options: str) -> None:
        program = [sys.executable, "-m", "highwater", "proxy", "--target", target, *options]
        self.process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        self.told: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(line.strip())
            if found := READY.match(line):
                self.bootstrap = found[1]
                return
        raise AssertionError(f"it did not start: {self.told}")

    def rules(self, method: str, path: str = "/rules", body: str = "") -> Any:
        port = int(self.told[0].rpartition(":")[2].partition("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        connection.request(method, path, body)
        answer = orjson.loads(connection.getresponse().read())
        connection.close()
        return answer

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 0
        return out


@pytest.fixture
def running(cluster: BlockingCluster) -> Generator[Running]:
    made = Running(cluster.bootstrap, "--control", "0", "--fault", "delay Metadata by_ms=1")
    yield made
    if made.process.poll() is None:
        made.stop()


def written_to(bootstrap: str, count: int, **settings: Any) -> list[str | None]:
    """The errors of so many records, one after the other."""
    producer: Any = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    errors: list[str | None] = []

    def delivered(error: Any, _: object) -> None:
        errors.append(error and error.name())

    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=number % 3, on_delivery=delivered)
    producer.flush(SECONDS)
    return errors


def read_from(bootstrap: str, count: int, **settings: Any) -> list[int]:
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe(["orders"])
    found: list[int] = []
    while len(found) < count:
        found += [int(one.value()) for one in consumer.consume(count - len(found), SECONDS)]
    consumer.close()
    return sorted(found)


def test_clients_meet_only_the_proxy(running: Running, cluster: BlockingCluster) -> None:
    """Producing, a group, and metadata, all through it: no address of a broker comes out."""
    assert written_to(running.bootstrap, 30) == [None] * 30
    assert read_from(running.bootstrap, 30) == [*range(30)]
    admin: Any = AdminClient({"bootstrap.servers": running.bootstrap})
    told = {one.port for one in admin.list_topics(timeout=SECONDS).brokers.values()}
    behind = {int(one.rpartition(":")[2]) for one in cluster.bootstrap.split(",")}
    assert len(told) == 3
    assert told.isdisjoint(behind)
    (rule,) = running.rules("GET")
    assert rule["rule"] == "delay Metadata by_ms=1"
    assert rule["met"] == rule["seen"] > 1


def test_a_moved_leader_is_reached_by_the_proxy(running: Running, cluster: BlockingCluster) -> None:
    """Since KIP-951 answers of Produce and Fetch name the new leader and its address."""
    cluster.create_topic("moving", partitions=1, replicas=3)
    leader = cluster.leader("moving", 0) or 1
    producer: Any = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0})
    producer.produce("moving", b"1")
    assert producer.flush(SECONDS) == 0
    cluster.kill(leader, expire=True)
    producer.produce("moving", b"2")
    assert producer.flush(SECONDS) == 0
    assert values(cluster, "moving") == [b"1", b"2"]


def test_an_acknowledgement_is_lost_by_rule(running: Running, cluster: BlockingCluster) -> None:
    """The record is stored, the answer dropped: a producer without retries hears nothing."""
    errors: list[str | None] = []

    def delivered(error: Any, _: object) -> None:
        errors.append(error and error.name())

    settings = {"message.timeout.ms": 5000, "enable.idempotence": False, "retries": 0}
    producer: Any = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0, **settings})
    producer.produce("orders", b"0", partition=0, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    made = running.rules("POST", body="drop-response Produce count=1")
    assert made == {
        "number": 1,
        "rule": "drop-response Produce count=1",
        **{"seen": 0, "met": 0, "held": 0},
    }
    producer.produce("orders", b"1", partition=0, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    assert errors == [None, "_MSG_TIMED_OUT"]
    assert values(cluster, "orders") == [b"0", b"1"]
    (_, told) = running.rules("GET")
    assert told["met"] == 1
    assert "drop-response Produce count=1: met 1" not in running.stop(), "given later, not listed"


def test_what_is_held_goes_on(running: Running, cluster: BlockingCluster) -> None:
    number = running.rules("POST", body="hold Produce count=1")["number"]
    producer: Any = Producer({"bootstrap.servers": running.bootstrap, "acks": "all"})
    producer.produce("orders", b"7", partition=0)
    while not running.rules("GET")[number]["held"]:
        producer.poll(0.05)
    assert values(cluster, "orders") == []
    assert running.rules("DELETE", f"/rules/{number}")["met"] == 1
    assert producer.flush(SECONDS) == 0
    assert values(cluster, "orders") == [b"7"]
    assert running.rules("DELETE", f"/rules/{number}") == {"error": f"there is no rule {number}"}


def sent_singly(running: Running, cluster: BlockingCluster, rule: str, count: int) -> list[bytes]:
    """The log of a producer without idempotence, after a rule has met the first of its batches."""
    cluster.create_topic("single", partitions=1)
    number = running.rules("POST", body=rule)["number"]
    one_each = {"batch.num.messages": 1, "linger.ms": 0, "enable.idempotence": False}
    producer: Any = Producer({"bootstrap.servers": running.bootstrap, "acks": 1, **one_each})
    for value in range(count):
        producer.produce("single", b"%d" % value, partition=0)
    until(lambda: running.rules("GET")[number]["seen"] >= count)
    assert values(cluster, "single") == []
    running.rules("DELETE", f"/rules/{number}")
    assert producer.flush(SECONDS) == 0
    return values(cluster, "single")


@pytest.mark.parametrize("rule", ["hold Produce count=1", "delay Produce count=1 by_ms=400"])
def test_no_request_overtakes_another(
    running: Running, cluster: BlockingCluster, rule: str
) -> None:
    """A producer without idempotence, whose first batch is late, has its records in order."""
    assert sent_singly(running, cluster, rule, 9) == [b"%d" % value for value in range(9)]


def test_nothing_behind_a_dropped_request_is_handled(
    running: Running, cluster: BlockingCluster
) -> None:
    """A new connection brings it again, and all that was behind it."""
    found = sent_singly(running, cluster, "drop Produce count=1", 5)
    assert sorted(found) == [b"%d" % value for value in range(5)]


@pytest.mark.parametrize("kind", ["disconnect", "disconnect-unhandled"])
def test_a_closed_connection_is_tried_again(
    running: Running, cluster: BlockingCluster, kind: str
) -> None:
    """An idempotent producer writes once, whether the broker has handled the request or not."""
    running.rules("POST", body=f"{kind} Produce count=1")
    assert written_to(running.bootstrap, 1, **{"enable.idempotence": True}) == [None]
    assert values(cluster, "orders") == [b"0"]


@pytest.mark.parametrize("settings", [{"acks": "all"}, {"acks": 0}], ids=str)
def test_a_copy_comes_once_more_and_an_idempotent_producer_does_not_mind(
    running: Running, cluster: BlockingCluster, settings: dict[str, Any]
) -> None:
    running.rules("POST", body="copy Produce by_ms=50 count=1")
    plain = {"enable.idempotence": False, **settings}
    assert written_to(running.bootstrap, 1, **plain) == [None]
    until(lambda: values(cluster, "orders") == [b"0", b"0"])
    running.rules("POST", body="copy Produce by_ms=50 count=1")
    assert written_to(running.bootstrap, 1, **{"enable.idempotence": True}) == [None]
    running.rules("POST", body="copy Produce by_ms=50 count=1")
    assert written_to(running.bootstrap, 1, **plain) == [None]
    until(lambda: len(values(cluster, "orders")) >= 5)
    assert len(values(cluster, "orders")) == 5, "the idempotent one's copy came before these two"


def test_a_recording_takes_no_copies(cluster: BlockingCluster, tmp_path: Path) -> None:
    """Its trace would blame the broker for records that nobody sent twice."""
    options = ["--target", cluster.bootstrap, "--record", str(tmp_path / "run")]
    done = CliRunner().invoke(command, [*options, "--fault", "copy Produce by_ms=5"])
    assert done.exit_code == 2
    assert "copy Produce: not beside --record" in done.output
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="not beside --record"):
        Proxy([], recorder=Unasked()).add(rule_of("copy Produce by_ms=5")[1])


def test_requests_without_an_answer_pass(running: Running, cluster: BlockingCluster) -> None:
    """acks=0 has no answer, which nobody must wait for."""
    assert written_to(running.bootstrap, 9, acks=0, **{"enable.idempotence": False}) == [None] * 9
    assert written_to(running.bootstrap, 3) == [None] * 3
    assert len(values(cluster, "orders")) == 12


def test_a_rule_of_one_broker_meets_nobody_else(running: Running, cluster: BlockingCluster) -> None:
    cluster.create_topic("alone", partitions=1, replicas=1)
    other = next(broker for broker in (1, 2, 3) if broker != cluster.leader("alone", 0))
    running.rules("POST", body=f"drop Produce broker={other}")
    running.rules("POST", body=f"delay Produce by_ms=1 broker={cluster.leader('alone', 0)}")
    producer: Any = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce("alone", b"1")
    assert producer.flush(SECONDS) == 0
    assert [one["met"] for one in running.rules("GET")[1:]] == [0, 1]


@pytest.mark.parametrize("by_file", [False, True])
def test_tls_ends_at_both_sides(tmp_path: Path, by_file: bool) -> None:
    """A client trusts the proxy's certificate, the proxy that of the brokers."""
    trustme: Any = pytest.importorskip("trustme")
    from refimpl.edge.testing.security import Security

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    mine = authority.issue_cert("127.0.0.1")
    mine.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "mine.pem"))
    security = Security(protocol="SSL", authorizer=False)
    with BlockingCluster(brokers=1, security=security) as cluster:
        cluster.create_topic("orders", partitions=3)
        theirs = security.file("ca.pem")
        file = tmp_path / "client.properties"
        lines = (f"{key}={value}" for key, value in security.java("admin").items())
        file.write_text("\n".join(lines))
        by_names = ("--target-ca", theirs, "--target-cert", security.file("user-admin.pem"))
        made = Running(
            cluster.bootstrap,
            *(("--target-config", str(file)) if by_file else by_names),
            *("--cert", str(tmp_path / "mine.pem")),
        )
        settings = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
        assert written_to(made.bootstrap, 3, **settings) == [None] * 3
        assert read_from(made.bootstrap, 3, **settings) == [0, 1, 2]
        made.stop()


def test_rules_at_the_end_say_what_they_met(cluster: BlockingCluster) -> None:
    made = Running(cluster.bootstrap, "--fault", "delay Produce by_ms=1")
    assert written_to(made.bootstrap, 1) == [None]
    assert re.search(r"^delay Produce by_ms=1: met [1-9]\d* of", made.stop(), re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("hold Produse", "no API of Kafka's is called 'Produse'; did you mean Produce?"),
        ("hodl Produce", "expected a rule to begin with hold"),
        ("hold", "expected the name of an API behind hold"),
        ("hold count=1", "expected the name of an API behind hold"),
        ("hold Produce cont=1", "expected count and =, found 'cont=1'"),
        ("hold Produce count=no", "count: expected a whole number, found 'no'"),
        ("hold Produce count=0", "count: a whole number from 1 on is expected, found 0"),
        ("delay Produce", "by_ms belongs to delay and copy, which need it"),
        ("copy Produce", "by_ms belongs to delay and copy, which need it"),
        ("hold Produce by_ms=3", "by_ms belongs to delay and copy"),
    ],
)
def test_a_mistaken_rule_is_one_line(words: str, message: str) -> None:
    done = CliRunner().invoke(command, ["--target", "127.0.0.1:1", "--fault", words])
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.splitlines()) == 1


def test_a_file_of_rules_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("# first\nhold Produce\n\nhold Fetch x=1  # wrong\n")
    options = ["--target", "127.0.0.1:1", "--faults-from", str(file)]
    done = CliRunner().invoke(command, options)
    assert done.exit_code == 2
    assert "rules:4: 'hold Fetch x=1'" in done.output


@pytest.mark.parametrize(
    "words",
    [
        "hold Produce after=3 count=1",
        "delay Fetch by_ms=500 client_id=billing",
        "copy AlterPartition by_ms=2000 count=1",
        "drop-response EndTxn broker=2",
        "disconnect-unhandled Heartbeat",
        "drop BrokerHeartbeat client_id=1",  # which our brokers do not serve
    ],
)
def test_words_of_a_rule_come_back(words: str) -> None:
    assert words_of(*rule_of(words)) == words


def test_a_broker_that_names_the_proxy_as_its_own_place_gets_no_listener_more() -> None:
    async def located() -> tuple[Upstream, dict[Upstream, Upstream]]:
        async with Proxy([Upstream("127.0.0.1", 1)]) as proxy:
            host, _, port = proxy.bootstrap.rpartition(":")
            own = Upstream(host, int(port))
            return own, await proxy._located([Place(1, own)])  # pyright: ignore[reportPrivateUsage]

    own, found = asyncio.run(located())
    assert found == {Upstream("127.0.0.1", 1): own, own: own}


def named_apis() -> dict[str, bool]:
    """The APIs whose newest answers name brokers; True where they do in tagged fields alone."""
    return {
        name: only_tagged(load_response_schema(key, newest(key) or 0))
        for key, name in api_names().items()
        if names_brokers(key)
    }


def test_every_answer_that_names_brokers_is_known() -> None:
    """A new one among them shows up here."""
    assert named_apis() == {
        "Metadata": False,
        "FindCoordinator": False,
        "DescribeCluster": False,
        "ShareFetch": False,
        "ShareAcknowledge": False,
        "Produce": True,
        "Fetch": True,
        **dict.fromkeys(("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot"), True),
    }


def test_an_answer_of_fetch_names_its_leader_elsewhere() -> None:
    """An answer that names no broker goes on byte for byte."""
    values: dict[str, Any] = {"session_id": 7, "responses": []}
    plain = write_response(FETCH, 17, values)
    assert read_answer(FETCH, 17, plain, 0) is None
    endpoint = {"node_id": 2, "host": "b2", "port": 9092, "rack": None}
    named = write_response(FETCH, 17, {**values, "node_endpoints": [endpoint]})
    answer = read_answer(FETCH, 17, named, 0)
    (place,) = places(answer)
    assert place == (2, Upstream("b2", 9092))
    there = Upstream("127.0.0.1", 5)
    again = read_answer(FETCH, 17, written(b"", moved(answer, {place.address: there})), 0)
    assert [one.address for one in places(again)] == [there]
    assert again.session_id == 7


def test_versions_that_cannot_be_read_are_not_offered() -> None:
    """A newer Kafka's Metadata could name brokers that the proxy does not see."""
    keys = [(METADATA, 99), (PRODUCE, 3), (OFFSET_COMMIT, 99)]
    told = [{"api_key": key, "min_version": 0, "max_version": most} for key, most in keys]
    plain = write_response(API_VERSIONS, 3, {"api_keys": told})
    body = limited(3, plain, 0)
    assert body is not None
    answer = read_response(API_VERSIONS, 3, body)
    most = {one.api_key: one.max_version for one in answer.api_keys}
    assert most == {METADATA: newest(METADATA), PRODUCE: 3, OFFSET_COMMIT: 99}
    assert limited(3, body, 0) is None
    with pytest.raises(ValueError, match="version 99 of API 3 may name brokers"):
        read_answer(METADATA, 99, b"", 0)


def test_a_broker_that_is_not_known_has_no_address() -> None:
    found = {"error_code": "COORDINATOR_NOT_AVAILABLE", "node_id": -1, "host": "", "port": -1}
    answer = read_answer(FIND_COORDINATOR, 2, write_response(FIND_COORDINATOR, 2, found), 0)
    assert list(places(answer)) == []
    assert moved(answer, {}) == answer


async def _asked(target: Upstream, sent: bytes) -> bytes:
    async with Proxy([target]) as made:
        host, _, port = made.bootstrap.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        await writer.wait_closed()
        return answer


def test_what_is_not_kafkas_protocol_is_closed(cluster: BlockingCluster) -> None:
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    sent = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    assert asyncio.run(_asked(Upstream(host, int(port)), sent)) == b""


def test_a_broker_that_is_down_closes_the_connection() -> None:
    assert asyncio.run(_asked(Upstream("127.0.0.1", 1), b"")) == b""


def test_a_port_that_is_taken_is_one_line(cluster: BlockingCluster) -> None:
    taken = cluster.bootstrap.split(",")[0].rpartition(":")[2]
    done = CliRunner().invoke(command, ["--target", cluster.bootstrap, "--port", taken])
    assert done.exit_code == 2
    assert "cannot listen" in done.output


def test_a_file_that_is_no_certificate_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no")
    done = CliRunner().invoke(command, ["--target", "h:1", "--cert", str(tmp_path / "no.pem")])
    assert done.exit_code == 2
    assert "expected PEM" in done.output
