"""The control plane on the embedded store, in processor seconds and operations of the store.

    python bench/bench_controller.py

Topics are made; the broker that leads a third of 1,000 partitions ends; so does the controller, and
its successor reads everything and elects. Controller, store and both ends of its sessions run in
this process, and nothing is written to a disk. Time that passes until a session is over costs
nothing, and is not counted.
"""

from collections.abc import Callable
from time import process_time

from rich.console import Console
from rich.table import Table

from chaos.sim.synchronous import StoredCluster
from refimpl.broker import control_messages as c
from refimpl.broker.controller_state import ControllerConfig
from refimpl.broker.messages import TopicPartition

CONFIG = ControllerConfig(leader_imbalance_check_interval_ms=0)
FAILOVER, CREATED, REPLICAS = 1_000, 10_000, 3


def brokers() -> StoredCluster:
    """Three brokers, of which the first is controller."""
    made = StoredCluster(CONFIG)
    for broker in (1, 2, 3):
        made.start(broker)
    return made


def cluster(partitions: int) -> StoredCluster:
    """Brokers with a topic of so many partitions."""
    made = brokers()
    create(made, partitions)
    return made


def create(made: StoredCluster, partitions: int, topics: int = 1) -> None:
    """Make topics, in one request each."""
    for number in range(topics):
        topic = c.CreatableTopic(f"t{number}", partitions // topics, REPLICAS)
        (result,) = made.ask(c.CreateTopicsRequest((topic,))).topics
        assert result.error is None, result


def led_by(made: StoredCluster, broker: int) -> int:
    """How many partitions a broker leads."""
    acting = made.acting
    assert acting is not None
    assert acting.controller is not None
    partitions = acting.controller.metadata.partitions.values()
    return sum(one.decision.leader == broker for one in partitions)


def fail_over(made: StoredCluster, broker: int) -> None:
    """A broker ends; its session expires, and somebody else leads what it led."""
    assert led_by(made, broker)
    made.end(broker)
    made.wait()
    made.wait()
    assert led_by(made, broker) == 0


def cost(made: StoredCluster, work: Callable[[], object]) -> tuple[float, int, int]:
    """CPU seconds, requests to the store, and transactions of it."""
    requests, zxid = made.operations, made.store.zxid
    start = process_time()
    work()
    return process_time() - start, made.operations - requests, made.store.zxid - zxid


def elect_all(made: StoredCluster) -> None:
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


def main() -> None:
    """Print the table."""
    table = Table(title="Control plane on the embedded store")
    for title in ("what", "CPU s", "requests to the store", "transactions"):
        table.add_column(title, justify="left" if title == "what" else "right")

    def row(what: str, made: StoredCluster, work: Callable[[], object]) -> None:
        cpu, requests, transactions = cost(made, work)
        table.add_row(what, f"{cpu:.2f}", f"{requests:,}", f"{transactions:,}")

    one, ten, other = brokers(), brokers(), cluster(FAILOVER)
    row(f"{CREATED:,} partitions in 1 topic created", one, lambda: create(one, CREATED))
    row(f"{CREATED:,} partitions in 100 topics created", ten, lambda: create(ten, CREATED, 100))
    row(f"{FAILOVER:,} partitions: a broker ends", other, lambda: fail_over(other, 2))
    taken = cluster(FAILOVER)
    row(f"{FAILOVER:,} partitions: the controller ends", taken, lambda: fail_over(taken, 1))
    large = cluster(CREATED)
    row(f"{CREATED:,} partitions: the controller ends", large, lambda: fail_over(large, 1))
    moved = cluster(FAILOVER)
    row(f"{FAILOVER:,} preferred leaders changed and elected", moved, lambda: elect_all(moved))
    Console().print(table)


if __name__ == "__main__":
    main()
