"""A map with two views: as written, and as committed."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from attrs import define, field

K = TypeVar("K")
V = TypeVar("V")


class Replaced(NamedTuple, Generic[V]):
    """The value before the record at this offset was replayed; None if there was none."""

    offset: int
    value: V | None


@define(eq=False)
class Versioned(Generic[K, V]):
    """A map with two views: as of all that is written, and as of all that is committed.

    A replaced value is kept until the record that replaced it is committed or truncated. Kafka's
    SnapshotRegistry and TimelineHashMap.
    """

    current: dict[K, V] = field(factory=dict[K, V])
    _replaced: dict[K, deque[Replaced[V]]] = field(factory=dict[K, deque[Replaced[V]]])
    _written: deque[tuple[int, K]] = field(factory=lambda: deque[tuple[int, K]]())

    def get(self, key: K) -> V | None:
        """The value as of all that is written."""
        return self.current.get(key)

    def committed(self, key: K) -> V | None:
        """The value as of all that is committed."""
        replaced = self._replaced.get(key)
        return replaced[0].value if replaced else self.current.get(key)

    def is_pending(self, key: K) -> bool:
        """True if the last change of a key is not committed."""
        return key in self._replaced

    def is_gone(self, key: K) -> bool:
        """True if a key has no value in either view."""
        return key not in self.current and key not in self._replaced

    def committed_keys(self) -> Iterator[K]:
        """The keys that have a value as of all that is committed."""
        if not self._replaced:
            yield from self.current
            return
        for key in (*self.current, *(key for key in self._replaced if key not in self.current)):
            if self.committed(key) is not None:
                yield key

    def put(self, key: K, value: V | None, offset: int | None = None) -> None:
        """Set a value; None removes it. `offset` is that of its record, unless that is known to be
        committed.
        """
        if offset is not None:
            before = Replaced(offset, self.current.get(key))
            self._replaced.setdefault(key, deque()).append(before)
            self._written.append((offset, key))
        if value is None:
            self.current.pop(key, None)
        else:
            self.current[key] = value

    def commit(self, high_watermark: int) -> None:
        """Take a new high watermark: all records below it are committed."""
        written = self._written
        while written and written[0][0] < high_watermark:
            _, key = written.popleft()
            replaced = self._replaced[key]
            replaced.popleft()
            if not replaced:
                del self._replaced[key]

    def revert(self, end: int) -> None:
        """Undo all records from this offset on, which were truncated."""
        written = self._written
        while written and written[-1][0] >= end:
            _, key = written.pop()
            replaced = self._replaced[key]
            self.put(key, replaced.pop().value)
            if not replaced:
                del self._replaced[key]
