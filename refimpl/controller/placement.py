"""The placement of new partitions: pure functions from brokers and racks to assignments.

There are three rules. `striped` is that of Kafka 4.x (StripedReplicaPlacer). `shifted` is that of
Kafka up to 3.9 (AdminUtils): the first replicas go round, the others by a shift that grows with
each round. `plain` is the textbook's: partition i has replica j on broker (i + j) mod n.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from attrs import define, field

from refimpl.controller.errors import ApiError


class Rng(Protocol):
    """The part of `random.Random` that placement and new ids need."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to below `stop`."""
        ...

    def randbytes(self, n: int, /) -> bytes:
        """So many random bytes."""
        ...

    def shuffle(self, x: list[int], /) -> None:
        """Shuffle a list in place."""
        ...


class UsableBroker(NamedTuple):
    """A broker that may have replicas; a fenced one is never the first of them."""

    broker_id: int
    rack: str | None = None
    fenced: bool = False


Assignment: TypeAlias = tuple[int, ...]


class Wanted(NamedTuple):
    """Partitions to be placed: the first of them, their number, and their replication factor.

    `first_leader` is the preferred leader of partition 0, for a topic that exists already.
    """

    partitions: int
    replication_factor: int
    first: int = 0
    first_leader: int | None = None


Placement: TypeAlias = Callable[[Sequence[UsableBroker], Wanted, Rng], list[Assignment]]


def _check(brokers: Sequence[UsableBroker], replication_factor: int) -> None:
    if replication_factor <= 0:
        raise ApiError(
            "INVALID_REPLICATION_FACTOR",
            f"Invalid replication factor {replication_factor}: "
            "the replication factor must be positive.",
        )
    if all(broker.fenced for broker in brokers):
        raise ApiError(
            "INVALID_REPLICATION_FACTOR",
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise ApiError(
            "INVALID_REPLICATION_FACTOR",
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )


# Kafka 4.x


@define(eq=False)
class _Ring:
    """Brokers of one rack in turn: each round begins one further on, and offers each once."""

    brokers: list[int]
    offset: int
    round: int = 0
    index: int = 0

    def next(self, round: int) -> int | None:
        """The next broker of this round; None if none is left."""
        if not self.brokers:
            return None
        if self.round != round:
            self.round, self.index = round, 0
            self.offset = (self.offset + 1) % len(self.brokers)
        if self.index >= len(self.brokers):
            return None
        broker = self.brokers[(self.index + self.offset) % len(self.brokers)]
        self.index += 1
        return broker


@define(eq=False)
class _Rack:
    """The brokers of one rack; fenced ones come last."""

    unfenced: _Ring
    fenced: _Ring

    @classmethod
    def of(cls, brokers: Sequence[UsableBroker], rng: Rng) -> "_Rack":
        """Each ring in order of the ids, from a random start."""

        def ring(fenced: bool) -> _Ring:
            ids = sorted(one.broker_id for one in brokers if one.fenced == fenced)
            return _Ring(ids, rng.randrange(len(ids)) if ids else 0)

        return cls(ring(False), ring(True))

    def next(self, round: int) -> int | None:
        """A broker of this rack that has not had its turn in this round; None if none is left."""
        broker = self.unfenced.next(round)
        return self.fenced.next(round) if broker is None else broker


@define(eq=False)
class _Racks:
    """All racks in turn, from a random one on; each partition begins with the next rack."""

    racks: list[_Rack]
    rng: Rng
    offset: int = field(init=False)
    round: int = 0

    def __attrs_post_init__(self) -> None:
        """Begin at a random rack."""
        self.offset = self.rng.randrange(len(self.racks))

    def place(self, replication_factor: int) -> Assignment:
        """One partition's replicas: a leader that is not fenced, then rack by rack."""
        unfenced = sum(len(rack.unfenced.brokers) for rack in self.racks)
        if self.round == unfenced > 1:
            self._shuffle()
        self.offset %= len(self.racks)
        first, leader = self._leader()
        replicas = [leader]
        for index in self._from(self.offset):
            if len(replicas) == replication_factor:
                break
            if index == first:
                first = -1  # this rack has had its turn with the leader
                continue
            broker = self.racks[index].next(self.round)
            if broker is not None:
                replicas.append(broker)
        self.round += 1
        self.offset += 1
        return tuple(replicas)

    def _leader(self) -> tuple[int, int]:
        for index in self._from(self.offset):
            broker = self.racks[index].unfenced.next(self.round)
            if broker is not None:
                return index, broker
        raise AssertionError("somebody is not fenced")

    def _from(self, index: int) -> Iterator[int]:
        while True:
            yield index
            index = (index + 1) % len(self.racks)

    def _shuffle(self) -> None:
        """Shuffle racks and brokers once all have led, so that assignments are not repeated."""
        order = list(range(len(self.racks)))
        self.rng.shuffle(order)
        self.racks = [self.racks[index] for index in order]
        for rack in self.racks:
            self.rng.shuffle(rack.unfenced.brokers)
            self.rng.shuffle(rack.fenced.brokers)
        self.round = 0


def striped(brokers: Sequence[UsableBroker], wanted: Wanted, rng: Rng) -> list[Assignment]:
    """Kafka 4.x: racks in turn, inside a rack brokers in turn, fenced ones last and never first.

    Raises ApiError INVALID_REPLICATION_FACTOR if there are too few brokers.
    """
    _check(brokers, wanted.replication_factor)
    by_rack: dict[str | None, list[UsableBroker]] = {}
    for broker in brokers:
        by_rack.setdefault(broker.rack, []).append(broker)
    names = sorted(by_rack, key=lambda name: name or "")
    racks = _Racks([_Rack.of(by_rack[name], rng) for name in names], rng)
    return [racks.place(wanted.replication_factor) for _ in range(wanted.partitions)]


# Kafka up to 3.9


def shifted(brokers: Sequence[UsableBroker], wanted: Wanted, rng: Rng) -> list[Assignment]:
    """Kafka up to 3.9: a random broker leads the first partition, the next one the second.

    Further replicas follow at a shift, which is random as well and grows by one with each round.
    With racks, no rack has two replicas before every rack has one (KIP-36). Raises ApiError if
    there are too few brokers, or if some have a rack and some have none.
    """
    _check(brokers, wanted.replication_factor)
    racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
    if racks and len(racks) < len(brokers):
        raise ApiError(
            "INVALID_REQUEST",
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    ids = alternate(racks) if racks else sorted(broker.broker_id for broker in brokers)
    if wanted.first_leader is None:
        return assign(ids, wanted, rng.randrange(len(ids)), rng.randrange(len(ids)), racks)
    start = next((n for n, one in enumerate(ids) if one >= wanted.first_leader), 0)
    return assign(ids, wanted, start, start, racks)


def alternate(racks: Mapping[int, str]) -> list[int]:
    """Brokers, one of each rack in turn: {0: a, 1: c, 2: c, 3: b, 4: b, 5: a} is 0 3 1 5 4 2."""
    queues = [
        sorted(broker for broker, rack in racks.items() if rack == name)
        for name in sorted(set(racks.values()))
    ]
    longest = max(map(len, queues))
    return [queue[n] for n in range(longest) for queue in queues if n < len(queue)]


def assign(
    ids: Sequence[int], wanted: Wanted, start: int, shift: int, racks: Mapping[int, str]
) -> list[Assignment]:
    """The assignments of the wanted partitions for a given start and shift."""
    names, assignments = set(racks.values()), list[Assignment]()
    for partition in range(wanted.first, wanted.first + wanted.partitions):
        if partition and partition % len(ids) == 0:
            shift += 1
        leader = (partition + start) % len(ids)
        replicas, tried = [ids[leader]], 0
        while len(replicas) < wanted.replication_factor:
            distance = shift * max(1, len(names)) + tried
            broker = ids[(leader + 1 + distance % (len(ids) - 1)) % len(ids)]
            tried += 1
            used = {racks[one] for one in replicas} if racks else set[str]()
            fresh = not racks or racks[broker] not in used or used == names
            if fresh and broker not in replicas:
                replicas.append(broker)
        assignments.append(tuple(replicas))
    return assignments


def plain(brokers: Sequence[UsableBroker], wanted: Wanted, rng: Rng) -> list[Assignment]:
    """The textbook's: partition i has replica j on broker (i + j) mod n."""
    _check(brokers, wanted.replication_factor)
    ids = sorted(broker.broker_id for broker in brokers)
    return [
        tuple(ids[(i + j) % len(ids)] for j in range(wanted.replication_factor))
        for i in range(wanted.first, wanted.first + wanted.partitions)
    ]


PLACEMENTS: Mapping[str, Placement] = {"striped": striped, "shifted": shifted, "plain": plain}
"""The placements by their names in a controller's configuration."""
