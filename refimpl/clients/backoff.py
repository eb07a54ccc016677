"""Exponential backoff with jitter (KIP-580)."""

from collections.abc import Callable

from attrs import frozen

Chance = Callable[[], float]
"""A number from 0 to below 1, drawn by whoever runs the client."""


@frozen
class Backoff:
    """The wait before another attempt: it doubles from `first_ms` up to `most_ms`.

    A fifth more or less is left to chance, so that clients do not come back all at once.
    """

    first_ms: int
    most_ms: int
    chance: Chance
    jitter: float = 0.2

    def wait_ms(self, failures: int) -> int:
        """The wait after so many attempts have failed, the first one being 0."""
        first = min(self.first_ms, self.most_ms)
        if self.most_ms <= self.first_ms:
            return first
        longest = self.most_ms / max(first, 1)
        wait = first * min(2.0 ** min(failures, 62), longest)
        factor = 1 - self.jitter + 2 * self.jitter * self.chance()
        return min(int(wait * factor), self.most_ms)
