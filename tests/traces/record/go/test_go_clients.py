"""The recorder for Go with real franz-go clients, against our own brokers."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from refimpl.edge.testing.blocking import BlockingCluster
from tests.traces.record.go.building import program
from traces.api import check, load
from traces.record.cli import record_scan

pytestmark = [
    pytest.mark.kafka,  # it needs Go, and modules through its proxy
    pytest.mark.xdist_group("go-recorder"),
]
COUNT = 500
TOPIC = "orders"
KEPT = {
    *("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L12", "L15", "L20", "P1", "P6")
}
READ = {"C1", "C2", "C3", "C4", "G1", "G4", "G5", "G6", "G8", "G9"}
TRANSACTED = {"T1", "T2", "T3", "T4", "T7", "T8", "T11", "P3", "P4", "P7"}
NO_HASHES = {"L7"}

Line = dict[str, Any]


def play(cluster: BlockingCluster, scenario: str, run: Path, *more: str, ends: int = 0) -> str:
    """The application of `shop`; returns what it prints."""
    command = [program("shop"), scenario, cluster.bootstrap, TOPIC, run, str(COUNT), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout


def scan(cluster: BlockingCluster, run: Path) -> str:
    scanned = CliRunner().invoke(record_scan, [str(run), "--bootstrap", cluster.bootstrap])
    assert scanned.exit_code == 0, scanned.output
    return scanned.output


def verdicts(run: Path) -> tuple[set[str], dict[str, int]]:
    """The promises that hold, and how often others were broken."""
    judged = check(load(run))
    held = {id for id, one in judged.verdicts.items() if one.verdict == "holds"}
    return held, {finding.check: finding.count for finding in judged.findings}


def lines(run: Path, process: str) -> list[Line]:
    file = (run / f"{process}.ndjson").read_bytes()
    return [orjson.loads(line) for line in file.splitlines()]


@pytest.mark.parametrize("protocol", ["cooperative", "eager", "consumer"])
def test_what_holds_holds_and_hashes_are_one(tmp_path: Path, protocol: str) -> None:
    """Idempotent sends, and a member of a group that commits after its work."""
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "healthy", tmp_path, "hashes=1", "most=100", f"protocol={protocol}")
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    # In the consumer protocol no generation is the group's.
    epochs = {"G1", "G4"} if protocol == "consumer" else set[str]()
    assert (KEPT | READ | {"G13"}) - epochs <= held
    head = lines(tmp_path, "consumer#0")[0]["recorder"]
    assert head["client"].startswith("franz-go v1.2")
    ids = [one["topic_ids"] for one in lines(tmp_path, "producer#0") if "topic_ids" in one]
    assert [len(one[TOPIC]) for one in ids] == [22]
    assert "franz-go" in orjson.loads((tmp_path / "meta.json").read_bytes())["source"]


@pytest.mark.parametrize("how", ["records=1", "async=1"])
def test_commits_of_all_kinds_are_recorded_with_their_answers(tmp_path: Path, how: str) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "healthy", tmp_path, "most=100", how)
        assert "of others than recorded" not in scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert READ - {"G9"} | {"G13"} <= held
    commits = [line for line in lines(tmp_path, "consumer#0") if line["op"] == "commit"]
    assert {line["outcome"] for line in commits} == {"ok"}
    ends: dict[str, int] = {}
    for line in commits:
        ends |= line["offsets"]
    assert sum(ends.values()) == COUNT


@pytest.mark.parametrize("auto", ["yes", "greedy", "marks"])
def test_automatic_commits_are_recorded_and_are_as_without_the_recorder(
    tmp_path: Path, auto: str
) -> None:
    """The recorder's callback for revoked partitions does what the client does without one."""
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC)
        play(cluster, "produce", tmp_path)
        about = (f"auto={auto}", "most=50")
        plain = play(cluster, "leave", tmp_path, *about, "plain=1", "group=plain")
        recorded = play(cluster, "leave", tmp_path, *about, "group=recorded")
        assert "recorded: " not in scan(cluster, tmp_path)
    assert plain == recorded == f"{TOPIC} 0 {100 if auto == 'greedy' else 50}\n"
    commits = [line for line in lines(tmp_path, "leaver#0") if line["op"] == "commit"]
    assert commits
    assert {(line["auto"], line["outcome"]) for line in commits} == {(True, "ok")}
    held, found = verdicts(tmp_path)
    assert found == {}
    assert {"C1", "C3", "G1", "G5"} <= held


def test_an_assignment_by_hand_and_a_way_back_hold(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "direct", tmp_path)
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert {"C1", "C2"} | KEPT - NO_HASHES <= held
    seeks = [line for line in lines(tmp_path, "reader#0") if line["op"] == "seek"]
    assert [line["offsets"] for line in seeks] == [{f"{TOPIC}:{n}": 0 for n in range(3)}] * 2


def test_transactions_hold(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "transactions", tmp_path)
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert held >= (KEPT - NO_HASHES) | TRANSACTED
    first = lines(tmp_path, "till#0")[0]
    assert (first["op"], first["producer_epoch"] >= 0) == ("init_producer", True)


def test_a_transaction_in_which_the_process_is_killed_is_open(tmp_path: Path) -> None:
    """Its records are in the log, and no reader of committed ones is given them."""
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "transactions", tmp_path, "dies=1", ends=-signal.SIGKILL)
        play(cluster, "transactions", tmp_path)
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert {"T1", "T4", "T7", "P3", "P4"} <= held
    last = [line for line in lines(tmp_path, "till#0") if line["op"] != "crash"]
    assert [line["outcome"] for line in last if line["op"] == "send"][-10:] == ["ok"] * 10
    assert {line["op"] for line in last[-11:]} == {"txn_begin", "send"}


def test_sessions_move_records_once_and_record_what_they_aborted(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        cluster.create_topic(f"{TOPIC}-moved", partitions=2)
        said = play(cluster, "session", tmp_path)
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert held >= (KEPT - NO_HASHES) | TRANSACTED
    # The session hands on but the first rebalance of a transaction.
    assert held & {"C1", "C2", "C3", "C4", "G1", "G4"} == set()
    written = lines(tmp_path, "mover-producer#0")
    count = {op: sum(line["op"] == op for line in written) for op in ("txn_offsets", "txn_abort")}
    assert count["txn_abort"] == said.count("aborted") > 0
    offsets = [line for line in written if line["op"] == "txn_offsets"]
    assert {line["outcome"] for line in offsets} == {"ok"}
    assert all(line["group"] == f"{TOPIC}-readers" and line["offsets"] for line in offsets)


def test_hooks_alone_leave_unchecked_what_they_do_not_see(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "hooked", tmp_path)
        assert "of others than recorded" in scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert held >= KEPT - NO_HASHES
    assert held & {"C1", "C2", "C3", "C4", "G1", "G4", "G5", "G8", "G10", "G13"} == set()


def test_transactions_that_a_hook_does_not_see_accuse_nobody(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "transactions", tmp_path, "hook=1")
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert held >= {"L1", "L5", "P1"}
    assert held & (TRANSACTED | {"L4"}) - {"P3", "P4", "P7"} == set()


def test_a_killed_producer_and_a_killed_consumer_lose_nothing(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        play(cluster, "produce", tmp_path, "dies=1", ends=-signal.SIGKILL)
        play(cluster, "produce", tmp_path)
        play(cluster, "consume", tmp_path, "dies=1", "most=40", ends=-signal.SIGKILL)
        play(cluster, "consume", tmp_path, "most=40", "count=200")
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert (KEPT - NO_HASHES) | {"G8", "G9", "G13"} <= held
    written = lines(tmp_path, "producer#0")
    sends = [line for line in written if line["op"] == "send"]
    assert written[-1]["op"] == "crash"
    # Of the last ones nobody knows what became of them; they are written down.
    assert len(sends) == COUNT // 2 + 1
    assert sends[-1]["outcome"] == "info"
    written = [line["op"] for line in lines(tmp_path, "consumer#0")]
    assert written[-4:] == ["poll", "process", "commit", "crash"]
    assert written.count("process") == COUNT // 2 // 40 + 1


def test_a_commit_before_the_work_and_a_record_stored_twice_are_found(tmp_path: Path) -> None:
    """Without idempotence, with acks=1, the answer to the first request is lost."""
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC)
        cluster.drop_response("Produce", count=1)
        unsafe = ("unsafe=1", "acks=1", "timeout_ms=500")
        play(cluster, "healthy", tmp_path, "early=1", *unsafe)
        scan(cluster, tmp_path)
    _, found = verdicts(tmp_path)
    assert {"L2", "G13"} <= found.keys()
    scans = [line for line in lines(tmp_path, "scan-ru#0") if line["op"] == "scan"]
    ids: list[Any] = [record["id"] for line in scans for record in line["records"]]
    assert found["L2"] == len(ids) - len(set(ids)) > 0
    assert found["G13"] >= COUNT


def test_an_acknowledged_record_that_is_gone_is_found(tmp_path: Path) -> None:
    """The final scan of a run is damaged: it lacks one record."""
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC)
        play(cluster, "produce", tmp_path)
        scan(cluster, tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert "L4" in held
    file = tmp_path / "scan-ru#0.ndjson"
    written = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    full = next(line for line in written if line["op"] == "scan" and line["records"])
    del full["records"][COUNT // 2]
    file.write_bytes(b"\n".join(map(orjson.dumps, written)) + b"\n")
    assert verdicts(tmp_path)[1].get("L4") == 1
