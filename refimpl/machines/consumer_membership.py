"""A client's side of the consumer group protocol (KIP-848): its epoch, and its partitions.

Spec: ConsumerGroup. A client takes a new assignment in two steps: it gives up the partitions that
are not its own any more, then it takes the new ones. Only then it reports the partitions.
"""

from attrs import define, frozen

from refimpl.errors import InvalidRequest
from refimpl.machines.consumer_group import Owned, Partition
from refimpl.machines.consumer_reconciliation import Reported


@frozen
class NothingToDo(InvalidRequest):
    """The client owns `owned`, and was assigned `told`."""

    says = "owned {owned}, told {told}"
    owned: frozenset[Partition]
    told: frozenset[Partition]


@define
class ConsumerMembership:
    """A member's own view. `epoch` is that of its last answer; 0 if it has to join."""

    epoch: int = 0
    told: frozenset[Partition] = frozenset()
    owned: frozenset[Partition] = frozenset()

    @property
    def reported(self) -> Reported:
        """The owned partitions for a heartbeat; None until the last assignment is taken
        completely.
        """
        return self.owned if self.owned == self.told else None

    def answered(self, epoch: int, assignment: Owned | None) -> None:
        """Take a heartbeat's answer; None if the assignment is unchanged."""
        self.epoch = epoch
        if assignment is not None:
            self.told = frozenset(assignment)

    def fenced(self) -> None:
        """Give everything up: it is not a member any more, or has left."""
        self.epoch, self.told, self.owned = 0, frozenset(), frozenset()

    def revoke(self) -> None:
        """Give up the partitions that are not assigned to it any more."""
        if self.owned <= self.told:
            raise NothingToDo(self.owned, self.told)
        self.owned &= self.told

    def take(self) -> None:
        """Take the new partitions, once nothing is left to give up."""
        if self.owned == self.told or not self.owned <= self.told:
            raise NothingToDo(self.owned, self.told)
        self.owned = self.told
