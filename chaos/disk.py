"""A disk with a page cache: what was not flushed may be gone after a crash."""

from attrs import define

from refimpl.machines.replica import Replica


@define(eq=False)
class Disk:
    """What one replica would find again: its records up to `flushed`, and the checkpoint of its
    high watermark."""

    flushed: int = 0
    checkpoint: int = 0

    def flush(self, replica: Replica) -> None:
        """Write the page cache out."""
        self.flushed = replica.log.end

    def write_checkpoint(self, replica: Replica) -> None:
        """Write the high watermark to replication-offset-checkpoint."""
        self.checkpoint = replica.high_watermark

    def truncated(self, end: int) -> None:
        """What was cut off is not there to be found again."""
        self.flushed = min(self.flushed, end)

    def kept(self, replica: Replica, part: float) -> int:
        """How much of the log is left, if this part of what was not flushed survived."""
        return self.flushed + int(part * (replica.log.end - self.flushed))

    def restored(self, replica: Replica, kept: int) -> int:
        """The high watermark that a restart finds."""
        return min(self.checkpoint, replica.high_watermark, kept)
