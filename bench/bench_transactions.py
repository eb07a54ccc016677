"""Transactions beside real Kafka and kfake: the same client, the same run, as ratios.

    python bench/bench_transactions.py [--replicas 1,3] [--transactions 200]

One producer of librdkafka commits one transaction after the other, of 1, 10 and 100 records of
100 bytes. A round of one system is followed by a round of the next, so what else the machine does
meets all of them; a figure is the median of the rounds. p50 and p99 are of the call
commit_transaction, which also waits for the records. CPU is of all processes of a system. Above 1
a ratio says that ours is better.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date

from attrs import frozen
from confluent_kafka import Producer

sys.path[:0] = [os.fspath(__file__).rpartition("/bench/")[0], os.path.dirname(__file__)]

from bench_beside import SYSTEMS, TITLES, System  # noqa: E402
from bench_broker import create  # noqa: E402

SIZES, VALUE, PATIENCE_S = (1, 10, 100), b"x" * 100, 60.0


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
    spent, used = time.perf_counter() - began, max(system.cpu() - cpu, 0.01)
    return Figures(
        transactions / spent,
        statistics.median(commits),
        statistics.quantiles(commits, n=100)[98],
        transactions / used,
        transactions * records / used,
    )


def medians(rounds: Sequence[Figures]) -> Figures:
    return Figures(*(statistics.median(getattr(one, name) for one in rounds) for name in NAMES))


NAMES = tuple(name for _, name, _ in TOLD)


def table(replicas: int, records: int, found: dict[str, Figures]) -> str:
    """The figures of one size as Markdown, with ratios of ours to the others."""
    ours = next(iter(found))
    many = f"{replicas} replica{'s' * (replicas > 1)}, {records} record{'s' * (records > 1)} each"
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


def compare(names: Sequence[str], replicas: int, transactions: int, rounds: int) -> None:
    """All sizes at so many brokers and replicas."""
    with ExitStack() as stack:
        systems = [stack.enter_context(SYSTEMS[name][0](replicas)) for name in names]
        producers = dict[str, Producer]()
        for system in systems:
            create(system.bootstrap, "transactions", replicas, partitions=3)
            settings = {"bootstrap.servers": system.bootstrap, "transactional.id": "bench"}
            producers[system.name] = Producer({**settings, "linger.ms": 0, "log_level": 0})
            producers[system.name].init_transactions(PATIENCE_S)
            measured(system, producers[system.name], 1, 20)  # all are warm then
        for records in SIZES:
            found: dict[str, list[Figures]] = {one.name: [] for one in systems}
            for _ in range(rounds):
                for one in systems:
                    many = measured(one, producers[one.name], records, transactions)
                    found[one.name].append(many)
            print(table(replicas, records, {k: medians(v) for k, v in found.items()}), flush=True)
            print(flush=True)


def main() -> None:
    """Measure what can be had, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", default="1,3")
    parser.add_argument("--systems", default="ours,kafka,kfake")
    parser.add_argument("--transactions", type=int, default=200, help="of one round")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    names = given.systems.split(",")
    for name in list(names):
        if shutil.which(SYSTEMS[name][1]) is None:
            print(f"{name} is left out: {SYSTEMS[name][1]} is not on PATH")
            names.remove(name)
    before = os.getloadavg()[0]
    for replicas in map(int, given.replicas.split(",")):
        compare(names, replicas, given.transactions, given.rounds)
    print(
        f"{date.today()}, {os.cpu_count()} cores, load {before:.1f} at the start and "
        f"{os.getloadavg()[0]:.1f} at the end"
    )


if __name__ == "__main__":
    main()
