"""Traces of real clients, recorded while brokers are killed, and judged by the checks."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException, Producer

import traces
from refimpl.edge import BlockingCluster
from tests.refimpl.edge.patience import PATIENCE_S
from traces.record import recorded
from traces.record.cli import record_scan

SAFE = {"min.insync.replicas": "2"}


def producer(cluster: Any, run: Path, **more: Any) -> Any:
    """librdkafka's, recorded."""
    conf = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "linger.ms": 0, **more}
    # librdkafka asks anew who leads now and then, and not because a leader is gone.
    conf |= {"topic.metadata.refresh.interval.ms": 50, "retry.backoff.ms": 10}
    conf |= {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    return recorded(Producer, run, conf)


def judged(cluster: Any, run: Path, killed: list[tuple[int, int]]) -> Any:
    """The verdicts, once all that the log holds has been read."""
    faults = [{"at_ns": at, "what": f"kill -9 broker {broker}"} for at, broker in killed]
    (run / "meta.json").write_bytes(orjson.dumps({"faults": faults}))
    scanned = CliRunner().invoke(record_scan, [str(run), "--bootstrap", cluster.bootstrap])
    assert scanned.exit_code == 0, scanned.output
    return traces.check(traces.load(run))


def fail_over(cluster: Any, topic: str) -> tuple[int, int]:
    """Kill the leader and let another one be elected; when and whom."""
    leader = cluster.leader(topic, 0)
    cluster.kill(leader)
    killed = time.monotonic_ns()
    cluster.expire_session(leader)
    return killed, leader


def send(producer: Any, topic: str, count: int, each: Callable[[int], None]) -> None:
    for number in range(count):
        each(number)
        producer.produce(topic, b"%d" % number, partition=0)
        producer.poll(0)


def test_ten_killed_leaders_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    killed: list[tuple[int, int]] = []
    with BlockingCluster(brokers=3) as cluster:
        cluster.create_topic("safe", replicas=3, configs=SAFE)
        writer = producer(cluster, tmp_path / "run", acks="all", **{"enable.idempotence": True})

        def every_so_often(number: int) -> None:
            if number % 40 == 20:
                writer.flush(PATIENCE_S)
                killed.append(fail_over(cluster, "safe"))
            elif number % 40 == 30:
                cluster.restart(killed[-1][1])
                cluster.until(lambda: len(cluster.isr("safe", 0)) == 3, 1000 * PATIENCE_S)

        send(writer, "safe", 400, every_so_often)
        assert writer.flush(PATIENCE_S) == 0
        writer.close()
        assert len(killed) == 10
        verdicts = judged(cluster, tmp_path / "run", killed)
        leader = cluster.leader("safe", 0)
        assert leader is not None
        assert cluster.high_watermark("safe", 0, leader) == 400
    assert verdicts.verdict != "violated", verdicts.as_json()
    assert [verdicts[name].verdict for name in ("L1", "L3", "L4", "P1")] == ["holds"] * 4


def test_with_acks_1_a_killed_leader_loses_what_it_alone_had_and_the_check_allows_it(
    tmp_path: Path,
) -> None:
    with BlockingCluster(brokers=3) as cluster:
        cluster.create_topic("unsafe", assignments={0: [1, 2, 3]})
        writer = producer(cluster, tmp_path / "run", acks="1")
        send(writer, "unsafe", 20, lambda number: None)
        writer.flush(PATIENCE_S)
        cluster.until(lambda: cluster.high_watermark("unsafe", 0, 1) == 20, 1000 * PATIENCE_S)
        cluster.cut(1, "brokers")
        send(writer, "unsafe", 30, lambda number: None)
        writer.flush(PATIENCE_S)
        killed = fail_over(cluster, "unsafe")
        cluster.heal()
        cluster.restart(1)
        cluster.until(lambda: len(cluster.isr("unsafe", 0)) == 3, 1000 * PATIENCE_S)
        writer.close()
        verdicts = judged(cluster, tmp_path / "run", [killed])
        assert {cluster.log_end("unsafe", 0, broker) for broker in (1, 2, 3)} == {20}
    assert (verdicts["L4"].verdict, verdicts["L4"].count) == ("allowed", 30)


def test_a_fatal_error_reaches_the_application_as_without_the_recorder(tmp_path: Path) -> None:
    """confluent-kafka sets it as an exception before it calls the reports of the same batch."""
    told: list[str] = []
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        for name in ("plain", "recorded"):
            conf = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "linger.ms": 100}
            conf |= {"enable.idempotence": True, "acks": "all"}
            made = Producer(conf) if name == "plain" else recorded(Producer, tmp_path / "run", conf)
            made.produce("orders", b"1")
            made.flush(PATIENCE_S)
            cluster.fail("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER", count=1)
            for number in range(3):
                made.produce("orders", b"%d" % number)
            with pytest.raises(KafkaException) as fatal:
                made.flush(PATIENCE_S)
            assert fatal.value.args[0].fatal(), name
            told.append(fatal.value.args[0].name())
            made.flush(PATIENCE_S)
            made.close()
        assert told == ["OUT_OF_ORDER_SEQUENCE_NUMBER"] * 2
        run = judged(cluster, tmp_path / "run", [])
        assert run.verdict != "violated"
