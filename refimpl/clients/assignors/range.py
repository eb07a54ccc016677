"""Range: of each topic a contiguous range to each member, and racks where they match (KIP-881).

Topics with the same members and the same number of partitions are co-partitioned: partition p of
each goes to the same member.
"""

from collections.abc import Callable, Sequence

from attrs import define, field

from refimpl.clients.assignors.model import (
    Assignment,
    Member,
    Partition,
    Racks,
    in_hash_order,
    rack_aware,
    sorted_members,
    subscribed_topics,
)
from refimpl.java_hash import string_order


@define(eq=False)
class TopicState:
    """The unassigned partitions of one topic, and the number that each member may still get."""

    topic: str
    racks: Sequence[frozenset[str]]
    members: list[Member]
    unassigned: list[int] = field(init=False)
    assigned: dict[str, int] = field(init=False)
    with_extra: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.unassigned = list(range(len(self.racks)))
        self.assigned = dict.fromkeys((member.id for member in self.members), 0)
        self.with_extra = len(self.racks) % len(self.members)

    @property
    def rack_aware(self) -> bool:
        """True if racks decide anything in this topic."""
        return rack_aware(self.members, self.racks)

    def room(self, member: Member) -> int:
        """The number of partitions that the member may still get."""
        quota = len(self.racks) // len(self.members) + (self.with_extra > 0)
        return max(0, quota - self.assigned[member.id])

    def matches(self, member: Member, partition: int) -> bool:
        """True if the member is in the rack of a replica, or in none."""
        return not member.rack or member.rack in self.racks[partition]

    def assign(self, member: Member, partitions: list[int], to: list[Partition]) -> None:
        """Give partitions to a member."""
        to += [(self.topic, partition) for partition in partitions]
        self.assigned[member.id] += len(partitions)
        if self.assigned[member.id] > len(self.racks) // len(self.members):
            self.with_extra -= 1
        self.unassigned = [one for one in self.unassigned if one not in partitions]


def range_(members: Sequence[Member], racks: Racks) -> Assignment:
    """Of each topic n/m partitions to each of m members, one more to the first n % m."""
    assignment: Assignment = {member.id: [] for member in members}
    states = _states(members, racks)
    racks_decide = any(state.rack_aware for state in states)
    if racks_decide:
        _assign_within_racks(states, assignment)
    for state in states:
        _assign_ranges(state, lambda member, partition: True, assignment)
    if racks_decide:
        for partitions in assignment.values():
            partitions.sort(key=lambda one: (string_order(one[0]), one[1]))
    return assignment


def _states(members: Sequence[Member], racks: Racks) -> list[TopicState]:
    ordered = in_hash_order(members)
    return [
        TopicState(topic, racks[topic], sorted_members(m for m in ordered if topic in m.topics))
        for topic in subscribed_topics(members, racks)
    ]


def _assign_ranges(
    state: TopicState, may_assign: Callable[[Member, int], bool], assignment: Assignment
) -> None:
    for member in state.members:
        fitting = [one for one in state.unassigned if may_assign(member, one)]
        if chosen := fitting[: state.room(member)]:
            state.assign(member, chosen, assignment[member.id])


def _assign_within_racks(states: list[TopicState], assignment: Assignment) -> None:
    together: dict[tuple[tuple[str, ...], int], list[TopicState]] = {}
    for state in states:
        key = tuple(member.id for member in state.members), len(state.racks)
        together.setdefault(key, []).append(state)
    for group in together.values():
        if len(group) > 1:
            _assign_co_partitioned(group, assignment)
        elif group[0].rack_aware:
            _assign_ranges(group[0], group[0].matches, assignment)


def _assign_co_partitioned(states: list[TopicState], assignment: Assignment) -> None:
    """Partition p of all topics to the first member that has room and its racks in all of them."""
    remaining = list(states[0].members)
    for partition in range(len(states[0].racks)):
        member = next((m for m in remaining if _fits(states, m, partition)), None)
        if member is None:
            continue
        for state in states:
            state.assign(member, [partition], assignment[member.id])
        if not any(state.room(member) for state in states):
            remaining.remove(member)


def _fits(states: list[TopicState], member: Member, partition: int) -> bool:
    return all(state.matches(member, partition) and state.room(member) for state in states)
