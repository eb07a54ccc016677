"""The recorder for Go, with franz-go on real brokers: nobody is accused, and a loss is found."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from chaos.real.kafka.cluster import KafkaCluster
from chaos.real.kafka.judge import Judge
from tests.kafka.recorded_shop import (
    ALWAYS,
    COUNT,
    MEMBERS,
    SAFE,
    SEED,
    TRANSACTED,
    Recordings,
    Runs,
    assert_that_scans_reached_every_end,
    assert_that_the_loss_is_allowed_and_counted,
    ended,
    kill_the_leader,
    recorded_and_judged,
    unprocessed,
)
from tests.traces.record.go.building import program


def shop(
    up: KafkaCluster, scenario: str, run: Path, count: int, *more: str
) -> "subprocess.Popen[str]":
    """The application of `tests/traces/record/go/shop`; each run has a topic of its name."""
    command = [program("shop"), scenario, up.bootstrap, run.name, run, str(count), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def record_healthy(up: KafkaCluster, run: Path) -> None:
    """One process dies in the middle of a burst; the next one does all that an application does."""
    up.create(run.name, 3, SAFE)
    ended(shop(up, "produce", run, COUNT, "dies=1"), -signal.SIGKILL)
    ended(shop(up, "healthy", run, COUNT, "most=100"))


def record_transactions(up: KafkaCluster, run: Path) -> None:
    up.create(run.name, 3, SAFE)
    ended(shop(up, "transactions", run, COUNT, "dies=1", "each=50"), -signal.SIGKILL)
    ended(shop(up, "transactions", run, COUNT, "each=50"))


def record_session(up: KafkaCluster, run: Path) -> None:
    up.create(run.name, 3, SAFE)
    up.create(f"{run.name}-moved", 2, SAFE)
    ended(shop(up, "session", run, COUNT, "most=100"))


def record_members(up: KafkaCluster, run: Path, *more: str) -> None:
    """Members come and go for twenty seconds; some are killed, and so is a broker that leads."""
    up.create(run.name, 6, SAFE)
    # In the consumer protocol the time-out is the broker's.
    timeout = () if "protocol=consumer" in more else ("session_ms=6000",)
    about = (f"seed={SEED}", *timeout, *more)
    producer = shop(up, "produce", run, 3_600, "pause_ms=5")
    staying = shop(up, "members", run, 20, "members=3", *about)
    dies = ("members=2", "prefix=v", "dies_after_ms=7000")
    victim = shop(up, "members", run, 50, *dies, *about)
    time.sleep(7)
    leader = up.partitions(run.name)[0].leader
    up.nodes[leader].kill()
    up.wait_for_another_leader(run.name, leader)
    up.nodes[leader].start()
    ended(staying)
    ended(victim, -signal.SIGKILL)
    ended(producer)
    ended(shop(up, "members", run, 8, "members=1", "prefix=last", *about))
    up.wait_until_healed(run.name)


def record_leader_kill(up: KafkaCluster, run: Path) -> None:
    """Followers stop inside the ISR; the leader goes on to acknowledge alone, and is killed."""
    up.create(run.name, 1, {"min.insync.replicas": "1"})
    about = ("acks=1", "unsafe=1", "retries=0", "pause_ms=1", "timeout_ms=5000")
    producer = shop(up, "produce", run, 5_000, *about)
    kill_the_leader(up, run, producer)


RUNS: Runs = {
    "healthy": record_healthy,
    "transactions": record_transactions,
    "session": record_session,
    "at-least-once": record_members,
    "at-least-once-consumer": lambda up, run: record_members(up, run, "protocol=consumer"),
    "auto-commit": lambda up, run: record_members(up, run, "auto=yes", "work_us=2000"),
    "at-most-once": lambda up, run: record_members(
        up, run, "early=1", "order=commit_then_process", "work_us=2000"
    ),
    "leader-kill": record_leader_kill,
}


@pytest.fixture(scope="module")
def recordings(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return recorded_and_judged(judge, tmp_path_factory, RUNS)


def test_a_scan_that_reaches_every_end_makes_the_run_complete(recordings: Recordings) -> None:
    assert_that_scans_reached_every_end(recordings)


def test_a_healthy_run_keeps_every_promise(recordings: Recordings) -> None:
    assert recordings.violated("healthy") == {}
    checked = {*MEMBERS} - {"G10"}  # nobody goes on where another was
    assert {*ALWAYS, *checked, "G9", "G13"} <= recordings.held("healthy")
    sends = [line for line in recordings.lines("healthy", "producer#0") if line["op"] == "send"]
    # Nobody knows what became of the last one before the kill; it is written down.
    assert len(sends) == COUNT // 2 + 1
    assert sends[-1]["outcome"] == "info"
    assert recordings.lines("healthy", "producer#0")[-1]["op"] == "crash"


def test_transactions_keep_every_promise(recordings: Recordings) -> None:
    assert recordings.violated("transactions") == {}
    of_readers = {"C1", "C2"}
    assert {*ALWAYS, *TRANSACTED} - of_readers <= recordings.held("transactions")
    first, second = (recordings.lines("transactions", f"till#{n}")[0] for n in range(2))
    # The one who was killed is fenced by its successor.
    assert second["producer_id"] == first["producer_id"] >= 0
    assert second["producer_epoch"] > first["producer_epoch"]


def test_sessions_keep_every_promise(recordings: Recordings) -> None:
    assert recordings.violated("session") == {}
    of_members = {"C1", "C2"}
    assert {*ALWAYS, *TRANSACTED} - of_members <= recordings.held("session")


@pytest.mark.parametrize("run", ["at-least-once", "at-least-once-consumer", "auto-commit"])
def test_members_that_come_and_go_and_die_are_accused_of_nothing(
    recordings: Recordings, run: str
) -> None:
    violated = recordings.violated(run)
    assert {v["verdict"] for v in violated.values()} <= {"allowed"}, violated
    # What a member had not committed when it died or left, another one read again.
    assert set(violated) <= {"G9"}
    # Under KIP-848 no generation is the group's; G4 judges commits that the application asks for.
    unjudged = {"at-least-once-consumer": {"G1", "G4"}, "auto-commit": {"G4"}}
    assert {*ALWAYS, *MEMBERS} - unjudged.get(run, set()) <= recordings.held(run)
    assert len(unprocessed(recordings, run)) == 0


def test_what_was_committed_and_never_processed_is_found_and_allowed(
    recordings: Recordings,
) -> None:
    violated = recordings.violated("at-most-once")
    assert violated["G8"]["verdict"] == "allowed"
    assert violated["G8"]["count"] == len(unprocessed(recordings, "at-most-once")) > 0
    assert {v["verdict"] for v in violated.values()} == {"allowed"}
    assert set(violated) <= {"G8", "G9"}


def test_a_leader_killed_under_acks_1_loses_acknowledged_records(recordings: Recordings) -> None:
    assert_that_the_loss_is_allowed_and_counted(recordings)
