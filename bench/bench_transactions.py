"""Transactions beside real Kafka and kfake: the same client, the same run, as ratios.

    python bench/bench_transactions.py [--replicas 1,3] [--transactions 200] [--ids 1000]

One producer of librdkafka commits one transaction after the other, of 1, 10 and 100 records of
100 bytes. A loop then reads, processes and writes by tens, and each transaction holds the group's
offsets as well. Last, each of many transactional ids begins anew and commits one transaction.

A round of one system is followed by a round of the next, so what else the machine does meets all of
them; a figure is the median of the rounds. p50 and p99 are of the call commit_transaction, which
also waits for the records. CPU is of all processes of a system. Above 1 a ratio says that ours is
better.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial

from attrs import frozen
from confluent_kafka import Consumer, Producer

sys.path[:0] = [os.fspath(__file__).rpartition("/bench/")[0], os.path.dirname(__file__)]

from bench_beside import SYSTEMS, TITLES, System  # noqa: E402
from bench_broker import create  # noqa: E402

SIZES, LOOP, VALUE, PATIENCE_S = (1, 10, 100), 10, b"x" * 100, 60.0


@frozen
class Figures:
    """One round, or the medians of several."""

    per_second: float
    p50_ms: float
    p99_ms: float
    commits_per_cpu_s: float
    records_per_cpu_s: float


TOLD = (
    ("transactions/s", "per_second", True),
    ("commit, p50 ms", "p50_ms", False),
    ("commit, p99 ms", "p99_ms", False),
    ("commits per CPU-s", "commits_per_cpu_s", True),
    ("records per CPU-s", "records_per_cpu_s", True),
)


def measured(system: System, producer: Producer, records: int, transactions: int) -> Figures:
    """So many transactions of so many records each."""
    commits: list[float] = []
    cpu, began = system.cpu(), time.perf_counter()
    for number in range(transactions):
        producer.begin_transaction()
        for one in range(records):
            producer.produce("transactions", VALUE, partition=(number + one) % 3)
        asked = time.perf_counter()
        producer.commit_transaction(PATIENCE_S)
        commits.append(1000 * (time.perf_counter() - asked))
    return figures(commits, time.perf_counter() - began, system.cpu() - cpu, records)


def loops(system: System, producer: Producer, transactions: int) -> Figures:
    """So many transactions, each with ten records that were read and the offsets behind them."""
    settings = {"bootstrap.servers": system.bootstrap, "group.id": "loop", "log_level": 0}
    consumer = Consumer(
        {**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        | {"isolation.level": "read_committed"}
    )
    consumer.subscribe(["transactions"])
    got = consumer.consume(LOOP, PATIENCE_S)
    commits: list[float] = []
    cpu, began = system.cpu(), time.perf_counter()
    for _ in range(transactions):
        producer.begin_transaction()
        for one in got:
            producer.produce("processed", one.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        asked = time.perf_counter()
        producer.commit_transaction(PATIENCE_S)
        commits.append(1000 * (time.perf_counter() - asked))
        got = consumer.consume(LOOP, PATIENCE_S)
    spent = time.perf_counter() - began
    consumer.close()
    return figures(commits, spent, system.cpu() - cpu, LOOP)


def ids(system: System, many: int) -> Figures:
    """Each of so many transactional ids begins anew, and commits ten records."""
    settings = {"bootstrap.servers": system.bootstrap, "linger.ms": 0, "log_level": 0}
    commits: list[float] = []
    cpu, began = system.cpu(), time.perf_counter()
    for number in range(many):
        producer = Producer({**settings, "transactional.id": f"id-{number}"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for one in range(LOOP):
            producer.produce("transactions", VALUE, partition=one % 3)
        asked = time.perf_counter()
        producer.commit_transaction(PATIENCE_S)
        commits.append(1000 * (time.perf_counter() - asked))
    return figures(commits, time.perf_counter() - began, system.cpu() - cpu, LOOP)


def figures(commits: Sequence[float], spent: float, cpu: float, records: int) -> Figures:
    """Figures of a round, by the milliseconds of its commits and its seconds."""
    many, used = len(commits), max(cpu, 0.01)
    p50, p99 = statistics.median(commits), statistics.quantiles(commits, n=100)[98]
    return Figures(many / spent, p50, p99, many / used, many * records / used)


def medians(rounds: Sequence[Figures]) -> Figures:
    return Figures(*(statistics.median(getattr(one, name) for one in rounds) for name in NAMES))


NAMES = tuple(name for _, name, _ in TOLD)


def table(replicas: int, each: str, found: dict[str, Figures]) -> str:
    """The figures of one kind as Markdown, with ratios of ours to the others."""
    ours = next(iter(found))
    many = f"{replicas} replica{'s' * (replicas > 1)}, {each}"
    lines = [f"| {many} | {' | '.join(TITLES[name] for name in found)} |"]
    lines.append("|---" * (len(found) + 1) + "|")
    for title, name, more in TOLD:
        cells = list[str]()
        for system, figures in found.items():
            value, first = getattr(figures, name), getattr(found[ours], name)
            ratio = first / value if more else value / first
            cells.append(f"{value:,.1f}" + (f" (**{ratio:.2f}**)" if system != ours else ""))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compare(names: Sequence[str], replicas: int, given: argparse.Namespace) -> None:
    """All kinds of rounds at so many brokers and replicas."""
    with ExitStack() as stack:
        systems = [stack.enter_context(SYSTEMS[name][0](replicas)) for name in names]
        producers = dict[str, Producer]()
        for system in systems:
            for topic in ("transactions", "processed"):
                create(system.bootstrap, topic, replicas, partitions=3)
            settings = {"bootstrap.servers": system.bootstrap, "transactional.id": "bench"}
            producers[system.name] = Producer({**settings, "linger.ms": 0, "log_level": 0})
            producers[system.name].init_transactions(PATIENCE_S)
            measured(system, producers[system.name], 1, 20)  # all are warm then
        many = given.transactions
        kinds: dict[str, Callable[[System], Figures]] = {
            f"{size} record{'s' * (size > 1)} each": partial(sent, producers, size, many)
            for size in SIZES
        }
        kinds["read, process, write by tens"] = lambda of: loops(of, producers[of.name], many)
        if given.ids:
            kinds[f"{given.ids} ids"] = lambda of: ids(of, given.ids)
        for each, measure in kinds.items():
            found: dict[str, list[Figures]] = {one.name: [] for one in systems}
            for _ in range(1 if each.endswith(" ids") else given.rounds):
                for one in systems:
                    found[one.name].append(measure(one))
            print(table(replicas, each, {k: medians(v) for k, v in found.items()}), flush=True)
            print(flush=True)


def sent(producers: dict[str, Producer], size: int, many: int, system: System) -> Figures:
    """A round of one producer's transactions."""
    return measured(system, producers[system.name], size, many)


def main() -> None:
    """Measure what can be had, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", default="1,3")
    parser.add_argument("--systems", default="ours,kafka,kfake")
    parser.add_argument("--transactions", type=int, default=200, help="of one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ids", type=int, default=0, help="transactional ids, 0 for none")
    given = parser.parse_args()
    names = given.systems.split(",")
    for name in list(names):
        if shutil.which(SYSTEMS[name][1]) is None:
            print(f"{name} is left out: {SYSTEMS[name][1]} is not on PATH")
            names.remove(name)
    before = os.getloadavg()[0]
    for replicas in map(int, given.replicas.split(",")):
        compare(names, replicas, given)
    print(
        f"{date.today()}, {os.cpu_count()} cores, load {before:.1f} at the start and "
        f"{os.getloadavg()[0]:.1f} at the end"
    )


if __name__ == "__main__":
    main()
