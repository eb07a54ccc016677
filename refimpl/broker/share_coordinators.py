"""The share coordinators of one broker, on its partitions of `__share_group_state`."""

from collections.abc import Callable
from typing import Any

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.coordinators import Coordinators, PartitionCoordinatorLog, partition_of
from refimpl.broker.metadata import Metadata
from refimpl.broker.partition import Partition
from refimpl.messages import share as m
from refimpl.messages.broker import Request
from refimpl.records.coordinators import SHARE_TOPIC
from refimpl.records.schema import Uuid
from refimpl.shares.config import ShareConfig
from refimpl.shares.shard import ShareCoordinator, ShareShard, coordinator_of, name_of

NEGATIVE_PARTITION = "The partition id cannot be a negative number."


@define(eq=False)
class ShareCoordinators:
    """Every share partition whose state this broker keeps."""

    context: Context
    metadata: Metadata
    config: ShareConfig
    #: Called after an append
    appended: Callable[[int, Partition], None]
    #: Sets a timer of the node that lets the coordinators' timers fire
    arm: Callable[[int], None]
    coordinators: Coordinators[ShareShard] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without share partitions."""
        self.coordinators = Coordinators(
            self.context, SHARE_TOPIC, "ShareCoordinator", self._new, self.appended, self.arm
        )

    def _new(self, number: int, log: PartitionCoordinatorLog) -> ShareCoordinator:
        return coordinator_of(number, log, self.config, self._exists)

    def _exists(self, topic_id: Uuid, partition: int) -> bool:
        name = self.metadata.topic_names.get(topic_id)
        return name is not None and partition in self.metadata.topics[name].partitions

    def topics_deleted(self, now: int) -> None:
        """Remove the state of topics that are gone."""
        self.coordinators.operate(now, ShareShard.topics_deleted)

    def handle(self, now: int, request: Request) -> None:
        """Let the coordinator of a share partition answer, if it is here."""
        body: Any = request.body
        if body.key.partition < 0:
            refused = m.refused(body, "INVALID_REQUEST", NEGATIVE_PARTITION)
            self.context.respond(request, refused)
            return
        number = partition_of(self.metadata, SHARE_TOPIC, name_of(body.key))
        if number in self.coordinators.by_partition:
            self.coordinators.handle(now, number, request)
        else:
            self.context.respond(request, m.refused(body, "NOT_COORDINATOR"))
