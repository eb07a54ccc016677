"""The pytest plugin, as users' tests see it: pytest runs them, and its reports are read."""

import subprocess
import sys
from importlib import import_module

import pytest

from refimpl.edge.testing.kafka import Kafka

# A run inside of this process forgets what it has imported, and C's modules are loaded once.
for _name in ("confluent_kafka", "refimpl.edge.testing.real_kafka", "traces.api", "traces.testing"):
    import_module(_name)

pytest_plugins = ["pytester"]

SEND = """
import pytest
from confluent_kafka import Producer


def send(kafka, topic, value=b"a"):
    told = []
    producer = Producer(kafka.conf(acks="all", retries=0, log_level=0))
    done = lambda error, message: told.append(error.name() if error else message.offset())
    producer.produce(topic, value, on_delivery=done)
    producer.flush(20)
    return told
"""


def run(pytester: pytest.Pytester, tests: str, *options: str, ini: str = "") -> pytest.RunResult:
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(SEND + tests)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


def test_each_test_has_a_cluster_of_its_own(pytester: pytest.Pytester) -> None:
    tests = """
@pytest.mark.parametrize("again", [1, 2])
def test(kafka, kafka_topic, again):
    kafka.create_topic("orders")
    assert send(kafka, "orders") == [0]
    assert kafka_topic == f"test-{again}-"
    assert send(kafka, kafka_topic) == [0]
    assert kafka.values("orders") == [b"a"]
"""
    run(pytester, tests).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("options", "ini", "found"),
    [
        ((), "", 1),
        ((), "kafka_brokers = 2", 2),
        (("--kafka-brokers=3",), "kafka_brokers = 2", 3),
    ],
)
def test_a_marker_comes_before_an_option_and_that_before_the_ini_file(
    pytester: pytest.Pytester, options: tuple[str, ...], ini: str, found: int
) -> None:
    tests = f"""
def test_default(kafka):
    assert len(kafka.hosts) == {found}
    assert kafka.hosts[1].configs["num.partitions"] == {7 if options else 5}

@pytest.mark.kafka(configs={{"num.partitions": "9"}})
class TestMarked:
    @pytest.mark.kafka(brokers=4, topics={{"orders": 2}})
    def test_marked(self, kafka):
        assert len(kafka.hosts) == 4
        assert kafka.hosts[1].configs["num.partitions"] == 9
        assert kafka.leader("orders", 1) is not None
"""
    more = ("--kafka-config=num.partitions=7",) if options else ()
    ini += "\nkafka_configs =\n    num.partitions=5"
    run(pytester, tests, *options, *more, ini=ini).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "why"),
    [
        ("kafka(3)", "*kafka marker: expected names such as brokers=3, found 3"),
        ("kafka(broker=3)", "*kafka marker: expected brokers, *; found broker"),
    ],
)
def test_a_marker_that_means_nothing_is_refused(
    pytester: pytest.Pytester, marker: str, why: str
) -> None:
    result = run(pytester, f"@pytest.mark.{marker}\ndef test(kafka): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(why)


def test_a_rule_or_cue_that_met_nothing_fails_its_test(pytester: pytest.Pytester) -> None:
    tests = """
def test_passes(kafka):
    kafka.fail("Fetch", "UNKNOWN_SERVER_ERROR", count=1)
    kafka.when("read", topic="orders")

def test_allows_it(kafka):
    kafka.fail("Fetch", "UNKNOWN_SERVER_ERROR", count=1, required=False)

def test_fails_by_itself(kafka):
    kafka.hold("Heartbeat")
    assert False

def test_is_skipped(kafka):
    kafka.hold("Heartbeat")
    pytest.skip("not today")
"""
    result = run(pytester, tests)
    result.assert_outcomes(passed=2, failed=1, errors=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_passes*",
            "kafka.fail('Fetch', 'UNKNOWN_SERVER_ERROR', count=1) met nothing: no such*",
            "kafka.when('read', topic='orders') met nothing: that did not happen",
            "(required=False allows it)",
            "*Captured kafka teardown*",
            "hold('Heartbeat') met nothing: no such request came",
        ]
    )


def test_a_failure_tells_its_seed_which_places_replicas_again(pytester: pytest.Pytester) -> None:
    tests = """
@pytest.mark.kafka(brokers=3, topics={"orders": 8})
def test(kafka):
    placed = [kafka.partition("orders", one).replicas for one in range(8)]
    print("placed", placed)
    assert False
"""
    first = run(pytester, tests)
    first.stdout.fnmatch_lines(["3 brokers, seed *", "again: pytest '*::test' --kafka-seed=*"])
    again = next(line for line in first.outlines if line.startswith("again: "))
    second = run(pytester, tests, again.split()[-1])
    placed = [[line for line in one.outlines if "placed" in line] for one in (first, second)]
    assert placed[0] == placed[1]


def test_the_address_stands_in_the_environment_of_subprocesses(pytester: pytest.Pytester) -> None:
    tests = '''
import os, subprocess, sys

CHILD = "from tests_child import send; send()"

def test(kafka):
    kafka.create_topic("orders")
    child = """if True:
        import os
        from confluent_kafka import Producer
        producer = Producer({"bootstrap.servers": os.environ["KAFKA"]})
        producer.produce("orders", b"from a child")
        producer.flush(20)
    """
    subprocess.run([sys.executable, "-c", child], check=True)
    assert kafka.values("orders") == [b"from a child"]

def test_afterwards():
    assert "KAFKA" not in os.environ
'''
    run(pytester, tests, ini="kafka_env = KAFKA").assert_outcomes(passed=2)


def test_a_shared_cluster_ends_the_faults_of_each_test(pytester: pytest.Pytester) -> None:
    tests = """
def test_one(kafka_session):
    kafka_session.create_topic("orders")
    rule = kafka_session.fail("Produce", "INVALID_RECORD")
    assert send(kafka_session, "orders") == ["INVALID_RECORD"]

def test_two(kafka_session):
    assert send(kafka_session, "orders") == [0]
    kafka_session.hold("Fetch")

def test_three(kafka_session, kafka):
    assert send(kafka_session, "orders") == [1]
    assert kafka.bootstrap_servers != kafka_session.bootstrap_servers
"""
    result = run(pytester, tests)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_two*", "kafka.hold('Fetch') met*"])


def test_a_test_may_have_several_clusters(pytester: pytest.Pytester) -> None:
    tests = """
@pytest.mark.kafka(brokers=2)
def test(kafka, kafka_factory):
    other = kafka_factory(brokers=3, topics={"orders": 1})
    assert (len(kafka.hosts), len(other.hosts)) == (2, 3)
    assert send(other, "orders") == [0]
    other.hold("Fetch")
"""
    result = run(pytester, tests)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["kafka.hold('Fetch') met nothing*", "2 brokers*", "3 brokers*"])


ANYWHERE = """
@pytest.mark.kafka(topics={"orders": 2})
def test_anywhere(kafka, kafka_topic):
    assert send(kafka, "orders") == [0]
    assert kafka.values("orders") == [b"a"]
    kafka.create_topic("invoices", replicas=2, min_insync_replicas=2)
    assert kafka.unmatched("orders", "invoices") == ([b"a"], [])
    assert send(kafka, kafka_topic) == [0]

def test_of_a_fault(kafka):
    kafka.fail("Produce", "INVALID_RECORD")
    assert False

async def awaited(kafka):
    await kafka.aio.until(lambda: True)

def test_that_waits(kafka):
    import asyncio
    asyncio.run(awaited(kafka))

@pytest.mark.kafka(racks={1: "a"})
def test_of_racks(kafka):
    assert False

@pytest.mark.kafka(brokers=9)
def test_of_many(kafka):
    assert False

def test_of_two(kafka, kafka_factory):
    kafka_factory()
"""


def test_tests_run_on_another_kafka_but_those_with_a_fault(pytester: pytest.Pytester) -> None:
    with Kafka(brokers=3) as other:
        address = other.bootstrap_servers
        run(pytester, ANYWHERE, f"--kafka-bootstrap={address}")
        result = run(pytester, ANYWHERE, "-rs", f"--kafka-bootstrap={address}")
        result.assert_outcomes(passed=1, skipped=5)  # nothing was left of the first
        skipped = "\n".join(line for line in result.outlines if line.startswith("SKIPPED"))
        assert not other.topics()
    for why in ("kafka.fail", "kafka.aio", "kafka(racks=…)", "kafka(brokers=9)", "kafka_factory"):
        assert f"{why}: " in skipped


def test_an_address_without_a_kafka_is_told(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test(kafka): pass", "--kafka-bootstrap=127.0.0.1:9")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*--kafka-bootstrap=127.0.0.1:9: no Kafka answers there*")


def test_workers_of_xdist_do_not_meet(pytester: pytest.Pytester) -> None:
    tests = """
@pytest.mark.parametrize("n", range(6))
def test(kafka, n):
    kafka.create_topic("orders")
    assert send(kafka, "orders") == [0]
"""
    run(pytester, tests, "-n", "2").assert_outcomes(passed=6)


def test_loading_the_plugins_imports_nothing_but_pytest() -> None:
    ask = (
        "import pytest, sys; before = set(sys.modules)\n"
        "import refimpl.edge.pytest_plugin, traces.pytest_plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert told.stdout.split() == [
        *("refimpl", "refimpl.edge", "refimpl.edge.pytest_plugin"),
        *("traces", "traces.pytest_plugin"),
    ]


MISTAKES = {
    "topics without numbers": (
        '@pytest.mark.kafka(topics=["orders"])\ndef test(kafka): pass',
        "kafka: topics: numbers by name, as {'orders': 3}, expected; found ['orders']",
    ),
    "a setting that is misspelt": (
        '@pytest.mark.kafka(configs={"min.insync.replica": "2"})\ndef test(kafka): pass',
        "kafka: no setting is called 'min.insync.replica'; did you mean min.insync.replicas?",
    ),
    "a seed that is a text": (
        '@pytest.mark.kafka(seed="7")\ndef test(kafka): pass',
        "kafka: seed: a whole number from 0 on is expected, found '7'",
    ),
    "an await that was forgotten": (
        "def test(kafka): kafka.aio.create_topic('late')",
        "kafka.aio.create_topic was not awaited, and did nothing",
    ),
    "the values of a topic that is misspelt": (
        "@pytest.mark.kafka(topics={'orders': 1})\ndef test(kafka): kafka.values('order')",
        "*UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'order'; did you mean orders?",
    ),
    "invoices on a topic that is misspelt": (
        "def test(kafka, kafka_topic): kafka.unmatched(kafka_topic, 'bills')",
        "*UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'bills'; topics: *",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence(mistake: str, pytester: pytest.Pytester) -> None:
    tests, sentence = MISTAKES[mistake]
    result = run(pytester, f"import pytest\n{tests}\n")
    assert result.ret == 1
    result.stdout.fnmatch_lines([sentence.replace("[", "[[]")])


def test_no_brokers_are_none_and_not_one(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test(kafka): pass", "--kafka-brokers=0")
    result.stdout.fnmatch_lines(
        ["kafka: brokers: a whole number from 1 to 64 is expected, found 0"]
    )
