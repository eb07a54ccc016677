"""What recording costs: the same application with and without, against real brokers.

    python bench/bench_recorder.py [--rounds 7] [--messages 60000] [--bootstrap HOST:PORT]

Without --bootstrap three brokers are started on the loopback address (Java and Maven are needed, as
for `make test-kafka`) and killed at the end. Plain and recorded rounds alternate, so that a busy
machine is busy for both; what counts is the median of the ratios of neighbours. Beside it stands
the bare cost of the recorder's own work, in CPU time, around a client that does nothing.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from attrs import define, frozen
from confluent_kafka import Consumer, Message, Producer

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.kafka.cluster import Cluster, cluster  # noqa: E402
from tests.kafka.judge import Judge  # noqa: E402
from traces.record import HEADER, recorded  # noqa: E402

TOPIC = "bench"
#: Size of a message in bytes, and what the application itself does for each, in us of CPU.
APPLICATIONS = ((100, 0), (1024, 0), (1024, 100))
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


def work(us: int) -> None:
    """What an application does for a message, such as making it."""
    until = time.thread_time_ns() + us * 1000
    while time.thread_time_ns() < until:
        pass


def produce(producer: Any, messages: int, size: int = 100, own_us: int = 0) -> None:
    """As an application does that wants to know what became of its messages."""
    value, failed = b"v" * size, 0

    def report(error: Any, _message: Any) -> None:
        nonlocal failed
        failed += error is not None

    for number in range(messages):
        if own_us:
            work(own_us)
        while True:
            try:
                producer.produce(TOPIC, value, key=b"k%d" % (number % 100), on_delivery=report)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 100 == 0:
            producer.poll(0)
    producer.flush()
    assert not failed


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


def rate_of_sending(client: Any, messages: int, size: int, own_us: int) -> Rate:
    produce(client, 1000, size)  # connections and metadata
    watch = Stopwatch()
    watch.start()
    produce(client, messages, size, own_us)
    return watch.rate(messages)


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


def real(up: str, folder: Path, rounds: int, messages: int) -> Iterator[tuple[str, str]]:
    """Throughput against brokers."""
    conf: dict[str, Any] = {"bootstrap.servers": up, "acks": "all", "linger.ms": 5, **QUIET}

    for size, own_us in APPLICATIONS:

        def send(_: int, size: int = size, own_us: int = own_us) -> Rate:
            return rate_of_sending(Producer(conf), messages, size, own_us)

        def send_recorded(number: int, size: int = size, own_us: int = own_us) -> Rate:
            producer = recorded(Producer, folder / f"send-{size}-{own_us}-{number}", conf)
            return rate_of_sending(producer, messages, size, own_us)

        busy = f", {own_us} us of its own" if own_us else ", nothing else to do"
        yield f"sending {size} bytes{busy}", compare(rounds, send, send_recorded)

    def group(number: int, kind: str) -> dict[str, Any]:
        reset = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        named = f"{kind}-{number}"
        return {"bootstrap.servers": up, "group.id": named, **reset, **QUIET}

    def read(number: int) -> Rate:
        return rate_of_reading(Consumer(group(number, "plain")), messages)

    def read_recorded(number: int) -> Rate:
        run = folder / f"read-{number}"
        consumer = recorded(Consumer, run, group(number, "recorded"))
        return rate_of_reading(consumer, messages)

    yield "reading, 500 at a time", compare(rounds, read, read_recorded)


@contextmanager
def brokers(given: str | None, folder: Path) -> Generator[str]:
    if given is not None:
        yield given
        return
    judge = Judge.start()
    try:
        up: Cluster
        with cluster(folder, judge) as up:
            up.create(TOPIC, 3, {"min.insync.replicas": "2"})
            yield up.bootstrap
    finally:
        judge.stop()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--messages", type=int, default=60_000)
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
        with brokers(asked.bootstrap, folder / "brokers") as up:
            for what, said in real(up, folder, asked.rounds, asked.messages):
                print(f"{what:44} {said}", flush=True)


if __name__ == "__main__":
    main()
