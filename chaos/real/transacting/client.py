"""One transactional client, a process: `python -m chaos.real.transacting.client`.

A producer writes batches of values and commits or aborts them. An application reads a topic, writes
one value for each record, and sends the offsets within the transaction. Calls are recorded as they
happen. Each transaction that ended is a line of the output: `commit` or `abort`.

A client that is fenced ends with `FENCED`, as one that may have a successor must. Where a library
can go no further otherwise, it ends with `BROKEN`: its user would begin again with another client.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, field, frozen

from traces.record import recorded

FENCED, BROKEN = 3, 4
TIMEOUT_MS = 8_000
"""Of a transaction, unless told otherwise: its coordinator aborts what takes longer."""
SESSION_MS, HEARTBEAT_MS = 6_000, 1_000
PATIENCE_S = 20.0
"""A call of librdkafka; what takes longer is asked again."""
AT_ONCE = 5
PAUSE_S = 0.2
"""Between two transactions: TLC follows each of them."""


@frozen
class ClientTask:
    """The task of a client. An application has a `group` and reads `source`."""

    name: str
    library: str
    id: str
    bootstrap: str
    sink: str
    partitions: int
    folder: str
    seed: int
    source: str = ""
    group: str = ""
    protocol: str = "classic"
    timeout_ms: int = TIMEOUT_MS

    def wrap(self, client: Any, conf: Any = None, *, name: str, order: str | None = None) -> Any:
        return recorded(client, Path(self.folder), conf, name=name, commit_order=order)


class StopSignal:
    """True in `now` once the process has been asked to end."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.now = True


class Fenced(Exception):
    """A newer instance, or the coordinator, has taken this one's place."""


class Broken(Exception):
    """The library refuses to go on, and nobody has taken the client's place."""


def tell(what: str) -> None:
    """A transaction has ended."""
    print(what, flush=True)


class Ending(Enum):
    """The outcome of a call of librdkafka."""

    DONE = auto()
    MUST_ABORT = auto()


@define(eq=False)
class Librdkafka:
    """A transactional producer of librdkafka."""

    task: ClientTask
    stopped: StopSignal
    library: Any = field(init=False)
    producer: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the client; its predecessors are fenced once `begin` has returned."""
        self.library = import_module("confluent_kafka")
        conf = self.settings() | {
            "transactional.id": self.task.id,
            "transaction.timeout.ms": self.task.timeout_ms,
            "delivery.timeout.ms": self.task.timeout_ms,
            "request.timeout.ms": 2_500,
            "linger.ms": 0,
        }
        self.producer = self.task.wrap(self.library.Producer, conf, name=self.task.name)

    def settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.task.bootstrap,
            "client.id": self.task.name,
            "log_level": 0,
            "socket.timeout.ms": 5_000,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1_000,
        }

    def asked(self, call: Callable[..., Any], *arguments: Any) -> Ending:
        """Ask until there is an answer, as librdkafka's manual says: again if it may be."""
        while True:
            try:
                call(*arguments)
            except self.library.KafkaException as refusal:
                error = refusal.args[0]
                if error.fatal():
                    raise Fenced(error.str()) from None
                if error.txn_requires_abort():
                    return Ending.MUST_ABORT
                if not error.retriable():
                    raise Broken(error.str()) from None
            else:
                return Ending.DONE

    def initialise(self) -> None:
        if self.asked(self.producer.init_transactions, PATIENCE_S) is not Ending.DONE:
            raise Broken("initialised to be aborted")

    def abort(self) -> None:
        if self.asked(self.producer.abort_transaction, PATIENCE_S) is not Ending.DONE:
            raise Broken("an abort that must be aborted")
        tell("abort")

    def write(self, values: list[tuple[bytes, int]]) -> Ending:
        for value, partition in values:
            done = self.asked(self._produce, value, partition)
            if done is not Ending.DONE:
                return done
            self.producer.poll(0)
        return Ending.DONE

    def _produce(self, value: bytes, partition: int) -> None:
        self.producer.produce(self.task.sink, value, partition=partition)

    def commit(self) -> bool:
        """Commit; True if it is so, and False if it had to be aborted."""
        if self.asked(self.producer.commit_transaction, PATIENCE_S) is Ending.DONE:
            tell("commit")
            return True
        self.abort()
        return False

    def produce(self) -> None:
        """Transaction after transaction, until the process is asked to end."""
        rng = Random(self.task.seed)
        self.initialise()
        number = 0
        while not self.stopped.now:
            if self.asked(self.producer.begin_transaction) is not Ending.DONE:
                raise Broken("a transaction that does not begin")
            values = list[tuple[bytes, int]]()
            for _ in range(rng.randint(1, AT_ONCE)):
                number += 1
                value = b"%s %d" % (self.task.name.encode(), number)
                values.append((value, rng.randrange(self.task.partitions)))
            written = self.write(values)
            if rng.random() < 0.3:
                time.sleep(rng.random())  # it stays open for a while
            if written is not Ending.DONE or rng.random() < 0.25:
                self.abort()
            else:
                self.commit()
            time.sleep(PAUSE_S)
        self.producer.close()


@define(eq=False)
class ExactlyOnceApplication:
    """Read, process, write: the records, and the offsets, in one transaction (KIP-447).

    Rebalances happen within poll, because it has callbacks. Records polled before one are dropped:
    their partitions begin again where the group has committed.
    """

    producer: Librdkafka
    consumer: Any = None
    rebalanced: bool = False

    def run(self) -> None:
        task, library = self.producer.task, self.producer.library
        conf = self.producer.settings() | {
            "group.id": task.group,
            "group.protocol": task.protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        if task.protocol == "classic":
            conf |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
            conf |= {"partition.assignment.strategy": "range"}
        name = f"{task.name}-in"
        self.consumer = task.wrap(library.Consumer, conf, name=name, order="transaction")
        self.producer.initialise()
        calls = dict.fromkeys(("on_assign", "on_revoke", "on_lost"), self._rebalances)
        self.consumer.subscribe([task.source], **calls)
        while not self.producer.stopped.now:
            records = self._poll()
            if records and not self._process(records):
                self._begin_where_committed()
            time.sleep(PAUSE_S)
        self.consumer.close()
        self.producer.producer.close()

    def _rebalances(self, *_: Any) -> None:
        self.rebalanced = True

    def _poll(self) -> list[Any]:
        self.rebalanced, records = False, list[Any]()
        for wait_s in (0.3, *[0.01] * (3 * AT_ONCE - 1)):
            record = self.consumer.poll(wait_s)
            if self.rebalanced:  # what was polled is of the assignment before; this one is not
                self.rebalanced = False
                records.clear()
            if record is None:
                break
            if record.error() is None:
                records.append(record)
        return records

    def _process(self, records: list[Any]) -> bool:
        """One transaction; True if it is committed."""
        producer, library = self.producer, self.producer.library
        task = producer.task
        membership = self.consumer.consumer_group_metadata()
        ends = {(one.topic(), one.partition()): one.offset() + 1 for one in records}
        offsets = [library.TopicPartition(*where, end) for where, end in ends.items()]
        if producer.asked(producer.producer.begin_transaction) is not Ending.DONE:
            raise Broken("a transaction that does not begin")
        values = [
            (b"%d-%d" % (one.partition(), one.offset()), one.offset() % task.partitions)
            for one in records
        ]
        self.consumer.processed(*records)
        send = producer.producer.send_offsets_to_transaction
        done = producer.write(values) is Ending.DONE and (
            producer.asked(send, offsets, membership, PATIENCE_S) is Ending.DONE
        )
        if done:
            return producer.commit()
        producer.abort()
        return False

    def _begin_where_committed(self) -> None:
        """Of every partition that it still has; a rebalance that it hears of later does so too."""
        library = self.producer.library
        while assigned := self.consumer.assignment():
            with suppress(library.KafkaException):
                for one in self.consumer.committed(assigned, timeout=PATIENCE_S):
                    one.offset = max(one.offset, 0)
                    self.consumer.seek(one)
                return
            if self.producer.stopped.now:
                return
            time.sleep(0.1)


async def aiokafka(task: ClientTask, stopped: StopSignal) -> None:
    """A transactional producer of aiokafka, until the process is asked to end."""
    library: Any = import_module("aiokafka")
    errors: Any = import_module("aiokafka.errors")
    rng, number = Random(task.seed), 0
    client = library.AIOKafkaProducer(
        bootstrap_servers=task.bootstrap,
        client_id=task.name,
        transactional_id=task.id,
        transaction_timeout_ms=task.timeout_ms,
        request_timeout_ms=5_000,
        retry_backoff_ms=50,
        metadata_max_age_ms=1_000,
    )
    producer = task.wrap(client, name=task.name)
    fenced = errors.ProducerFenced, errors.InvalidProducerEpoch
    try:
        await producer.start()
        while not stopped.now:
            await producer.begin_transaction()
            try:
                for _ in range(rng.randint(1, AT_ONCE)):
                    number += 1
                    value = b"%s %d" % (task.name.encode(), number)
                    where = rng.randrange(task.partitions)
                    await producer.send_and_wait(task.sink, value, partition=where)
                if rng.random() < 0.25:
                    await producer.abort_transaction()
                    tell("abort")
                else:
                    await producer.commit_transaction()
                    tell("commit")
            except fenced:
                raise
            except errors.KafkaError:
                await producer.abort_transaction()
                tell("abort")
            await asyncio.sleep(PAUSE_S)
        await producer.stop()
    except fenced as refusal:
        raise Fenced(repr(refusal)) from None
    except (errors.KafkaError, AssertionError) as refusal:  # it asserts its states
        raise Broken(repr(refusal)) from None


def kafka_python(task: ClientTask, stopped: StopSignal) -> None:
    """A transactional producer of kafka-python, until the process is asked to end."""
    library: Any = import_module("kafka")
    errors: Any = import_module("kafka.errors")
    rng, number = Random(task.seed), 0
    fenced = errors.ProducerFencedError, errors.InvalidProducerEpochError
    try:
        client = library.KafkaProducer(
            bootstrap_servers=task.bootstrap.split(","),
            client_id=task.name,
            transactional_id=task.id,
            transaction_timeout_ms=task.timeout_ms,
            request_timeout_ms=2_500,
            delivery_timeout_ms=task.timeout_ms,
            retry_backoff_ms=50,
            metadata_max_age_ms=1_000,
        )
        producer = task.wrap(client, name=task.name)
        producer.init_transactions()
        while not stopped.now:
            producer.begin_transaction()
            try:
                for _ in range(rng.randint(1, AT_ONCE)):
                    number += 1
                    value = b"%s %d" % (task.name.encode(), number)
                    where = rng.randrange(task.partitions)
                    producer.send(task.sink, value, partition=where).get(PATIENCE_S)
                if rng.random() < 0.25:
                    producer.abort_transaction()
                    tell("abort")
                else:
                    producer.commit_transaction()
                    tell("commit")
            except fenced:
                raise
            except errors.KafkaError:
                producer.abort_transaction()
                tell("abort")
            time.sleep(PAUSE_S)
        producer.close()
    except fenced as refusal:
        raise Fenced(repr(refusal)) from None
    except errors.KafkaError as refusal:
        raise Broken(repr(refusal)) from None


def main() -> int:
    """Do what the argument, a task in JSON, says."""
    task, stopped = ClientTask(**json.loads(sys.argv[1])), StopSignal()
    try:
        match task.library:
            case "confluent" if task.group:
                ExactlyOnceApplication(Librdkafka(task, stopped)).run()
            case "confluent":
                Librdkafka(task, stopped).produce()
            case "aiokafka":
                asyncio.run(aiokafka(task, stopped))
            case _:
                kafka_python(task, stopped)
    except Fenced as refusal:
        print(f"{task.name} is fenced: {refusal}", file=sys.stderr)
        return FENCED
    except Broken as refusal:
        print(f"{task.name} cannot go on: {refusal}", file=sys.stderr)
        return BROKEN
    return 0


if __name__ == "__main__":
    sys.exit(main())
