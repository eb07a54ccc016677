"""A client's side of the consumer group protocol (KIP-848): its epoch, and what it owns.

Spec: ConsumerGroup. What it is told to own it comes to own in two steps: first it gives up what is
not its any more, then it takes what is new. Only then it says what it owns.
"""

from attrs import define, frozen

from refimpl.errors import InvalidRequest
from refimpl.machines.consumer_group import Owned, Partition
from refimpl.machines.consumer_reconciliation import Reported


@frozen
class NothingToDo(InvalidRequest):
    """The client owns `owned`, and was told to own `told`."""

    says = "owned {owned}, told {told}"
    owned: frozenset[Partition]
    told: frozenset[Partition]


@define
class Membership:
    """A member as it knows itself. `epoch` is what it was told last; 0: it has to join."""

    epoch: int = 0
    told: frozenset[Partition] = frozenset()
    owned: frozenset[Partition] = frozenset()

    @property
    def reported(self) -> Reported:
        """What a heartbeat says of what it owns: nothing, until all is done that it was told."""
        return self.owned if self.owned == self.told else None

    def answered(self, epoch: int, assignment: Owned | None) -> None:
        """A heartbeat's answer; None: what it shall own is as before."""
        self.epoch = epoch
        if assignment is not None:
            self.told = frozenset(assignment)

    def fenced(self) -> None:
        """It is not a member any more, or has left: everything is given up."""
        self.epoch, self.told, self.owned = 0, frozenset(), frozenset()

    def revoke(self) -> None:
        """Give up what is not its any more."""
        if self.owned <= self.told:
            raise NothingToDo(self.owned, self.told)
        self.owned &= self.told

    def take(self) -> None:
        """Take what is new, when nothing is left to give up."""
        if self.owned == self.told or not self.owned <= self.told:
            raise NothingToDo(self.owned, self.told)
        self.owned = self.told
