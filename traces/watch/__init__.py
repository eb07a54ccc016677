"""Watch: judges a run while it is being written."""

from traces.watch.loop import Loop
from traces.watch.watching import Step, Watch

__all__ = ["Loop", "Step", "Watch"]
