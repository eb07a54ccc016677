"""Watch: judges a run while it is being written."""

from traces.watch.loop import Loop
from traces.watch.watching import BatchOutcome, Watch

__all__ = ["BatchOutcome", "Loop", "Watch"]
