"""The consumer's embedded protocol: what members and leader of a classic group tell each other.

The metadata of a JoinGroup is a subscription, the assignment of a SyncGroup a list of partitions;
the coordinator keeps both as bytes.
"""

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from refimpl.clients.assignors.model import Assignment as Assigned
from refimpl.clients.assignors.model import Member, Partition, Racks
from refimpl.clients.assignors.range import range_
from refimpl.clients.assignors.round_robin import round_robin
from refimpl.clients.assignors.sticky import cooperative_sticky, sticky
from refimpl.clients.assignors.user_data import (
    cooperative_user_data,
    partitions_of,
    read_cooperative,
    read_sticky,
    sticky_user_data,
)
from refimpl.java_hash import string_order
from refimpl.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedTopic,
    Subscription,
    read_versioned,
    write_versioned,
)

PROTOCOL_TYPE = "consumer"
LATEST_VERSION = 3


@frozen
class Assignor:
    """An assignment strategy, by the name that members agree on.

    `cooperative` says that members keep what they own while they join. `user_data` makes what a
    member sends beside its subscription, from what it owned last and in which generation.
    """

    name: str
    assign: Callable[[Sequence[Member], Racks], Assigned]
    cooperative: bool = False
    user_data: Callable[[Sequence[Partition], int], bytes | None] = lambda owned, generation: None

    def subscription(
        self,
        topics: Iterable[str],
        owned: Sequence[Partition] = (),
        generation: int = -1,
        rack: str | None = None,
        version: int = LATEST_VERSION,
    ) -> bytes:
        """The metadata of a member's JoinGroup; an eager member owns nothing while it joins."""
        user_data = self.user_data(owned, generation)
        kept = sorted(owned, key=_order) if self.cooperative else ()
        return write_versioned(
            Subscription(
                topics=tuple(sorted(topics, key=string_order)),
                user_data=user_data,
                owned_partitions=_runs(kept),
                generation_id=generation,
                rack_id=rack,
            ),
            version,
        )

    def member(self, id: str, metadata: bytes, instance_id: str | None = None) -> Member:
        """A member as the leader reads it in the answer to its JoinGroup.

        Raises CorruptBatch for metadata that is no subscription.
        """
        found, _ = read_versioned(Subscription, metadata)
        owned, owned_in = self._owned(found)
        return Member(
            id=id,
            topics=found.topics,
            instance_id=instance_id,
            rack=found.rack_id or None,
            owned=owned,
            owned_generation=owned_in,
            generation=found.generation_id,
        )

    def _owned(self, found: Subscription) -> tuple[tuple[Partition, ...], int | None]:
        if not self.cooperative:
            return read_sticky(found.user_data) if self is STICKY else ((), None)
        owned = partitions_of(found.owned_partitions)
        if found.generation_id >= 0:
            return owned, found.generation_id
        return owned, read_cooperative(found.user_data)


RANGE = Assignor("range", range_)
ROUND_ROBIN = Assignor("roundrobin", round_robin)
STICKY = Assignor("sticky", sticky, user_data=sticky_user_data)
COOPERATIVE_STICKY = Assignor(
    "cooperative-sticky",
    cooperative_sticky,
    cooperative=True,
    user_data=lambda owned, generation: cooperative_user_data(generation),
)
ASSIGNORS = {one.name: one for one in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
"""The assignors of Kafka's consumer, by the names of `partition.assignment.strategy`."""


def write_assignment(partitions: Iterable[Partition], version: int = LATEST_VERSION) -> bytes:
    """A member's part, as the leader's SyncGroup carries it."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    assigned = tuple(OwnedTopic(topic, tuple(numbers)) for topic, numbers in topics.items())
    return write_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def read_assignment(data: bytes) -> tuple[Partition, ...]:
    """A member's part, as it reads it; no bytes stand for none. Raises CorruptBatch."""
    if not data:
        return ()
    found, _ = read_versioned(ConsumerProtocolAssignment, data)
    return partitions_of(found.assigned_partitions)


def _order(partition: Partition) -> tuple[bytes, int]:
    return string_order(partition[0]), partition[1]


def _runs(partitions: Sequence[Partition]) -> tuple[OwnedTopic, ...]:
    """Sorted partitions by topic."""
    topics = dict.fromkeys(topic for topic, _ in partitions)
    return tuple(
        OwnedTopic(name, tuple(number for topic, number in partitions if topic == name))
        for name in topics
    )
