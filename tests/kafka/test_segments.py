"""The importer of log files, with the directories of real brokers that were killed and cut."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import frozen
from confluent_kafka import KafkaException, Producer
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.cluster import KafkaCluster, cluster
from chaos.real.kafka.judge import SECONDS_TO_STOP, Judge
from tests.traces.importers.brokers import flip, positions

ROOT = Path(__file__).parents[2]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SAFE = ("cleanup_policy=delete", "unclean_leader_election=false", "min_insync_replicas=2")
UNCLEAN = ("cleanup_policy=delete", "unclean_leader_election=true", "min_insync_replicas=1")
CHECKPOINT = "replication-offset-checkpoint"
IN_THE_RECORDS = 70
PATIENCE_S = 90

Verdicts = dict[str, dict[str, Any]]


@frozen
class Kept:
    """Copies of the brokers' log directories, at three moments."""

    folder: Path

    def roots(self, moment: str) -> list[Path]:
        return sorted((self.folder / moment).iterdir())


def until(condition: Callable[[], Any], what: str) -> None:
    """Polled, for files and brokers tell nobody."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.2)
    raise RuntimeError(f"still not: {what}")


def seen(up: KafkaCluster, topic: str) -> tuple[int, list[int]]:
    """The leader of partition 0 and its ISR, as far as known by now."""
    try:
        found = up.partitions(topic).get(0)
    except KafkaException:
        found = None
    return (-1, []) if found is None else (found.leader, list(found.isrs))


def committed(up: KafkaCluster, node: int, topic: str) -> int:
    """The high watermark of partition 0 in a broker's checkpoint file."""
    file = up.nodes[node].folder / "data" / CHECKPOINT
    lines = file.read_text().splitlines() if file.exists() else []
    return max((int(x.split()[2]) for x in lines if x.startswith(f"{topic} 0 ")), default=-1)


def send(
    up: KafkaCluster, topic: str, count: int, *, acks: str = "all", codec: str = "none"
) -> int:
    """Send records, and return the number that the present leader acknowledged."""
    conf: dict[str, Any] = {"bootstrap.servers": up.bootstrap, "acks": acks, "log_level": 0}
    producer = Producer({**conf, "compression.type": codec, "linger.ms": 5})
    acked: list[int] = []

    def report(error: Any, message: Any) -> None:
        if error is None:
            acked.append(message.offset())

    for number in range(count):
        producer.produce(topic, f"{codec}-{number}" * 9, f"k{number}", on_delivery=report)
    producer.flush(30)
    return len(acked)


def transact(up: KafkaCluster, topic: str) -> None:
    conf = {"bootstrap.servers": up.bootstrap, "transactional.id": f"till-{topic}", "log_level": 0}
    producer = Producer(conf)
    producer.init_transactions()
    for number in range(8):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"v", f"t{number}")
        if number % 4:
            producer.commit_transaction()
        else:
            producer.abort_transaction()


def keep(up: KafkaCluster, moment: Path, nodes: Iterable[int]) -> None:
    """Copy log directories, of brokers that are down and of brokers that run."""
    for node in nodes:
        shutil.copytree(up.nodes[node].folder / "data", moment / f"broker-{node}")


def cut_a_tail(up: KafkaCluster, moment: Path) -> None:
    """The leader writes alone and is killed; the next one writes other records in their place."""
    topic = "cut"
    up.create(topic, 1, {"min.insync.replicas": "1"})
    for codec in CODECS:
        assert send(up, topic, 40, codec=codec) == 40
    transact(up, topic)
    leader = up.partitions(topic)[0].leader
    followers = [node for node in up.nodes.values() if node.id != leader]
    until(lambda: committed(up, leader, topic) > 220, "the leader wrote down what is committed")
    for node in followers:
        node.freeze()
    alone = send(up, topic, 20, acks="1", codec="gzip")
    up.nodes[leader].kill()
    for node in followers:
        node.thaw()
    assert alone == 20
    up.wait_for_another_leader(topic, leader)
    assert send(up, topic, 30) == 30
    for node in followers:
        until(lambda id=node.id: committed(up, id, topic) > 220, "the checkpoints are there")
    keep(up, moment, up.nodes)
    up.nodes[leader].start()
    up.wait_until_healed(topic)


def elect_uncleanly(up: KafkaCluster, moment: Path) -> None:
    """One replica commits alone and dies; the other, which lacks that, leads and commits more."""
    topic, first, second = "unclean", 1, 2
    settings = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    new = NewTopic(topic, 1, replica_assignment=[[first, second]], config=settings)
    admin: Any = up.admin
    admin.create_topics([new])[topic].result(60)
    until(lambda: len(seen(up, topic)[1]) == 2, "both are in sync")
    assert send(up, topic, 10) == 10
    until(lambda: committed(up, second, topic) == 10, "the follower knows what is committed")
    up.nodes[second].kill()
    until(lambda: seen(up, topic)[1] == [first], "the follower is out of sync")
    assert send(up, topic, 15) == 15
    until(lambda: committed(up, first, topic) == 25, "the leader wrote down what is committed")
    up.nodes[first].kill()
    up.nodes[second].start()
    until(lambda: seen(up, topic)[0] == second, "the other leads")
    assert send(up, topic, 20) == 20
    until(lambda: committed(up, second, topic) == 30, "it wrote down what is committed now")
    keep(up, moment, (first, second))
    up.nodes[first].start()
    until(lambda: len(seen(up, topic)[1]) == 2, "both are in sync again")


def stop(up: KafkaCluster) -> None:
    """In good order: each tells itself that everything is on its disk."""
    for node in up.nodes.values():
        assert node.process is not None
        node.process.send_signal(signal.SIGTERM)
    for node in up.nodes.values():
        assert node.process is not None
        try:
            node.process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            node.kill()  # the last controller waits for a quorum that is gone


@pytest.fixture(scope="module")
def kept(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    with cluster(tmp_path_factory.mktemp("cluster"), judge) as up:
        cut_a_tail(up, folder / "cut")
        elect_uncleanly(up, folder / "unclean")
        for topic in ("cut", "unclean"):
            assert send(up, topic, 5) == 5
        stop(up)
        keep(up, folder / "after", up.nodes)
    return Kept(folder)


def highwater(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "refimpl", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def judged(
    tmp_path: Path, roots: Iterable[Path], topic: str, settings: Iterable[str]
) -> tuple[Verdicts, str]:
    """The verdicts on a topic, and what the importer said."""
    run, verdicts = tmp_path / "run", tmp_path / "judged.json"
    given = [word for one in settings for word in ("--set", one)]
    made = highwater("import", "segments", *roots, "--out", run, "--topic", topic, *given)
    assert made.returncode == 0, made.stderr
    checked = highwater("check", run, "--json", verdicts)
    assert checked.returncode in (0, 1), checked.stderr
    return orjson.loads(verdicts.read_bytes())["runs"][0]["checks"], made.stdout


def records(tmp_path: Path, node: int) -> list[dict[str, Any]]:
    lines = (tmp_path / "run" / f"broker-{node}.ndjson").read_bytes().splitlines()
    return [record for line in lines for record in orjson.loads(line).get("records", ())]


def test_a_tail_that_is_yet_to_be_cut_is_no_divergence(kept: Kept, tmp_path: Path) -> None:
    """KIP-101: what only the old leader has lies above its high watermark."""
    verdicts, said = judged(tmp_path, kept.roots("cut"), "cut", SAFE)
    assert "warning" not in said
    for promise in ("L12", "L14"):
        assert verdicts[promise]["verdict"] == "holds", verdicts[promise]
    by_node = [{r["offset"]: r["hash"] for r in records(tmp_path, node)} for node in (1, 2, 3)]
    offsets = sorted({o for held in by_node for o in held})
    differ = [o for o in offsets if len({held[o] for held in by_node if o in held}) > 1]
    assert len(differ) >= 20, "the old leader wrote nothing of its own"


def test_an_unclean_election_leaves_two_logs(kept: Kept, tmp_path: Path) -> None:
    verdicts, _ = judged(tmp_path, kept.roots("unclean"), "unclean", UNCLEAN)
    assert verdicts["L14"]["verdict"] == "allowed"
    assert verdicts["L14"]["count"] == 15
    assert "unclean_leader_election = true" in verdicts["L14"]["reason"]
    assert verdicts["L12"]["verdict"] == "holds"


@pytest.mark.parametrize(
    ("topic", "promises"), [("cut", ("L12", "L14", "P2")), ("unclean", ("L12", "L14"))]
)
def test_when_all_is_healed_the_logs_are_one(
    kept: Kept, tmp_path: Path, topic: str, promises: tuple[str, ...]
) -> None:
    verdicts, said = judged(tmp_path, kept.roots("after"), topic, SAFE)
    assert "warning" not in said
    for promise in promises:
        assert verdicts[promise]["verdict"] == "holds", verdicts[promise]
    assert not [id for id, one in verdicts.items() if one["verdict"] == "violated"]


def test_a_log_that_was_tampered_with_is_found(kept: Kept, tmp_path: Path) -> None:
    shutil.copytree(kept.folder / "after", tmp_path / "tampered")
    roots = sorted((tmp_path / "tampered").iterdir())
    (log,) = (roots[2] / "cut-0").glob("*.log")
    place = positions(log)[3]
    flip(log, place + IN_THE_RECORDS)
    verdicts, said = judged(tmp_path, roots, "cut", SAFE)
    assert f"{log}: byte {place}: the checksum of a batch does not match" in said
    assert verdicts["L14"]["verdict"] == "violated"
    (first, *_) = verdicts["L14"]["witnesses"]
    assert [event["process"] for event in first["events"]] == ["broker-1", "broker-3"]
