"""confluent-kafka's ShareConsumer, recorded: what it is given, acknowledges and waits for."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest

from refimpl.edge import BlockingCluster
from tests.refimpl.edge.patience import PATIENCE_S
from tests.traces.judging import judged
from traces.record import recorded

ck: Any = import_module("confluent_kafka")
admins: Any = import_module("confluent_kafka.admin")
GROUP = "workers"
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with BlockingCluster(brokers=1, seed=1) as cluster:
        yield cluster.bootstrap


def topic_of(bootstrap: str, name: str, run: Path, records: int) -> None:
    """A topic with two partitions, its records in the first, and its group reads from the start."""
    where = {"bootstrap.servers": bootstrap}
    admin = admins.AdminClient(where)
    admin.create_topics([admins.NewTopic(name, 2, 1)])[name].result(PATIENCE_S)
    entry = admins.ConfigEntry(
        "share.auto.offset.reset",
        "earliest",
        incremental_operation=admins.AlterConfigOpType.SET,
    )
    group = admins.ConfigResource(
        admins.ResourceType.GROUP, f"{GROUP}-{name}", incremental_configs=[entry]
    )
    admin.incremental_alter_configs([group])[group].result(PATIENCE_S)
    producer: Any = recorded(ck.Producer, run, where, name="producer")
    for number in range(records):
        producer.produce(name, str(number), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    producer.close()


def member(bootstrap: str, topic: str, run: Path, **more: str) -> Any:
    conf = {"bootstrap.servers": bootstrap, "group.id": f"{GROUP}-{topic}"}
    conf |= {name.replace("_", "."): value for name, value in more.items()}
    consumer: Any = recorded(ck.ShareConsumer, run, conf, name="member")
    consumer.subscribe([topic])
    return consumer


def take(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += consumer.poll(1)
    return found


def lines(run: Path, *without: str) -> list[dict[str, Any]]:
    said = (run / "member#0.ndjson").read_bytes().splitlines()
    every = [orjson.loads(line) for line in said]
    return [line for line in every if line["op"] not in without]


def test_what_it_accepts_with_its_next_poll_is_answered(bootstrap: str, tmp_path: Path) -> None:
    topic_of(bootstrap, "implicit", tmp_path, 3)
    consumer = member(bootstrap, "implicit", tmp_path)
    take(consumer, 3)
    for _ in range(2):
        assert not len(consumer.poll(1))
    consumer.close()
    reported = lines(tmp_path, "describe_topics")
    subscribed, acquired, accepted, closed = [line for line in reported if not waits(line)]
    assert subscribed["partitions"] == ["implicit:0", "implicit:1"]
    assert closed["op"] == "close"
    assert [one["offset"] for one in acquired["records"]] == [0, 1, 2]
    assert {one["delivery_count"] for one in acquired["records"]} == {1}
    assert acquired["group"] == f"{GROUP}-implicit"
    assert (accepted["op"], accepted["outcome"]) == ("acknowledge", "ok")
    assert [(one["offset"], one["ack"]) for one in accepted["records"]] == [
        (offset, "accept") for offset in range(3)
    ]
    waited = [line for line in reported if waits(line) and line["seq"] > accepted["seq"]]
    assert sum(line["returned_ns"] - line["invoked_ns"] for line in waited) > 1.9 * SECOND
    assert {tuple(line["partitions"]) for line in waited} == {("implicit:0", "implicit:1")}
    produced = map(orjson.loads, (tmp_path / "producer#0.ndjson").read_bytes().splitlines())
    sent = next(line for line in produced if line["op"] == "send")
    assert acquired["records"][0]["id"] == sent["records"][0]["id"]


def waits(line: dict[str, Any]) -> bool:
    return line["op"] == "acquire" and not line["records"]


def test_what_it_says_of_each_record_by_itself(bootstrap: str, tmp_path: Path) -> None:
    topic_of(bootstrap, "explicit", tmp_path, 2)
    consumer = member(bootstrap, "explicit", tmp_path, share_acknowledgement_mode="explicit")
    heard: list[Any] = []

    def answered(offsets: Any, _refused: Any) -> None:
        heard.append(offsets)

    consumer.set_acknowledgement_commit_callback(answered)
    one, two = take(consumer, 2)
    consumer.acknowledge(one, ck.AcknowledgeType.RELEASE)
    consumer.acknowledge_offset("explicit", 0, two.offset(), ck.AcknowledgeType.REJECT)
    assert set(consumer.commit_sync(PATIENCE_S).values()) == {None}
    (again,) = take(consumer, 1)
    assert (again.offset(), again.delivery_count()) == (0, 2)
    consumer.acknowledge(again)
    consumer.commit_async()
    consumer.close()
    reported = [line for line in lines(tmp_path) if line["op"] == "acknowledge"]
    said = [[(one["offset"], one["ack"]) for one in line["records"]] for line in reported]
    assert said == [[(0, "release"), (1, "reject")], [(0, "accept")]]
    assert {line["outcome"] for line in reported} == {"ok"}
    assert heard, "the application's own callback is called, too"
    given = [line for line in lines(tmp_path) if line["op"] == "acquire" and line["records"]]
    assert given[1]["records"][0]["delivery_count"] == 2


def test_what_it_tells_is_judged(bootstrap: str, tmp_path: Path) -> None:
    topic_of(bootstrap, "judged", tmp_path, 20)
    consumer = member(bootstrap, "judged", tmp_path)
    take(consumer, 20)
    consumer.commit_sync(PATIENCE_S)
    consumer.close()
    limits = {"lock_ms": 30_000, "delivery_limit": 5, "stuck_ms": 10_000}
    shared = {f"{GROUP}-judged": limits | {"isolation": "read_uncommitted"}}
    (tmp_path / "meta.json").write_bytes(orjson.dumps({"share_groups": shared}))
    command = [sys.executable, "-m", "refimpl", "record-scan", str(tmp_path)]
    subprocess.run([*command, "--bootstrap", bootstrap], check=True)
    reported = {one.check: one.verdict for one in judged(tmp_path).verdicts}
    assert {reported[id] for id in ("S1", "S2", "S3", "S4")} == {"holds"}


def test_an_acknowledgement_that_nobody_answers_is_undecided(
    bootstrap: str, tmp_path: Path
) -> None:
    """The broker has given the record up: its lock is another member's."""
    topic_of(bootstrap, "undecided", tmp_path, 1)
    consumer = member(bootstrap, "undecided", tmp_path, share_acknowledgement_mode="explicit")
    (one,) = take(consumer, 1)
    consumer.acknowledge(one)
    consumer._send()
    consumer._process.end("crash")
    consumer._client.close()
    (reported,) = [line for line in lines(tmp_path) if line["op"] == "acknowledge"]
    assert reported["outcome"] == "info"
    assert "returned_ns" not in reported
