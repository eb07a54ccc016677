"""Operations on topics and their records."""

import os
import subprocess
import sys
import time
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions

from tests.kafka.everyday.administrator import CONFIGS, Administrator
from tests.kafka.everyday.catalogue import operation
from tests.kafka.everyday.clients import Clients, ask, read, send
from tests.kafka.everyday.waiting import until
from traces.checks.catalogue import CHECKS
from traces.record import recorded

#: Where a client does not tell which topic of a name it means, nothing of that topic is decided.
UNTOLD = " ".join(CHECKS)


@operation("topic deleted and made again", undecided=UNTOLD)
def topic_made_again(admin: Administrator, clients: Clients) -> str:
    """The clients go on: a producer that stays, groups of both protocols that come back."""
    topic = "topic-made-again"
    admin.create(topic, 2)
    producer = clients.producer()
    send(producer, topic, 20)
    for protocol in ("classic", "consumer"):
        more = {"group_protocol": protocol}
        with clients.consumer(f"{topic}-{protocol}", topic, name=protocol, **more) as member:
            read(member, 20)
    admin.delete(topic)
    admin.create(topic, 2)
    late = clients.producer("late")
    send(late, topic, 12, 20)
    for protocol in ("classic", "consumer"):
        more = {"group_protocol": protocol}
        with clients.consumer(f"{topic}-{protocol}", topic, name=protocol, **more) as member:
            read(member, 12)
    late.close()
    producer.close()
    return f"the new topic ends at {[admin.watermarks(topic, n)[1] for n in range(2)]}"


@operation("topic deleted and made again under clients that go on", undecided=UNTOLD)
def topic_made_again_under(admin: Administrator, clients: Clients) -> str:
    """As above; one consumer and one producer live on from the old topic to the new one."""
    topic = "topic-made-again-under"
    admin.create(topic)
    producer = clients.producer(topic_metadata_refresh_interval_ms=500)
    send(producer, topic, 20)
    member = clients.consumer(topic, topic, topic_metadata_refresh_interval_ms=500)
    read(member, 20)
    admin.delete(topic)
    time.sleep(2)
    admin.create(topic)
    time.sleep(2)
    send(producer, topic, 12, 20)
    got: list[int] = []
    end = time.monotonic() + 15
    while len(got) < 12 and time.monotonic() < end:
        message = member.poll(0.3)
        if message is not None and message.error() is None:
            with member.process(message):
                got.append(message.offset())
    if got:
        member.commit(asynchronous=False)
    member.close()
    producer.close()
    return f"the consumer read {got} of the new topic"


@operation("partitions added", undecided="P6")
def partitions_added(admin: Administrator, clients: Clients) -> str:
    """3 partitions become 6 while a producer hashes keys, and a group reads."""
    topic = "partitions-added"
    admin.create(topic, 3)
    quick: dict[str, Any] = {"topic_metadata_refresh_interval_ms": 500}
    producer = clients.producer(partitioner="murmur2_random", **quick)
    member = clients.consumer(topic, topic, **quick)
    send(producer, topic, 30)
    read(member, 30)
    (done,) = admin.admin.create_partitions([NewPartitions(topic, 6)]).values()
    done.result(30)
    until("six partitions", lambda: _known(producer, topic) == 6)
    time.sleep(1)
    send(producer, topic, 30, 30)
    read(member, 30)
    ask(member)
    member.close()
    producer.close()
    return f"ends {[admin.watermarks(topic, n)[1] for n in range(6)]}"


def _known(client: Any, topic: str) -> int:
    """The number of partitions that a client knows."""
    return len(client.list_topics(topic, timeout=9).topics[topic].partitions)


@operation("a client upgrade changes the partitioner")
def partitioner_changed(admin: Administrator, clients: Clients) -> str:
    """A producer hashes with consistent_random; its next incarnation with murmur2_random; the one
    after that is kafka-python, under the same name."""
    topic = "partitioner-changed"
    admin.create(topic, 6)
    for number, partitioner in enumerate(("consistent_random", "murmur2_random", "fnv1a_random")):
        producer = clients.producer(partitioner=partitioner)
        send(producer, topic, 14, 14 * number)
        producer.close()
    kafka: Any = import_module("kafka")
    plain = kafka.KafkaProducer(bootstrap_servers=clients.bootstrap.split(","), acks="all")
    producer = recorded(plain, clients.run, name="p")
    for number in range(42, 56):
        producer.send(topic, b"%d" % number, key=b"k%d" % (number % 7))
    producer.flush(30)
    producer.close()
    with clients.consumer(topic, topic) as member:
        got = read(member, 56)
    homes = {key: {m.partition() for m in got if m.key() == key} for key in {m.key() for m in got}}
    assert any(len(places) > 1 for places in homes.values())
    return "keys have several partitions: " + str(sorted(len(v) for v in homes.values()))


@operation("quotas set: producers and consumers are throttled")
def quotas(admin: Administrator, clients: Clients) -> str:
    """kafka-configs --alter --add-config producer_byte_rate, consumer_byte_rate of the default
    client id, then taken away."""
    topic = "quotas"
    admin.create(topic, 3)
    entity = ("--alter", "--entity-type", "clients", "--entity-name", "throttled")
    rates = "producer_byte_rate=15000,consumer_byte_rate=15000"
    took: list[float] = []
    admin.out(CONFIGS, *entity, "--add-config", rates)
    assert "15000" in admin.out(CONFIGS, "--describe", *entity[1:])
    told = {"client_id": "throttled"}
    producer = clients.producer(linger_ms=0, **told)
    member = clients.consumer(topic, topic, **told)
    began = time.monotonic()
    for number in range(100):
        producer.produce(topic, b"%d" % number + b"." * 4000, key=b"k%d" % (number % 7))
        if number % 5 == 4:
            assert producer.flush(60) == 0
    took.append(time.monotonic() - began)
    read(member, 100, seconds=60)
    took.append(time.monotonic() - began - took[0])
    admin.out(CONFIGS, *entity, "--delete-config", "producer_byte_rate,consumer_byte_rate")
    send(producer, topic, 10, 200)
    read(member, 10)
    member.close()
    producer.close()
    assert max(took) > 5, took
    return f"400 KB at 15 KB/s: sent in {took[0]:.0f} s, read in {took[1]:.0f} s"


@operation("DeleteRecords below a consumer that lags")
def delete_records(admin: Administrator, clients: Clients) -> str:
    """A member has committed 5 of 40 and is down; records below 20 are deleted; it comes back, is
    out of range, and goes on at the log start. In both protocols."""
    topic = "delete-records"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 40)
    for protocol in ("classic", "consumer"):
        _reads_five(clients, topic, protocol)
    admin.delete_records(topic, 20)
    assert admin.watermarks(topic)[0] == 20
    for protocol in ("classic", "consumer"):
        more = {"group_protocol": protocol}
        with clients.consumer(f"{topic}-{protocol}", topic, name=protocol, **more) as member:
            got = read(member, 20, commit=False)
            ask(member)
            member.commit(asynchronous=False)
            assert got[0].offset() == 20
    send(producer, topic, 5, 40)
    producer.close()
    return "read again from 20"


def _reads_five(clients: Clients, topic: str, protocol: str) -> None:
    more = {"group_protocol": protocol}
    with clients.consumer(f"{topic}-{protocol}", topic, name=protocol, **more) as member:
        got: list[int] = []
        while len(got) < 5:
            message = member.poll(0.3)
            if message is not None and message.error() is None:
                with member.process(message):
                    got.append(message.offset())
        member.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)


@operation("retention passes a consumer that lags")
def retention(admin: Administrator, clients: Clients) -> str:
    """retention.ms is set to 1 s on the way, and set back; segments roll; the consumer, which had
    committed 5 of 40, comes back when the head of the log is gone."""
    topic = "retention"
    admin.create(topic, segment_ms=500)
    producer = clients.producer()
    for number in range(4):
        send(producer, topic, 10, 10 * number)
        time.sleep(0.6)
    for protocol in ("classic", "consumer"):
        _reads_five(clients, topic, protocol)
    admin.configure(topic, retention_ms=1000)
    send(producer, topic, 1, 40)

    def deleted() -> bool:
        send(producer, topic, 1, 41)
        return admin.watermarks(topic)[0] > 20

    until("retention", deleted)
    admin.configure(topic, retention_ms=604800000)
    start, end = admin.watermarks(topic)
    for protocol in ("classic", "consumer"):
        more = {"group_protocol": protocol}
        with clients.consumer(f"{topic}-{protocol}", topic, name=protocol, **more) as member:
            got = read(member, end - start, commit=False)
            ask(member)
            member.commit(asynchronous=False)
    producer.close()
    return f"the log starts at {start}; read again from {got[0].offset()}"


@operation("compaction, with tombstones")
def compaction(admin: Administrator, clients: Clients) -> str:
    """Keys are replaced and deleted; the cleaner runs; a group reads before and after."""
    topic = "compaction"
    clean: dict[str, Any] = {
        "cleanup_policy": "compact",
        "segment_ms": 300,
        "min_cleanable_dirty_ratio": 0.01,
    }
    admin.create(topic, delete_retention_ms=500, **clean)
    producer = clients.producer()
    with clients.consumer(f"{topic}-1", topic, name="early") as member:
        for turn in range(6):
            for key in range(5):
                value = None if turn == 3 and key == 1 else b"%d.%d" % (turn, key)
                producer.produce(topic, value, key=b"k%d" % (key if turn < 5 else key + 1))
            assert producer.flush(30) == 0
            read(member, 5)
            time.sleep(0.4)

        def cleaned() -> bool:
            producer.produce(topic, b"x", key=b"again")
            producer.flush(30)
            return len(admin.contents(topic)) < 20

        until("the cleaner", cleaned)
    with clients.consumer(f"{topic}-2", topic, name="late") as member:
        count = len(admin.contents(topic))
        got = read(member, max(5, count - 2))
    producer.close()
    return f"{count} of {got[-1].offset() + 1} records were left"


@operation("cleanup.policy from delete to compact and back", undecided="C1 C3 G6 G8 L3 L4")
def cleanup_policy_changed(admin: Administrator, clients: Clients) -> str:
    """The topic is compacted for a while, and record-scan is run; at the end it is not, and
    record-scan is run again."""
    topic = "cleanup-policy-changed"
    admin.create(topic, segment_ms=300, min_cleanable_dirty_ratio=0.01)
    producer = clients.producer()
    with clients.consumer(f"{topic}-1", topic, name="early") as member:
        for turn in range(5):
            send(producer, topic, 7, 7 * turn)
            read(member, 7)
            time.sleep(0.4)
    admin.configure(topic, cleanup_policy="compact")

    def cleaned() -> bool:
        send(producer, topic, 1, 1000)
        return len(admin.contents(topic)) < 25

    until("the cleaner", cleaned)
    clients.look()
    admin.configure(topic, cleanup_policy="delete")
    send(producer, topic, 7, 2000)
    count = len(admin.contents(topic))
    with clients.consumer(f"{topic}-2", topic, name="late") as member:
        read(member, count)
    producer.close()
    return f"{count} of {admin.watermarks(topic)[1]} records were left"


@operation("message.timestamp.type from CreateTime to LogAppendTime", allowed="L17")
def timestamp_type_changed(admin: Administrator, clients: Clients) -> str:
    """Records are stamped by their senders, out of order; later by the broker."""
    topic = "timestamp-type-changed"
    admin.create(topic)
    producer = clients.producer()
    when = int(time.time() * 1000)
    for number in range(20):
        at = when + (5000 - 500 * number)
        producer.produce(topic, b"%d" % number, key=b"k%d" % (number % 7), timestamp=at)
    assert producer.flush(30) == 0
    admin.configure(topic, message_timestamp_type="LogAppendTime")
    send(producer, topic, 20, 20)
    with clients.consumer(topic, topic) as member:
        got = read(member, 40)
        member.offsets_for_times([TopicPartition(topic, 0, when)], timeout=30)
    producer.close()
    times = [message.timestamp()[1] for message in got]
    return f"timestamps went back {sum(a > b for a, b in pairwise(times))} times"


@operation("message.timestamp.type from LogAppendTime to CreateTime")
def timestamp_type_changed_back(admin: Administrator, clients: Clients) -> str:
    """The broker stamped records; later their senders do, out of order."""
    topic = "timestamp-type-changed-back"
    admin.create(topic, message_timestamp_type="LogAppendTime")
    producer = clients.producer()
    send(producer, topic, 20)
    admin.configure(topic, message_timestamp_type="CreateTime")
    when = int(time.time() * 1000)
    for number in range(20):
        at = when + (5000 - 500 * number)
        producer.produce(topic, b"%d" % number, key=b"k%d" % (number % 7), timestamp=at)
    assert producer.flush(30) == 0
    with clients.consumer(topic, topic) as member:
        read(member, 40)
        member.offsets_for_times([TopicPartition(topic, 0, when)], timeout=30)
    producer.close()
    return "records of both kinds"


@operation("max.message.bytes lowered")
def max_message_bytes(admin: Administrator, clients: Clients) -> str:
    """Larger records are refused from then on; the application goes on with the others."""
    topic = "max-message-bytes"
    admin.create(topic)
    producer = clients.producer(linger_ms=0)
    send(producer, topic, 5)
    admin.configure(topic, max_message_bytes=500)
    refused: list[str] = []

    def told(error: Any, _message: Any) -> None:
        if error is not None:
            refused.append(error.name())

    for number in range(10):
        value = b"%d" % number + b"." * (1000 * (number % 2))
        producer.produce(topic, value, on_delivery=told)
        producer.flush(30)
    with clients.consumer(topic, topic) as member:
        read(member, 10)
    producer.close()
    assert refused
    return f"refused: {len(refused)} times {refused[0]}"


@operation("a topic copied to another, headers and all", undecided="L5")
def mirrored(admin: Administrator, clients: Clients) -> str:
    """A client that is not recorded copies each record, as MirrorMaker 2 does, to east.mirrored;
    recorded groups read both."""
    topic, copy = "mirrored", "east.mirrored"
    admin.create(topic, 2)
    admin.create(copy, 2)
    producer, mirror = clients.producer(), admin.quiet_producer()
    send(producer, topic, 20)
    for message in admin.contents(topic):
        mirror.produce(
            copy, message.value(), message.key(), message.partition(), headers=message.headers()
        )
    assert mirror.flush(30) == 0
    send(producer, topic, 5, 20)
    with clients.consumer("origin", topic, name="origin") as member:
        read(member, 25)
    with clients.consumer("target", copy, name="target") as member:
        read(member, 20)
    producer.close()
    return "20 records were copied, with their headers"


@operation("two topics copied into each other", undecided="L5")
def mirrored_both_ways(admin: Administrator, clients: Clients) -> str:
    """Active-active: one consumer reads the topic and its mirror by one subscription."""
    topic, copy = "both-ways", "east.both-ways"
    admin.create(topic)
    admin.create(copy)
    producer, mirror = clients.producer(), admin.quiet_producer()
    send(producer, topic, 20)
    for message in admin.contents(topic):
        mirror.produce(copy, message.value(), message.key(), headers=message.headers())
    assert mirror.flush(30) == 0
    with clients.consumer("both", topic, copy) as member:
        read(member, 40)
    producer.close()
    return "each record was read from both"


@operation("a topic restored from a dump", undecided=UNTOLD)
def restored(admin: Administrator, clients: Clients) -> str:
    """The topic is dumped, deleted, made again, and written anew by a tool that is not recorded:
    the same records with their headers, at other offsets."""
    topic = "restored"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 20)
    with clients.consumer(topic, topic) as member:
        read(member, 20)
    producer.close()
    dump = admin.contents(topic)
    admin.delete(topic)
    admin.create(topic)
    tool = admin.quiet_producer()
    for message in dump[5:]:
        tool.produce(topic, message.value(), message.key(), headers=message.headers())
    assert tool.flush(30) == 0
    producer = clients.producer()
    send(producer, topic, 10, 20)
    with clients.consumer(f"{topic}-again", topic, name="again") as member:
        read(member, 25)
    with clients.consumer(topic, topic) as member:
        read(member, 5, commit=False)
        ask(member)
        member.commit(asynchronous=False)
    producer.close()
    return "15 of 20 records came back, five offsets lower"


@operation("records replayed into their own topic", undecided="L2")
def replayed(admin: Administrator, clients: Clients) -> str:
    """A tool that is not recorded writes ten old records once more behind the others, with their
    headers. The operator tells it in meta.json: senders = some."""
    topic = "replayed"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 20)
    tool = admin.quiet_producer()
    for message in admin.contents(topic)[5:15]:
        tool.produce(topic, message.value(), message.key(), headers=message.headers())
    assert tool.flush(30) == 0
    send(producer, topic, 5, 20)
    with clients.consumer(topic, topic) as member:
        read(member, 35)
    producer.close()
    clients.note(senders="some")
    return "ten records are in the log twice"


FAKETIME = "faketime/libfaketimeMT.so.1"


@operation("the clock of a client's machine is set back by an hour")
def clock_set_back(admin: Administrator, clients: Clients) -> str:
    """libfaketime steps CLOCK_REALTIME of a recorded process back by an hour between two bursts;
    CLOCK_MONOTONIC goes on, as under NTP."""
    topic = "clock-set-back"
    admin.create(topic)
    libraries = sorted(Path("/usr/lib").glob(f"*/{FAKETIME}"))
    assert libraries, "libfaketime is not installed: apt-get install libfaketime"
    file = clients.run.parent / "clock"
    clients.run.mkdir(parents=True, exist_ok=True)
    file.write_text("+0\n")
    faked = {"LD_PRELOAD": str(libraries[0]), "FAKETIME_TIMESTAMP_FILE": str(file)}
    faked |= {"FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    command = (sys.executable, "-m", "tests.kafka.everyday.clocked", clients.bootstrap, topic)
    ran = subprocess.run(
        [*command, clients.run, file],
        env={**os.environ, **faked},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    file.unlink()
    assert ran.returncode == 0, ran.stderr
    producer = clients.producer()
    send(producer, topic, 5, 40)
    producer.close()
    now = time.time()
    with clients.consumer(topic, topic) as member:
        read(member, 5, commit=False)
        ask(member)
        member.commit(asynchronous=False)
        for when in (now, now - 60, now - 3600):
            member.offsets_for_times([TopicPartition(topic, 0, int(when * 1000))], timeout=30)
    return ran.stdout.strip()
