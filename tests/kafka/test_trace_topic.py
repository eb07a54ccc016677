"""A run from a topic of real brokers, by a reader that is killed again and again."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from chaos.real.kafka.cluster import KafkaCluster, cluster
from chaos.real.kafka.judge import Judge
from tests.traces.fixture import Fixture, fixture, write
from tests.traces.judging import judged, verdicts

ROOT = Path(__file__).parents[2]
SETTINGS = {"min.insync.replicas": "2"}


@pytest.fixture(scope="module")
def up(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), judge) as running:
        yield running


def command(up: KafkaCluster, topic: str, run: Path, *more: str) -> list[str]:
    verb = [sys.executable, "-m", "refimpl", "ingest", "--kafka", up.bootstrap, "--topic", topic]
    return [*verb, "--out", str(run), *more]


def send(up: KafkaCluster, topic: str, w: Fixture) -> None:
    """All lines of a fixture, some of them twice, in a transaction that is aborted first."""
    producer = Producer(
        {"bootstrap.servers": up.bootstrap, "transactional.id": topic, "acks": "all"}
    )
    producer.init_transactions()
    for commit in (False, True):
        producer.begin_transaction()
        producer.produce(topic, json.dumps(w.meta).encode(), b"meta.json")
        for process, lines in w.lines.items():
            for n, line in enumerate(lines):
                for _ in range(2 if n % 10 == 0 else 1):
                    producer.produce(topic, json.dumps(line).encode(), process.encode())
                producer.poll(0)
        if commit:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()


def test_a_topic_becomes_a_run_although_its_reader_is_killed(
    up: KafkaCluster, tmp_path: Path
) -> None:
    w, run = fixture(8), tmp_path / "run"
    up.create("traces", 4, SETTINGS)
    send(up, "traces", w)
    for _ in range(4):
        reader = subprocess.Popen(command(up, "traces", run), cwd=ROOT)
        until = time.monotonic() + 60
        size = total(run)
        while total(run) == size and total(run) < lines_of(w) and time.monotonic() < until:
            assert reader.poll() is None
            time.sleep(0.01)
        reader.send_signal(signal.SIGKILL)
        reader.wait()
    ended = subprocess.run(command(up, "traces", run, "--until-end"), cwd=ROOT, check=False)
    assert ended.returncode == 0
    straight = write(tmp_path / "straight", w.lines, w.meta)
    for process, lines in w.lines.items():
        text = (run / f"{process}.ndjson").read_text()
        assert [json.loads(line) for line in text.splitlines()] == lines
    told: dict[str, Any] = json.loads((run / "topic.json").read_text())
    again = sum(-(-len(lines) // 10) for lines in w.lines.values())
    assert (told["lines"], told["duplicates"]) == (lines_of(w), again)
    assert verdicts(judged(run)) == verdicts(judged(straight))


def lines_of(w: Fixture) -> int:
    return sum(map(len, w.lines.values()))


def total(run: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in run.glob("*.ndjson"))


def test_a_reader_that_is_asked_to_stop_stops_in_order(up: KafkaCluster, tmp_path: Path) -> None:
    w, run = fixture(9), tmp_path / "run"
    up.create("stopped", 2, SETTINGS)
    send(up, "stopped", w)
    reader = subprocess.Popen(command(up, "stopped", run), cwd=ROOT, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while total(run) < lines_of(w) and time.monotonic() < until:
        time.sleep(0.05)
    reader.send_signal(signal.SIGINT)
    _, said = reader.communicate(timeout=30)
    assert reader.returncode == 0, said
    assert f"{lines_of(w)} lines" in said.decode().replace(",", "")


def test_what_was_deleted_before_it_was_read_is_an_error(up: KafkaCluster, tmp_path: Path) -> None:
    run = tmp_path / "run"
    up.create("short", 1, SETTINGS)
    run.mkdir()
    told: dict[str, Any] = {"processes": {}, "lines": 0, "duplicates": 0, "given_up": 0}
    state = {"topic": "short", "offsets": {"0": 99}, **told, "rejected": 0, "rejected_size": 0}
    (run / "topic.json").write_text(json.dumps(state))
    reader = subprocess.run(
        command(up, "short", run, "--until-end"), cwd=ROOT, capture_output=True, check=False
    )
    assert reader.returncode == 2
    assert b"partition 0" in reader.stderr


def test_a_topic_that_is_not_there_is_named(up: KafkaCluster, tmp_path: Path) -> None:
    reader = subprocess.run(
        command(up, "nothing", tmp_path, "--until-end"), cwd=ROOT, capture_output=True, check=False
    )
    assert reader.returncode == 2
    assert b"topic nothing" in reader.stderr
