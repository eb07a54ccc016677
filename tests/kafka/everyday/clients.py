"""The recorded clients of one run: a user's applications while something is done to Kafka."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import Consumer, Producer

from tests.kafka.everyday.waiting import until
from traces.record import meta, recorded

QUIET: dict[str, Any] = {"log_level": 0}
ROOT = Path(__file__).parents[3]
DRAIN_S = 60
IDLE_S = 8


def python(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Our own command, in a process of its own."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def scanned(run: Path, bootstrap: str) -> str:
    """`highwater record-scan`; what it complained of."""
    done = python("-m", "refimpl", "record-scan", run, "--bootstrap", bootstrap)
    return "" if done.returncode == 0 else f"scan: {done.returncode} {done.stdout}{done.stderr}"


def settings(more: dict[str, object]) -> dict[str, Any]:
    """Keywords as librdkafka's names."""
    callbacks = {name: value for name, value in more.items() if callable(value)}
    plain = {name.replace("_", "."): v for name, v in more.items() if name not in callbacks}
    return plain | callbacks


@define
class Clients:
    """A run, and the clients that record into it."""

    run: Path
    bootstrap: str

    def producer(self, name: str = "p", **more: Any) -> Any:
        """acks=all and idempotent, unless told otherwise."""
        conf = {"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True}
        return recorded(Producer, self.run, {**conf, **QUIET, **settings(more)}, name=name)

    def consumer(self, group: str, *topics: str, name: str = "c", **more: Any) -> Any:
        """A member that commits what it has processed."""
        conf: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "group.id": group, **QUIET}
        conf |= {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        order = "process_then_commit"
        conf |= settings(more)
        member = recorded(Consumer, self.run, conf, name=name, commit_order=order)
        if topics:
            member.subscribe(list(topics))
        return member

    def on(self, bootstrap: str) -> "Clients":
        """The clients of the same run on another cluster."""
        return Clients(self.run, bootstrap)

    def scan(self) -> None:
        """End the recording now: the cluster that the run is of does not stay."""
        told = scanned(self.run, self.bootstrap)
        assert not told, told

    def look(self) -> None:
        """A scan while the clients go on, for the settings that topics have now."""
        told = scanned(self.run, self.bootstrap)
        assert "not complete" in told, told

    def note(self, **said: object) -> None:
        """Add the operator's entries about the run to its meta.json."""
        self.run.mkdir(parents=True, exist_ok=True)
        meta.write(self.run, {**meta.read(self.run), **said})

    @contextmanager
    def traffic(self, topic: str, rate: float = 25) -> Generator["Traffic"]:
        """Producers and groups of all libraries and both protocols, until the block ends."""
        going = Traffic(self, topic, 1 / rate)
        going.start()
        try:
            yield going
        finally:
            going.stop()
        going.check()


def send(producer: Any, topic: str, count: int, first: int = 0, **more: Any) -> None:
    """So many messages with keys, all acknowledged."""
    failed: list[Any] = []

    def told(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    for number in range(first, first + count):
        key = more.get("key", b"k%d" % (number % 7))
        given = {**more, "key": key}
        producer.produce(topic, b"%d" % number, on_delivery=told, **given)
    assert producer.flush(60) == 0
    assert not failed, failed


def read(consumer: Any, count: int, commit: bool = True, seconds: float = 90) -> list[Any]:
    """Read and process so many messages, then commit."""
    got: list[Any] = []
    end = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < end:
        message = consumer.poll(0.3)
        if message is not None and message.error() is None:
            with consumer.process(message):
                got.append(message)
    assert len(got) >= count, f"read {len(got)} of {count}"
    if commit and got:
        consumer.commit(asynchronous=False)
    return got


def first(consumer: Any) -> Any:
    """The first message; not yet processed."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        message = consumer.poll(0.3)
        if message is not None and message.error() is None:
            return message
    raise AssertionError("read nothing")


def ask(consumer: Any) -> list[int]:
    """The group's committed offsets for the member's partitions."""
    return [one.offset for one in consumer.committed(consumer.assignment(), timeout=30)]


@define
class Traffic:
    """Clients in threads of their own. Every value is sent once, and names its producer."""

    clients: Clients
    topic: str
    pause_s: float
    sent: dict[str, int] = field(factory=dict[str, int])
    acknowledged: set[bytes] = field(factory=set[bytes])
    refused: list[str] = field(factory=list[str])
    read: dict[str, set[bytes]] = field(factory=dict[str, set[bytes]])
    throttled: int = 0
    failures: list[BaseException] = field(factory=list[BaseException])
    may_lose: bool = False
    _sending: threading.Event = field(factory=threading.Event)
    _producers: list[threading.Thread] = field(factory=list[threading.Thread])
    _consumers: list[threading.Thread] = field(factory=list[threading.Thread])

    def start(self) -> None:
        producers = (self._confluent, self._kafka_python, self._aiokafka)
        consumers = (self._classic, self._kip848, self._python_group, self._aio_group)
        self._producers = [self._thread(one) for one in producers]
        self._consumers = [self._thread(one) for one in consumers]
        for one in (*self._producers, *self._consumers):
            one.start()
        self.goes_on()

    def goes_on(self, count: int = 10) -> None:
        """Wait until every client has sent, or read, so many more."""
        before = {name: len(seen) for name, seen in self.read.items()}
        sent = dict(self.sent)
        names = ("classic", "kip848", "python", "aio")

        def more() -> bool:
            assert not self.failures, self.failures
            read = all(len(self.read.get(n, ())) >= before.get(n, 0) + count for n in names)
            return read and all(self.sent.get(n, 0) >= sent.get(n, 0) + count for n in "pqr")

        until("traffic", more)

    def stop(self) -> None:
        self._sending.set()
        for one in (*self._producers, *self._consumers):
            one.join(2 * DRAIN_S)

    def check(self) -> None:
        assert not self.failures, self.failures
        for name, seen in self.read.items():
            assert self.may_lose or self.acknowledged <= seen, f"{name} has not read all"

    def _thread(self, work: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as failure:
                self.failures.append(failure)

        return threading.Thread(target=guarded, daemon=True)

    def _values(self, name: str) -> Generator[tuple[bytes, bytes]]:
        number = 0
        while not self._sending.is_set():
            yield b"k%d" % (number % 7), b"%s-%d" % (name.encode(), number)
            number += 1
            self.sent[name] = number

    def _told(self, value: bytes, error: Any) -> None:
        if error is None:
            self.acknowledged.add(value)
        else:
            self.refused.append(str(error))

    def _stored(self, value: bytes, _metadata: Any) -> None:
        self._told(value, None)

    def _delivered(self, error: Any, message: Any) -> None:
        self._told(message.value(), error)

    def _confluent(self) -> None:
        producer = self.clients.producer("p", throttle_cb=self._throttled)
        for key, value in self._values("p"):
            producer.produce(self.topic, value, key=key, on_delivery=self._delivered)
            producer.poll(0)
            time.sleep(self.pause_s)
        assert producer.flush(DRAIN_S) == 0
        producer.close()

    def _throttled(self, event: Any) -> None:
        self.throttled += event.throttle_time > 0

    def _kafka_python(self) -> None:
        kafka: Any = import_module("kafka")
        servers = self.clients.bootstrap.split(",")
        client = kafka.KafkaProducer(bootstrap_servers=servers, acks="all")
        producer = recorded(client, self.clients.run, name="q")
        for key, value in self._values("q"):
            future = producer.send(self.topic, value, key=key)
            future.add_callback(partial(self._stored, value))
            future.add_errback(partial(self._told, value))
            time.sleep(self.pause_s)
        producer.flush(DRAIN_S)
        producer.close()

    def _aiokafka(self) -> None:
        asyncio.run(self._aio_sends())

    async def _aio_sends(self) -> None:
        aiokafka: Any = import_module("aiokafka")
        servers = self.clients.bootstrap
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, acks="all", enable_idempotence=True
        )
        async with recorded(client, self.clients.run, name="r") as producer:
            pending: list[Any] = []
            for key, value in self._values("r"):
                sent = await producer.send(self.topic, value, key=key)
                pending.append((value, sent))
                await asyncio.sleep(self.pause_s)
            for value, sent in pending:
                try:
                    await sent
                    self._told(value, None)
                except Exception as refusal:
                    self._told(value, refusal)

    def _wanting(self, name: str) -> Callable[[], bool]:
        """A condition to read on, False once the group has everything or receives nothing."""
        seen = self.read.setdefault(name, set())
        last = [0, time.monotonic()]

        def wanting() -> bool:
            producing = any(one.is_alive() for one in self._producers)
            if producing or len(seen) != last[0]:
                last[:] = len(seen), time.monotonic()
            if producing:
                return True
            patience = IDLE_S if self.may_lose else DRAIN_S
            return not self.acknowledged <= seen and time.monotonic() < last[1] + patience

        return wanting

    def _classic(self) -> None:
        self._confluent_group("classic", {})

    def _kip848(self) -> None:
        self._confluent_group("kip848", {"group.protocol": "consumer"})

    def _confluent_group(self, name: str, more: dict[str, object]) -> None:
        wanting, seen = self._wanting(name), self.read[name]
        group = f"{self.topic}-{name}"
        consumer = self.clients.consumer(group, self.topic, name=f"c-{name}", **more)
        while wanting():
            messages = [m for m in consumer.consume(100, 0.3) if m.error() is None]
            if not messages:
                continue
            with consumer.process(*messages):
                seen.update(message.value() for message in messages)
            self._commit(consumer.commit, asynchronous=False)
        consumer.close()

    @staticmethod
    def _commit(commit: Callable[..., object], **how: object) -> None:
        """Commit. A refusal means a rebalance or an unavailable broker: the next commit covers
        more.
        """
        try:
            commit(**how)
        except Exception as refusal:
            print(f"commit: {refusal!r}", flush=True)

    def _python_group(self) -> None:
        kafka: Any = import_module("kafka")
        conf: dict[str, Any] = {"group_id": f"{self.topic}-python", "enable_auto_commit": False}
        conf |= {"bootstrap_servers": self.clients.bootstrap.split(",")}
        client = kafka.KafkaConsumer(self.topic, auto_offset_reset="earliest", **conf)
        order = "process_then_commit"
        consumer = recorded(client, self.clients.run, name="c-python", commit_order=order)
        wanting, seen = self._wanting("python"), self.read["python"]
        while wanting():
            answer = consumer.poll(timeout_ms=300, max_records=100)
            messages = [message for several in answer.values() for message in several]
            if messages:
                with consumer.process(*messages):
                    seen.update(message.value for message in messages)
                self._commit(consumer.commit)
        consumer.close()

    def _aio_group(self) -> None:
        asyncio.run(self._aio_reads())

    async def _aio_reads(self) -> None:
        aiokafka: Any = import_module("aiokafka")
        conf: dict[str, Any] = {"group_id": f"{self.topic}-aio", "enable_auto_commit": False}
        conf |= {"bootstrap_servers": self.clients.bootstrap, "auto_offset_reset": "earliest"}
        client = aiokafka.AIOKafkaConsumer(self.topic, **conf)
        order = "process_then_commit"
        wanting, seen = self._wanting("aio"), self.read["aio"]
        async with recorded(client, self.clients.run, name="c-aio", commit_order=order) as consumer:
            while wanting():
                answer = await consumer.getmany(timeout_ms=300, max_records=100)
                messages = [message for several in answer.values() for message in several]
                if messages:
                    with consumer.process(*messages):
                        seen.update(message.value for message in messages)
                    try:
                        await consumer.commit()
                    except Exception as refusal:
                        print(f"commit: {refusal!r}", flush=True)
