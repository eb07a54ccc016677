"""The recorder, with real clients of real brokers: what holds holds, and a loss is found."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import frozen
from confluent_kafka import Producer

from chaos.real.kafka.cluster import KafkaCluster, cluster
from chaos.real.kafka.judge import Judge
from tests.kafka.recorded_client import APPLICATIONS
from traces.record import recorded

ROOT = Path(__file__).parents[2]
COUNT = 2_000
#: Longer than it takes to acknowledge some hundred records, shorter than the brokers' patience.
FROZEN_S = 1.2
SAFE = {"min.insync.replicas": "2"}

Verdicts = dict[str, dict[str, Any]]


@frozen
class Recordings:
    """All runs of this suite, recorded on one cluster and judged in one session."""

    folder: Path
    scans: dict[str, "subprocess.CompletedProcess[str]"]
    verdicts: dict[str, Verdicts]

    def lines(self, run: str, process: str) -> list[dict[str, Any]]:
        file = self.folder / run / f"{process}.ndjson"
        return [orjson.loads(line) for line in file.read_bytes().splitlines()]


def python(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def application(library: str, up: KafkaCluster, topic: str, run: Path, *more: str) -> int:
    module = "tests.kafka.recorded_client"
    ran = python("-m", module, library, up.bootstrap, topic, run, str(COUNT), *more)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode


def record_scan(up: KafkaCluster, run: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return python("-m", "refimpl", "record-scan", run, "--bootstrap", up.bootstrap, *more)


def record_healthy(up: KafkaCluster, library: str, run: Path) -> None:
    """One process dies in the middle of a burst; the next one does all that an application does."""
    topic = f"healthy-{library.replace('_', '-')}"
    up.create(topic, 3, SAFE)
    assert application(library, up, topic, run, "die") == -signal.SIGKILL
    assert application(library, up, topic, run) == 0


def record_transactions(up: KafkaCluster, run: Path) -> None:
    up.create("payments", 2, SAFE)
    conf = {"bootstrap.servers": up.bootstrap, "transactional.id": "till", "log_level": 0}
    producer = recorded(Producer, run, conf)
    producer.init_transactions()
    for number in range(20):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce("payments", b"v")
        if number % 4:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()


def record_leader_kill(up: KafkaCluster, run: Path) -> None:
    """Followers stop inside the ISR; the leader goes on to acknowledge alone, and is killed."""
    topic = "unsafe"
    up.create(topic, 1, {"min.insync.replicas": "1"})
    conf = {"bootstrap.servers": up.bootstrap, "acks": "1", "retries": 0, "linger.ms": 0}
    producer = recorded(Producer, run, {**conf, "message.timeout.ms": 20_000, "log_level": 0})
    send(producer, topic, 0.3)
    producer.flush(10)
    leader = up.partitions(topic)[0].leader
    followers = [node for node in up.nodes.values() if node.id != leader]
    for node in followers:
        node.freeze()
    send(producer, topic, FROZEN_S)
    up.nodes[leader].kill()
    killed_ns = time.monotonic_ns()
    for node in followers:
        node.thaw()
    up.wait_for_another_leader(topic, leader)
    send(producer, topic, 0.5)
    producer.flush(30)
    producer.close()
    up.nodes[leader].start()
    up.wait_until_healed(topic)
    faults = [{"at_ns": killed_ns, "what": f"kill -9 broker {leader}"}]
    (run / "meta.json").write_bytes(orjson.dumps({"faults": faults}))


def send(producer: Any, topic: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        producer.produce(topic, b"v")
        producer.poll(0.001)


@pytest.fixture(scope="module")
def recordings(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    folder = tmp_path_factory.mktemp("runs")
    scans: dict[str, subprocess.CompletedProcess[str]] = {}
    with cluster(tmp_path_factory.mktemp("cluster"), judge) as up:
        for library in APPLICATIONS:
            record_healthy(up, library, folder / library)
        record_transactions(up, folder / "transactions")
        record_leader_kill(up, folder / "leader-kill")
        for run in sorted(folder.iterdir()):
            scans[run.name] = record_scan(up, run)
    judged = folder.with_suffix(".json")
    python("-m", "refimpl", "check", folder, "--json", judged)
    runs = orjson.loads(judged.read_bytes())["runs"]
    verdicts = {Path(run["path"]).name: run["checks"] for run in runs}
    return Recordings(folder, scans, verdicts)


def test_a_scan_that_reaches_every_end_makes_the_run_complete(recordings: Recordings) -> None:
    for name, scan in recordings.scans.items():
        assert scan.returncode == 0, f"{name}: {scan.stdout}{scan.stderr}"
        meta = orjson.loads((recordings.folder / name / "meta.json").read_bytes())
        assert meta["complete"] is True
        assert all(topic["replication_factor"] == 3 for topic in meta["topics"].values())


@pytest.mark.parametrize("library", APPLICATIONS)
def test_a_healthy_run_of_each_library_keeps_every_promise(
    recordings: Recordings, library: str
) -> None:
    verdicts = recordings.verdicts[library]
    assert {v["verdict"] for v in verdicts.values()} <= {"holds", "not checked"}
    for promise in ("L1", "L2", "L3", "L4", "L5", "L8", "L10", "P1", "C1", "C2", "G1", "G5", "G8"):
        assert verdicts[promise]["verdict"] == "holds", verdicts[promise]


@pytest.mark.parametrize("library", APPLICATIONS)
def test_a_killed_process_leaves_all_that_it_did(recordings: Recordings, library: str) -> None:
    lines = recordings.lines(library, "producer#0")
    assert lines[-1]["op"] == "crash"
    sends = [line for line in lines if line["op"] == "send"]
    assert len(sends) == COUNT // 2 + 1
    assert {send["outcome"] for send in sends} <= {"ok", "info"}
    # What was under way in the burst is written down; nobody knows what became of it.
    assert sends[-1]["outcome"] == "info"
    scans = recordings.lines(library, "scan-ru#0")
    stored = {r["id"] for line in scans if line["op"] == "scan" for r in line["records"]}
    assert {s["records"][0]["id"] for s in sends if s["outcome"] == "ok"} <= stored


@pytest.mark.parametrize("library", APPLICATIONS)
def test_a_member_tells_its_generation_where_the_client_knows_it(
    recordings: Recordings, library: str
) -> None:
    lines = recordings.lines(library, "consumer#0")
    for op in ("assigned", "commit"):
        told = [line for line in lines if line["op"] == op]
        assert told
        assert all(line["generation"] >= 1 and line["member"] for line in told), told


def test_transactions_are_scanned_in_both_isolations_and_hold(recordings: Recordings) -> None:
    verdicts = recordings.verdicts["transactions"]
    assert {v["verdict"] for v in verdicts.values()} <= {"holds", "not checked"}
    for promise in ("T1", "T4"):
        assert verdicts[promise]["verdict"] == "holds", verdicts[promise]
    counts = {
        isolation: sum(len(line.get("records", ())) for line in recordings.lines(*place))
        for isolation, place in (
            ("committed", ("transactions", "scan-rc#0")),
            ("all", ("transactions", "scan-ru#0")),
        )
    }
    assert counts["committed"] == 150
    # Whatever of an aborted transaction was sent before the abort is in the log.
    assert 150 <= counts["all"] <= 200


def test_a_leader_killed_under_acks_1_loses_acknowledged_records_and_the_check_shows_one(
    recordings: Recordings,
) -> None:
    loss = recordings.verdicts["leader-kill"]["L4"]
    assert loss["verdict"] == "allowed", loss
    assert loss["count"] > 0
    scans = recordings.lines("leader-kill", "scan-ru#0")
    stored = {r["id"] for line in scans if line["op"] == "scan" for r in line["records"]}
    sends = [x for x in recordings.lines("leader-kill", "producer#0") if x["op"] == "send"]
    acked = {s["records"][0]["id"] for s in sends if s["outcome"] == "ok"}
    assert loss["count"] == len(acked - stored)
    witness = loss["witnesses"][0]
    assert any(event.get("id") in acked - stored for event in witness["events"]), witness
