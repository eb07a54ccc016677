"""The partitions that members claim, and the owner where claims disagree (KAFKA-12984)."""

from collections.abc import Sequence

from attrs import define, field

from refimpl.clients.assignors.model import NO_GENERATION, Member, Partition, Racks


@define(eq=False)
class Claims:
    """Each member's undisputed partitions, and those that two claim in one generation."""

    owned: dict[str, list[Partition]] = field(factory=dict[str, list[Partition]])
    disputed: set[Partition] = field(factory=set[Partition])


def resolve(members: Sequence[Member], racks: Racks) -> Claims:
    """The owner of each partition is who claims it in the highest generation, if one member does.

    Members come in the HashMap's order. As in Kafka, a later claim is compared with the generation
    in the subscription of the earlier member, which clients before KIP-792 leave out.

    Unlike Kafka's, a claim on a partition that does not exist (its topic was made anew with fewer)
    is ignored; Kafka's sticky assignors then throw an IllegalStateException.
    """
    claims = Claims()
    claimant: dict[Partition, Member] = {}
    for member in members:
        owned = claims.owned[member.id] = []
        for partition in member.owned:
            if not exists(partition, racks):
                continue
            other = claimant.get(partition)
            if other is None:
                owned.append(partition)
            elif generation_of(member) < other.generation:
                continue
            else:
                _drop(claims.owned[other.id], partition)
                if generation_of(member) == other.generation:
                    claims.disputed.add(partition)
                else:
                    owned.append(partition)
            claimant[partition] = member
    return claims


def stale_claims(members: Sequence[Member], racks: Racks) -> dict[Partition, str]:
    """The former owners of partitions: claims of generations below the highest, the newest of each.

    Unlike Kafka's, a claim counts only while the member still reads the topic; Kafka's gives a
    partition back to a member that does not, or throws a NullPointerException.
    """
    highest = max((generation_of(member) for member in members), default=NO_GENERATION)
    newest: dict[Partition, tuple[int, str]] = {}
    for member in members:
        generation = generation_of(member)
        if generation >= highest:
            continue
        for partition in member.owned:
            fitting = exists(partition, racks) and partition[0] in member.topics
            if fitting and (partition not in newest or generation > newest[partition][0]):
                newest[partition] = generation, member.id
    return {partition: member for partition, (_, member) in newest.items()}


def generation_of(member: Member) -> int:
    """The generation in which a member owned what it says, or -1."""
    return NO_GENERATION if member.owned_generation is None else member.owned_generation


def exists(partition: Partition, racks: Racks) -> bool:
    """True if the topic's metadata has the partition."""
    topic, index = partition
    return index < len(racks.get(topic, ()))


def _drop(partitions: list[Partition], partition: Partition) -> None:
    if partition in partitions:
        partitions.remove(partition)
