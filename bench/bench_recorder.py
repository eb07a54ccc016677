"""Cost of recording: the same application with and without, against real brokers.

    python bench/bench_recorder.py [--rounds 7] [--messages 60000] [--brokers 1] [--bare]

One broker, or three, are started on the loopback address (Java and Maven are needed, as for
`make test-kafka`) and stopped at the end; --bootstrap HOST:PORT names others, with the topic
`bench`. Plain and recorded rounds alternate, so that a busy machine is busy for both; what counts
is the median of the ratios of neighbours. At full speed an application does nothing but send; a
paced one makes a JSON document of 1 KB for each message, as many a second as it is told. Beside it
stands the bare cost of the recorder's own work, in CPU time, around a client that does nothing.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from attrs import define, frozen
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from chaos.real.kafka.cluster import KafkaCluster, cluster  # noqa: E402
from chaos.real.kafka.judge import Judge, KafkaBroker  # noqa: E402
from traces.record import HEADER, recorded  # noqa: E402

TOPIC = "bench"
QUIET: dict[str, Any] = {"log_level": 0}


class Nothing:
    """A client of confluent-kafka that does nothing: what is left is the recorder."""

    def __init__(self, conf: Any = None) -> None:
        self.reports: list[Any] = []
        self.message = Message(
            topic=TOPIC,
            partition=0,
            offset=5,
            key=b"k1",
            headers=[(HEADER, (2**62).to_bytes(8, "big"))],
            timestamp=(1, 1_700_000_000_000),
            leader_epoch=1,
        )

    def produce(self, topic: str, *rest: Any, **more: Any) -> None:
        self.reports.append(more.get("on_delivery") or rest[3])

    def poll(self, timeout: float = 0) -> Any:
        reports, self.reports = self.reports, []
        for report in reports:
            if report is not None:
                report(None, self.message)
        return self.message

    def flush(self, timeout: float = 0) -> int:
        self.poll()
        return 0

    def consume(self, count: int, timeout: float = 0) -> list[Any]:
        return [self.message] * count


# The recorder knows clients by the names of their classes.
Idle = type("Producer", (Nothing,), {"__module__": "confluent_kafka"})
IdleReader = type("Consumer", (Nothing,), {"__module__": "confluent_kafka"})


@frozen
class Application:
    """The work of an application for each message, and the number of messages."""

    size: int = 1024
    per_second: int | None = None

    def __str__(self) -> str:
        if self.per_second is None:
            return f"{self.size} bytes at full speed"
        return f"1 KB of JSON, {self.per_second:,}/s"

    def value(self, number: int) -> bytes:
        """The message: made of nothing, or as an application makes one."""
        if self.per_second is None:
            return b"v" * self.size
        items = [{"sku": f"A{n:05}", "count": n, "price": 9.99} for n in range(18)]
        return json.dumps({"order": number, "customer": "c-000123", "items": items}).encode()

    def late(self, began: float, number: int) -> float:
        """For how long the next message has to wait."""
        if self.per_second is None or number % 20:
            return 0.0
        return max(0.0, began + number / self.per_second - time.perf_counter())


FULL_SPEED = Application(100), Application(1024)
PACED = Application(per_second=20_000)


def produce(producer: Any, messages: int, app: Application = FULL_SPEED[0]) -> None:
    """As an application does that wants to know what became of its messages."""
    failed = 0

    def report(error: Any, _message: Any) -> None:
        nonlocal failed
        failed += error is not None

    began = time.perf_counter()
    for number in range(messages):
        value = app.value(number)
        while True:
            try:
                producer.produce(TOPIC, value, key=b"k%d" % (number % 100), on_delivery=report)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 100 == 0:
            producer.poll(0)
        if wait := app.late(began, number):
            producer.poll(wait)
    producer.flush()
    assert not failed


def send(producer: Any, messages: int, app: Application) -> None:
    """The same with kafka-python."""
    began = time.perf_counter()
    for number in range(messages):
        producer.send(TOPIC, app.value(number), key=b"k%d" % (number % 100))
        if wait := app.late(began, number):
            time.sleep(wait)
    producer.flush()


async def send_async(producer: Any, messages: int, app: Application) -> None:
    """The same with aiokafka."""
    began, sent = time.perf_counter(), list[Any]()
    for number in range(messages):
        sent.append(await producer.send(TOPIC, app.value(number), key=b"k%d" % (number % 100)))
        if wait := app.late(began, number):
            await asyncio.sleep(wait)
        if len(sent) == 5000:
            await asyncio.gather(*sent)
            sent.clear()
    await asyncio.gather(*sent)


def cpu_us(work: Callable[[], object], count: int) -> float:
    """CPU time for each of `count` things, the best of five: the rest is other people's load."""
    best = float("inf")
    for _ in range(5):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best / count * 1e6


def bare(folder: Path, count: int = 50_000) -> Iterator[tuple[str, float]]:
    """The recorder's own cost in microseconds of CPU, around clients that do nothing."""
    for name, client in (("plain", Idle()), ("recorded", recorded(Idle(), folder, {}))):
        yield f"produce and report, {name}", cpu_us(lambda c=client: produce(c, count), count)
    group = {"group.id": "g"}
    reader = recorded(IdleReader(), folder, group)

    def one_by_one() -> None:
        for _ in range(count):
            reader.poll()

    def in_batches() -> None:
        for _ in range(count // 500):
            reader.consume(500)

    yield "poll, one record each, recorded", cpu_us(one_by_one, count)
    yield "consume, 500 records each, recorded", cpu_us(in_batches, count)


@define
class Stopwatch:
    """Time on the wall, and of the CPU by this process with all the library's threads."""

    wall: float = 0.0
    cpu: float = 0.0

    def start(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def rate(self, count: int) -> "Rate":
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return Rate(count / wall, cpu / count * 1e6)


@frozen
class Rate:
    """Messages per second, and what each cost in microseconds of CPU."""

    per_second: float
    cpu_us: float


Recorder = Callable[..., Any]  # `recorded` of a folder, or nothing
Sender = Callable[[str, Recorder, int, Application], Rate]


def unrecorded(client: Any, *conf: Any) -> Any:
    """The client as it is, made if it is a class."""
    return client(*conf) if isinstance(client, type) else client


def rate_of_confluent(up: str, wrap: Recorder, messages: int, app: Application) -> Rate:
    conf: dict[str, Any] = {"bootstrap.servers": up, "acks": "all", "linger.ms": 5, **QUIET}
    producer = wrap(Producer, conf)
    produce(producer, 1000)  # connections and metadata
    watch = Stopwatch()
    watch.start()
    produce(producer, messages, app)
    return watch.rate(messages)


def rate_of_kafka_python(up: str, wrap: Recorder, messages: int, app: Application) -> Rate:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = import_module("kafka")
    client = wrap(kafka.KafkaProducer(bootstrap_servers=up, acks="all", linger_ms=5))
    send(client, 1000, FULL_SPEED[0])
    watch = Stopwatch()
    watch.start()
    send(client, messages, app)
    rate = watch.rate(messages)
    client.close()
    return rate


def rate_of_aiokafka(up: str, wrap: Recorder, messages: int, app: Application) -> Rate:
    aiokafka: Any = import_module("aiokafka")

    async def run() -> Rate:
        made = aiokafka.AIOKafkaProducer(bootstrap_servers=up, acks="all", linger_ms=5)
        async with wrap(made) as client:
            await send_async(client, 1000, FULL_SPEED[0])
            watch = Stopwatch()
            watch.start()
            await send_async(client, messages, app)
            return watch.rate(messages)

    return asyncio.run(run())


#: What is sent at full speed by each library, relative to confluent-kafka; the others are slower.
SENDERS: tuple[tuple[str, Sender, float, Application], ...] = (
    ("confluent-kafka", rate_of_confluent, 1.0, PACED),
    ("kafka-python", rate_of_kafka_python, 0.25, Application(per_second=5_000)),
    ("aiokafka", rate_of_aiokafka, 0.25, Application(per_second=5_000)),
)


def rate_of_reading(client: Any, messages: int) -> Rate:
    """In batches of 500, each processed and committed, as an application would."""
    client.subscribe([TOPIC])
    seen, watch = 0, Stopwatch()
    while seen < messages:
        batch = [m for m in client.consume(500, 1.0) if m.error() is None]
        if not batch:
            continue
        if not seen:
            watch.start()
        seen += len(batch)
        if hasattr(client, "processed"):
            client.processed(*batch)
        client.commit(asynchronous=True)
    rate = watch.rate(seen)
    client.close()
    return rate


def compare(rounds: int, plain: Callable[[int], Rate], ours: Callable[[int], Rate]) -> str:
    """Alternating rounds, and the median of what each pair says."""
    pairs: list[tuple[Rate, Rate]] = []
    for number in range(rounds):
        if number % 2:
            second = ours(number)
            pairs.append((plain(number), second))
        else:
            pairs.append((plain(number), ours(number)))
    cost = [1 - second.per_second / first.per_second for first, second in pairs]
    bare, with_us = (
        (median(r.per_second for r in rates), median(r.cpu_us for r in rates))
        for rates in zip(*pairs, strict=True)
    )
    return (
        f"{bare[0]:8,.0f}/s -> {with_us[0]:8,.0f}/s, "
        f"cost {median(cost):+.1%} ({min(cost):+.1%} … {max(cost):+.1%}); "
        f"client's CPU {bare[1]:.2f} -> {with_us[1]:.2f} us"
    )


def sent(
    rate_of: Sender, up: str, folder: Path | None, messages: int, app: Application, _round: int
) -> Rate:
    """One round, recorded if there is a folder for it."""
    if folder is None:
        return rate_of(up, unrecorded, messages, app)
    with tempfile.TemporaryDirectory(dir=folder) as run:
        return rate_of(up, lambda *of: recorded(of[0], run, *of[1:]), messages, app)


def real(up: str, folder: Path, rounds: int, messages: int) -> Iterator[tuple[str, str]]:
    """Throughput and CPU against brokers."""
    for library, rate_of, share, paced in SENDERS:
        for app in (*FULL_SPEED, paced):
            many = int(messages * share)
            plain = partial(sent, rate_of, up, None, many, app)
            ours = partial(sent, rate_of, up, folder, many, app)
            yield f"{library}, {app}", compare(rounds, plain, ours)

    def group(number: int, kind: str) -> dict[str, Any]:
        reset = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        named = f"{kind}-{number}-{time.monotonic_ns()}"
        return {"bootstrap.servers": up, "group.id": named, **reset, **QUIET}

    def read(number: int) -> Rate:
        return rate_of_reading(Consumer(group(number, "plain")), messages)

    def read_recorded(number: int) -> Rate:
        run = folder / f"read-{number}"
        consumer = recorded(Consumer, run, group(number, "recorded"))
        return rate_of_reading(consumer, messages)

    yield "confluent-kafka, reading 500 at a time", compare(rounds, read, read_recorded)


@contextmanager
def brokers(given: str | None, count: int, folder: Path) -> Generator[str]:
    """Brokers that have the topic, on folders of their own."""
    if given is not None:
        yield given
        return
    judge = Judge.start()
    try:
        if count == 1:
            yield from _one(judge, folder)
            return
        up: KafkaCluster
        with cluster(folder, judge) as up:
            up.create(TOPIC, 3, {"min.insync.replicas": "2"})
            yield up.bootstrap
    finally:
        judge.stop()


def _one(judge: Judge, folder: Path) -> Generator[str]:
    broker = KafkaBroker(folder)
    broker.format(judge)
    with broker.running():
        settings: dict[str, Any] = {"bootstrap.servers": broker.address, **QUIET}
        admin: Any = AdminClient(settings)
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(60)
        yield broker.address


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--messages", type=int, default=60_000)
    options.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    options.add_argument("--bootstrap", help="a cluster that has the topic `bench`")
    options.add_argument("--bare", action="store_true", help="without brokers")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, cost in bare(folder / "bare"):
            print(f"{what:44} {cost:6.2f} us CPU", flush=True)
        if asked.bare:
            return
        (folder / "brokers").mkdir()
        with brokers(asked.bootstrap, asked.brokers, folder / "brokers") as up:
            for what, said in real(up, folder, asked.rounds, asked.messages):
                print(f"{what:44} {said}", flush=True)


if __name__ == "__main__":
    main()
