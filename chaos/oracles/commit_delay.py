"""The time that the group's log takes to commit its coordinator's writes.

A member's session begins when its heartbeat arrives. The answer waits until everything written
before is committed, and the member sends the next heartbeat only after it. If the log is slower
than a session, live members are removed and join again, in Kafka as here.
"""

from collections import deque

from attrs import define, field


@define(eq=False)
class CommitDelay:
    """Detects a slow log, by the oldest uncommitted write.

    `uncommitted` has the end offsets of writes and their times in ms.
    """

    session_ms: int
    uncommitted: deque[tuple[int, int]] = field(factory=lambda: deque[tuple[int, int]]())
    slow_until: int = -1

    def begins(self, now: int, end: int, high_watermark: int) -> None:
        """A leader begins with a log that ends here, and is committed up to there."""
        self.uncommitted.clear()
        if high_watermark < end:
            self.appended(now, end)

    def appended(self, now: int, end: int) -> None:
        """The coordinator has written up to here."""
        self.uncommitted.append((end, now))

    def advanced(self, now: int, high_watermark: int) -> None:
        """Everything below is committed."""
        self.is_slow(now)
        while self.uncommitted and self.uncommitted[0][0] <= high_watermark:
            self.uncommitted.popleft()

    def is_slow(self, now: int) -> bool:
        """True if a write has waited half a session for its commit, within the last session.

        The other half is more than a healed network and a member take.
        """
        if self.uncommitted and now - self.uncommitted[0][1] > self.session_ms // 2:
            self.slow_until = now + self.session_ms
        return now <= self.slow_until
