"""Kafka moves logs between its directories as was recorded, and its tools move ours (KIP-113)."""

import json
import os
from pathlib import Path

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.log_dirs import RECORDED, played

TOOLS = "org.apache.kafka.tools"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"


def test_kafka_answers_what_was_recorded(judge: Judge, tmp_path: Path) -> None:
    places = [str(tmp_path / name) for name in "01"]
    broker = KafkaBroker(tmp_path, {"log.dirs": ",".join(places)})
    broker.format(judge)
    with broker.running():
        steps = played(broker.port, places)
    if os.environ.get("HIGHWATER_RECORD"):
        RECORDED.write_text("\n".join(["[", ",\n".join(map(json.dumps, steps)), "]", ""]))
    assert steps == json.loads(RECORDED.read_text())


def test_kafkas_tools_move_our_logs_and_describe_them(judge: Judge, tmp_path: Path) -> None:
    first, second = tmp_path / "0", tmp_path / "1"
    plan = tmp_path / "plan.json"
    with BlockingCluster(brokers=2, data=first, more_data=[second]) as cluster:
        cluster.create_topic("t", partitions=2, replicas=2)
        server = ("--bootstrap-server", cluster.bootstrap)
        wanted = [str(second / "broker-1"), "any"]
        moved = [
            {"topic": "t", "partition": one, "replicas": [1, 2], "log_dirs": wanted}
            for one in range(2)
        ]
        plan.write_text(json.dumps({"version": 1, "partitions": moved}))
        given = ("--reassignment-json-file", plan)
        begun = judge.run(REASSIGN, *server, *given, "--execute")
        assert begun.status == 0, begun
        place = second / "broker-1"
        for one in range(2):
            started = f"Successfully started moving log directory to {place} for replica t-{one}"
            assert started in begun.out
        cluster.until(lambda: not cluster.hosts[1].node.logs.futures())
        verified = judge.run(REASSIGN, *server, *given, "--verify")
        assert verified.status == 0, verified
        for one in range(2):
            assert f"Reassignment of replica t-{one}-1 completed successfully." in verified.out
        tool = f"{TOOLS}.LogDirsCommand"
        described = judge.run(tool, *server, "--describe", "--topic-list", "t")
        assert described.status == 0, described
        (said,) = [json.loads(line) for line in described.out.splitlines() if line[:1] == "{"]
        there = {
            (one["broker"], each["partition"]): of["logDir"]
            for one in said["brokers"]
            for of in one["logDirs"]
            for each in of["partitions"]
            if not each["isFuture"]
        }
        assert {there[1, f"t-{one}"] for one in range(2)} == {str(second / "broker-1")}
        assert {one for one, _ in there} == {1, 2}
