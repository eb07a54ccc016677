"""Operations that need a broker of their own: its settings, or clock, would disturb all others."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.real.kafka.judge import CACHE, KafkaBroker, jars
from tests.kafka.clients import create_topics
from tests.kafka.everyday.administrator import NOTHING, Administrator
from tests.kafka.everyday.catalogue import operation
from tests.kafka.everyday.clients import Clients, ask, first, read, send
from tests.kafka.everyday.waiting import until

RETENTION_S = 60
EXPIRES = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


@contextmanager
def own_broker(
    admin: Administrator,
    run: Path,
    settings: dict[str, str],
    environment: dict[str, str] | None = None,
    classes: Path | None = None,
) -> Generator[tuple[KafkaBroker, Any]]:
    """A broker of one node, and an admin client of it."""
    folder = Path(tempfile.mkdtemp(prefix=run.name))
    broker = KafkaBroker(folder, settings, environment=environment or {}, classes=classes)
    try:
        with admin.tools():
            broker.format(admin.judge)
        with broker.running():
            yield broker, AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    finally:
        shutil.rmtree(folder)


@operation("offsets expired", allowed="G9", undecided="G7")
def offsets_expired(admin: Administrator, clients: Clients) -> str:
    """offsets.retention.minutes=1; groups of both protocols read all, stop, and come back when
    their offsets are gone."""
    topic = "offsets-expired"
    with own_broker(admin, clients.run, EXPIRES) as (broker, there):
        create_topics(broker.address, {topic: {}})
        here = clients.on(broker.address)
        producer = here.producer()
        send(producer, topic, 10)
        groups = {f"{topic}-{protocol}": protocol for protocol in ("classic", "consumer")}
        for group, protocol in groups.items():
            with here.consumer(group, topic, name=protocol, group_protocol=protocol) as member:
                read(member, 10)
        other = Administrator.of(there, admin)
        gone = lambda: all(other.committed(g, topic) == NOTHING for g in groups)  # noqa: E731
        until("the offsets to expire", gone, 3 * RETENTION_S)
        for group, protocol in groups.items():
            with here.consumer(group, topic, name=protocol, group_protocol=protocol) as member:
                message = first(member)
                ask(member)
                member.processed(message)
                read(member, 9)
        producer.close()
        here.scan()
    return "both groups lost their offsets, and read all again"


def _with_a_clock() -> Path:
    """The class of a clock that a file sets, compiled against Kafka."""
    source, classes = Path(__file__).parent / "java" / "SystemTime.java", CACHE / "clock"
    subprocess.run(["javac", "-cp", f"{jars()}/*", "-d", classes, source], check=True)
    return classes


def _stamped(producer: Any, topic: str) -> float:
    """When a record was appended, by the broker's clock, in s."""
    told: list[float] = []

    def stamp(_error: Any, message: Any) -> None:
        told.append(message.timestamp()[1] / 1000)

    producer.produce(topic, b"now", key=b"k", on_delivery=stamp)
    assert producer.flush(30) == 0
    return told[0]


@operation("the clock of a broker is set back by an hour", allowed="L17")
def broker_clock_set_back(admin: Administrator, clients: Clients) -> str:
    """The broker runs with a clock (Kafka's class SystemTime) that is set back by a file; the topic
    is stamped by the broker (LogAppendTime); clients go on, and ask for offsets by time."""
    topic = "broker-clock-set-back"
    clock = Path(tempfile.mkdtemp()) / "clock"
    clock.write_text("0")
    environment = {"CLOCK": str(clock)}
    with own_broker(admin, clients.run, {}, environment, _with_a_clock()) as (broker, _):
        create_topics(broker.address, {topic: {"message.timestamp.type": "LogAppendTime"}})
        here = clients.on(broker.address)
        producer = here.producer()
        member = here.consumer(topic, topic)
        send(producer, topic, 20)
        got = read(member, 20)
        clock.write_text("-3600000")
        until("the broker to notice", lambda: _stamped(producer, topic) < time.time() - 1800)
        send(producer, topic, 20, 20)
        got += read(member, 21)
        before, after = got[0].timestamp()[1], got[-1].timestamp()[1]
        assert after < before - 3_000_000, (before, after)
        for when in (before, after, before - 60_000):
            member.offsets_for_times([TopicPartition(topic, 0, when)], timeout=30)
        ask(member)
        member.close()
        producer.close()
        here.scan()
    return f"the append times went back by {(before - after) / 1000:.0f} s"
