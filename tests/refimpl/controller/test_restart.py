"""A controller that goes on where another one ended knows what that one knew."""

from random import Random

from refimpl.controller.controller import Controller
from refimpl.controller.restart import restore
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from tests.refimpl.controller.asking import Asking

T0 = TopicPartition("t", 0)


def test_the_next_controller_goes_on_with_what_was_in_force() -> None:
    before = Asking(brokers=4)
    before.create("t", (1, 2), (2, 3), **{"min.insync.replicas": "2"})
    before.alter_isr("t", 1)
    before.move("t", 3, 2)
    before.register(4, 2)
    before.controller.vanish(3)
    leaving = c.BrokerHeartbeatRequest(2, before.controller.registry.epochs[2], 0, True)
    before.ask(leaving, 2)
    after = Controller(before.config, Random(1))
    restore(after, before.controller.metadata.changes())
    old = before.controller
    assert tuple(after.metadata.changes()) == tuple(old.metadata.changes())
    assert (after.registry.epochs, after.registry.alive, after.registry.leaving) == (
        old.registry.epochs,
        old.registry.alive,
        old.registry.leaving,
    )
    assert (after.processes, after.broker_epochs) == (old.processes, old.broker_epochs)
    assert after.partitions.keys() == old.partitions.keys()
    for name, one in after.partitions.items():
        known = old.partitions[name]
        assert one.registration(name) == known.registration(name)
        assert (one.assignment, one.topic_id) == (known.assignment, known.topic_id)
        assert (one.state.min_isr, one.state.replicas) == (
            known.state.min_isr,
            known.state.replicas,
        )
    assert after.partitions[T0].state.min_isr == 2
    assert (after.state.changes, after.state.outputs) == ([], [])
