"""Timeouts for other threads and processes: as good as none, even on slow machines."""

import time
from collections.abc import Callable

PATIENCE_S = 180


def until(condition: Callable[[], object]) -> None:
    """Return when it is so, by what another process does."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not come to be"
        time.sleep(0.02)
