"""The restart of a controller from the changes that an earlier one decided."""

from collections.abc import Iterable

from refimpl.controller.controller import Controller
from refimpl.controller.state import Controlled
from refimpl.machines.assignment import Assignment
from refimpl.machines.controller import PartitionState
from refimpl.messages.cluster import BrokerRegistration, Change, PartitionRegistration


def restore(controller: Controller, changes: Iterable[Change]) -> None:
    """Apply all changes, in their order.

    Brokers that were alive count as alive until they register anew, or their session expires.
    """
    state = controller.state
    for change in changes:
        state.metadata.apply(change)
    for broker in state.metadata.brokers.values():
        _restore_broker(controller, broker)
    for one in state.metadata.partitions.values():
        _restore_partition(controller, one)
    controller.decisions.configured()


def _restore_broker(controller: Controller, broker: BrokerRegistration) -> None:
    registry, number = controller.registry, broker.broker_id
    registry.epochs[number] = broker.broker_epoch
    if not broker.fenced:
        registry.alive |= {number}
    if broker.in_controlled_shutdown:
        registry.leaving |= {number}
    controller.processes[number] = broker.incarnation_id
    controller.broker_epochs = max(controller.broker_epochs, broker.broker_epoch)


def _restore_partition(controller: Controller, one: PartitionRegistration) -> None:
    decision = one.decision
    partition = PartitionState(
        decision.leader_epoch,
        decision.leader,
        decision.isr,
        frozenset(one.replicas),
        controller.registry,
        decision.partition_epoch,
        one.elr,
        last_known=one.last_known_leader,
    )
    assignment = Assignment(one.replicas, one.adding, one.removing)
    controller.state.partitions[one.partition] = Controlled(one.topic_id, assignment, partition)
