"""Which brokers hold a partition's replicas, and how that changes (KIP-455).

Spec: Reassignment.
"""

from collections.abc import Collection, Sequence

from attrs import frozen


@frozen
class Assignment:
    """A partition's replicas in the order of preference, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def in_progress(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """What it was before the reassignment, in any order."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """What it will be."""
        return tuple(one for one in self.replicas if one not in self.removing)

    def moved_to(self, target: Sequence[int]) -> "Assignment":
        """The beginning of a move; one under way is given up for it.

        What the earlier one added, and this one wants as well, is still being added.
        """
        adding = [one for one in target if one not in self.original]
        removing = [one for one in self.replicas if one not in target]
        return Assignment(
            (*target, *sorted(removing)), tuple(sorted(adding)), tuple(sorted(removing))
        )

    def cancelled(self) -> "Assignment":
        """Nothing moves any more; the order of before is not known."""
        return Assignment(self.original)

    def completed(self, isr: Collection[int]) -> "Assignment | None":
        """The assignment after the move, if with this ISR it is over.

        All that are added are in sync, somebody who stays is, and, if there will be fewer replicas
        than before, all who stay are (KAFKA-15665 and after).
        """
        if not self.in_progress:
            return None
        target, staying = self.target, set(isr) - set(self.removing)
        if not staying or not staying >= set(self.adding):
            return None
        if len(self.adding) < len(self.removing) and not staying >= set(target):
            return None
        return Assignment(target)
