"""Java's hash codes and the order of `java.util.HashMap`, on which Kafka's results depend.

Kafka's assignors, its choice of a group's protocol and of a new leader iterate over HashMaps, so
an answer equal to Kafka's needs the same order. Measured against Java in tests/kafka.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

K = TypeVar("K")

DEFAULT_CAPACITY = 16
TREEIFY_THRESHOLD = 8
MIN_TREEIFY_CAPACITY = 64


@lru_cache(maxsize=4096)  # the same groups, members and topics come again and again
def string_hash(text: str) -> int:
    """`String.hashCode`: over the units of UTF-16, in 32 bits with a sign."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result - (result >> 31 << 32)


def uuid_hash(uuid: bytes) -> int:
    """`Uuid.hashCode` of 16 bytes, in 32 bits without a sign."""
    mixed = int.from_bytes(uuid[:8]) ^ int.from_bytes(uuid[8:])
    return (mixed >> 32 ^ mixed) & 0xFFFFFFFF


def partition_hash(partition: tuple[str, int]) -> int:
    """`TopicPartition.hashCode`, in 32 bits without a sign."""
    topic, index = partition
    return (31 * (31 + index) + string_hash(topic)) & 0xFFFFFFFF


def string_order(text: str) -> bytes:
    """A sort key equal to `String.compareTo`, which compares the units of UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")


class HashSet(Generic[K]):
    """A set, or the keys of a map, that iterates as Java's HashMap and HashSet do.

    The table starts with `capacity` buckets, doubles beyond three quarters and never shrinks. A
    ninth key in one bucket doubles a table of fewer than 64 buckets as well. In a larger one Java
    makes a tree of the bucket, whose order is not known here.
    """

    def __init__(
        self,
        hash_of: Callable[[K], int],
        keys: Iterable[K] = (),
        capacity: int = DEFAULT_CAPACITY,
    ) -> None:
        self._hash_of = hash_of
        self._capacity = capacity
        self._spread: dict[K, int] = {}
        self._rank: dict[K, int] = {}
        self._added = 0
        self._sizes: Counter[int] = Counter()
        for key in keys:
            self.add(key)

    def __len__(self) -> int:
        return len(self._spread)

    def __contains__(self, key: K) -> bool:
        return key in self._spread

    def __iter__(self) -> Iterator[K]:
        mask = self._capacity - 1
        return iter(sorted(self._spread, key=lambda k: (self._spread[k] & mask, self._rank[k])))

    def add(self, key: K) -> None:
        """`put`: a new key goes behind the others of its bucket."""
        if key not in self._spread:
            self._insert(key, 1)
            self._make_room()

    def compute_if_absent(self, key: K) -> None:
        """`computeIfAbsent`, `compute` or `merge`: a new key goes in front of its bucket.

        Room is made for the keys before it, also where the key is known; not for the key itself.
        """
        self._make_room()
        if key not in self._spread:
            self._insert(key, -1)

    def remove(self, key: K) -> None:
        """Take a key out, if it is there."""
        if key in self._spread:
            self._sizes[self._spread.pop(key) & self._capacity - 1] -= 1

    def _insert(self, key: K, direction: int) -> None:
        self._added += 1
        self._rank[key] = direction * self._added
        code = self._hash_of(key) & 0xFFFFFFFF
        spread = self._spread[key] = code ^ code >> 16
        bucket = spread & self._capacity - 1
        self._sizes[bucket] += 1
        if self._sizes[bucket] > TREEIFY_THRESHOLD and self._capacity < MIN_TREEIFY_CAPACITY:
            self._double()

    def _make_room(self) -> None:
        if len(self) > self._capacity * 3 // 4:
            self._double()

    def _double(self) -> None:
        self._capacity *= 2
        mask = self._capacity - 1
        self._sizes = Counter(spread & mask for spread in self._spread.values())
