"""Which partition a record goes to: its own, by its key, or wherever a batch is being filled.

KIP-480, KIP-794: records without a key fill one batch before another partition is chosen, and a
partition whose batches wait gets fewer of them.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from attrs import define, field

from refimpl.clients.backoff import Chance

_M, _SEED, _MASK = 0x5BD1E995, 0x9747B28C, 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
ROUND_ROBIN = ("RoundRobinPartitioner", "org.apache.kafka.clients.producer.RoundRobinPartitioner")


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, without a sign."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if whole != size:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """Kafka's partition of a key: an empty key is one, and the hash loses its sign."""
    return (murmur2(key) & _POSITIVE) % partitions


@define(eq=False)
class RoundRobin:
    """One partition after the other, of those that have a leader; each topic by itself."""

    chance: Chance
    following: dict[str, int] = field(factory=dict[str, int])

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """The next partition; the first one is left to chance."""
        among = available or partitions
        at = self.following.get(topic)
        if at is None:
            at = int(self.chance() * len(among))
        self.following[topic] = at + 1
        return among[at % len(among)]


@define(eq=False)
class Chosen:
    """A partition that is being filled."""

    partition: int
    size: int = 0


@define(eq=False)
class Sticky:
    """The partition of a topic's records that have none of their own.

    A switch waits for the end of a batch, so that none is sent half full for it alone; but no
    longer than for twice the size of a batch.
    """

    batch_size: int
    #: A number from 0 to below 2^31
    draw: Callable[[], int]
    chosen: Chosen | None = None
    #: The partitions that have load, each with the sum of the weights up to its own
    loads: tuple[Sequence[int], Sequence[int]] | None = None

    def current(self, partitions: Sequence[int], available: Sequence[int]) -> Chosen:
        """The partition that is filled now."""
        if self.chosen is None:
            self.chosen = Chosen(self._next(partitions, available))
        return self.chosen

    def filled(
        self, size: int, may_switch: bool, partitions: Sequence[int], available: Sequence[int]
    ) -> None:
        """So much more is in the batch; `may_switch` if it takes no more."""
        chosen = self.chosen
        if chosen is None:
            return
        chosen.size += size
        least = self.batch_size if may_switch else 2 * self.batch_size
        if chosen.size >= least:
            self.chosen = Chosen(self._next(partitions, available))

    def weigh(self, queues: Mapping[int, int] | None, count: int) -> None:
        """The number of batches that wait in each partition, of `count`; None if that is not to
        count.

        With m the longest queue, a queue of n has the weight m + 1 - n. Where all are equal, chance
        alone decides.
        """
        self.loads = None
        if not queues or count < 2:
            return
        longest = max(queues.values()) + 1
        if len(queues) == count and len(set(queues.values())) == 1:
            return
        weights = (longest - waiting for waiting in queues.values())
        self.loads = tuple(queues), tuple(accumulate(weights))

    def _next(self, partitions: Sequence[int], available: Sequence[int]) -> int:
        drawn = self.draw()
        if self.loads is None:
            among = available or partitions
            return among[drawn % len(among)]
        loaded, sums = self.loads
        return loaded[bisect_right(sums, drawn % sums[-1])]
