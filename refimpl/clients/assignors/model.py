"""The input of an assignor: the members of a classic group, and the topics that they read."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from refimpl.java_hash import HashSet, string_hash, string_order

Partition = tuple[str, int]
Racks = Mapping[str, Sequence[frozenset[str]]]
"""Of each topic with metadata its partitions: the racks of the replicas of 0, 1, 2, …"""
Assignment = dict[str, list[Partition]]
"""The partitions of each member, in the order in which Kafka's assignor lists them."""

NO_GENERATION = -1


@frozen(kw_only=True)
class Member:
    """One member's subscription, as the leader reads it in the answer to its JoinGroup.

    `owned` is what the member says that it owned in `owned_generation`; `generation` is the
    subscription's own field, the same unless a client is older than KIP-792.
    """

    id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[Partition, ...] = ()
    owned_generation: int | None = None
    generation: int = NO_GENERATION


def unracked(partitions: Mapping[str, int]) -> Racks:
    """Topics of which no replica's rack is known, by their number of partitions."""
    return {topic: (frozenset[str](),) * count for topic, count in partitions.items()}


def in_hash_order(members: Iterable[Member]) -> list[Member]:
    """Members as a HashMap by member id, filled in this order, iterates over them."""
    by_id = {member.id: member for member in members}
    return [by_id[member] for member in HashSet(string_hash, by_id)]


def sorted_members(members: Iterable[Member]) -> list[Member]:
    """Static members by instance id, then dynamic ones by member id (KIP-345)."""
    return sorted(members, key=_rank)


def _rank(member: Member) -> tuple[bool, bytes]:
    if member.instance_id is not None:
        return False, string_order(member.instance_id)
    return True, string_order(member.id)


def subscribed_topics(members: Iterable[Member], racks: Racks) -> list[str]:
    """Topics with metadata that somebody reads, in the order of the HashMap that holds them."""
    subscribed: HashSet[str] = HashSet(string_hash)
    for member in in_hash_order(members):
        for topic in member.topics:
            subscribed.add(topic)
    return list(HashSet(string_hash, (topic for topic in subscribed if racks.get(topic))))


def rack_aware(members: Iterable[Member], partitions: Iterable[frozenset[str]]) -> bool:
    """True if racks decide anything (KIP-881).

    They do if a member's rack holds a replica, and not every partition is in every rack.
    """
    partitions = list(partitions)
    known = frozenset[str]().union(*partitions)
    consumers = {member.rack for member in members if member.rack}
    return bool(consumers & known) and any(racks != known for racks in partitions)
