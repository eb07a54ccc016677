"""Kafka itself under the agent: an orderly run is allowed, findings are rejected."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos.real.agent.build import agent_jar
from examples.brokers import cluster, until
from examples.kafka_jars import class_path
from examples.scenario import Scenario
from properties.kafka.judged import JudgedSubject, judge
from properties.tla.specs import SpecTree

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parents[2]


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the agents of all brokers of this test write."""
    folder = tmp_path / "steps"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-javaagent:{agent_jar()}={folder}")
    return folder


def judged(steps: Path) -> JudgedSubject:
    (one,) = judge(steps, SpecTree()).partitions
    assert one.verdict.accepted, one.verdict.why
    return one


def test_a_run_with_a_killed_leader_is_accepted(steps: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster(tmp_path / "brokers", class_path(None)))
        scenario = Scenario(brokers, tmp_path / "run", "orders", [1, 2, 3])
        scenario.create_topic()
        for number in range(5):
            scenario.write(f"a{number}", 60)
        scenario.signal(1, signal.SIGKILL)
        brokers[1].wait()
        until("another leads", 60, lambda: scenario.state()[0] == 2)
        for number in range(5):
            scenario.write(f"b{number}", 60)
        brokers[1].start()
        scenario.in_sync({1, 2, 3}, 120)
        scenario.write("c", 60)
        scenario.producer.close()
    one = judged(steps)
    assert not one.explained
    assert {"Restart", "Register", "ExpandIsr", "AdvanceHighWatermark"} <= {
        event.action for event in one.trace.events
    }


def test_transactions_with_a_killed_coordinator_are_accepted(steps: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kafka.coordinated", tmp_path / "brokers"]
    subprocess.run(command, cwd=ROOT, check=True)
    run = judge(steps, SpecTree())
    ids = run.transactional_ids
    assert [one.verdict.why for one in ids if one.unexplained] == []
    assert {found.known.name for one in ids for found in one.explained} <= {"last-epoch-lost"}
    taken = {event.action for one in ids for event in one.trace.events}
    assert {"Failover", "InitFences", "EndRefused", "TimeOut", "EndAgain", "WriteMarker"} <= taken
    assert {one.subject.ended for one in ids} == {""}


def test_groups_with_a_killed_coordinator_are_accepted(steps: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kafka.grouped", "play", tmp_path / "brokers"]
    subprocess.run(command, cwd=ROOT, check=True)
    (one,) = judge(steps, SpecTree()).groups
    assert one.verdict.accepted, one.verdict.why
    assert (one.explained, one.subject.ended) == ([], "")
    taken = {event.action for event in one.trace.events}
    assert {"Load", "Fence", "Leave", "ChangeTopics", "ComputeTarget", "TakeCommit"} <= taken


def test_a_commit_in_the_partition_of_another_is_explained(steps: Path, tmp_path: Path) -> None:
    play = ("tests.kafka.grouped", "commit_of_another", tmp_path / "brokers")
    subprocess.run([sys.executable, "-m", *play], cwd=ROOT, check=True)
    (one,) = judge(steps, SpecTree()).groups
    assert one.verdict.accepted, one.verdict.why
    assert [found.known.name for found in one.explained] == ["commit-of-another"]
    assert one.broken is not None
    assert one.broken.promise == "OnlyHoldersCommit"


@pytest.mark.parametrize("name", ["missed-epoch", "late-alter-partition", "equal-partition-epoch"])
def test_a_finding_is_rejected_and_explained(steps: Path, tmp_path: Path, name: str) -> None:
    example = ROOT / "examples" / f"kafka-{name}"
    subprocess.run(
        [sys.executable, example, tmp_path / "run", "--brokers", tmp_path / "brokers"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    one = judged(steps)
    assert name in [found.known.name for found in one.explained]
    assert one.broken is not None
    assert one.broken.promise == "CommittedInIsr"
