"""The replicas of a partition and their reassignment (KIP-455).

Spec: Reassignment.
"""

from collections.abc import Collection, Sequence

from attrs import frozen


@frozen
class Assignment:
    """A partition's replicas in the order of preference, and those that are being added or
    removed.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def in_progress(self) -> bool:
        """True while a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas before the reassignment, in any order."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(one for one in self.replicas if one not in self.removing)

    def moved_to(self, target: Sequence[int]) -> "Assignment":
        """The assignment at the beginning of a move, which replaces one under way.

        Replicas that the earlier move was adding, and that are in this target too, are still being
        added.
        """
        adding = [one for one in target if one not in self.original]
        removing = [one for one in self.replicas if one not in target]
        return Assignment(
            (*target, *sorted(removing)), tuple(sorted(adding)), tuple(sorted(removing))
        )

    def cancelled(self) -> "Assignment":
        """The original replicas, without a move. Their original order is not known."""
        return Assignment(self.original)

    def completed(self, isr: Collection[int]) -> "Assignment | None":
        """The assignment after the move, or None while it is not complete with this ISR.

        The move is complete once all added replicas and at least one that stays are in sync. If
        there will be fewer replicas than before, all that stay must be in sync (KAFKA-15665 and
        after).
        """
        if not self.in_progress:
            return None
        target, staying = self.target, set(isr) - set(self.removing)
        if not staying or not staying >= set(self.adding):
            return None
        if len(self.adding) < len(self.removing) and not staying >= set(target):
            return None
        return Assignment(target)
