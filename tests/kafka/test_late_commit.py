"""A commit that is late undoes a newer one: Kafka takes what a member of the current generation
sends, in whatever order its connections bring it. ConsumerCommit has that order as a rule (`Fifo`),
and `bug_unordered_commits` without it."""

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.judge import Judge, KafkaBroker, free_port
from examples.relay import Header, Relay, relay
from tests.kafka.clients import Message, create_topics, send

confluent: Any = import_module("confluent_kafka")
GROUP, TOPIC = "billing", "orders"
OFFSET_COMMIT = 8
#: The least that librdkafka waits for an answer.
SOCKET_TIMEOUT_MS = 10_000


def commits(header: Header) -> bool:
    return header.api_key == OFFSET_COMMIT


def until(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Wait for a condition; polled, for brokers tell nobody."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def slow(judge: Judge, tmp_path: Path) -> Iterator[tuple[KafkaBroker, Relay]]:
    """A broker, and a relay through which its second listener is reached."""
    port = free_port()
    with relay(port) as way:
        broker = KafkaBroker(tmp_path)
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SLOW://127.0.0.1:{port},"
            f"CONTROLLER://127.0.0.1:{broker.controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker.port},"
            f"SLOW://127.0.0.1:{way.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SLOW:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
        }
        broker.settings.update(listeners)
        broker.format(judge)
        with broker.running():
            yield broker, way


def test_a_late_commit_of_a_member_takes_its_group_back(slow: tuple[KafkaBroker, Relay]) -> None:
    broker, way = slow
    create_topics(broker.address, {TOPIC: {}})
    send(broker.address, TOPIC, [Message(None, b"%d" % n) for n in range(5)])
    member = consumer(f"127.0.0.1:{way.port}", {"socket.timeout.ms": SOCKET_TIMEOUT_MS})
    onlooker = consumer(broker.address, {})
    member.subscribe([TOPIC])
    until("a record", 60, lambda: member.poll(0.5) is not None)
    held = way.stall(commits, at_most=1)
    member.commit(offsets=[at(1)], asynchronous=True)
    until("the first commit to be under way", 10, lambda: bool(held.caught))
    # The client gives up waiting, connects anew, and commits again: first that, then what is newer.
    until("the client to commit once more", 60, lambda: is_committed(member, onlooker, 1))
    member.commit(offsets=[at(4)], asynchronous=False)
    assert committed(onlooker) == 4
    held.end()
    mended = "this Kafka keeps commits in order: say so in docs/kafka-diff.md"
    until(mended, 10, lambda: committed(onlooker) == 1)
    member.close()
    onlooker.close()


def consumer(address: str, more: dict[str, Any]) -> Any:
    conf = {"bootstrap.servers": address, "group.id": GROUP, "log_level": 0}
    reading = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    return confluent.Consumer({**conf, **reading, **more})


def at(offset: int) -> Any:
    return confluent.TopicPartition(TOPIC, 0, offset)


def is_committed(member: Any, onlooker: Any, offset: int) -> bool:
    """True if the offset is committed; the member polls meanwhile, so that it stays one."""
    member.poll(0.1)
    return committed(onlooker) == offset


def committed(onlooker: Any) -> int:
    (one,) = onlooker.committed([at(0)], 30)
    return one.offset
