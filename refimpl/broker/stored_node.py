"""A node whose cluster keeps its metadata in a store: it registers there, and may be controller.

Its host carries requests to the store, and hands over whatever the store's session delivers.
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
"""Requests to whoever is controller; who is not answers an Envelope with NOT_CONTROLLER."""

OF_THE_STORE = (
    store.Connected,
    store.Suspended,
    store.Expired,
    store.Response,
    store.WatchEvent,
)


@define(eq=False)
class StoredNode(Node):
    """A broker with an ephemeral znode; its broker epoch is that znode's czxid.

    When a session ends and the process does not, the broker registers again, and has another
    epoch: nobody counts what it did under the old one.
    """

    candidate: StoredController = field(kw_only=True)

    def start(self, now: int, partitions: Sequence[m.TopicPartition]) -> Sequence[Any]:
        """Open the logs of these partitions; the store's session opens, and then we register."""
        for name in partitions:
            self._open(name)
        self.context.controller = -1
        return self._outputs()

    def handle(self, now: int, message: Any) -> Sequence[Any]:
        """Take an input, of the network, the clock or the store."""
        if isinstance(message, OF_THE_STORE) or self._is_for_the_controller(message):
            return self._candidate(now, message)
        return Node.handle(self, now, message)

    def _is_for_the_controller(self, message: Any) -> bool:
        if isinstance(message, m.Timer):
            return message.name == BALANCE
        return isinstance(message, m.Request) and isinstance(message.body, FOR_THE_CONTROLLER)

    def _candidate(self, now: int, message: Any) -> Sequence[Any]:
        candidate, context = self.candidate, self.context
        candidate.controller_id = context.controller  # by news, since somebody looked
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
        """Obey no predecessor of the controller that the store names, or that this broker is: its
        late news would send heartbeats back to where nobody answers them."""
        self.fence.hear(max(controller_epoch, self.fence.controller_epoch))
