"""The control plane, in processor seconds and operations of the store: embedded, and ZooKeeper.

Without arguments on the embedded store alone; with `--zookeeper HOST:PORT` on real ZooKeeper as
well, with `--zookeeper jars` on a server of our own, whose jars come from Maven.

Topics are made; the broker that leads a third of 1,000 partitions ends; so does the controller, and
its successor reads everything and elects. Controllers and both ends of the sessions with the
embedded store run in this process, which writes nothing to a disk; ZooKeeper writes to its log, and
its own CPU is shown apart where the server is ours. Time that passes until a session is over costs
nothing, and is not counted.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from itertools import count
from time import perf_counter, process_time
from typing import TypeAlias

import psutil
from attrs import frozen
from rich.console import Console
from rich.table import Table
from zookeeper_cluster import HELP, ZooKeeperCluster, server_at

from chaos.sim.synchronous import StoredCluster
from refimpl.controller.state import ControllerConfig
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition

Cluster: TypeAlias = StoredCluster | ZooKeeperCluster
CONFIG = ControllerConfig(leader_imbalance_check_interval_ms=0)
FAILOVER, CREATED, REPLICAS = 1_000, 10_000, 3


def brokers(made: Cluster, partitions: int = 0) -> Cluster:
    """Three brokers, of which the first is controller, and a topic of so many partitions."""
    for broker in (1, 2, 3):
        made.start(broker)
    if partitions:
        create(made, partitions)
    return made


def create(made: Cluster, partitions: int, topics: int = 1) -> None:
    """Make topics, in one request each."""
    for number in range(topics):
        topic = c.CreatableTopic(f"t{number}", partitions // topics, REPLICAS)
        (result,) = made.ask(c.CreateTopicsRequest((topic,))).topics
        assert result.error is None, result


def led_by(made: Cluster, broker: int) -> int:
    """The number of partitions that a broker leads."""
    acting = made.acting
    assert acting is not None
    assert acting.controller is not None
    partitions = acting.controller.metadata.partitions.values()
    return sum(one.decision.leader == broker for one in partitions)


def fail_over(made: Cluster, broker: int) -> None:
    """A broker ends; its session expires, and somebody else leads what it led."""
    assert led_by(made, broker)
    made.end(broker)
    made.wait()
    made.wait()
    assert led_by(made, broker) == 0


@frozen
class Cost:
    """CPU seconds of this process and of the server, seconds that passed, requests to the store,
    and transactions of it."""

    cpu: float
    server: float | None
    seconds: float
    requests: int
    transactions: int


def cost(made: Cluster, work: Callable[[], object], server: psutil.Process | None) -> Cost:
    """CPU-seconds of a piece of work."""
    zxid, requests, there = last_zxid(made), made.operations, server_cpu(server)
    start, clock = process_time(), perf_counter()
    work()
    cpu, passed, requests = (
        process_time() - start,
        perf_counter() - clock,
        made.operations - requests,
    )
    spent = None if there is None else (server_cpu(server) or 0.0) - there
    own = isinstance(made, ZooKeeperCluster)  # asking for the zxid is a transaction there
    return Cost(cpu, spent, passed, requests, last_zxid(made) - zxid - own)


def last_zxid(made: Cluster) -> int:
    """The number of the store's last transaction."""
    return made.store.zxid if isinstance(made, StoredCluster) else made.zxid


def server_cpu(server: psutil.Process | None) -> float | None:
    """CPU seconds of the server so far, if it is ours."""
    if server is None:
        return None
    times = server.cpu_times()
    return times.user + times.system


def elect_all(made: Cluster) -> None:
    """Give every partition another leader, and its preferred one again."""
    partitions = [TopicPartition("t0", number) for number in range(FAILOVER)]
    acting = made.acting
    assert acting is not None
    assert acting.controller is not None
    wanted = tuple(
        c.ReassignablePartition(name, acting.controller.partitions[name].assignment.replicas[::-1])
        for name in partitions
    )
    made.ask(c.AlterPartitionReassignmentsRequest(wanted))
    made.ask(c.ElectLeadersRequest(c.PREFERRED, None))


def measure(title: str, new: Callable[[], Cluster], server: psutil.Process | None = None) -> Table:
    """All rows for one store; `new` makes a cluster of nobody."""
    table = Table(title=title)
    for name in ("what", "CPU s", "server's", "seconds", "requests to the store", "transactions"):
        table.add_column(name, justify="left" if name == "what" else "right")

    def row(what: str, made: Cluster, work: Callable[[Cluster], object]) -> None:
        found = cost(made, lambda: work(made), server)
        there = "" if found.server is None else f"{found.server:.2f}"
        numbers = (f"{found.requests:,}", f"{found.transactions:,}")
        table.add_row(what, f"{found.cpu:.2f}", there, f"{found.seconds:.2f}", *numbers)
        if isinstance(made, ZooKeeperCluster):
            made.close()

    some, many = f"{FAILOVER:,} partitions", f"{CREATED:,} partitions"
    row(f"{many} in 1 topic created", brokers(new()), lambda made: create(made, CREATED))
    row(f"{many} in 100 topics created", brokers(new()), lambda made: create(made, CREATED, 100))
    row(f"{some}: a broker ends", brokers(new(), FAILOVER), lambda made: fail_over(made, 2))
    row(f"{some}: the controller ends", brokers(new(), FAILOVER), lambda made: fail_over(made, 1))
    row(f"{many}: the controller ends", brokers(new(), CREATED), lambda made: fail_over(made, 1))
    row(f"{FAILOVER:,} preferred leaders changed and elected", brokers(new(), FAILOVER), elect_all)
    return table


def main() -> None:
    """Print the tables."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--zookeeper", metavar="HOST:PORT|jars", help=HELP)
    wanted: str | None = parser.parse_args().zookeeper
    console = Console(width=120)
    console.print(measure("Control plane on the embedded store", lambda: StoredCluster(CONFIG)))
    if wanted is None:
        return
    with server_at(wanted) as (hosts, server):
        roots = count(1)

        def new() -> Cluster:
            return ZooKeeperCluster(hosts, f"/bench-{next(roots)}", CONFIG)

        console.print(measure("Control plane on ZooKeeper", new, server))


if __name__ == "__main__":
    main()
