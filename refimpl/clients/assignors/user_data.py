"""The user data of a subscription, as the sticky assignors write it."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from attrs import frozen

from refimpl.clients.assignors.model import NO_GENERATION, Partition
from refimpl.errors import CorruptBatch
from refimpl.java_hash import HashSet, string_hash
from refimpl.records.consumer_protocol import OwnedTopic
from refimpl.records.schema import Int32, RecordReader, read, since, write

WITH_GENERATION, WITHOUT_GENERATION = 1, 0


@frozen(kw_only=True)
class StickyUserData:
    """The partitions that a member owned last and, since KIP-341, their generation."""

    previous_assignment: tuple[OwnedTopic, ...]
    generation: Annotated[Int32, since(1)] = NO_GENERATION


@frozen
class CooperativeUserData:
    """In which generation a member owned what its subscription says."""

    generation: Int32


def sticky_user_data(owned: Sequence[Partition], generation: int) -> bytes | None:
    """The last assignment of a member of the sticky assignor; none before the first."""
    if generation < 0 and not owned:
        return None
    return write(
        StickyUserData(previous_assignment=by_topic(owned), generation=generation),
        WITH_GENERATION,
    )


def read_sticky(data: bytes | None) -> tuple[tuple[Partition, ...], int | None]:
    """The partitions that a member owned, and their generation; nothing if unreadable."""
    if not data:
        return (), None
    for version in (WITH_GENERATION, WITHOUT_GENERATION):
        try:
            found = read(StickyUserData, RecordReader(data), version)
        except CorruptBatch:
            continue
        generation = found.generation if version == WITH_GENERATION else None
        return partitions_of(found.previous_assignment), generation
    return (), NO_GENERATION


def cooperative_user_data(generation: int) -> bytes:
    """The generation of a member of the cooperative sticky assignor."""
    return write(CooperativeUserData(generation), 0)


def read_cooperative(data: bytes | None) -> int | None:
    """The generation of a member that is too old to have it in its subscription."""
    if data is None:
        return None
    try:
        return read(CooperativeUserData, RecordReader(data), 0).generation
    except CorruptBatch:
        return NO_GENERATION


def by_topic(partitions: Iterable[Partition]) -> tuple[OwnedTopic, ...]:
    """Partitions by topic, in the order of a HashMap that `computeIfAbsent` fills."""
    found: dict[str, list[int]] = {}
    order: HashSet[str] = HashSet(string_hash)
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
        order.compute_if_absent(topic)
    return tuple(OwnedTopic(topic, tuple(found[topic])) for topic in order)


def partitions_of(topics: Iterable[OwnedTopic]) -> tuple[Partition, ...]:
    """The partitions that a list by topic names."""
    return tuple((one.topic, partition) for one in topics for partition in one.partitions)
