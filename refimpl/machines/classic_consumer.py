"""A consumer in a classic group: the partitions that it owns from generation to generation.

Specs: ClassicGroup (`believes`, `owned`), ClassicRejoin (`missed`, `must`). Partitions and members
are the caller's values. KIP-62, KIP-429, KIP-792.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from attrs import define

from refimpl.machines import classic_group_errors as errors

Partition: TypeAlias = Hashable

NO_GENERATION = 0
NOT_ASSIGNED = -1


@define
class ClassicConsumer:
    """One consumer. An eager one gives up all its partitions before it joins. A `cooperative` one
    keeps them, and gives up those that are not assigned to it any more.
    """

    cooperative: bool = False
    generation: int = NO_GENERATION
    owned: frozenset[Partition] = frozenset()
    #: Partitions that it gave up at a new generation, and that the leader still counts as its own
    missed: frozenset[Partition] = frozenset()
    #: As leader: the number of partitions that it knew when it assigned them, which may be none
    counted: int = NOT_ASSIGNED

    def prepare_join(self) -> None:
        """Prepare to join a rebalance: an eager consumer gives up its partitions."""
        if not self.cooperative:
            self.owned = frozenset()

    def joined(self, generation: int) -> None:
        """Take the generation of a JoinGroup response.

        A consumer that missed a generation gives up the partitions of its last one, because another
        member may own them by now. Its commits from here on are of the new generation, and
        accepted. A correct leader has given nothing away in a generation that the consumer was in.
        (Kafka's clients keep the partitions until they receive their assignment.)
        """
        self.counted = NOT_ASSIGNED
        if generation == self.generation:
            return  # the same answer again: it still has to join again
        late = generation != self.generation + 1
        self.missed = self.owned if late else frozenset()
        self.owned = frozenset() if late else self.owned
        self.generation = generation

    def assigns(self, partitions: int) -> None:
        """Record, as leader, the number of partitions that it assigns."""
        self.counted = partitions

    def must_assign_again(self, partitions: int) -> bool:
        """True if it leads, and the number of partitions has changed since it assigned them.

        It then joins again, which begins a rebalance. Nobody else watches for added partitions.
        """
        return self.counted not in (NOT_ASSIGNED, partitions)

    def assigned(self, partitions: Iterable[Partition]) -> bool:
        """Take an assignment; True if the consumer must join again.

        It must if it gives a partition up now, or gave one up before: the leader has left that
        partition out for this round.
        """
        now = frozenset(partitions)
        gives_up = bool((self.owned | self.missed) - now)
        self.owned, self.missed = now, frozenset()
        return gives_up

    def leave(self) -> None:
        """Give up all partitions before leaving the group."""
        self.owned = frozenset()

    def lost(self) -> None:
        """Give up membership and all partitions: others may own them.

        The consumer is no longer a member, or not of the group's generation.
        """
        self.generation, self.owned, self.missed = NO_GENERATION, frozenset(), frozenset()
        self.counted = NOT_ASSIGNED

    def commit(self, partition: Partition) -> int:
        """The generation in which it commits a partition."""
        if self.generation == NO_GENERATION or partition not in self.owned:
            raise errors.NotOwned(partition, len(self.owned), self.generation)
        return self.generation


def check_assignment(
    assignment: Mapping[Partition, Hashable], owners: Mapping[Partition, Hashable]
) -> None:
    """Refuse an assignment that gives a partition to one member while another owns it.

    The leader leaves such a partition out for a round: its owner gives it up and joins again, and
    then it is free (KIP-429, KAFKA-14639).
    """
    for partition, member in assignment.items():
        owner = owners.get(partition, member)
        if owner != member:
            raise errors.StillOwned(partition, member, owner)
