"""Kafka's own command-line tools against our brokers: three in this process, on files."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from chaos.real.kafka.judge import Judge, ToolOutput, java
from refimpl.edge.testing.blocking import BlockingCluster

TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = f"{TOOLS}.TopicCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
SECONDS = 60


@frozen
class Tools:
    """The tools of a running cluster."""

    judge: Judge
    bootstrap: str
    data: Path

    def run(self, tool: str, *arguments: str | Path) -> ToolOutput:
        """Whatever the tool printed; it may have failed."""
        return self.judge.run(tool, "--bootstrap-server", self.bootstrap, *arguments)

    def out(self, tool: str, *arguments: str | Path) -> str:
        """The output of a tool that must succeed."""
        answer = self.run(tool, *arguments)
        assert answer.status == 0, answer
        return answer.out

    def alone(self, tool: str, *arguments: str, text: str = "") -> str:
        """The output of a tool that needs a JVM of its own, for its standard input or threads."""
        command = java(f"{TOOLS}.{tool}", "--bootstrap-server", self.bootstrap, *arguments)
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=SECONDS, check=True
        )
        return done.stdout

    def create(self, topic: str, *more: str, partitions: int = 1, replicas: int = 3) -> None:
        """A topic."""
        numbers = ("--partitions", str(partitions), "--replication-factor", str(replicas))
        out = self.out(TOPICS, "--create", "--topic", topic, *numbers, *more)
        assert f"Created topic {topic}." in out

    def write(self, topic: str, lines: str) -> None:
        """Lines, one record each, by the console producer."""
        self.alone("ConsoleProducer", "--topic", topic, "--sync", text=lines)

    def offsets(self, topic: str, *more: str) -> list[str]:
        """The ends of all partitions, or what else is asked for."""
        return self.out(f"{TOOLS}.GetOffsetShell", "--topic", topic, *more).split()

    def describe(self, topic: str) -> str:
        """The description of a topic."""
        return self.out(TOPICS, "--describe", "--topic", topic)


@pytest.fixture(scope="module")
def tools(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    data = tmp_path_factory.mktemp("tools")
    with BlockingCluster(brokers=3, data=data) as cluster:
        yield Tools(judge, cluster.bootstrap, data)


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_topics_are_created_listed_described_altered_and_deleted(tools: Tools) -> None:
    tools.create("topics", "--config", "min.insync.replicas=2", partitions=3)
    assert "topics" in tools.out(TOPICS, "--list").split()
    described = tools.describe("topics")
    assert "PartitionCount: 3\tReplicationFactor: 3\tConfigs: min.insync.replicas=2" in described
    assert len(re.findall(r"Leader: [123]\tReplicas: .*Isr: \d,\d,\d", described)) == 3
    tools.out(TOPICS, "--alter", "--topic", "topics", "--partitions", "5")
    assert "PartitionCount: 5" in tools.describe("topics")
    again = tools.run(TOPICS, "--create", "--topic", "topics")
    assert again.status == 1
    assert "Topic 'topics' already exists." in again.out
    tools.out(TOPICS, "--delete", "--topic", "topics")
    assert "topics" not in tools.out(TOPICS, "--list").split()


def test_what_is_configured_is_described(tools: Tools) -> None:
    tools.create("configured")
    of_topic = ("--entity-type", "topics", "--entity-name", "configured")
    changes = "retention.ms=99999999,cleanup.policy=[compact,delete]"
    tools.out(CONFIGS, "--alter", *of_topic, "--add-config", changes)
    described = tools.out(CONFIGS, "--describe", *of_topic)
    assert "retention.ms=99999999 sensitive=false" in described
    assert "cleanup.policy=compact,delete" in described
    tools.out(CONFIGS, "--alter", *of_topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools.out(CONFIGS, "--describe", *of_topic)
    wrong = tools.run(CONFIGS, "--alter", *of_topic, "--add-config", "segment.bytes=1")
    assert wrong.status == 1
    assert "Value must be at least 1048576" in wrong.out + wrong.complaints
    brokers = ("--entity-type", "brokers")
    changes = ("--add-config", "log.retention.ms=77777777")
    tools.out(CONFIGS, "--alter", *brokers, "--entity-default", *changes)
    everywhere = tools.out(CONFIGS, "--describe", *brokers, "--entity-name", "2", "--all")
    assert "log.retention.ms=77777777 sensitive=false" in everywhere


def test_quotas_of_users_are_described(tools: Tools) -> None:
    user = ("--entity-type", "users", "--entity-name", "user-1")
    tools.out(CONFIGS, "--alter", *user, "--add-config", "producer_byte_rate=1024")
    described = tools.out(CONFIGS, "--describe", "--entity-type", "users")
    assert "Quota configs for user-principal 'user-1' are producer_byte_rate=1024.0" in described


def test_what_is_written_is_read_and_its_files_are_believed(tools: Tools) -> None:
    tools.create("console", "--config", "flush.messages=1")  # index files come with a flush
    tools.write("console", "one\ntwo\nthree\n")
    assert tools.offsets("console") == ["console:0:3"]
    read = tools.alone(
        "consumer.ConsoleConsumer",
        "--topic",
        "console",
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        "3",
    )
    assert read.split() == ["one", "two", "three"]
    for broker in (1, 2, 3):
        folder = tools.data / f"broker-{broker}" / "console-0"
        dump = tools.judge.dump(*folder.glob("*.log"), options=("--print-data-log",))
        assert dump.status == 0, dump
        assert dump.out.count("isvalid: true") == dump.out.count("baseOffset:")
        assert re.findall(r"payload: (\w+)", dump.out) == ["one", "two", "three"]
        indexes = sorted(folder.glob("*index"))
        assert [path.suffix for path in indexes] == [".index", ".timeindex"]
        sane = tools.judge.dump(*indexes, options=("--index-sanity-check",))
        assert f"{indexes[0]} is empty" in sane.out, sane
        assert f"{indexes[1]} passed sanity check" in sane.out, sane


def test_a_verifiable_producer_has_every_record_acknowledged(tools: Tools) -> None:
    tools.create("verified", partitions=3)
    out = tools.alone(
        "VerifiableProducer",
        "--topic",
        "verified",
        "--max-messages",
        "500",
        "--acks",
        "-1",
    )
    events = [json.loads(line) for line in out.splitlines()]
    sent = [one for one in events if one["name"] == "producer_send_success"]
    assert len({(one["partition"], one["offset"]) for one in sent}) == 500
    ends = [int(line.rpartition(":")[2]) for line in tools.offsets("verified")]
    assert sum(ends) == 500


def test_a_benchmark_of_the_producer_runs(tools: Tools) -> None:
    tools.create("fast")
    out = tools.out(
        f"{TOOLS}.ProducerPerformance",
        "--topic",
        "fast",
        "--num-records",
        "5000",
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--command-property",
        "acks=all",
    )
    assert "5000 records sent" in out
    assert tools.offsets("fast") == ["fast:0:5000"]


def test_records_are_deleted(tools: Tools, tmp_path: Path) -> None:
    tools.create("deleted")
    tools.write("deleted", "a\nb\nc\n")
    partition = {"topic": "deleted", "partition": 0, "offset": 2}
    plan = write_json(tmp_path / "offsets.json", {"partitions": [partition], "version": 1})
    out = tools.out(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", plan)
    assert "partition: deleted-0\tlow_watermark: 2" in out
    assert tools.offsets("deleted", "--time", "earliest") == ["deleted:0:2"]


def test_replicas_move_and_leaders_return(tools: Tools, tmp_path: Path) -> None:
    tools.out(TOPICS, "--create", "--topic", "moved", "--replica-assignment", "1:2")
    tools.write("moved", "a\nb\n")
    wanted = [{"topic": "moved", "partition": 0, "replicas": [3, 2]}]
    plan = write_json(tmp_path / "plan.json", {"version": 1, "partitions": wanted})
    started = tools.out(REASSIGN, "--execute", "--reassignment-json-file", plan)
    assert "Successfully started partition reassignment" in started
    verified = ""
    for _ in range(SECONDS):
        verified = tools.out(REASSIGN, "--verify", "--reassignment-json-file", plan)
        if "is completed" in verified:
            break
    assert "Reassignment of partition moved-0 is completed." in verified
    assert "No partition reassignments found." in tools.out(REASSIGN, "--list")
    assert "Replicas: 3,2" in tools.describe("moved")
    assert (tools.data / "broker-3" / "moved-0").is_dir()
    preferred = ("--election-type", "preferred", "--topic", "moved", "--partition", "0")
    tools.out(f"{TOOLS}.LeaderElectionCommand", *preferred)
    assert "Leader: 3" in tools.describe("moved")


def test_log_directories_are_described(tools: Tools) -> None:
    tools.create("sized", replicas=2)
    tools.write("sized", "a\n")
    out = tools.out(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", "sized")
    found = json.loads(out.splitlines()[-1])["brokers"]
    sizes = [p["size"] for b in found for d in b["logDirs"] for p in d["partitions"]]
    assert len(sizes) == 2
    assert all(size > 0 for size in sizes)
    paths = {d["logDir"] for b in found for d in b["logDirs"]}
    assert paths == {str(tools.data / f"broker-{number}") for number in (1, 2, 3)}


def test_the_cluster_and_its_apis_are_described(tools: Tools) -> None:
    cluster = tools.judge.run(
        f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", tools.bootstrap
    )
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", cluster.out)
    apis = tools.out(f"{TOOLS}.BrokerApiVersionsCommand")
    assert apis.count("Produce(0): 0 to 13 [usable: 13]") == 3
    assert "ElectLeaders(43): 0 to 2 [usable: 2]" in apis


def test_who_writes_is_described(tools: Tools) -> None:
    tools.create("written")
    tools.write("written", "a\nb\n")
    out = tools.judge.run(
        f"{TOOLS}.TransactionsCommand",
        "--bootstrap-server",
        tools.bootstrap,
        "describe-producers",
        "--topic",
        "written",
        "--partition",
        "0",
    ).out
    assert len(out.splitlines()) == 2


@pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not on PATH: apt-get install kcat"
)
def test_kcat_writes_and_reads(tools: Tools) -> None:
    tools.create("cat")

    def kcat(*arguments: str, text: str = "") -> str:
        command = ["kcat", "-b", tools.bootstrap, "-t", "cat", *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=SECONDS, check=True
        )
        return done.stdout

    kcat("-P", "-K", ":", text="a:1\nb:2\n")
    assert kcat("-C", "-o", "beginning", "-e", "-q", "-f", "%k=%s@%o\n") == "a=1@0\nb=2@1\n"
    assert '"cat"' in kcat("-L")
