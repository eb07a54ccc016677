"""The suites, and why a test may fail here that passes on Kafka."""

import re
import shlex
import socket
import subprocess
import time
from pathlib import Path

import orjson
from attrs import frozen

from chaos.real.kafka.judge import SECONDS_TO_START, free_port, java
from chaos.real.suites.suite import (
    FOLDER,
    ClientSuite,
    Results,
    go_module,
    run_go,
    run_go_together,
    run_librdkafka,
    run_pytest,
)

#: What the suites' own containers set, for both systems
SETTINGS = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "1000",
}
#: Where there are several brokers, as sarama's containers have it
CLUSTER_SETTINGS = {
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "auto.create.topics.enable": "false",
}


def _kafka_python(suite: ClientSuite, folder: Path, address: str) -> Results:
    environment = {"KAFKA_VERSION": "4.3.1", "KAFKA_URI": f"kafka://{address}"}
    return run_pytest(folder, {**environment, "KAFKA_ROOT": str(folder)}, "test/integration")


#: Of aiokafka's modules those that talk to a broker without a login
_AIOKAFKA = ("client", "consumer", "coordinator", "fetcher", "pep492", "producer", "sender")
_AIOKAFKA_MORE = ("admin", "transactional_consumer", "transactional_producer")


def _aiokafka(suite: ClientSuite, folder: Path, address: str) -> Results:
    fixtures = folder / "aiokafka_fixtures.py"
    fixtures.write_text(Path(__file__).with_name("aiokafka_fixtures.py").read_text())
    package = folder / "aiokafka"
    if package.exists():  # the installed one, of the same version, is compiled
        package.rename(folder / "source")
    modules = [f"tests/test_{name}.py" for name in (*_AIOKAFKA, *_AIOKAFKA_MORE)]
    environment = {"KAFKA_URI": f"kafka://{address}", "PYTHONPATH": str(folder)}
    plugins = ("--noconftest", "-p", "aiokafka_fixtures", "-k", "not ssl and not sasl")
    quiet = ("-W", "ignore::pytest.PytestUnraisableExceptionWarning")
    return run_pytest(folder, environment, *plugins, *quiet, *modules)


def _kafka_go(suite: ClientSuite, folder: Path, address: str) -> Results:
    for path in folder.glob("*_test.go"):
        text = path.read_text()
        text = re.sub(r"(localhost|127\.0\.0\.1):\d{4,5}", address, text)
        path.write_text(re.sub(r'newClient\(TCP\(".*"\)\)', f'newClient(TCP("{address}"))', text))
    binary = FOLDER / "kafka-go.test"
    subprocess.run(["go", "test", "-mod=mod", "-c", "-o", binary, "."], cwd=folder, check=True)
    environment = {"KAFKA_VERSION": "2.3.1", "KAFKA_SKIP_NETTEST": "1"}
    return run_go(folder, binary, environment, skip="TestNetworkAddress")


def _franz_go(suite: ClientSuite, folder: Path, address: str) -> Results:
    binary = FOLDER / "franz-go.test"
    command = ["go", "test", "-mod=mod", "-c", "-o", binary, "./pkg/kgo"]
    subprocess.run(command, cwd=folder, check=True)
    environment = {"KGO_SEEDS": address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"}
    environment["KGO_TEST_MAX_TOPIC_PARTS"] = "4"
    return run_go(folder / "pkg" / "kgo", binary, environment, skip="")


#: Its tests look for proxies of five brokers on these ports
LOOPBACK = "127.0.0.1"
PROXY_PORT, SARAMA_BROKERS = 29091, 5
_TOXIPROXY = ("github.com/Shopify/toxiproxy/v2", "v2.12.0")


def _sarama(suite: ClientSuite, folder: Path, address: str) -> Results:
    binary, proxy = FOLDER / "sarama.test", FOLDER / "toxiproxy"
    command = ["go", "test", "-mod=mod", "-tags", "functional", "-c", "-o", binary, "."]
    subprocess.run(command, cwd=folder, check=True)
    module = go_module(*_TOXIPROXY)
    subprocess.run(["go", "build", "-o", proxy, "./cmd/server"], cwd=module, check=True)
    sources = [path.read_text() for path in sorted(folder.glob("functional_*_test.go"))]
    names = [name for text in sources for name in re.findall(r"^func (Test\w+)", text, re.M)]
    proxies = [
        {
            "name": f"kafka{number + 1}",
            "listen": f"{LOOPBACK}:{PROXY_PORT + number}",
            "upstream": one,
            "enabled": True,
        }
        for number, one in enumerate(address.split(","))
    ]
    configured = folder / "proxies.json"
    configured.write_bytes(orjson.dumps(proxies))
    port = free_port()
    with (folder / "toxiproxy.txt").open("w") as output:
        serving = subprocess.Popen(
            [proxy, "-host", LOOPBACK, "-port", str(port), "-config", configured],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(port)
        controlled = f"http://{LOOPBACK}:{port}"
        environment = {"TOXIPROXY_ADDR": controlled, "KAFKA_VERSION": "4.3.1"}
        left_out = ("TestMain", "TestJava", "TestConsumerFetchFollower")
        chosen = [name for name in names if not name.startswith(left_out)]
        return run_go_together(folder, binary, environment, chosen)
    finally:
        serving.terminate()
        serving.wait()


def _wait_for(port: int) -> None:
    """Until somebody listens there."""
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until:
        try:
            socket.create_connection((LOOPBACK, port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")


#: Of librdkafka's tests those of share groups, TLS, logins and ACLs; one that is a measurement, one
#: that needs a program in Java, one that wants three brokers, and one against its own mock
_LIBRDKAFKA_SKIPPED = (
    *("0038", "0097", "0098", "0103", "0105", "0115", "0119", "0126", "0135", "0142"),
    *("0170", "0171", "0172", "0173", "0174", "0175", "0176", "0177", "0178", "0179", "0180"),
    *("0181", "0184", "0185", "0190"),
)
#: Parts of its test of administration, which as a whole wants an authorizer
_LIBRDKAFKA_ADMIN = (
    *("AlterConfigs", "AlterConsumerGroupOffsets", "CreatePartitions", "CreateTopics"),
    *("DeleteConsumerGroupOffsets", "DeleteGroups", "DeleteRecords", "DeleteTopics"),
    *("DescribeCluster", "DescribeConfigs", "DescribeConfigs_groups", "DescribeConsumerGroups"),
    *("DescribeTopics", "IncrementalAlterConfigs", "ListConsumerGroupOffsets"),
    *("ListConsumerGroups", "ListOffsets", "unclean_destroy"),
)


def _librdkafka(suite: ClientSuite, folder: Path, address: str) -> Results:
    tools = folder / "kafka" / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    command = shlex.join(java("org.apache.kafka.tools.TopicCommand"))
    topics = tools / "kafka-topics.sh"
    topics.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    topics.chmod(0o755)
    environment = {"KAFKA_PATH": str(tools.parent), "TEST_KAFKA_VERSION": "4.3.1"}
    apart = [("0081", f"do_test_{part}") for part in _LIBRDKAFKA_ADMIN]
    return run_librdkafka(folder, address, environment, _LIBRDKAFKA_SKIPPED, apart)


SUITES = {
    one.name: one
    for one in (
        ClientSuite(
            "kafka-python",
            "3.1.0.dev",
            (
                "https://github.com/dpkp/kafka-python",
                "a3b3836ff3a4b34ebaa42fd93500bfcb16c1e9b7",
            ),
            _kafka_python,
        ),
        ClientSuite(
            "aiokafka",
            "0.14.0",
            (
                "https://github.com/aio-libs/aiokafka",
                "672947afe85c91b7d953f0259e69837a711d3246",
            ),
            _aiokafka,
        ),
        ClientSuite("kafka-go", "0.4.51", ("github.com/segmentio/kafka-go", "v0.4.51"), _kafka_go),
        ClientSuite("franz-go", "1.22.2", ("github.com/twmb/franz-go", "v1.22.2"), _franz_go),
        ClientSuite(
            "sarama",
            "1.61.1",
            ("github.com/IBM/sarama", "v1.61.1"),
            _sarama,
            brokers=SARAMA_BROKERS,
        ),
        ClientSuite(
            "librdkafka",
            "2.15.0",
            (
                "https://github.com/confluentinc/librdkafka",
                "9a94e11452cdeb0a844db44ee5dd01ccbe17d3ab",
            ),
            _librdkafka,
        ),
    )
}


@frozen
class Exemption:
    """A reason for which tests of a suite may fail here, though they pass on Kafka."""

    suite: str
    tests: str
    reason: str
    always: bool = True  # or in some runs alone: a race

    def covers(self, suite: str, test: str) -> bool:
        """True if it is about this test."""
        return suite == self.suite and re.search(self.tests, test) is not None


REASONS: tuple[Exemption, ...] = (
    Exemption(
        "kafka-python",
        r"test_describe_metadata_quorum",
        "DescribeQuorum was not served when the suite ran: the metadata are kept without a quorum",
    ),
    Exemption(
        "kafka-python",
        r"test_idempotent_producer_max_in_flight\[1\]",
        "a bug of the client's: with one request in flight it gives up for good where its Metadata "
        "request is not answered yet, which ours does when it has made the topic. On Kafka it does "
        "so six times of six behind a proxy that answers 300 ms late "
        "(`python -m chaos.real.suites.late_answers`); the released 3.0.12 does not",
        always=False,
    ),
    Exemption(
        "kafka-go",
        r"TestConsumerGroupWith(Topic|GroupTopicsSingle)$",
        "a reader that joins before its topic is there, and watches for changes from then on: ours "
        "may have made the topic before its first look. With group.initial.rebalance.delay.ms=3000 "
        "it passes",
        always=False,
    ),
    Exemption(
        "kafka-go",
        r"TestReaderConsumerGroup/consumer_group_rebalance$",
        "two readers wait for 12 records each, and one has a single partition, with 8: it passes "
        "if a rebalance makes it read some again",
        always=False,
    ),
)
