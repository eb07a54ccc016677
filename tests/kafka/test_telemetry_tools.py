"""Kafka's tools and Java clients beside our brokers: clients' metrics, and loggers."""

from collections.abc import Iterator

import pytest
from attrs import frozen

from chaos.real.kafka.judge import Judge, ToolOutput
from highwater import BlockingCluster, ClientTelemetry
from tests.kafka.test_tools import CONFIGS, TOOLS, Tools

METRICS = f"{TOOLS}.ClientMetricsCommand"


@frozen
class Asked:
    """A cluster whose clients are asked for metrics, and what they have pushed."""

    tools: Tools
    pushed: list[ClientTelemetry]

    def run(self, tool: str, *arguments: str) -> ToolOutput:
        return self.tools.run(tool, *arguments)

    def out(self, tool: str, *arguments: str) -> str:
        return self.tools.out(tool, *arguments)


@pytest.fixture(scope="module")
def asked(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    pushed: list[ClientTelemetry] = []
    data = tmp_path_factory.mktemp("telemetry")
    with BlockingCluster(brokers=3, data=data, client_telemetry=pushed.append) as cluster:
        yield Asked(Tools(judge, cluster.bootstrap, data), pushed)


def test_a_java_client_pushes_what_it_is_asked_for(asked: Asked) -> None:
    java_alone = "client_software_name=apache-kafka-java"
    wanted = ("--name", "java", "--metrics", "org.apache.kafka.producer", "--interval", "100")
    made = asked.out(METRICS, "--alter", *wanted, "--match", java_alone)
    assert "Altered client metrics config for java." in made
    asked.tools.create("pushed")
    asked.tools.write("pushed", "a\nb\n")
    of_java = [one for one in asked.pushed if one.software_name == "apache-kafka-java"]
    mine = [one for one in of_java if one.client_id == "console-producer"]
    assert mine
    assert {one.software_version for one in mine} == {"4.3.1"}
    assert len({one.client_instance_id for one in mine}) == 1
    assert any(b"org.apache.kafka.producer" in one.metrics for one in mine)
    assert not any(b"org.apache.kafka.consumer" in one.metrics for one in of_java)
    asked.out(METRICS, "--delete", "--name", "java")


def test_subscriptions_are_made_described_listed_and_deleted(asked: Asked) -> None:
    asked.out(METRICS, "--alter", "--name", "s", "--metrics", "a.,b.", "--interval", "5000")
    assert "s\n" in asked.out(METRICS, "--list")
    described = asked.out(METRICS, "--describe", "--name", "s")
    assert "interval.ms=5000" in described
    assert "metrics=a.,b." in described
    of_s = ("--entity-type", "client-metrics", "--entity-name", "s")
    asked.out(
        CONFIGS, "--alter", *of_s, "--add-config", "match=[client_id=x.*,client_source_port=9]"
    )
    assert "match=client_id=x.*,client_source_port=9" in asked.out(CONFIGS, "--describe", *of_s)
    wrong = asked.run(CONFIGS, "--alter", *of_s, "--add-config", "interval.ms=1")
    assert wrong.status == 1
    assert "interval must be between 100 and 3600000" in wrong.out + wrong.complaints
    asked.out(CONFIGS, "--alter", *of_s, "--delete-config", "interval.ms")
    assert "interval.ms" not in asked.out(CONFIGS, "--describe", *of_s)
    assert "Deleted client metrics config for s." in asked.out(METRICS, "--delete", "--name", "s")
    assert "s\n" not in asked.out(METRICS, "--list")


def test_levels_of_loggers_are_described_and_altered(asked: Asked) -> None:
    of_2 = ("--entity-type", "broker-loggers", "--entity-name", "2")
    described = asked.out(CONFIGS, "--describe", *of_2)
    assert "highwater.clients=WARN" in described
    asked.out(CONFIGS, "--alter", *of_2, "--add-config", "highwater.clients=ERROR")
    assert "highwater.clients=ERROR" in asked.out(CONFIGS, "--describe", *of_2)
    asked.out(CONFIGS, "--alter", *of_2, "--delete-config", "highwater.clients")
    assert "highwater.clients=WARN" in asked.out(CONFIGS, "--describe", *of_2)
    wrong = asked.run(CONFIGS, "--alter", *of_2, "--add-config", "highwater.clients=LOUD")
    assert wrong.status == 1
    assert "Valid log levels are" in wrong.out + wrong.complaints
