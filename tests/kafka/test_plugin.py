"""The pytest plugin on a real Kafka: the same tests, but those that need a fault."""

from importlib import import_module
from pathlib import Path

import pytest

from chaos.real.kafka.judge import Judge, KafkaBroker

# A run inside of this process forgets what it has imported, and C's modules are loaded once.
for _name in (
    *("confluent_kafka", "confluent_kafka.admin", "refimpl.edge.testing.real_kafka"),
    *("traces.api", "traces.testing", "traces.record.final_scan"),
):
    import_module(_name)

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from confluent_kafka import Consumer, Producer

GROUP = dict(group_id="shop", auto_offset_reset="earliest", enable_auto_commit=False)


def shop(kafka, topic, trace, commit_first=False):
    producer = trace.record(Producer, kafka.conf(acks="all"))
    for number in range(3):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    consumer = trace.record(Consumer, kafka.conf(**GROUP), commit_order="process_then_commit")
    consumer.subscribe([topic])
    for number in range(3):
        order = consumer.poll(30)
        if not (commit_first and number == 2):
            consumer.processed(order)
        consumer.commit(message=order, asynchronous=False)


def test_holds(kafka, kafka_topic, kafka_trace):
    shop(kafka, kafka_topic, kafka_trace)
    assert kafka.values(kafka_topic) == [b"0", b"1", b"2"]
    assert kafka_trace.kafka is kafka


def test_is_broken(kafka, kafka_topic, kafka_trace):
    shop(kafka, kafka_topic, kafka_trace, commit_first=True)


@pytest.mark.parametrize("again", [1, 2])
@pytest.mark.kafka(topics={"orders": 2})
def test_topics_are_deleted(kafka, again):
    assert kafka.values("orders") == []


def test_of_a_fault(kafka):
    kafka.kill(1, expire=True)
"""


def test_the_same_tests_run_on_a_real_kafka(
    judge: Judge, tmp_path: Path, pytester: pytest.Pytester
) -> None:
    broker = KafkaBroker(tmp_path)
    broker.format(judge)
    pytester.makepyfile(TESTS)
    with broker.running():
        result = pytester.runpytest_inprocess(
            "-rs", "-p", "no:cacheprovider", f"--kafka-bootstrap={broker.address}"
        )
    result.assert_outcomes(passed=4, errors=1, skipped=1)
    result.stdout.fnmatch_lines(["G8 violated: what is committed was processed"])
    result.stdout.fnmatch_lines(["SKIPPED * kafka.kill: not with --kafka-bootstrap, *"])
