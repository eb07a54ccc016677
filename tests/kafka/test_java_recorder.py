"""The Java recorder, with real clients of real brokers: nobody is accused, and a loss is found."""

import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
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
from tests.traces.record.java.building import COMPILED, FORMER, java


def shop(
    up: KafkaCluster, scenario: str, run: Path, count: int, *more: str, version: str = COMPILED
) -> "subprocess.Popen[str]":
    """The application of `tests/traces/record/java/shop`; each run has a topic of its name."""
    arguments = (scenario, up.bootstrap, run.name, run, str(count), *more)
    command = java("shop.Shop", *arguments, version=version)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def record_healthy(up: KafkaCluster, run: Path, version: str) -> None:
    """One process dies in the middle of a burst; the next one does all that an application does."""
    up.create(run.name, 3, SAFE)
    ended(shop(up, "produce", run, COUNT, "shop.dies=1", version=version), -signal.SIGKILL)
    ended(shop(up, "healthy", run, COUNT, version=version))


def record_transactions(up: KafkaCluster, run: Path, version: str) -> None:
    up.create(run.name, 3, SAFE)
    up.create(f"{run.name}-moved", 2, SAFE)
    ended(shop(up, "transactions", run, COUNT, version=version))


@contextmanager
def produced(up: KafkaCluster, run: Path, seconds: int) -> Generator[None]:
    """A producer sends all the while."""
    producer = shop(up, "produce", run, seconds * 200, "shop.pause_ms=5")
    yield
    ended(producer)


def record_members(up: KafkaCluster, run: Path, *more: str, kills: bool = True) -> None:
    """Members come and go for twenty seconds; some are killed, and so is a broker that leads."""
    up.create(run.name, 6, SAFE)
    about = ("session.timeout.ms=6000", "heartbeat.interval.ms=500", "max.poll.records=50", *more)
    about = (
        *(one for one in about if one.partition("=")[0] not in _unwanted(more)),
        f"shop.seed={SEED}",
    )
    with produced(up, run, 18):
        staying = shop(up, "members", run, 20, "shop.members=3", *about)
        dies = () if "shop.intercepted=1" in more else ("shop.dies_after_ms=7000",)
        victim = shop(up, "members", run, 60, "shop.members=2", "shop.name=v", *about, *dies)
        time.sleep(7)
        if not dies:
            victim.kill()
        victim.wait(60)
        if kills:
            leader = up.partitions(run.name)[0].leader
            up.nodes[leader].kill()
            up.wait_for_another_leader(run.name, leader)
            up.nodes[leader].start()
        ended(staying)
        ended(victim, -signal.SIGKILL)
    last = shop(up, "members", run, 8, "shop.members=1", "shop.name=last", *about)
    ended(last)
    up.wait_until_healed(run.name)


def _unwanted(more: tuple[str, ...]) -> set[str]:
    """In the consumer protocol these are the broker's."""
    consumer = "group.protocol=consumer" in more
    return {"session.timeout.ms", "heartbeat.interval.ms"} if consumer else set()


def record_leader_kill(up: KafkaCluster, run: Path) -> None:
    """Followers stop inside the ISR; the leader goes on to acknowledge alone, and is killed."""
    up.create(run.name, 1, {"min.insync.replicas": "1"})
    about = ("acks=1", "retries=0", "linger.ms=0", "enable.idempotence=false", "shop.pause_ms=1")
    producer = shop(up, "produce", run, 5_000, *about, "request.timeout.ms=5000")
    kill_the_leader(up, run, producer)


RUNS: Runs = {
    "healthy": lambda up, run: record_healthy(up, run, COMPILED),
    "healthy-former": lambda up, run: record_healthy(up, run, FORMER),
    "transactions": lambda up, run: record_transactions(up, run, COMPILED),
    "transactions-former": lambda up, run: record_transactions(up, run, FORMER),
    "at-least-once": record_members,
    "at-least-once-consumer": lambda up, run: record_members(up, run, "group.protocol=consumer"),
    "at-most-once": lambda up, run: record_members(up, run, "shop.early=1", "shop.work_us=2000"),
    "auto-commit": lambda up, run: record_members(
        up, run, "enable.auto.commit=true", "auto.commit.interval.ms=300", "shop.work_us=2000"
    ),
    "intercepted": lambda up, run: record_members(up, run, "shop.intercepted=1"),
    "leader-kill": record_leader_kill,
}


@pytest.fixture(scope="module")
def recordings(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return recorded_and_judged(judge, tmp_path_factory, RUNS)


def test_a_scan_that_reaches_every_end_makes_the_run_complete(recordings: Recordings) -> None:
    assert_that_scans_reached_every_end(recordings)


@pytest.mark.parametrize("run", ["healthy", "healthy-former"])
def test_a_healthy_run_keeps_every_promise(recordings: Recordings, run: str) -> None:
    assert recordings.violated(run) == {}
    assert {*ALWAYS, *MEMBERS, "G9", "G13"} <= recordings.held(run)
    sends = [line for line in recordings.lines(run, "producer#0") if line["op"] == "send"]
    # Nobody knows what became of the last one before the kill; it is written down.
    assert len(sends) == COUNT // 2 + 1
    assert sends[-1]["outcome"] == "info"
    assert recordings.lines(run, "producer#0")[-1]["op"] == "crash"


@pytest.mark.parametrize("run", ["transactions", "transactions-former"])
def test_transactions_keep_every_promise(recordings: Recordings, run: str) -> None:
    assert recordings.violated(run) == {}
    assert {*ALWAYS, *TRANSACTED} <= recordings.held(run)
    assert recordings.lines(run, "till#0")[0]["producer_id"] >= 0


@pytest.mark.parametrize("run", ["at-least-once", "at-least-once-consumer"])
def test_members_that_come_and_go_and_die_are_accused_of_nothing(
    recordings: Recordings, run: str
) -> None:
    violated = recordings.violated(run)
    assert {v["verdict"] for v in violated.values()} <= {"allowed"}, violated
    # What the member that died had not committed, another one read again.
    assert set(violated) <= {"G9"}
    assert run != "at-least-once" or violated["G9"]["count"] > 0
    epochs = {"G1", "G4"} if run.endswith("consumer") else set[str]()
    assert {*ALWAYS, *MEMBERS} - epochs <= recordings.held(run)


def test_what_was_committed_and_never_processed_is_found_and_allowed(
    recordings: Recordings,
) -> None:
    violated = recordings.violated("at-most-once")
    assert {check: v["verdict"] for check, v in violated.items()} == {"G8": "allowed"}
    assert set(ALWAYS) <= recordings.held("at-most-once")
    assert violated["G8"]["count"] == len(unprocessed(recordings, "at-most-once")) > 0


def test_automatic_commits_are_told_and_what_came_after_them_is_read_again(
    recordings: Recordings,
) -> None:
    """The Java client commits in the next poll: what it returned before has been processed."""
    violated = recordings.violated("auto-commit")
    assert {check: v["verdict"] for check, v in violated.items()} == {"G9": "allowed"}
    assert set(ALWAYS) <= recordings.held("auto-commit")
    assert len(unprocessed(recordings, "auto-commit")) == 0


def test_interceptors_accuse_nobody_and_leave_unchecked_what_they_do_not_see(
    recordings: Recordings,
) -> None:
    violated = recordings.violated("intercepted")
    assert {v["verdict"] for v in violated.values()} <= {"allowed"}, violated
    checks = recordings.verdicts["intercepted"]
    for check in ("C1", "C2", "C3", "C4", "G1", "G4", "G13"):
        assert checks[check]["verdict"] == "not checked", checks[check]


def test_a_leader_killed_under_acks_1_loses_acknowledged_records(recordings: Recordings) -> None:
    assert_that_the_loss_is_allowed_and_counted(recordings)
