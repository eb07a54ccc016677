"""Sticky and cooperative-sticky: balanced first, then moving little (KIP-54, KIP-429).

As a fresh instance of Kafka's assignors answers: what an instance remembers of earlier rebalances,
its highest generation, is not part of the input.
"""

from collections.abc import Sequence

from refimpl.clients.assignors.claims import Claims, resolve
from refimpl.clients.assignors.different_subscriptions import DifferentSubscriptions
from refimpl.clients.assignors.equal_subscriptions import (
    EqualSubscriptions,
    have_equal_subscriptions,
)
from refimpl.clients.assignors.model import (
    Assignment,
    Member,
    Partition,
    Racks,
    in_hash_order,
    subscribed_topics,
)
from refimpl.clients.assignors.rack_info import RackInfo


def sticky(members: Sequence[Member], racks: Racks) -> Assignment:
    """Everybody's part at once: members give everything up before they join (eager)."""
    assignment, _ = _assign(members, racks)
    return assignment


def cooperative_sticky(members: Sequence[Member], racks: Racks) -> Assignment:
    """As sticky, without the partitions that another member still has to give up.

    Who gives up joins once more, and the next assignment hands them over.
    """
    assignment, transferred = _assign(members, racks)
    if transferred is None:
        transferred = _transferred(members, assignment)
    for partition, member in transferred.items():
        assignment[member].remove(partition)
    return assignment


def _assign(
    members: Sequence[Member], racks: Racks
) -> tuple[Assignment, dict[Partition, str] | None]:
    """The assignment and, where it is known, what changes its owner."""
    members = in_hash_order(members)
    topics = subscribed_topics(members, racks)
    rack_info, claims = RackInfo.of(members, racks, topics), _claims(members, racks, topics)
    if have_equal_subscriptions(members):
        equal = EqualSubscriptions(topics, racks, rack_info, claims)
        equal.assign()
        return equal.assignment, equal.transferred
    different = DifferentSubscriptions(members, topics, racks, rack_info, claims)
    different.assign()
    return different.assignment, None


def _claims(members: Sequence[Member], racks: Racks, topics: Sequence[str]) -> Claims:
    return resolve(members, {topic: racks[topic] for topic in topics})


def _transferred(members: Sequence[Member], assignment: Assignment) -> dict[Partition, str]:
    """The partitions that are new for their owner while another member claims them."""
    claimed = {
        partition
        for member in members
        for partition in set(member.owned).difference(assignment[member.id])
    }
    return {
        partition: member.id
        for member in members
        for partition in assignment[member.id]
        if partition not in member.owned and partition in claimed
    }
