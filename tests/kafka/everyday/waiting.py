"""Waiting for a condition; polled, for brokers and clients tell nobody when it is there."""

import time
from collections.abc import Callable

SECONDS = 120


def until(what: str, condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until the condition is true; what it is about is said where it never is."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.1)
