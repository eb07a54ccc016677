"""`kafka_trace`: the clients of a test are recorded, and what they saw is judged at its end."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter
from xml.etree import ElementTree

import pytest

# A run inside of this process forgets what it has imported, and C's modules are loaded once.
with catch_warnings():
    simplefilter("ignore")  # kafka-python's
    for _name in (
        *("confluent_kafka", "confluent_kafka.admin", "kafka", "aiokafka"),
        *("refimpl.edge.testing.kafka", "traces.api", "traces.testing", "traces.record.final_scan"),
    ):
        import_module(_name)

pytest_plugins = ["pytester"]

HEAD = '''
import asyncio
import pytest
from confluent_kafka import Consumer, Producer

READ = dict(
    group_id="shop", auto_offset_reset="earliest", enable_auto_commit=False, log_level=0
)
DISCIPLINE = "process_then_commit"


def send(producer, topic, *values):
    for value in values:
        producer.produce(topic, value)
    producer.flush(20)


def work(consumer, topic, count, *, commit_first=False, fail_at=None):
    """The application: it charges for orders, and commits."""
    consumer.subscribe([topic])
    for number in range(count):
        message = consumer.poll(20)
        if commit_first:
            consumer.commit(message=message, asynchronous=False)
        if number == fail_at:
            raise ConnectionError
        consumer.processed(message)
        if not commit_first:
            consumer.commit(message=message, asynchronous=False)


def shop(kafka, topic, trace, **how):
    send(trace.record(Producer, kafka.conf(acks="all")), topic, b"a", b"b", b"c")
    consumer = trace.record(Consumer, kafka.conf(**READ), commit_order=DISCIPLINE)
    try:
        work(consumer, topic, 3, **how)
    except ConnectionError:
        pass
'''


def run(pytester: pytest.Pytester, tests: str, *options: str, ini: str = "") -> pytest.RunResult:
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(HEAD + tests)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


COMMITS_FIRST = """
def test(kafka, kafka_topic, kafka_trace):
    shop(kafka, kafka_topic, kafka_trace, commit_first=True, fail_at=1)
"""


def test_an_application_that_keeps_its_promises_passes(pytester: pytest.Pytester) -> None:
    tests = """
def test(kafka, kafka_topic, kafka_trace):
    shop(kafka, kafka_topic, kafka_trace)
"""
    result = run(pytester, tests, "-v")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r".*::test: \d+ hold, \d+ not checked"])


def test_a_broken_promise_fails_a_test_that_asserts_nothing(pytester: pytest.Pytester) -> None:
    result = run(pytester, COMMITS_FIRST)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.re_match_lines(
        [
            r"G8 violated: what is committed was processed",
            r"  1 record below the committed offset was not processed: .*",
            r"        0\.0 ms  consumer#0\[\d+\] poll ok partition=test:0 offset=1 .*",
            r" +\d+\.\d ms  consumer#0\[\d+\] commit ok partition=test:0 offset=2 group=shop.*",
            r"see it: highwater check .*kafka-trace",
            r"1 broker, seed \d+",
            r"again: pytest '.*::test' --kafka-seed=\d+",
        ],
        consecutive=False,
    )
    command = next(line for line in result.outlines if line.startswith("see it: "))
    shown = subprocess.run(
        [sys.executable, "-m", "refimpl", *command.split()[3:]], capture_output=True, text=True
    )
    assert shown.returncode == 1
    assert "G8" in shown.stdout


def test_the_verdict_is_in_junits_properties(pytester: pytest.Pytester) -> None:
    run(pytester, COMMITS_FIRST, "--junitxml=reported.xml")
    found = ElementTree.parse(pytester.path / "reported.xml").iter("property")
    reported = {one.attrib["name"]: one.attrib["value"] for one in found}
    assert reported["kafka_verdict"] == "violated"
    assert reported["kafka_violated"] == "G8 G13"
    assert reported["kafka_promises"].startswith(tuple("123456789"))
    assert reported["kafka_allowed"] == ""
    assert reported["kafka_seed"].isdigit()


@pytest.mark.parametrize("how", ["marker", "ini"])
def test_what_is_allowed_does_not_fail(pytester: pytest.Pytester, how: str) -> None:
    marker = '@pytest.mark.kafka_allow("G8", "G13")\n' if how == "marker" else ""
    ini = "kafka_allow = L2 G8 G13" if how == "ini" else ""
    run(pytester, marker + COMMITS_FIRST.lstrip(), ini=ini).assert_outcomes(passed=1)


LOSES = """
@pytest.mark.kafka(brokers=3, topics={"orders": 1})
def test(kafka, kafka_trace):
    leader = kafka.leader("orders", 0)
    for other in {1, 2, 3} - {leader}:
        kafka.cut(other, "brokers")
    producer = kafka_trace.record(Producer, kafka.conf(acks=1, log_level=0))
    send(producer, "orders", b"a", b"b", b"c")
    kafka.kill(leader, expire=True)
"""


def test_a_loss_that_a_setting_permits_is_told(pytester: pytest.Pytester) -> None:
    result = run(pytester, LOSES)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*::test: *1 allowed*",
            "  L4 allowed: 3 acknowledged records are missing from the log at the end: allowed "
            "because producers.producer.acks = 1.",
        ]
    )
    marker = '@pytest.mark.kafka_allow("L4")'
    assert "L4" not in run(pytester, marker + LOSES).stdout.str()


def test_a_strict_trace_lets_no_setting_permit_a_loss(pytester: pytest.Pytester) -> None:
    result = run(pytester, LOSES, ini="kafka_trace = strict")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["L4 violated: *", "see it: highwater check *kafka-trace --strict"])


def test_a_promised_commit_order_of_which_nobody_tells_fails(pytester: pytest.Pytester) -> None:
    tests = """
def test(kafka, kafka_topic, kafka_trace):
    send(kafka_trace.record(Producer, kafka.conf(acks="all")), kafka_topic, b"a")
    consumer = kafka_trace.record(Consumer, kafka.conf(**READ), commit_order=DISCIPLINE)
    consumer.subscribe([kafka_topic])
    consumer.commit(message=consumer.poll(20), asynchronous=False)
"""
    result = run(pytester, tests)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["commit_order=process_then_commit was promised, *processed(*"])


def test_allowing_a_check_that_there_is_not_is_refused(pytester: pytest.Pytester) -> None:
    result = run(pytester, '@pytest.mark.kafka_allow("G88")' + COMMITS_FIRST)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines("kafka_allow: there is no check G88; *")


def test_a_trace_of_which_nothing_was_checked_fails(pytester: pytest.Pytester) -> None:
    tests = """
def test_of_nothing(kafka, kafka_trace):
    kafka_trace.record(Producer, kafka.conf())

def test_of_nobody(kafka, kafka_trace):
    kafka_trace.patch()

def test_without_clients(kafka, kafka_trace):
    pass
"""
    result = run(pytester, tests)
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(
        [
            "clients were recorded, and nothing of what they did could be checked",
            "no topic was named by any client",
            "patch() recorded nothing: no client was made while it was in force",
        ]
    )


def test_a_test_that_fails_by_itself_is_told_what_its_trace_shows(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, COMMITS_FIRST + "    assert False\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Captured kafka trace teardown*", "G8 violated: *"])


def test_acknowledged_records_that_are_gone_are_found_after_a_crash(
    pytester: pytest.Pytester,
) -> None:
    tests = """
@pytest.mark.kafka(brokers=2)
def test(kafka, kafka_trace):
    topic = kafka.create_topic("orders", replicas=2, unclean_leader_election_enable=True)
    leader = kafka.leader(topic, 0)
    kafka.cut(leader, "brokers")
    send(kafka_trace.record(Producer, kafka.conf(acks=1)), topic, b"a")
    kafka.kill(leader, expire=True)
"""
    result = run(pytester, tests, "-v")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r".*::test: .*\d allowed.*"])


def test_clients_of_kafka_python_and_aiokafka_are_judged(pytester: pytest.Pytester) -> None:
    tests = """
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

def test_kafka_python(kafka, kafka_topic, kafka_trace):
    servers = kafka.bootstrap_servers
    producer = kafka_trace.record(KafkaProducer(bootstrap_servers=servers))
    for value in (b"a", b"b"):
        producer.send(kafka_topic, value).get(20)
    reader = KafkaConsumer(
        kafka_topic, bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer = kafka_trace.record(reader, commit_order=DISCIPLINE)
    next(consumer)
    consumer.commit()
    consumer.processed(next(consumer))

async def read(kafka, topic, trace):
    servers = kafka.bootstrap_servers
    async with trace.record(AIOKafkaProducer(bootstrap_servers=servers)) as producer:
        for value in (b"a", b"b"):
            await producer.send_and_wait(topic, value)
    reader = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with trace.record(reader, commit_order=DISCIPLINE) as consumer:
        await consumer.getone()
        await consumer.commit()
        consumer.processed(await consumer.getone())

def test_aiokafka(kafka, kafka_topic, kafka_trace):
    asyncio.run(read(kafka, kafka_topic, kafka_trace))
"""
    result = run(pytester, tests)
    result.assert_outcomes(passed=2, errors=2)
    assert result.outlines.count("G8 violated: what is committed was processed") == 2


APPLICATION = """
import confluent_kafka
from confluent_kafka import Producer
from kafka import KafkaProducer as Sender


class Audited(confluent_kafka.Producer):
    def audit(self):
        return "audited"


def bill(servers):
    Producer({"bootstrap.servers": servers}).produce("orders", b"a")
    audited = Audited({"bootstrap.servers": servers})
    audited.produce("orders", b"b")
    assert isinstance(audited, Producer) and audited.audit() == "audited"
    audited.flush(20)
    Sender(bootstrap_servers=servers).send("orders", b"c").get(20)
"""


def test_clients_that_an_application_makes_are_recorded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(billing=APPLICATION)
    tests = """
import billing, confluent_kafka

before = [billing.Producer]  # a name would be replaced as well

@pytest.mark.kafka(topics={"orders": 1})
def test(kafka, kafka_trace):
    kafka_trace.patch()
    billing.bill(kafka.bootstrap_servers)
    confluent_kafka.Producer(kafka.conf()).produce("orders", b"d")
    names = [client.recorded_as for client in kafka_trace.clients]
    assert names == ["producer#0", "producer#1", "producer#2", "producer#3"]

def test_afterwards():
    assert billing.Producer is before[0] is confluent_kafka.Producer
"""
    run(pytester, tests).assert_outcomes(passed=2)


def test_a_trace_is_kept_where_it_is_wanted(pytester: pytest.Pytester) -> None:
    for _ in range(2):
        run(pytester, COMMITS_FIRST, "--kafka-traces=kept", "--kafka-trace=record").assert_outcomes(
            passed=1
        )
    (folder,) = (pytester.path / "kept").iterdir()
    assert folder.name == "test_a_trace_is_kept_where_it_is_wanted.py-test"
    assert sorted(file.name for file in folder.iterdir()) == [
        "consumer#0.ndjson",
        "producer#0.ndjson",
    ]
    run(pytester, COMMITS_FIRST, "--kafka-traces=kept", "--kafka-trace=off")
    assert not list((pytester.path / "kept").iterdir())


def test_a_trace_may_be_of_the_shared_cluster(pytester: pytest.Pytester) -> None:
    tests = """
def test(kafka_session, kafka_trace):
    topic = kafka_session.create_topic("orders")
    shop(kafka_session, topic, kafka_trace, commit_first=True, fail_at=1)
    assert kafka_trace.kafka is kafka_session
"""
    run(pytester, tests).assert_outcomes(passed=1, errors=1)


# Without pytest

UNITTEST = """
import unittest
from confluent_kafka import Consumer, Producer
from refimpl.edge.testing.kafka import KafkaTest
from traces.testing import KafkaTraceTest


class TestOrders(KafkaTest, KafkaTraceTest, unittest.TestCase):
    kafka_settings = {"brokers": 3, "topics": {"orders": 1}}

    def send(self):
        producer = self.kafka_trace.record(Producer, self.kafka.conf(acks="all"))
        producer.produce("orders", b"a")
        producer.produce("orders", b"b")
        producer.flush(20)

    def test_holds(self):
        self.send()
        assert self.kafka.values("orders") == [b"a", b"b"]

    def test_is_broken(self):
        self.send()
        consumer = self.kafka_trace.record(
            Consumer,
            self.kafka.conf(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False),
            commit_order="process_then_commit",
        )
        consumer.subscribe(["orders"])
        consumer.commit(message=consumer.poll(20), asynchronous=False)
        consumer.processed(consumer.poll(20))

    def test_of_a_fault_that_does_not_happen(self):
        self.kafka.hold("Fetch")
"""


def test_unittest_has_the_same_clusters_and_traces(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(UNITTEST)
    command = [sys.executable, "-m", "unittest", "test_orders"]
    reported = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr
    assert "FAILED (failures=2)" in reported
    assert "PromiseBrokenError: G8 violated: what is committed was processed" in reported
    assert "UnmetError: hold('Fetch') met nothing: no such request came" in reported


def test_a_trace_is_a_context(tmp_path: Path) -> None:
    from refimpl.edge.testing.kafka import Kafka
    from traces.testing import PromiseBrokenError, Trace

    ck: Any = import_module("confluent_kafka")

    def careless() -> None:
        with Kafka(topics={"orders": 1}) as kafka, Trace(kafka, tmp_path / "run") as trace:
            producer = trace.record(ck.Producer, kafka.conf(acks="all"))
            producer.produce("orders", b"a")
            producer.produce("orders", b"b")
            conf = kafka.conf(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
            consumer = trace.record(ck.Consumer, conf, commit_order="process_then_commit")
            consumer.subscribe(["orders"])
            producer.flush(20)
            consumer.commit(message=consumer.poll(20), asynchronous=False)
            consumer.processed(consumer.poll(20))

    with pytest.raises(PromiseBrokenError, match="G8 violated"):
        careless()
