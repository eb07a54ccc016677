"""How long the group's log takes to commit what its coordinator writes.

A member's session begins when its heartbeat comes; the heartbeat is answered when everything that
was written before is committed, and only then the next one is sent. Where the log is slower than a
session, members that live are given up and join again, in Kafka as here.
"""

from collections import deque

from attrs import define, field


@define(eq=False)
class CommitDelay:
    """Whether the log is slow, judged by the oldest write that is not committed.

    `uncommitted` are the ends of writes and when they were made, in ms.
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
        """Whether, within a session, something has waited to be committed for half a session: the
        other half is more than a healed network and a member take."""
        if self.uncommitted and now - self.uncommitted[0][1] > self.session_ms // 2:
            self.slow_until = now + self.session_ms
        return now <= self.slow_until
