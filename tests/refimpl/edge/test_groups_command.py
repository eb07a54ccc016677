"""`highwater groups` of our own broker."""

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refimpl.edge import BlockingCluster
from refimpl.edge.commands.groups import groups_
from tests.refimpl.edge.patience import PATIENCE_S

ck: Any = import_module("confluent_kafka")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with five records in one partition and none in the other; `g` has read two."""
    with BlockingCluster(brokers=1, seed=1) as cluster:
        cluster.create_topic("orders", partitions=2, replicas=1)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(5):
            producer.produce("orders", str(number), partition=0)
        assert producer.flush(PATIENCE_S) == 0
        conf = {"bootstrap.servers": cluster.bootstrap, "group.id": "g"}
        consumer = ck.Consumer(conf)
        offsets = [ck.TopicPartition("orders", 0, 2), ck.TopicPartition("orders", 1, 0)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
        yield cluster.bootstrap


def ask(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(groups_, ["--bootstrap-server", bootstrap, *arguments])


def test_committed_offsets_and_what_is_left_to_read(bootstrap: str) -> None:
    answer = ask(bootstrap, "--describe", "--group", "g", "--json")
    assert answer.exit_code == 0, answer.output
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    nobody = {"consumer_id": None, "host": None, "client_id": None}
    assert rows == [
        {
            **{"group": "g", "topic": "orders", "partition": partition},
            **{"current_offset": offset, "log_end_offset": end, "lag": end - offset, **nobody},
        }
        for partition, offset, end in ((0, 2, 5), (1, 0, 0))
    ]


def test_a_table_has_kafkas_columns_and_dashes(bootstrap: str) -> None:
    lines = ask(bootstrap, "--describe").stdout.splitlines()
    assert lines[0].split() == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID"),
    ]
    assert lines[1].split() == ["g", "orders", "0", "2", "5", "3", "-", "-", "-"]


def test_all_groups_are_listed_with_their_states(bootstrap: str) -> None:
    assert ask(bootstrap, "--list").stdout.splitlines()[1].split() == ["g", "classic", "empty"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--describe", "--group", "nobody"), "no group nobody"),
        ((), "--list or --describe"),
        (("--list", "--group", "g"), "--group goes with --describe"),
        (("--list", "--command-config", "acks"), "'acks' is no KEY=VALUE"),
        (("--list", "--command-config", "no.such=1"), "no.such"),
    ],
)
def test_mistakes_are_told(bootstrap: str, arguments: tuple[str, ...], complaint: str) -> None:
    answer = ask(bootstrap, *arguments)
    assert (answer.exit_code, complaint in answer.output) == (2, True), answer.output


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("127.0.0.1", "'127.0.0.1' is no HOST:PORT"),
        ("127.0.0.1:65536", "is no HOST:PORT"),
        ("127.0.0.1:1", "no answer from 127.0.0.1:1 in 0.5 s"),
    ],
)
def test_who_does_not_answer_is_named(address: str, complaint: str) -> None:
    answer = ask(address, "--list", "--timeout", "0.5")
    assert (answer.exit_code, complaint in answer.output) == (2, True), answer.output
