"""A broker's clock, which tests may advance, and its timers."""

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush

from attrs import define, field

_DAY_MS = 24 * 60 * 60 * 1000


@define(eq=False)
class Clock:
    """Milliseconds since 1970, which never go back: the time of the start and what passed since."""

    advanced_ms: int = 0
    _wall: int = field(factory=time.time_ns, init=False)
    _started: int = field(factory=time.monotonic_ns, init=False)

    def now(self) -> int:
        """The time."""
        return (self._wall + time.monotonic_ns() - self._started) // 1_000_000 + self.advanced_ms


@define(eq=False)
class Timers:
    """The timers of one process: one callback of the event loop, for the first that is due."""

    clock: Clock
    fire: Callable[[str], None]
    _heap: list[tuple[int, int, str]] = field(factory=list[tuple[int, int, str]], init=False)
    _count: int = field(default=0, init=False)
    _armed: asyncio.TimerHandle | None = field(default=None, init=False)

    def set(self, at_ms: int, name: str) -> None:
        """Fire this one at that time."""
        self._count += 1
        heappush(self._heap, (at_ms, self._count, name))
        if self._heap[0][1] == self._count:
            self.arm()

    def arm(self) -> None:
        """Look at the clock again: it may have been advanced."""
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        if self._heap:
            wait_ms = min(max(0, self._heap[0][0] - self.clock.now()), _DAY_MS)
            loop = asyncio.get_running_loop()
            self._armed = loop.call_later(wait_ms / 1000, self._run)

    def clear(self) -> None:
        """The process is over."""
        self._heap.clear()
        self.arm()

    def _run(self) -> None:
        self._armed = None
        now = self.clock.now()
        while self._heap and self._heap[0][0] <= now:
            self.fire(heappop(self._heap)[2])
        if self._armed is None:
            self.arm()
