"""The migration of a group with members from one group protocol to the other (KIP-848).

The first member of the consumer protocol turns a classic group into a consumer group, whose classic
members live on in it (`consumer_classic_member`). When its last member of the consumer protocol
leaves, the group is classic again. `group.consumer.migration.policy` allows either direction.
Spec: GroupMigration.
"""

from collections.abc import Iterable
from enum import Enum

from attrs import evolve, frozen

from refimpl.errors import CorruptBatch
from refimpl.machines import consumer_group as g
from refimpl.machines import consumer_group_errors as errors
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.classic_member import (
    ClassicGroupMember,
    JoinRequest,
    JoinResponse,
    Response,
    SyncResponse,
    Token,
    select_protocol,
)
from refimpl.machines.consumer_classic_member import (
    CONSUMER,
    TopicNames,
    assignment,
    metadata_of,
    partitions,
    protocols_of,
    session_ms_of,
)
from refimpl.machines.consumer_draft import Decision, Draft
from refimpl.machines.consumer_group import (
    STABLE,
    UNREVOKED,
    ConsumerGroup,
    ConsumerMember,
    Partition,
)
from refimpl.machines.consumer_heartbeat import Rules
from refimpl.records import consumer_groups as r
from refimpl.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    Subscription,
    read_versioned,
)


class Policy(Enum):
    """`group.consumer.migration.policy`: the directions in which a group with members may
    migrate.
    """

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """True if a classic group may become a consumer group."""
        return self in (Policy.BIDIRECTIONAL, Policy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """True if a consumer group may become a classic group."""
        return self in (Policy.BIDIRECTIONAL, Policy.DOWNGRADE)


# To the consumer protocol


@frozen
class Upgrade:
    """A classic group as a consumer group: the records to write, and the answers to waiting
    members.
    """

    decision: Decision
    answers: tuple[tuple[Token, Response], ...]


def upgrade(
    group_id: str,
    group: ClassicGroup,
    names: TopicNames,
    rules: Rules,
    policy: Policy,
    instance: str | None = None,
) -> Upgrade:
    """Turn a classic group into a consumer group.

    Every member is in the epoch of its generation, and has its last assignment. Partitions that a
    member reported to own when it joined, and was not assigned again, are pending: it may own them
    until it joins once more, because cooperative members give partitions up only after the
    assignment. Nobody else gets them. Kafka counts them as free: a new member has them at once,
    while the old one still processes them and may commit them.

    A new member begins an epoch. The next process of a static member, whose `instance` id the group
    has, changes nothing that would. So an epoch begins here if a partition may have no owner: a
    generation was being prepared, or a member was about to give something up. Kafka begins none.

    Refused: by policy, a group of another type, one that is too large, or one whose members'
    metadata cannot be parsed.
    """
    if not policy.upgrades:
        raise errors.NotConvertible(group_id, f"the migration policy is {policy.value}")
    if group.protocol_type != CONSUMER:
        raise errors.NotConvertible(group_id, "it does not use the consumer embedded protocol")
    if len(group.members) > rules.max_size:
        raise errors.NotConvertible(group_id, f"it has more than {rules.max_size} members")
    members = [_consumer(group_id, one, group, names) for one in group.members.values()]
    given = frozenset(p for one in members for p in one.assigned)
    draft = Draft(ConsumerGroup(group_id))
    for member in members:
        draft.write(g.MEMBER, draft.key(member.member_id), member.said)
    key, epoch = r.GroupKey(group_id), group.generation
    topics = rules.topics.metadata_hash(draft.group.subscribed_topics())
    members = [_without(one, given) for one in members]
    all_owned = group.state == "Stable" and not any(one.pending for one in members)
    succeeds = instance is not None and group.of_instance(instance) is not None
    begun = epoch + 1 if succeeds and not all_owned else epoch
    draft.write(g.GROUP, key, r.ConsumerGroupMetadata(epoch=begun, metadata_hash=topics))
    for member in members:
        draft.write_target_of(member.member_id, member.assigned)
    draft.write(g.TARGET, key, r.TargetAssignmentMetadata(assignment_epoch=epoch))
    for member in members:
        draft.write_current(member)
    return Upgrade(draft.decided(), tuple(_told_to_rejoin(group)))


def _consumer(
    group_id: str, member: ClassicGroupMember, group: ClassicGroup, names: TopicNames
) -> ConsumerMember:
    """The member; partitions that it may own and was not assigned are pending."""
    metadata = member.metadata(group.protocol) or member.protocols[0][1]
    try:
        subscribed, _ = read_versioned(Subscription, metadata)
        given = ConsumerProtocolAssignment(assigned_partitions=())
        if member.assignment:
            given, _ = read_versioned(ConsumerProtocolAssignment, member.assignment)
    except CorruptBatch:
        raise errors.NotConvertible(
            group_id, "the embedded consumer protocol is malformed"
        ) from None
    if given.user_data:
        raise errors.NotConvertible(group_id, "an unsupported custom assignor is in use")
    said = evolve(
        g.NEW_MEMBER,
        instance_id=member.instance,
        rack_id=subscribed.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(subscribed.topics)),
        rebalance_timeout_ms=member.rebalance_ms,
        classic_member_metadata=metadata_of(member.session_ms, member.protocols),
    )
    epoch = group.generation
    return ConsumerMember(
        *(member.id, said, epoch, epoch),
        assigned=dict.fromkeys(partitions(given.assigned_partitions, names), epoch),
        pending=dict.fromkeys(partitions(subscribed.owned_partitions, names), epoch),
    )


def _without(member: ConsumerMember, given: frozenset[Partition]) -> ConsumerMember:
    """The member, with pending only the partitions that no member was assigned."""
    pending = {p: since for p, since in member.pending.items() if p not in given}
    return evolve(member, pending=pending, state=UNREVOKED if pending else STABLE)


def _told_to_rejoin(group: ClassicGroup) -> Iterable[tuple[Token, Response]]:
    for member in group.members.values():
        if member.join is not None:
            yield member.join, JoinResponse("REBALANCE_IN_PROGRESS", member.id)
        if member.sync is not None:
            yield member.sync, SyncResponse("REBALANCE_IN_PROGRESS")


# To the classic protocol


def may_downgrade(
    group: ConsumerGroup, leaving: Iterable[str], policy: Policy, max_size: int
) -> bool:
    """True if the members that stay can be a classic group: all use its protocol, there is at least
    one, and there are not too many.
    """
    left = [group.members[id] for id in group.members.keys() - set(leaving)]
    classic = all(one.is_classic for one in left)
    return policy.downgrades and classic and 0 < len(left) <= max_size


def may_succeed(group: ConsumerGroup, request: JoinRequest, policy: Policy, max_size: int) -> bool:
    """True if a join makes the group classic: it is a new process of a static member, the last one
    of the consumer protocol.
    """
    holder = None if request.member else group.instance(request.instance)
    if holder is None or holder.is_classic or not policy.downgrades:
        return False
    others = [one for one in group.members.values() if one is not holder]
    return all(one.is_classic for one in others) and len(group.members) <= max_size


def downgrade(
    group: ConsumerGroup,
    leaving: Iterable[str],
    names: TopicNames,
    successor: JoinRequest | None = None,
) -> ClassicGroup:
    """The members that stay, as a classic group in the generation of the group's epoch.

    Each is assigned what it may own, which is its target once it is settled. Kafka assigns the
    target: if the group is upgraded again before a member has joined, what that member still owns
    is another one's. With a `successor`, the static member of its instance id stays, with the
    successor's protocols: it is about to be taken over.
    """
    gone = set(leaving)
    members = {
        one.member_id: _classic(one, successor)
        for one in group.members.values()
        if one.member_id not in gone
    }
    protocol = select_protocol(members.values())
    told = {
        id: evolve(one, assignment=_assigned(one, protocol, group.members[id], names))
        for id, one in members.items()
    }
    return ClassicGroup(
        state="Stable",
        generation=group.epoch,
        protocol_type=CONSUMER,
        protocol=protocol,
        leader=min(told),
        members=told,
    )


def _classic(member: ConsumerMember, successor: JoinRequest | None) -> ClassicGroupMember:
    said = member.said
    if successor is not None and said.instance_id == successor.instance:
        protocols, session_ms = successor.protocols, successor.session_ms
    else:
        protocols, session_ms = protocols_of(member), session_ms_of(member)
    return ClassicGroupMember(
        *(member.member_id, protocols, said.instance_id, session_ms, said.rebalance_timeout_ms),
        *(said.client_id, said.client_host),
    )


def _assigned(
    member: ClassicGroupMember, protocol: str, had: ConsumerMember, names: TopicNames
) -> bytes:
    _, version = read_versioned(Subscription, member.metadata(protocol))
    return assignment({**had.assigned, **had.pending}, names, version)


def settled(group: ConsumerGroup) -> bool:
    """True if every member has its target of the newest epoch: nobody needs to join again."""
    members = group.members.values()
    return group.target_epoch == group.epoch and all(
        one.is_reconciled_to(group.target_epoch) for one in members
    )


def written(group: ClassicGroup) -> ClassicGroup:
    """A downgraded group as it is written when its members are to join again.

    It has no leader, so a coordinator that loads it asks them to join too. Kafka writes a whole
    generation, and after a failover partitions that no member has yet stay without an owner.
    Writing the next generation would not help: members are in it before anything is assigned in it.
    """
    return evolve(group, leader=None)


def tombstones(group: ConsumerGroup) -> Decision:
    """The tombstones of a consumer group and its members."""
    draft = Draft(group)
    for member_id in group.members:
        draft.remove(member_id)
    return evolve(draft.decided(), records=(*draft.records, *draft.group.deletion()))
