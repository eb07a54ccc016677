"""Which members are in the racks of which partitions, for the sticky assignors (KIP-881)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from attrs import define

from refimpl.clients.assignors.model import Member, Partition, Racks, rack_aware


@define(eq=False)
class RackInfo:
    """The racks of members and partitions; no member has one where racks decide nothing."""

    racks: Racks
    members: dict[str, str]

    @classmethod
    def of(cls, members: Iterable[Member], racks: Racks, topics: Iterable[str]) -> Self:
        """The racks of a group; those of all its topics together say whether they decide."""
        members = list(members)
        partitions = [one for topic in topics for one in racks[topic]]
        used = rack_aware(members, partitions)
        return cls(racks, {m.id: m.rack for m in members if m.rack} if used else {})

    @property
    def used(self) -> bool:
        """True if racks decide anything."""
        return bool(self.members)

    def mismatch(self, member: str, partition: Partition) -> bool:
        """True if the member is in a rack that has no replica of the partition."""
        rack = self.members.get(member)
        return rack is not None and rack not in self._of(partition)

    def scarcest_first(self, partitions: list[Partition]) -> list[Partition]:
        """Partitions by the number of members in their racks, else as they were."""
        if not self.used:
            return partitions
        members = Counter(self.members.values())
        return sorted(partitions, key=lambda one: sum(members[rack] for rack in self._of(one)))

    def next_in_rack(self, partition: Partition, members: Sequence[str], first: int) -> int:
        """The position of the next member in a rack of the partition, going round; or -1."""
        racks = self._of(partition)
        for step in range(len(members)):
            at = (first + step) % len(members)
            if self.members.get(members[at]) in racks:
                return at
        return -1

    def _of(self, partition: Partition) -> frozenset[str]:
        topic, index = partition
        return self.racks[topic][index]
