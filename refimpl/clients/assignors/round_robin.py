"""Round robin: all partitions in a row, dealt to the members in a circle."""

from collections.abc import Sequence
from itertools import count

from refimpl.clients.assignors.model import (
    Assignment,
    Member,
    Racks,
    sorted_members,
    subscribed_topics,
)
from refimpl.java_hash import string_order


def round_robin(members: Sequence[Member], racks: Racks) -> Assignment:
    """Each partition to the next member that reads its topic, going round from the last one."""
    assignment: Assignment = {member.id: [] for member in members}
    circle = sorted_members(members)
    position = 0
    for topic in sorted(subscribed_topics(members, racks), key=string_order):
        for partition in range(len(racks[topic])):
            position = next(
                at for at in count(position) if topic in circle[at % len(circle)].topics
            )
            assignment[circle[position % len(circle)].id].append((topic, partition))
            position += 1
    return assignment
