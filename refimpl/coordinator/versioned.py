"""A map that knows what it was before what is not committed yet."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from attrs import define, field

K = TypeVar("K")
V = TypeVar("V")


class Replaced(NamedTuple, Generic[V]):
    """A value before the record at this offset was replayed; None where there was none."""

    offset: int
    value: V | None


@define(eq=False)
class Versioned(Generic[K, V]):
    """A map with two views: as of all that is written, and as of all that is committed.

    What was replaced by a record is kept until the record is committed, or cut off. Kafka's
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

    def is_gone(self, key: K) -> bool:
        """Whether a key has no value in either view."""
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
        """Set a value, or with None remove it: by the record at this offset, if it is not known to
        be committed."""
        if offset is not None:
            before = Replaced(offset, self.current.get(key))
            self._replaced.setdefault(key, deque()).append(before)
            self._written.append((offset, key))
        if value is None:
            self.current.pop(key, None)
        else:
            self.current[key] = value

    def commit(self, high_watermark: int) -> None:
        """Everything below the high watermark is committed."""
        written = self._written
        while written and written[0][0] < high_watermark:
            _, key = written.popleft()
            replaced = self._replaced[key]
            replaced.popleft()
            if not replaced:
                del self._replaced[key]

    def revert(self, end: int) -> None:
        """Everything from this offset on is cut off."""
        written = self._written
        while written and written[-1][0] >= end:
            _, key = written.pop()
            replaced = self._replaced[key]
            self.put(key, replaced.pop().value)
            if not replaced:
                del self._replaced[key]
