"""The state that a coordinator replays from its log, with the rules that decide requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from refimpl.coordinator.operation import Handler, Outcome, TimerKey


class CoordinatorShard(Protocol):
    """One partition's state of one kind of coordinator: Kafka's CoordinatorShard.

    It changes by `replay` and `apply` alone. Handlers and timers only decide.
    """

    @property
    def topic(self) -> str:
        """The topic whose partition is the log."""
        ...

    @property
    def handlers(self) -> Mapping[type, Handler]:
        """The handler of each type of request."""
        ...

    # Change

    def replay(self, record: Any, offset: int | None = None, at: int | None = None) -> None:
        """Apply a record; `offset` is its offset, or None if it is known to be committed.

        `at` is its offset in any case, for a shard that asks which records are needed.
        """
        ...

    def apply(self, changes: Sequence[Any], offset: int | None) -> None:
        """Apply the changes of an operation, whose last record has this offset."""
        ...

    def commit(self, high_watermark: int) -> None:
        """Take a new high watermark: all records below it are committed."""
        ...

    # Decide

    def loaded(self, now: int) -> Iterable[Outcome]:
        """Start timers afresh, after the log is loaded."""
        ...

    def due(self, now: int, key: TimerKey) -> Outcome:
        """Handle a timer that is due."""
        ...

    # Observe and answer

    def subject(self, about: Any) -> str | None:
        """The key that a request or a timer is about, None if it is not about one."""
        ...

    def value(self, key: str) -> Any:
        """The value of a key as written; None for none."""
        ...

    def refused(self, request: Any, error: str, message: str | None = None) -> Any:
        """The response that refuses a request."""
        ...

    def timed_out(self, request: Any) -> str:
        """The error of a request whose records are not committed in time."""
        ...
