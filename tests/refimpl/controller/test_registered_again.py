"""A broker comes back to a controller on a store: what it may have lost meanwhile (KIP-966)."""

import pytest

from chaos.sim.synchronous import CLIENT, StoredCluster
from refimpl.controller import znodes
from refimpl.controller.controller import Controller
from refimpl.controller.state import ControllerConfig
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import BrokerRegistration
from refimpl.metadata import contract
from refimpl.metadata.embedded import Connect, Frame, SessionConnection

T0 = TopicPartition("t", 0)


def without_broker_2() -> tuple[StoredCluster, Controller, int]:
    """Broker 1 is controller, and 2, gone, is eligible to lead t-0; the epoch that it had."""
    made = StoredCluster(ControllerConfig(leader_imbalance_check_interval_ms=0))
    for broker in (1, 2):
        made.start(broker)
    min_isr = (("min.insync.replicas", "2"),)
    topic = c.CreatableTopic("t", assignments=((0, (1, 2)),), configs=min_isr)
    made.ask(c.CreateTopicsRequest((topic,)))
    assert made.acting is not None
    acting = made.acting.controller
    assert acting is not None
    epoch = acting.registry.epochs[2]
    made.end(2)
    made.wait()
    made.wait()
    state = acting.partitions[T0].state
    assert (state.isr, state.elr) == ({1}, {2})
    return made, acting, epoch


def registers(made: StoredCluster, incarnation: int, previous: int) -> None:
    """A process of broker 2 makes its znode."""
    data = znodes.broker(BrokerRegistration(2, -1, incarnation), previous)
    connection = SessionConnection(2 * CLIENT + 9, 1)
    write = contract.Create(f"{znodes.BROKER_IDS}/2", data, ephemeral=True)
    for number, body in enumerate((Connect(0, 600_000), contract.StoreRequest(1, write)), 1):
        for frame in made.store.handle(made.now, Frame(connection, number, body)):
            if frame.connection != connection:
                made._to_client(frame)  # pyright: ignore[reportPrivateUsage]
    made.settle()


@pytest.mark.parametrize(
    ("incarnation", "names", "elr"),
    [(1, None, {2}), (1, 0, {2}), (2, 0, {2}), (2, None, set[int]()), (2, -1, set[int]())],
)
def test_who_is_the_same_process_or_was_stopped_in_good_order_has_lost_nothing(
    incarnation: int, names: int | None, elr: set[int]
) -> None:
    """A mark of an earlier process than the last one is as good as none."""
    made, acting, epoch = without_broker_2()
    registers(made, incarnation, -1 if names is None else epoch + names)
    assert acting.registry.epochs[2] > epoch
    assert 2 in acting.registry.alive
    assert acting.partitions[T0].state.elr == elr
