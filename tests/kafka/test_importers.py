"""The importers, with what Kafka's own verifiable clients really print."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import frozen
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.judge import Judge, KafkaBroker, java

ROOT = Path(__file__).parents[2]
COUNT = 60


@frozen
class Printed:
    """The logs of three processes, while the broker that they spoke to is still up."""

    folder: Path
    bootstrap: str

    def highwater(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "refimpl", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def run_tool(log: Path, tool: str, broker: KafkaBroker, *arguments: str) -> None:
    where = ("--bootstrap-server", broker.address, "--topic", "letters")
    with log.open("wb") as out:
        command = java(f"org.apache.kafka.tools.{tool}", *where, *arguments)
        assert subprocess.run(command, stdout=out, check=False).returncode == 0


@pytest.fixture(scope="module")
def printed(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Printed]:
    folder = tmp_path_factory.mktemp("logs")
    broker = KafkaBroker(tmp_path_factory.mktemp("broker"))
    broker.format(judge)
    with broker.running():
        admin: Any = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        admin.create_topics([NewTopic("letters", 2, 1)])["letters"].result(60)
        found = Printed(folder, broker.address)
        most = ("--max-messages", str(COUNT))
        writing = ("--acks", "-1", "--value-prefix", "7", "--repeating-keys", "5")
        run_tool(found.log("writer"), "VerifiableProducer", broker, *most, *writing)
        for name, more in (("loud", ["--verbose"]), ("quiet", [])):
            reading = ("--group-id", name, "--reset-policy", "earliest", *more)
            run_tool(found.log(name), "VerifiableConsumer", broker, *most, *reading)
        yield found


def test_logs_and_a_scan_make_a_run_in_which_nothing_is_lost(
    printed: Printed, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    known = ("--acks", "all", "--group", "loud", "--isolation", "read_uncommitted")
    logs = printed.log("writer"), printed.log("loud")
    made = printed.highwater("import", "kafka-verifiable", *logs, "--out", run, *known)
    assert made.returncode == 0, made.stderr
    assert "not taken over" not in made.stdout
    ids = ("--id", "traces.importers.verifiable:id_of_value")
    scan = printed.highwater("record-scan", run, "--bootstrap", printed.bootstrap, *ids)
    assert scan.returncode == 0, scan.stderr
    judged = tmp_path / "judged.json"
    check = printed.highwater("check", run, "--json", judged)
    assert check.returncode == 0, check.stdout
    verdicts = orjson.loads(judged.read_bytes())["runs"][0]["checks"]
    for promise in ("L1", "L2", "L3", "L4", "L5", "L8", "P1"):
        assert verdicts[promise]["verdict"] == "holds", verdicts[promise]
    # Nobody printed when a send was called.
    assert verdicts["L9"]["verdict"] == "not checked"
    lines = (run / "writer#0.ndjson").read_bytes().splitlines()
    keys = [orjson.loads(line)["records"][0]["key"] for line in lines[:-1]]
    assert keys == [str(number % 5) for number in range(COUNT)]


def test_without_verbose_there_are_offsets_and_no_values(printed: Printed, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = printed.highwater("import", "kafka-verifiable", printed.log("quiet"), "--out", run)
    assert made.returncode == 0, made.stderr
    lines = [orjson.loads(x) for x in (run / "quiet#0.ndjson").read_bytes().splitlines()]
    records = [r for line in lines if line["op"] == "poll" for r in line["records"]]
    assert len(records) == COUNT
    assert all("offset" in record and "id" not in record for record in records)
