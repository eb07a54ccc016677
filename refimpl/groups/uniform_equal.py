"""The uniform assignor for members that all subscribe to the same topics.

Kafka's UniformHomogeneousAssignmentBuilder, since KAFKA-18688: any member may hold one of the
partitions that do not divide evenly, not only the first ones.
"""

from collections.abc import Mapping, Sequence

from refimpl.java_hash import HashSet, uuid_hash
from refimpl.records.schema import Uuid

LOAD_FACTOR = 0.75
SMALLEST = 16


def assign_equal(
    targets: Mapping[str, Mapping[Uuid, Sequence[int]]],
    topics: Sequence[Uuid],
    partitions: Mapping[Uuid, int],
) -> dict[str, dict[Uuid, set[int]]]:
    """The target of each member; `targets` are the previous ones, in the order of Kafka's map."""
    if not topics:
        return {}
    taken = {(topic, p) for one in targets.values() for topic, ps in one.items() for p in ps}
    in_order = HashSet(uuid_hash, topics, capacity_of(len(topics)))
    unassigned = [
        (topic, p)
        for topic in in_order
        for p in range(partitions[topic])
        if (topic, p) not in taken
    ]
    least, extras = divmod(sum(partitions[topic] for topic in topics), len(targets))
    found: dict[str, dict[Uuid, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for number, (member, target) in enumerate(targets.items()):
        has_extra = extras > 0
        kept, room, released = _kept(target, frozenset(topics), least + has_extra)
        unassigned += released
        if room and has_extra and len(targets) - number > extras:
            room, has_extra = room - 1, False  # others behind it may hold the extra partition
        if room:
            unfilled.append((member, room))
        extras -= has_extra
        found[member] = kept
    rest = iter(unassigned)
    for member, room in unfilled:
        for topic, p in (one for _, one in zip(range(room), rest, strict=False)):
            found[member].setdefault(topic, set()).add(p)
    return found


def _kept(
    target: Mapping[Uuid, Sequence[int]], topics: frozenset[Uuid], quota: int
) -> tuple[dict[Uuid, set[int]], int, list[tuple[Uuid, int]]]:
    """The partitions that a member keeps of its target, the room that is left, and those to give
    up.
    """
    kept: dict[Uuid, set[int]] = {}
    released: list[tuple[Uuid, int]] = []
    for topic in HashSet(uuid_hash, target):
        if topic not in topics:
            continue
        held = in_set_order(target[topic])
        stays = held[:quota]
        released += [(topic, p) for p in held[quota:]]
        quota -= len(stays)
        if stays:
            kept[topic] = set(stays)
    return kept, quota, released


def in_set_order(numbers: Sequence[int]) -> list[int]:
    """Numbers in the iteration order of a HashSet made of them."""
    return list(HashSet(_int_hash, numbers, capacity_of(len(numbers))))


def _int_hash(number: int) -> int:
    return number


def capacity_of(size: int) -> int:
    """The number of buckets of a HashSet that is made of so many elements."""
    wanted = max(int(size / LOAD_FACTOR) + 1, SMALLEST)
    return 1 << (wanted - 1).bit_length()
