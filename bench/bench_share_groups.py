"""Share groups on our broker beside real Kafka: the same members, the same records, as ratios.

    python bench/bench_share_groups.py [--systems ours,kafka] [--records 20000] [--replicas 1]

Members are librdkafka's. Each poll accepts the records of the poll before, and the last one is
committed; a row is done when every record was given and accepted. An idle group has 16 members and
16 partitions without records: a member asks again once it is answered, which is after 500 ms. CPU
is of the processes of a system without the members. A round of one system is followed by a round of
the next, and a figure is the median of the rounds.

The last rows are of our broker alone, without clients: the memory of 2,000 locks in each of 1,000
share partitions, and the load of a state log of so many records (`--log`).
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import date
from importlib import import_module
from threading import Event
from typing import Any

import psutil
from attrs import frozen
from confluent_kafka import Producer

sys.path[:0] = [os.fspath(__file__).rpartition("/bench/")[0], os.path.dirname(__file__)]

from bench_beside import SYSTEMS, TITLES, System  # noqa: E402
from bench_broker import create  # noqa: E402

from refimpl.machines.share_partition import Reading, SharePartition  # noqa: E402
from refimpl.messages.share import (  # noqa: E402
    InitializeShareStateRequest,
    ShareKey,
    StoredBatch,
    WriteShareStateRequest,
)
from refimpl.records.schema import Uuid  # noqa: E402
from refimpl.shares.config import ShareConfig  # noqa: E402
from refimpl.shares.shard import ShareShard  # noqa: E402

SIZE, PATIENCE_S, IDLE_S = 100, 300.0, 10.0
SHAPES = ((1, 1), (1, 16), (20, 1), (20, 16))
LOCKS, SHARE_PARTITIONS = 2000, 1000


@frozen
class Figures:
    """One round, or the medians of several."""

    records_per_s: float
    records_per_cpu_s: float


def earliest(bootstrap: str, group: str) -> None:
    """Let a group begin with the first record."""
    admin: Any = import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entry = admin.ConfigEntry(
        *("share.auto.offset.reset", "earliest"), incremental_operation=admin.AlterConfigOpType.SET
    )
    resource = admin.ConfigResource("group", group, incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def member(bootstrap: str, group: str, topic: str) -> Any:
    """A member that has subscribed."""
    confluent: Any = import_module("confluent_kafka")
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    consumer = confluent.ShareConsumer(settings)
    consumer.subscribe([topic])
    return consumer


def fill(bootstrap: str, topic: str, partitions: int, records: int) -> None:
    """So many records, evenly over all partitions."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0}
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(topic, b"x" * SIZE, partition=number % partitions)
    if producer.flush(PATIENCE_S):
        raise SystemExit(f"{topic}: the records were not written within {PATIENCE_S:.0f} s")


def accepted(system: System, topic: str, members: int, records: int) -> Figures:
    """A new group is given all records of a topic, and accepts them."""
    group = f"group-{time.monotonic_ns()}"
    earliest(system.bootstrap, group)
    consumers = [member(system.bootstrap, group, topic) for _ in range(members)]
    given, done, first = [0] * members, Event(), [0.0] * members
    ends = time.monotonic() + PATIENCE_S

    def work(number: int) -> None:
        consumer = consumers[number]
        while not done.is_set() and time.monotonic() < ends:
            found = sum(one.error() is None for one in consumer.poll(timeout=0.2) or ())
            if found and not first[number]:
                first[number] = time.perf_counter()
            given[number] += found
            if sum(given) >= records:
                done.set()
        consumer.commit_sync(timeout=30.0)

    cpu = system.cpu()
    with ThreadPoolExecutor(members) as pool:
        list(pool.map(work, range(members)))
    ended, used = time.perf_counter(), system.cpu() - cpu
    for consumer in consumers:
        consumer.close()
    if sum(given) < records:
        raise SystemExit(f"{system.name}: {sum(given)} of {records} records within {PATIENCE_S} s")
    spent = ended - min(one for one in first if one)  # joining takes a heartbeat, and no record
    return Figures(records / spent, records / max(used, 0.01))


def idle(system: System, topic: str, members: int) -> float:
    """The CPU-milliseconds that an idle group takes in a second."""
    group = f"idle-{time.monotonic_ns()}"
    consumers = [member(system.bootstrap, group, topic) for _ in range(members)]

    def wait(seconds: float) -> None:
        with ThreadPoolExecutor(members) as pool:
            for one in consumers:
                pool.submit(one.poll, timeout=seconds)

    wait(12.0)  # all have joined by then
    cpu, began = system.cpu(), time.perf_counter()
    wait(IDLE_S)
    used, spent = system.cpu() - cpu, time.perf_counter() - began
    for consumer in consumers:
        consumer.close()
    return 1000 * used / spent


def locks() -> str:
    """The memory of all locks of many share partitions."""
    process, shares = psutil.Process(), list[SharePartition]()
    before, began = process.memory_info().rss, time.process_time()
    for _ in range(SHARE_PARTITIONS):
        share = SharePartition(1, LOCKS, 5)
        share.load(0, ())
        share.acquire("member", Reading(range(LOCKS), LOCKS), LOCKS, 30_000)
        shares.append(share)
    spent = time.process_time() - began
    bytes_each = (process.memory_info().rss - before) / (LOCKS * SHARE_PARTITIONS)
    return (
        f"{LOCKS:,} locks in {SHARE_PARTITIONS:,} share partitions: {bytes_each:.0f} bytes a lock, "
        f"{LOCKS * SHARE_PARTITIONS / spent / 1e6:.2f} million given per CPU-s"
    )


def load_of(records: int, keys: int = 100) -> str:
    """The load of a state log: updates of share partitions, with a snapshot after each 500."""
    shard, log = ShareShard(ShareConfig()), list[Any]()

    def carry_out(body: Any) -> None:
        outcome = shard.handlers[type(body)](1, 1, body)
        log.extend(outcome.changes)
        shard.apply(outcome.changes, len(log) - 1)
        shard.commit(len(log))

    topic = Uuid(b"topic".ljust(16, b"-"))
    all_of = [ShareKey("group", topic, number) for number in range(keys)]
    for key in all_of:
        carry_out(InitializeShareStateRequest(key, 1, 0))
    for number in range(records - keys):
        start = 10 * (number // keys)
        batches = StoredBatch(start, start + 4, 2, 1), StoredBatch(start + 7, start + 9, 0, 1)
        carry_out(WriteShareStateRequest(all_of[number % keys], 1, 0, start, 5, batches))
    loaded, began = ShareShard(ShareConfig()), time.process_time()
    for offset, record in enumerate(log):
        loaded.replay(record, None, offset)
    spent = time.process_time() - began
    if loaded.states.current != shard.states.current:
        raise SystemExit("a load does not come to what was written")
    needed = len(log) - shard.needed_from()
    return (
        f"load of {len(log):,} records of state, decoded: {spent:.2f} CPU-s, "
        f"{len(log) / spent / 1e3:.0f} k records per CPU-s; {needed:,} are left once it is pruned"
    )


def medians(rounds: Sequence[Figures]) -> Figures:
    return Figures(
        statistics.median(one.records_per_s for one in rounds),
        statistics.median(one.records_per_cpu_s for one in rounds),
    )


def line(title: str, values: Sequence[float], *, more: bool) -> str:
    """A row of Markdown, with the ratio of ours to the others."""
    cells = list[str]()
    for number, value in enumerate(values):
        ratio = values[0] / value if more else value / values[0]
        cells.append(f"{value:,.0f}" + (f" (**{ratio:.2f}**)" if number else ""))
    return f"| {title} | {' | '.join(cells)} |"


def compare(names: Sequence[str], replicas: int, given: argparse.Namespace) -> None:
    """All rows at so many brokers and replicas."""
    with ExitStack() as stack:
        systems = [stack.enter_context(SYSTEMS[name][0](replicas)) for name in names]
        many = f"{replicas} replica{'s' * (replicas > 1)}"
        print(f"| {many} | {' | '.join(TITLES[one.name] for one in systems)} |")
        print("|---" * (len(systems) + 1) + "|", flush=True)
        for one in systems:
            for partitions in sorted({partitions for _, partitions in SHAPES}):
                create(one.bootstrap, f"queue-{partitions}", replicas, partitions=partitions)
                fill(one.bootstrap, f"queue-{partitions}", partitions, given.records)
            create(one.bootstrap, "empty", replicas, partitions=16)
            accepted(one, "queue-1", 1, given.records)  # all are warm then
        for members, partitions in SHAPES:
            found: dict[str, list[Figures]] = {one.name: [] for one in systems}
            for _ in range(given.rounds):
                for one in systems:
                    figures = accepted(one, f"queue-{partitions}", members, given.records)
                    found[one.name].append(figures)
            rows = [medians(found[one.name]) for one in systems]
            shape = f"{members} member{'s' * (members > 1)}, {partitions} partition"
            shape += "s" * (partitions > 1)
            print(line(f"{shape}: records/s", [one.records_per_s for one in rows], more=True))
            per_cpu = [one.records_per_cpu_s for one in rows]
            print(line(f"{shape}: records per CPU-s", per_cpu, more=True), flush=True)
        quiet = [idle(one, "empty", 16) for one in systems]
        print(line("idle, 16 members: CPU-ms a second", quiet, more=False), flush=True)
    print(flush=True)


def main() -> None:
    """Measure what can be had, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", default="1")
    parser.add_argument("--systems", default="ours,kafka")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=int, default=100_000, help="records of the state log")
    given = parser.parse_args()
    names = [one for one in given.systems.split(",") if one]
    for name in list(names):
        if shutil.which(SYSTEMS[name][1]) is None:
            print(f"{name} is left out: {SYSTEMS[name][1]} is not on PATH")
            names.remove(name)
    before = os.getloadavg()[0]
    for replicas in map(int, given.replicas.split(",")) if names else ():
        compare(names, replicas, given)
    print(locks())
    print(load_of(given.log))
    print(
        f"{date.today()}, {os.cpu_count()} cores, load {before:.1f} at the start and "
        f"{os.getloadavg()[0]:.1f} at the end"
    )


if __name__ == "__main__":
    main()
