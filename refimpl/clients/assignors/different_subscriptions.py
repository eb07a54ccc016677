"""The sticky assignment where members read different topics: kept, completed, then balanced."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from attrs import define, field

from refimpl.clients.assignors.claims import Claims, stale_claims
from refimpl.clients.assignors.model import Assignment, Member, Partition, Racks
from refimpl.clients.assignors.movements import Movements
from refimpl.clients.assignors.rack_info import RackInfo
from refimpl.java_hash import string_order


@define(eq=False)
class ByLoad:
    """Members in the order of how much they have, then of their ids."""

    assignment: Assignment
    entries: list[tuple[int, bytes, str]] = field(factory=list[tuple[int, bytes, str]])

    def add(self, member: str) -> None:
        """Put a member where its load now says."""
        insort(self.entries, self._entry(member))

    def remove(self, member: str) -> None:
        """Take a member out; its load must be what it was when it was put in."""
        del self.entries[bisect_left(self.entries, self._entry(member))]

    def _entry(self, member: str) -> tuple[int, bytes, str]:
        return len(self.assignment[member]), string_order(member), member


@define(eq=False)
class DifferentSubscriptions:
    """The state of one assignment: who has what, and who could have it."""

    members: Sequence[Member]
    topics: Sequence[str]
    racks: Racks
    rack_info: RackInfo
    claims: Claims
    assignment: Assignment = field(init=False)
    owner: dict[Partition, str] = field(factory=dict[Partition, str])
    readers: dict[str, list[str]] = field(init=False)
    previous: dict[Partition, str] = field(init=False)
    by_load: ByLoad = field(init=False)
    movements: Movements = field(factory=Movements)
    revoked: bool = False

    def __attrs_post_init__(self) -> None:
        self.readers = {
            topic: [member.id for member in self.members if topic in member.topics]
            for topic in self.topics
        }
        self.previous = stale_claims(self.members, self.racks)
        self.assignment = {member.id: self._kept(member) for member in self.members}
        for member, partitions in self.assignment.items():
            self.owner.update(dict.fromkeys(partitions, member))
        self.by_load = ByLoad(self.assignment)
        for member in self.assignment:
            self.by_load.add(member)

    def assign(self) -> None:
        """Complete the assignment and move partitions while that makes it more balanced."""
        everything = self._partitions_by_readers()
        unassigned = [partition for partition in everything if partition not in self.owner]
        initial = self.by_load.entries[-1][0] == 0
        self._give_out(unassigned)
        fixed = self._set_aside_fixed()
        before, owner_before = _copy(self.assignment), dict(self.owner)
        if not self.revoked:
            self._rebalance(filter(self._is_movable, unassigned))
        moved = self._rebalance(filter(self._is_movable, everything))
        if not initial and moved and _imbalance(self.assignment) >= _imbalance(before):
            self.assignment, self.owner = before, owner_before
        self.assignment.update(fixed)

    def _kept(self, member: Member) -> list[Partition]:
        kept: list[Partition] = []
        for partition in self.claims.owned[member.id]:
            if partition[0] not in self.readers:
                continue
            if partition[0] in member.topics and not self.rack_info.mismatch(member.id, partition):
                kept.append(partition)
            else:
                self.revoked = True
        return kept

    def _partitions_by_readers(self) -> list[Partition]:
        """All partitions, those that the fewest members could have first."""
        topics = sorted(self.topics, key=lambda one: (len(self.readers[one]), string_order(one)))
        return [(topic, index) for topic in topics for index in range(len(self.racks[topic]))]

    def _is_movable(self, partition: Partition) -> bool:
        return len(self.readers[partition[0]]) > 1

    # Completing

    def _give_out(self, unassigned: list[Partition]) -> None:
        """Each partition to the least loaded of its readers, if possible in its racks."""
        if self.rack_info.used:
            unassigned = [
                partition
                for partition in unassigned
                if not self._give(partition, lambda m, p=partition: self._in_rack(m, p))
            ]
        for partition in unassigned:
            self._give(partition, lambda member: True)

    def _in_rack(self, member: str, partition: Partition) -> bool:
        return not self.rack_info.mismatch(member, partition)

    def _give(self, partition: Partition, fits: Callable[[str], bool]) -> bool:
        readers = self.readers[partition[0]]
        for _, _, member in self.by_load.entries:
            if member in readers and fits(member):
                self.by_load.remove(member)
                self.assignment[member].append(partition)
                self.by_load.add(member)
                self.owner[partition] = member
                return True
        return False

    def _set_aside_fixed(self) -> Assignment:
        """Take out the members that can neither give nor get anything, with what they have."""
        fixed = [member.id for member in self.members if self._is_fixed(member)]
        for member in fixed:
            self.by_load.remove(member)
        return {member: self.assignment.pop(member) for member in fixed}

    def _is_fixed(self, member: Member) -> bool:
        has = self.assignment[member.id]
        could_have = sum(len(self.racks[topic]) for topic in self.topics if topic in member.topics)
        return len(has) >= could_have and not any(map(self._is_movable, has))

    # Balancing

    def _rebalance(self, movable: Iterable[Partition]) -> bool:
        """Move partitions until no move makes the assignment more balanced; whether one moved."""
        partitions, moved = list(movable), False
        while self._rebalance_once(partitions):
            moved = True
        return moved

    def _rebalance_once(self, partitions: list[Partition]) -> bool:
        moved = False
        for partition in partitions:
            if self._balanced():
                break
            load = self._load(self.owner[partition])
            before = self.previous.get(partition)
            if before is not None and load > self._load(before) + 1:
                self._move(partition, before)
                moved = True
            elif any(load > self._load(other) + 1 for other in self.readers[partition[0]]):
                self._move(partition, self._least_loaded_reader(partition[0]))
                moved = True
        return moved

    def _load(self, member: str) -> int:
        return len(self.assignment[member])

    def _balanced(self) -> bool:
        """True if no member could take a partition from one that has at least two more."""
        entries = self.by_load.entries
        if entries[0][0] >= entries[-1][0] - 1:
            return True
        most = {
            topic: max(self._load_of_owner((topic, at)) for at in range(len(self.racks[topic])))
            for topic in self.topics
        }
        return not any(
            load + 1 < most[topic]
            for load, _, member in entries
            for topic in self.topics
            if member in self.readers[topic]
        )

    def _load_of_owner(self, partition: Partition) -> int:
        return len(self.assignment.get(self.owner[partition], ()))

    def _least_loaded_reader(self, topic: str) -> str:
        readers = self.readers[topic]
        return next(member for _, _, member in self.by_load.entries if member in readers)

    def _move(self, partition: Partition, to: str) -> None:
        """Move the partition, or another of its topic whose movement takes an earlier one back."""
        partition = self.movements.better_choice(partition, self.owner[partition], to)
        was = self.owner[partition]
        self.by_load.remove(was)
        if to != was:
            self.by_load.remove(to)
        self.movements.moved(partition, was, to)
        self.assignment[was].remove(partition)
        self.assignment[to].append(partition)
        self.owner[partition] = to
        self.by_load.add(was)
        if to != was:
            self.by_load.add(to)


def _copy(assignment: Assignment) -> Assignment:
    return {member: list(partitions) for member, partitions in assignment.items()}


def _imbalance(assignment: Assignment) -> int:
    """The sum of the differences of all pairs of members: 0 where all have equally many."""
    sizes = map(len, assignment.values())
    return sum(abs(one - other) for one, other in combinations(sizes, 2))
