"""Operations on transactions and their producers."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from tests.kafka.everyday.administrator import TRANSACTIONS, Administrator
from tests.kafka.everyday.catalogue import operation
from tests.kafka.everyday.clients import Clients, ask, read, send
from tests.kafka.everyday.waiting import until

COMMITTED = {"isolation_level": "read_committed"}


def transact(producer: Any, topic: str, count: int, first: int = 0) -> None:
    """One transaction, committed."""
    producer.begin_transaction()
    send(producer, topic, count, first)
    producer.commit_transaction()


def answer(call: Callable[[], object]) -> str:
    """The answer to a call: `ok`, or the name of an error."""
    try:
        call()
    except KafkaException as refusal:
        return refusal.args[0].name()
    return "ok"


def refused(call: Callable[[], object]) -> str:
    """The error that a call must raise."""
    told = answer(call)
    assert told != "ok"
    return told


def close(producer: Any) -> None:
    """A producer that was fenced cannot close well."""
    with suppress(KafkaException):
        producer.close()


@operation("a transaction aborted by an operator", undecided="L3 L4 C1 C3 G6 G8 G10")
def aborted_by_operator(admin: Administrator, clients: Clients) -> str:
    """A producer hangs in a transaction; kafka-transactions abort --start-offset writes the
    marker; the producer goes on, ends, and starts again. A read_committed group reads."""
    topic = "aborted-by-operator"
    admin.create(topic)
    more = {"transactional_id": topic, "transaction_timeout_ms": 60_000}
    producer = clients.producer("till", **more)
    producer.init_transactions()
    transact(producer, topic, 5)
    producer.begin_transaction()
    send(producer, topic, 5, 5)
    start = 6
    where = ("--topic", topic, "--partition", "0")
    found = admin.out(TRANSACTIONS, "describe-producers", *where)
    assert re.search(rf"\s{start}\s*$", found, re.MULTILINE), found
    admin.out(TRANSACTIONS, "abort", *where, "--start-offset", str(start))
    other = clients.producer("other")
    send(other, topic, 3, 100)
    with clients.consumer(topic, topic, **COMMITTED) as member:
        got = read(member, 8)
    told = answer(producer.commit_transaction)
    close(producer)
    again = clients.producer("till", **more)
    again.init_transactions()
    transact(again, topic, 5, 10)
    with clients.consumer(topic, topic, **COMMITTED) as member:
        got += read(member, 5, commit=False)
        ask(member)
        member.commit(asynchronous=False)
    again.close()
    other.close()
    assert not {b"%d" % n for n in range(5, 10)} & {m.value() for m in got}
    return f"the marker was written; the producer's commit: {told}"


@operation(
    "a transaction aborted by an operator, whose producer commits all the same",
    undecided="L3 L4 C1 C3 G6 G8 G10",
)
def aborted_and_committed(admin: Administrator, clients: Clients) -> str:
    """As above, but the coordinator knows nothing of the marker: with a transaction that goes on
    in another partition, the producer's commit may succeed."""
    topic = "aborted-and-committed"
    admin.create(topic, 2)
    more = {"transactional_id": topic, "transaction_timeout_ms": 60_000}
    producer = clients.producer("till", **more)
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, topic, 5, partition=0)
    send(producer, topic, 5, 5, partition=1)
    where = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    admin.out(TRANSACTIONS, "abort", *where)
    told = answer(producer.commit_transaction)
    close(producer)
    with clients.consumer(topic, topic, **COMMITTED) as member:
        until("the end", lambda: _read_to_the_end(member, admin, topic))
    return f"half of it was aborted; the producer's commit: {told}"


def _read_to_the_end(member: Any, admin: Administrator, topic: str) -> bool:
    for message in member.consume(100, 0.5):
        if message.error() is None:
            with member.process(message):
                pass
    return bool(member.assignment()) and all(
        one.offset >= admin.watermarks(topic, one.partition)[1]
        for one in member.position(member.assignment())
    )


@operation("a transaction that times out")
def timed_out(admin: Administrator, clients: Clients) -> str:
    """transaction.timeout.ms passes while the application sleeps; the coordinator aborts; the
    application's commit is refused, and its next incarnation goes on."""
    topic = "timed-out"
    admin.create(topic)
    more = {"transactional_id": topic, "transaction_timeout_ms": 2000}
    producer = clients.producer("till", **more)
    producer.init_transactions()
    transact(producer, topic, 5)
    producer.begin_transaction()
    send(producer, topic, 5, 5)
    before = admin.watermarks(topic)[1]
    until("the marker of the abort", lambda: admin.watermarks(topic)[1] > before)
    told = refused(producer.commit_transaction)
    close(producer)
    again = clients.producer("till", **more)
    again.init_transactions()
    transact(again, topic, 5, 10)
    again.close()
    with clients.consumer(topic, topic, **COMMITTED) as member:
        read(member, 10)
    return f"the producer's commit was refused: {told}"


@operation("a transactional producer restarts in the middle")
def producer_restarted(admin: Administrator, clients: Clients) -> str:
    """It leaves a transaction open; its successor with the same transactional.id has it aborted;
    the old one wakes up, and is fenced."""
    topic = "producer-restarted"
    admin.create(topic, 2)
    producer = clients.producer("till", transactional_id=topic)
    producer.init_transactions()
    transact(producer, topic, 5)
    producer.begin_transaction()
    send(producer, topic, 5, 5)
    again = clients.producer("till", transactional_id=topic)
    again.init_transactions()
    transact(again, topic, 5, 10)
    told = refused(producer.commit_transaction)
    close(producer)
    transact(again, topic, 5, 15)
    again.close()
    with clients.consumer(topic, topic, **COMMITTED) as member:
        read(member, 15)
    return f"the old one was told {told}"


@operation("an exactly-once application restarts, and its offsets are reset", allowed="G9")
def exactly_once_reset(admin: Administrator, clients: Clients) -> str:
    """It reads, writes and commits offsets in transactions; it stops; kafka-consumer-groups resets
    its group by -4; it comes back, and does the work again."""
    topic, out = "exactly-once-reset", "exactly-once-reset-out"
    admin.create(topic)
    admin.create(out)
    source = clients.producer("source")
    send(source, topic, 12)
    source.close()
    _copies(clients, topic, out, 12)
    admin.reset(topic, topic, "--shift-by", "-4")
    assert admin.committed(topic, topic) == 8
    _copies(clients, topic, out, 4)
    assert admin.committed(topic, topic) == 12
    return "offsets 8 to 11 were worked on twice, in two transactions"


def _copies(clients: Clients, topic: str, out: str, count: int) -> None:
    producer = clients.producer("worker", transactional_id=topic)
    producer.init_transactions()
    member = clients.consumer(topic, topic, name="input", **COMMITTED)
    done = 0
    while done < count:
        messages = [m for m in member.consume(2, 0.5) if m.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(out, message.value(), key=message.key())
        member.processed(*messages)
        done += len(messages)
        after = [TopicPartition(topic, 0, messages[-1].offset() + 1)]
        producer.send_offsets_to_transaction(after, member.consumer_group_metadata())
        producer.commit_transaction()
    ask(member)
    member.close()
    producer.close()


@operation("a transactional id idle for longer than its expiration")
def transaction_after_silence(admin: Administrator, clients: Clients) -> str:
    """Transactions, committed and aborted in turn, with pauses; an idempotent producer beside."""
    topic = "transaction-after-silence"
    admin.create(topic, 2)
    producer = clients.producer("till", transactional_id=topic)
    plain = clients.producer("plain")
    producer.init_transactions()
    for turn in range(4):
        producer.begin_transaction()
        send(producer, topic, 5, 5 * turn)
        send(plain, topic, 2, 100 + 2 * turn)
        (producer.abort_transaction if turn % 2 else producer.commit_transaction)()
        time.sleep(0.5)
    producer.close()
    plain.close()
    with clients.consumer(topic, topic, **COMMITTED) as member:
        read(member, 18)
    return "2 of 4 committed"
