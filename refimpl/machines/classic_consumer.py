"""A consumer in a classic group: what it owns from one generation to the next, and may commit.

Specs: ClassicGroup (`believes`, `owned`), ClassicRejoin (`missed`, `must`). Partitions and
members are whatever the caller has. KIP-62, KIP-429, KIP-792.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from attrs import define

from refimpl.machines import classic_group_errors as errors

Partition: TypeAlias = Hashable

NO_GENERATION = 0


@define
class ClassicConsumer:
    """One consumer. An eager one gives up all that it owns before it joins; a `cooperative` one
    keeps it, and gives up what is not assigned to it any more."""

    cooperative: bool = False
    generation: int = NO_GENERATION
    owned: frozenset[Partition] = frozenset()
    #: What it gave up when it heard of its generation, and the leader still takes for its own
    missed: frozenset[Partition] = frozenset()
    #: As leader: of how many partitions it knew when it assigned them; 0 for who has not assigned
    counted: int = 0

    def prepare_join(self) -> None:
        """A rebalance begins, and the consumer joins it."""
        if not self.cooperative:
            self.owned = frozenset()

    def joined(self, generation: int) -> None:
        """It is told the generation that it is in.

        Who has missed one gives up what it owned in it, because another may own it by now, and
        whatever it commits from here on is of the new generation, and taken. A leader that has
        kept its word has given nothing away in a generation that the consumer was in. (Kafka's
        clients keep it until they hear of their assignment.)
        """
        self.counted = 0
        if generation == self.generation:
            return  # the same answer again: what it gave up it still has to join again for
        late = generation != self.generation + 1
        self.missed = self.owned if late else frozenset()
        self.owned = frozenset() if late else self.owned
        self.generation = generation

    def assigns(self, partitions: int) -> None:
        """It is the leader, and assigns so many partitions."""
        self.counted = partitions

    def must_assign_again(self, partitions: int) -> bool:
        """Whether it leads, and there are others than it has assigned: it joins again, which begins
        a rebalance. Nobody else looks after partitions that are added."""
        return self.counted not in (0, partitions)

    def assigned(self, partitions: Iterable[Partition]) -> bool:
        """It is told what is assigned to it; whether it must join again for what it gives up, or
        gave up before: the leader has left it out for this round."""
        now = frozenset(partitions)
        gives_up = bool((self.owned | self.missed) - now)
        self.owned, self.missed = now, frozenset()
        return gives_up

    def leave(self) -> None:
        """It leaves, and gives up what it owns before."""
        self.owned = frozenset()

    def lost(self) -> None:
        """It is no member any more, or not of the group's generation: others may own it all."""
        self.generation, self.owned, self.missed = NO_GENERATION, frozenset(), frozenset()
        self.counted = 0

    def commit(self, partition: Partition) -> int:
        """The generation in which it commits a partition."""
        if self.generation == NO_GENERATION or partition not in self.owned:
            raise errors.NotOwned(partition, len(self.owned), self.generation)
        return self.generation


def check_assignment(
    assignment: Mapping[Partition, Hashable], owners: Mapping[Partition, Hashable]
) -> None:
    """Refuse an assignment that gives a partition to one member while another owns it.

    It is to be left out for a round: its owner gives it up and joins again, and then it is free
    (KIP-429, KAFKA-14639).
    """
    for partition, member in assignment.items():
        owner = owners.get(partition, member)
        if owner != member:
            raise errors.StillOwned(partition, member, owner)
