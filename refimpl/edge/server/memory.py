"""The memory that all connections of a process may take together."""

from collections import deque
from collections.abc import Callable

from attrs import define, field


@define(eq=False)
class Budget:
    """Memory for frames, in bytes, until they are answered: given in the order of asking.

    What is given is enough for the whole frame, so that nobody waits for the rest of it while
    others wait for him.
    """

    limit: int
    taken: int = field(default=0, init=False)
    _waiting: deque[tuple[int, Callable[[], None]]] = field(
        factory=lambda: deque[tuple[int, Callable[[], None]]](), init=False
    )

    def take(self, count: int, then: Callable[[], None]) -> bool:
        """Take so much if it is there; else `then` is called once it has been taken."""
        if not self._waiting and self.taken + count <= self.limit:
            self.taken += count
            return True
        self._waiting.append((count, then))
        return False

    def give_back(self, count: int) -> None:
        """So much is free again."""
        self.taken -= count
        while self._waiting and self.taken + self._waiting[0][0] <= self.limit:
            wanted, then = self._waiting.popleft()
            self.taken += wanted
            then()

    def forget(self, then: Callable[[], None]) -> None:
        """End the wait that has this callback."""
        self._waiting = deque(one for one in self._waiting if one[1] != then)
        self.give_back(0)
