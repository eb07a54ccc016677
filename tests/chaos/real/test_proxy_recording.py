"""`highwater proxy --record`: a trace of clients that nobody changed, in several libraries."""

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

from chaos.real.proxy.command import proxy as command
from refimpl.edge.server.arrivals import Arrivals
from refimpl.edge.testing.blocking import BlockingCluster
from refimpl.edge.testing.security import Security
from refimpl.machines.producer_state import ProducerState
from tests.chaos.real.test_proxy import SECONDS, Running
from traces.api import Result, check, load
from traces.record.cli import record_scan

COUNT = 120
#: Promises that every run of sends and reads must at least decide
LOG = {"L1", "L2", "L3", "L4", "L5", "L7", "L8", "L9", "L10", "L15", "P1", "C1", "C2", "C3"}


@pytest.fixture
def cluster() -> Generator[BlockingCluster]:
    with BlockingCluster(brokers=3) as made:
        made.create_topic("orders", 3, 3, {"min.insync.replicas": "2"})
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def recording(cluster: BlockingCluster, run: Path) -> Generator[Running]:
    made = Running(cluster.bootstrap, "--control", "0", "--record", str(run))
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.communicate()


def ended(recording: Running, code: int = 0) -> str:
    """The last words of the proxy, told to end."""
    recording.process.send_signal(signal.SIGTERM)
    out, _ = recording.process.communicate(timeout=2 * SECONDS)
    assert recording.process.returncode == code, out
    return out


def lines(run: Path, op: str) -> list[dict[str, Any]]:
    """The calls of this kind, of all processes."""
    files = sorted(run.glob("*.ndjson"))
    found = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]
    return [line for line in found if line["op"] == op]


def judged(run: Path) -> Result:
    """The result of `highwater check`."""
    return check(load(run))


def verdicts(run: Path) -> dict[str, str]:
    """The verdict of each promise."""
    return {id: one.verdict for id, one in judged(run).verdicts.items()}


def held(run: Path) -> set[str]:
    """The promises that hold, where nothing but those was found."""
    found = verdicts(run)
    wrong = {id: verdict for id, verdict in found.items() if verdict in ("violated", "allowed")}
    assert wrong == {}
    return {id for id, verdict in found.items() if verdict == "holds"}


def sent_by_confluent(bootstrap: str, count: int = COUNT, **settings: Any) -> list[str | None]:
    """The errors of so many records."""
    errors: list[str | None] = []

    def delivered(error: Any, _: object) -> None:
        errors.append(error and error.name())

    base = {"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True}
    producer: Any = Producer({**base, **settings})
    for number in range(count):
        producer.produce("orders", b"%d" % number, b"k%d" % number, number % 3, delivered)
        producer.poll(0)
    producer.flush(SECONDS)
    return errors


def read_by_confluent(bootstrap: str, count: int, group: str = "readers", **more: Any) -> None:
    """Read so many records, and commit."""
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    base = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": group}
    consumer: Any = Consumer({**base, **settings, **more})
    consumer.subscribe(["orders"])
    while count > 0:
        count -= len(consumer.consume(count, SECONDS))
        consumer.commit(asynchronous=False)
    consumer.close()


def test_a_run_of_confluent_kafka_holds(recording: Running, run: Path) -> None:
    """Sends with and without idempotence, compressed and not, read by a group and by assignment."""
    plain, packed = {"enable.idempotence": False}, {"compression.type": "zstd"}
    several: list[dict[str, Any]] = [{}, plain, packed]
    for settings in several:
        assert sent_by_confluent(recording.bootstrap, **settings) == [None] * COUNT
    read_by_confluent(recording.bootstrap, 3 * COUNT)
    read_by_confluent(recording.bootstrap, 3 * COUNT, group="again")
    told = ended(recording)
    assert "1 topic, 3 partitions scanned" in told
    assert held(run) >= LOG | {"L11", "L13", "G1", "G4", "G5", "P2"}
    sends = [record for call in lines(run, "send") for record in call["records"]]
    assert len({record["id"] for record in sends}) == len(sends) == 3 * COUNT
    assert {call["outcome"] for call in lines(run, "send")} == {"ok"}


def by_program(library: str, bootstrap: str) -> None:
    """A client of another library, as a process."""
    module = "tests.chaos.real.proxied_client"
    program = [sys.executable, "-m", module, library, bootstrap, str(COUNT)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("library", ["kafka-python", "aiokafka", "highwater"])
def test_a_run_of_other_libraries_holds(recording: Running, run: Path, library: str) -> None:
    """Also of payloads that are the same again and again."""
    by_program(library, recording.bootstrap)
    ended(recording)
    assert held(run) >= LOG | {"G1", "G4", "G5"}
    sends = [record for call in lines(run, "send") for record in call["records"]]
    assert len({record["id"] for record in sends}) == len(sends) == COUNT


def test_a_run_with_tls_and_logins_holds(run: Path, tmp_path: Path) -> None:
    """Clients log in to the brokers through the proxy; the final scan logs in by its own file."""
    trustme: Any = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    mine = authority.issue_cert("127.0.0.1")
    mine.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "mine.pem"))
    security = Security(users={"admin": "admin-secret"})
    with BlockingCluster(brokers=1, security=security) as secured:
        secured.create_topic("orders", 3)
        file = tmp_path / "client.properties"
        file.write_text("\n".join(f"{k}={v}" for k, v in security.java("admin").items()))
        by_file = ("--target-config", str(file), "--cert", str(tmp_path / "mine.pem"))
        proxy = Running(secured.bootstrap, "--record", str(run), *by_file)
        login = security.confluent(proxy.bootstrap, "admin")
        login |= {"ssl.ca.location": str(tmp_path / "ca.pem")}
        assert sent_by_confluent(proxy.bootstrap, **login) == [None] * COUNT
        read_by_confluent(proxy.bootstrap, COUNT, **login)
        assert "1 topic, 3 partitions scanned" in ended(proxy)
    assert held(run) >= LOG | {"G1", "G4", "G5"}


def test_transactions_hold(recording: Running, run: Path) -> None:
    """Committed and aborted ones, with offsets; a successor fences its predecessor."""
    assert sent_by_confluent(recording.bootstrap) == [None] * COUNT
    base = {"bootstrap.servers": recording.bootstrap, "log_level": 0}
    old: Any = Producer({**base, "transactional.id": "till"})
    old.init_transactions()
    old.begin_transaction()
    old.produce("orders", b"left open", partition=0)
    old.flush(SECONDS)
    producer: Any = Producer({**base, "transactional.id": "till"})
    producer.init_transactions()
    settings = {"group.id": "till", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer: Any = Consumer({**base, **settings})
    consumer.subscribe(["orders"])
    for number in range(6):
        got = consumer.consume(10, SECONDS)
        producer.begin_transaction()
        for one in got:
            producer.produce("orders", one.value(), partition=number % 3)
        where = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata())
        if number % 3 == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    with pytest.raises(Exception, match=r"_FENCED|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        old.commit_transaction()
    consumer.close()
    read_by_confluent(recording.bootstrap, COUNT, **{"isolation.level": "read_committed"})
    ended(recording)
    assert held(run) >= LOG | {"P3", "P4", "P7", "T1", "T2", "T3", "T4", "T7", "T8"}
    assert sorted(call["outcome"] for call in lines(run, "txn_commit")) == ["fail", *["ok"] * 4]
    assert [call["outcome"] for call in lines(run, "txn_abort")] == ["ok", "ok"]
    assert len(lines(run, "txn_offsets")) == 6


def test_killing_the_proxy_loses_nothing(
    cluster: BlockingCluster, recording: Running, run: Path
) -> None:
    """Its journals hold all that was acknowledged; a second call ends the recording."""
    assert sent_by_confluent(recording.bootstrap) == [None] * COUNT
    recording.process.kill()
    recording.process.communicate()
    assert sorted(run.glob("*.ndjson")) == []
    scan = CliRunner().invoke(record_scan, [str(run), "--bootstrap", cluster.bootstrap])
    assert scan.exit_code == 2
    assert "`highwater proxy` recorded this run, and ends it" in scan.output
    done = CliRunner().invoke(
        command, ["--target", cluster.bootstrap, "--record", str(run), "--finish"]
    )
    assert done.exit_code == 0, done.output
    acked = [r for call in lines(run, "send") if call["outcome"] == "ok" for r in call["records"]]
    assert sorted(record["offset"] for record in acked) == sorted([*range(COUNT // 3)] * 3)
    assert held(run) >= {"L2", "L3", "L4", "L8", "L9", "P1"}
    assert judged(run).verdicts["L5"].verdict == "not checked", "the client may have gone on"


def test_a_retry_is_the_same_send(recording: Running, run: Path) -> None:
    """The answer is lost, the connection closed: an idempotent producer sends again."""
    recording.rules("POST", body="disconnect Produce count=2")
    assert sent_by_confluent(recording.bootstrap) == [None] * COUNT
    ended(recording)
    calls = lines(run, "send")
    assert {call["outcome"] for call in calls} == {"ok"}
    sends = [record for call in calls for record in call["records"]]
    assert len({record["id"] for record in sends}) == len(sends) == COUNT
    assert held(run) >= {"L2", "L3", "L4", "L8", "P1", "P2"}
    (fault,) = orjson.loads((run / "meta.json").read_bytes())["faults"]
    assert fault["what"] == "proxy: disconnect Produce count=2"
    assert fault["at_ns"] < min(call["invoked_ns"] for call in calls) < fault["until_ns"]


def test_a_duplicate_is_noticed(
    recording: Running, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that have forgotten how to know a batch again store the retry once more."""

    def anything(*_: object) -> None:
        return None

    monkeypatch.setattr(ProducerState, "admit", anything)
    recording.rules("POST", body="disconnect Produce count=1")
    assert sent_by_confluent(recording.bootstrap) == [None] * COUNT
    ended(recording)
    assert verdicts(run)["L2"] == "violated"


def test_a_record_out_of_order_is_noticed(
    cluster: BlockingCluster, recording: Running, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker takes the first batch last, and has forgotten sequences."""

    def at_once(arrivals: Arrivals[Any], request: Any) -> None:
        arrivals.hand_on(request)

    def anything(*_: object) -> None:
        return None

    monkeypatch.setattr(Arrivals, "begin", at_once)
    monkeypatch.setattr(ProducerState, "admit", anything)
    cluster.delay("Produce", by_ms=3000, count=1)
    settings = {"batch.num.messages": 1, "linger.ms": 0}
    assert set(sent_by_confluent(recording.bootstrap, 30, **settings)) == {None}
    ended(recording)
    assert verdicts(run)["P1"] == "violated"


def test_a_lost_record_is_noticed(cluster: BlockingCluster, recording: Running, run: Path) -> None:
    """A leader acknowledges alone (acks=1) and dies: that is allowed, counted, and shown."""
    cluster.create_topic("risky", partitions=1, replicas=3)
    leader = cluster.leader("risky", 0) or 1
    others = [broker for broker in (1, 2, 3) if broker != leader]
    base = {"bootstrap.servers": recording.bootstrap, "log_level": 0}
    first: Any = Producer({**base, "acks": "all"})
    first.produce("risky", b"copied")
    assert first.flush(SECONDS) == 0
    producer: Any = Producer({**base, "acks": 1})
    for broker in others:
        cluster.cut(broker, "one", peer=leader)
    for number in range(5):
        producer.produce("risky", b"alone %d" % number)
    assert producer.flush(SECONDS) == 0
    cluster.kill(leader, expire=True)
    cluster.heal()
    cluster.restart(leader)
    ended(recording)
    found = judged(run)
    assert found.verdicts["L4"].verdict == "allowed"
    assert found.verdicts["L4"].count == 5


def test_seeks_and_restarts_are_no_skips(recording: Running, run: Path) -> None:
    """A reader that moves as it likes, dies without a word, and comes back."""
    assert sent_by_confluent(recording.bootstrap) == [None] * COUNT
    base = {"bootstrap.servers": recording.bootstrap, "log_level": 0, "client.id": "mover"}
    settings = {"group.id": "movers", "auto.offset.reset": "earliest"}
    for start in (0, 25, 10):
        consumer: Any = Consumer({**base, **settings})
        consumer.assign([TopicPartition("orders", 0, start)])
        assert consumer.consume(5, SECONDS)[0].offset() == start
        consumer.seek(TopicPartition("orders", 0, 30))
        while (got := consumer.poll(SECONDS)).offset() != 30:
            assert got.error() is None
        consumer.close()
    ended(recording)
    assert held(run) >= {"C1", "C2", "C3"}
    moves = [call["offsets"]["orders:0"] for call in lines(run, "seek")]
    assert moves == [0, 30, 25, 30, 10, 30]


def test_rebalances_violate_nothing(recording: Running, run: Path) -> None:
    """Members come and go in both protocols while records come in."""
    for protocol in ("classic", "consumer"):
        base = {"bootstrap.servers": recording.bootstrap, "group.protocol": protocol}
        settings = {"group.id": protocol, "auto.offset.reset": "earliest", "log_level": 0}
        members: list[Any] = []
        for number in range(3):
            member: Any = Consumer({**base, **settings, "client.id": "same"})
            member.subscribe(["orders"])
            members.append(member)
            assert set(sent_by_confluent(recording.bootstrap, 30)) == {None}
            for one in members:
                one.consume(30, 1)
                one.commit(asynchronous=number % 2 == 0) if one.assignment() else None
        for member in members:
            member.close()
            assert set(sent_by_confluent(recording.bootstrap, 30)) == {None}
    ended(recording)
    found = verdicts(run)
    assert "violated" not in found.values()
    assert {found[id] for id in ("L2", "L4", "L5", "C1", "C2", "G4")} == {"holds"}


def test_what_a_proxy_cannot_see_is_not_checked(recording: Running, run: Path) -> None:
    """Polls, processing, and the time at which a member gave its partitions up."""
    assert sent_by_confluent(recording.bootstrap) == [None] * COUNT
    read_by_confluent(recording.bootstrap, COUNT)
    ended(recording)
    found = judged(run).verdicts
    for id in ("G2", "G6", "G8", "G10", "G13"):
        assert found[id].verdict == "not checked"
        assert "group is missing" in found[id].reason


def test_a_request_that_never_reaches_a_broker_is_open(recording: Running, run: Path) -> None:
    recording.rules("POST", body="drop Produce")
    settings = {"message.timeout.ms": 8000, "enable.idempotence": False}
    assert sent_by_confluent(recording.bootstrap, 3, **settings) == ["_MSG_TIMED_OUT"] * 3
    ended(recording)
    assert {call["outcome"] for call in lines(run, "send")} == {"info"}
    assert "violated" not in verdicts(run).values()


def test_a_topic_that_is_gone_leaves_the_run_incomplete(
    cluster: BlockingCluster, recording: Running, run: Path
) -> None:
    assert sent_by_confluent(recording.bootstrap) == [None] * COUNT
    admin: Any = AdminClient({"bootstrap.servers": recording.bootstrap})
    admin.delete_topics(["orders"])["orders"].result(SECONDS)
    told = ended(recording, 2)
    assert told.splitlines() == [
        "not complete: topic orders is not there any more",
        "Nothing was scanned.",
    ]
    assert [call["outcome"] for call in lines(run, "delete_topics")] == ["ok"]
    assert verdicts(run)["L4"] == "not checked"


def test_a_folder_of_other_recordings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p0#0.ndjson").write_text('{"process": "p0#0", "seq": 0, "op": "close"}\n')
    options = ["--target", "127.0.0.1:1", "--record", str(tmp_path)]
    done = CliRunner().invoke(command, options)
    assert done.exit_code == 2
    assert "expected a folder that is empty, or that a proxy recorded" in done.output
    assert len(done.output.splitlines()) == 1


def test_finish_needs_a_run(tmp_path: Path) -> None:
    options = ["--target", "127.0.0.1:1", "--finish", "--record", str(tmp_path / "none")]
    done = CliRunner().invoke(command, options)
    assert done.exit_code == 2
    assert "--finish: expected --record and the folder of a run" in done.output


def test_nothing_recorded_is_said(recording: Running) -> None:
    assert "Nothing was sent or read." in ended(recording, 2)
