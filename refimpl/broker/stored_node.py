"""A node whose cluster keeps its metadata in a store: it registers there, and may be controller.

Its host carries requests to the store, and delivers the messages of the store's session.
"""

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from refimpl.broker.node import Node
from refimpl.controller.controller import BALANCE
from refimpl.controller.stored_controller import StoredController
from refimpl.messages import broker as m
from refimpl.messages import controller as c
from refimpl.metadata import contract as store

FOR_THE_CONTROLLER = (
    c.AlterPartitionRequest,
    c.BrokerHeartbeatRequest,
    c.Envelope,
    c.AllocateProducerIdsRequest,
)
"""Requests to the controller; another broker answers an Envelope with NOT_CONTROLLER."""

OF_THE_STORE = (
    store.Connected,
    store.Suspended,
    store.Expired,
    store.StoreResponse,
    store.WatchEvent,
)


@define(eq=False)
class StoredNode(Node):
    """A broker with an ephemeral znode; its broker epoch is that znode's czxid.

    If a session ends and the process lives, the broker registers again, with another epoch: its
    actions under the old epoch do not count.
    """

    candidate: StoredController = field(kw_only=True)

    def start(self, now: int, partitions: Sequence[m.TopicPartition]) -> Sequence[Any]:
        """Open the logs of these partitions; the broker registers once the store's session
        opens.
        """
        for name in partitions:
            self._open(name)
        self.context.controller = -1
        return self._outputs()

    def handle(self, now: int, message: Any) -> Sequence[Any]:
        """Take an input from the network, the clock or the store."""
        if isinstance(message, OF_THE_STORE) or self._is_for_the_controller(message):
            return self._candidate(now, message)
        return Node.handle(self, now, message)

    def _is_for_the_controller(self, message: Any) -> bool:
        if isinstance(message, m.Timer):
            return message.name == BALANCE
        return isinstance(message, m.Request) and isinstance(message.body, FOR_THE_CONTROLLER)

    def _candidate(self, now: int, message: Any) -> Sequence[Any]:
        candidate, context = self.candidate, self.context
        candidate.controller_id = context.controller  # by a metadata update, since the last check
        outputs = candidate.handle(now, message)
        self._hear(candidate.election.newest_epoch)
        if candidate.broker_epoch != context.broker_epoch:
            first, context.broker_epoch = context.broker_epoch < 0, candidate.broker_epoch
            self._take_broker_epoch()
            if first:
                self._begin(now)
        context.controller = candidate.controller_id
        return [*outputs, *self._outputs()]

    def _hear(self, controller_epoch: int) -> None:
        """Refuse predecessors of the controller that the store names, or that this broker is.

        A late update of theirs would send heartbeats to a broker that does not answer them.
        """
        self.fence.hear(max(controller_epoch, self.fence.controller_epoch))
