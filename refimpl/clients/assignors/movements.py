"""Which partitions an assignment has moved between which members, so that none are swapped."""

from attrs import define, field

from refimpl.clients.assignors.model import Partition
from refimpl.java_hash import HashSet, partition_hash

Pair = tuple[str, str]
"""From a member, to a member."""


@define(eq=False)
class Movements:
    """The moves so far: the first owner and the last of each partition that has moved."""

    pair: dict[Partition, Pair] = field(factory=dict[Partition, Pair])
    partitions: dict[tuple[str, Pair], HashSet[Partition]] = field(
        factory=dict[tuple[str, Pair], HashSet[Partition]]
    )

    def moved(self, partition: Partition, was: str, to: str) -> None:
        """Note a move; one back to where the partition came from takes the note away."""
        first = self._forget(partition)
        if first is None:
            self._note(partition, (was, to))
        elif first != to:
            self._note(partition, (first, to))

    def better_choice(self, partition: Partition, was: str, to: str) -> Partition:
        """A partition of the topic that has gone from `to` to the owner, if any; else this one."""
        first, _ = self.pair.get(partition, (was, to))
        back = self.partitions.get((partition[0], (to, first)))
        return next(iter(back)) if back else partition

    def _note(self, partition: Partition, pair: Pair) -> None:
        self.pair[partition] = pair
        moved = self.partitions.setdefault((partition[0], pair), HashSet(partition_hash))
        moved.add(partition)

    def _forget(self, partition: Partition) -> str | None:
        """Forget a partition's moves; the answer is its first owner."""
        pair = self.pair.pop(partition, None)
        if pair is None:
            return None
        moved = self.partitions[partition[0], pair]
        moved.remove(partition)
        if not moved:
            del self.partitions[partition[0], pair]
        return pair[0]
