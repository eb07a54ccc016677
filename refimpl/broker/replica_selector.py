"""The choice of a replica for a consumer to read from: one of its own rack (KIP-392)."""

from collections.abc import Mapping

from refimpl.broker.partition import Partition
from refimpl.messages.cluster import BrokerRegistration

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only `replica.selector.class` that is supported."""


def preferred_read_replica(
    partition: Partition, rack_id: str, offset: int, brokers: Mapping[int, BrokerRegistration]
) -> int | None:
    """A follower in the consumer's rack, as RackAwareReplicaSelector chooses; None for the leader.

    The follower is in sync and has the offset. The one with the highest log end offset is chosen;
    among equal ones the one that was caught up last. A leader in that rack comes before all of
    them.
    """
    replica = partition.replica
    if _rack(brokers, replica.id) == rack_id:
        return None
    eligible = [
        follower
        for follower, end in replica.ends.items()
        if follower in replica.isr
        and _rack(brokers, follower) == rack_id
        and partition.log_starts.get(follower, 0) <= offset <= end
    ]
    caught_up = partition.caught_up
    return max(
        eligible, key=lambda one: (replica.ends[one], caught_up.get(one, 0), -one), default=None
    )


def _rack(brokers: Mapping[int, BrokerRegistration], broker: int) -> str | None:
    """The rack of a broker that is alive; None otherwise."""
    known = brokers.get(broker)
    return None if known is None or known.fenced else known.rack
