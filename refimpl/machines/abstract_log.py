"""What a partition is to those who use it: one log that only grows, of which everybody sees a
prefix.

Spec: AbsLog.
"""

from collections.abc import Sequence

from attrs import define, field

from refimpl.errors import BeyondTheLog, LossNotAllowed


@define
class AbstractLog:
    """The log and what each reader has in front of it: the oracle that every run is held
    against."""

    loss_allowed: bool = False
    committed: list[object] = field(factory=list[object])
    views: dict[int, tuple[object, ...]] = field(factory=dict[int, tuple[object, ...]])

    def commit(self, record: object) -> None:
        """Put a record behind all others."""
        self.committed.append(record)

    def observe(self, reader: int, length: int) -> None:
        """Show a reader a prefix; any one, for the replica that answers may lag."""
        if not 0 <= length <= len(self.committed):
            raise BeyondTheLog(length, len(self.committed))
        self.views[reader] = tuple(self.committed[:length])

    def lose(self, length: int) -> None:
        """Lose the end of the log, where that is allowed, and move back who saw it."""
        if not self.loss_allowed:
            raise LossNotAllowed(length)
        if not 0 <= length < len(self.committed):
            raise BeyondTheLog(length, len(self.committed))
        del self.committed[length:]
        self.views = {reader: view[:length] for reader, view in self.views.items()}

    def agrees(self, start: int, records: Sequence[object]) -> bool:
        """Whether what somebody saw from `start` on is what the log holds there."""
        return self.committed[start : start + len(records)] == list(records)
