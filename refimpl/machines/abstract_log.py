"""A partition as its users see it: one log that only grows, of which each reader sees a prefix.

Spec: AbsLog.
"""

from collections.abc import Sequence

from attrs import define, field

from refimpl.errors import BeyondTheLog, LossNotAllowed


@define
class AbstractLog:
    """The log and the prefix that each reader has seen: the oracle for every run."""

    loss_allowed: bool = False
    committed: list[object] = field(factory=list[object])
    views: dict[int, tuple[object, ...]] = field(factory=dict[int, tuple[object, ...]])

    def commit(self, record: object) -> None:
        """Append a record."""
        self.committed.append(record)

    def observe(self, reader: int, length: int) -> None:
        """Show a reader a prefix. It may be shorter than the last one, because the replica may
        lag.
        """
        if not 0 <= length <= len(self.committed):
            raise BeyondTheLog(length, len(self.committed))
        self.views[reader] = tuple(self.committed[:length])

    def lose(self, length: int) -> None:
        """Lose the end of the log, where loss is allowed, and shorten the views of readers that saw
        it.
        """
        if not self.loss_allowed:
            raise LossNotAllowed(length)
        if not 0 <= length < len(self.committed):
            raise BeyondTheLog(length, len(self.committed))
        del self.committed[length:]
        self.views = {reader: view[:length] for reader, view in self.views.items()}

    def agrees(self, start: int, records: Sequence[object]) -> bool:
        """True if the log holds these records from offset `start` on."""
        return self.committed[start : start + len(records)] == list(records)
