"""Members of a consumer group that use the classic protocol, during an online migration (KIP-848).

A JoinGroup is a heartbeat that reports the owned partitions, a SyncGroup asks for the assignment,
and a member's generation is its epoch. There is no leader, and the group has no generations. A
member that has to give something up, or may get more, is asked by its heartbeats to join again.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from attrs import evolve

from refimpl.errors import CorruptBatch, Refusal
from refimpl.machines import consumer_group_errors as errors
from refimpl.machines.classic_group_errors import UnknownInstanceId
from refimpl.machines.classic_member import (
    HeartbeatResponse,
    JoinRequest,
    LeaveResponse,
    SyncRequest,
    SyncResponse,
)
from refimpl.machines.consumer_draft import Decision, Draft
from refimpl.machines.consumer_group import (
    UNRELEASED,
    UNREVOKED,
    ConsumerGroup,
    ConsumerMember,
    Partition,
)
from refimpl.machines.consumer_heartbeat import Rules, led, replace, static_member, target_due
from refimpl.records import consumer_groups as r
from refimpl.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedTopic,
    Subscription,
    read_versioned,
    write_versioned,
)
from refimpl.records.schema import Uuid

CONSUMER = "consumer"
"""The protocol type of groups whose members read topics."""


class TopicNames(Protocol):
    """The topics of the cluster by names and ids: classic members know only names."""

    def id_of(self, name: str) -> Uuid | None:
        """A topic's id; None if there is no such topic."""
        ...

    def name_of(self, topic_id: Uuid) -> str | None:
        """A topic's name; None if there is no such topic."""
        ...


def join(
    group: ConsumerGroup, request: JoinRequest, names: TopicNames, rules: Rules
) -> Decision | None:
    """A JoinGroup request that adds a member or reports its owned partitions; None if the member
    has to join again with its new id.

    Refused: a client that joins a full group, or supports no assignor that all other classic
    members support.
    """
    member_id = request.member or request.new_id
    if len(group.members) >= rules.max_size and member_id not in group.members:
        raise errors.GroupMaxSizeReached(rules.max_size)
    check_protocols(group, request)
    if request.needs_id:
        return None
    said = _subscription(member_id, request.protocols[0][1])
    draft = Draft(group)
    before = _sender(draft, request, member_id)
    owned = frozenset(partitions(said.owned_partitions, names))
    after = led(draft, before, _said(before.said, request, said), owned, rules)
    return draft.decided(after.member_id, after.assigned)


def check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    """Refuse a member that shares no assignor with all the others of the classic protocol."""
    classic = [one for one in group.members.values() if one.is_classic]
    votes = Counter(name for one in classic for name, _ in protocols_of(one))
    common = (votes[name] == len(classic) for name, _ in request.protocols)
    if request.protocol_type != CONSUMER or not any(common):
        raise errors.ProtocolsNotSupported(request.member)


def _subscription(member_id: str, metadata: bytes) -> Subscription:
    try:
        return read_versioned(Subscription, metadata)[0]
    except CorruptBatch:
        raise errors.ProtocolsNotSupported(member_id) from None


def _sender(draft: Draft, request: JoinRequest, member_id: str) -> ConsumerMember:
    """The member that sent a join.

    A process that names an instance id and has no member id yet takes over from the one before, of
    either protocol.
    """
    group, instance = draft.group, request.instance
    if instance is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if request.member:
        return static_member(group, member_id, instance)
    holder = group.instance(instance)
    return ConsumerMember(member_id) if holder is None else replace(draft, holder, member_id)


def _said(
    before: r.ConsumerGroupMemberMetadata, request: JoinRequest, said: Subscription
) -> r.ConsumerGroupMemberMetadata:
    return evolve(
        before,
        instance_id=before.instance_id if request.instance is None else request.instance,
        rack_id=before.rack_id if said.rack_id is None else said.rack_id,
        rebalance_timeout_ms=request.rebalance_ms,
        subscribed_topic_names=tuple(sorted(said.topics)),
        subscribed_topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic_member_metadata=metadata_of(request.session_ms, request.protocols),
    )


def sync(group: ConsumerGroup, request: SyncRequest, names: TopicNames) -> SyncResponse:
    """The assignment that a member got when it joined.

    A member that has not joined for the newest target is asked to, unless it has partitions to give
    up first.
    """
    member = _member(group, request.member, request.generation, request.instance)
    name = protocol_of(member)
    for asked, here in ((request.protocol_type, CONSUMER), (request.protocol, name)):
        if asked is not None and asked != here:
            raise errors.OtherAssignor(asked, here)
    if group.target_epoch > member.epoch and member.state != UNREVOKED:
        return SyncResponse("REBALANCE_IN_PROGRESS")
    version = read_versioned(Subscription, protocols_of(member)[0][1])[1]
    told = assignment(member.assigned, names, version)
    return SyncResponse(None, told, CONSUMER, name)


def heartbeat(
    group: ConsumerGroup, member_id: str, generation: int, instance: str | None, rules: Rules
) -> tuple[Decision, HeartbeatResponse]:
    """A Heartbeat request; the answer is to join again if a join leads the member on.

    Like every heartbeat it computes a target if one is due. Kafka 4.3.1 leaves that to members of
    the other protocol. If none is left, nobody gets the partitions of a member that is gone.
    """
    draft = Draft(group)
    _member(group, member_id, generation, instance)
    target_due(draft, rules)
    member = draft.group.members[member_id]
    error = "REBALANCE_IN_PROGRESS" if must_rejoin(draft.group, member) else None
    return draft.decided(member_id), HeartbeatResponse(error)


def must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if a join leads a member on: there is a newer target, it has something to give up, or
    all partitions that it waits for are free.
    """
    if member.epoch < group.target_epoch or member.state == UNREVOKED:
        return True
    new = group.target.get(member.member_id, frozenset[Partition]()) - member.assigned.keys()
    return member.state == UNRELEASED and all(group.is_free(p, member.member_id) for p in new)


def leave(
    group: ConsumerGroup, leaving: Sequence[tuple[str, str | None]]
) -> tuple[frozenset[str], LeaveResponse]:
    """The members among these that may go, and each one's answer.

    An operator names a static member by its instance id alone.
    """
    left: list[tuple[str, str | None, str | None]] = []
    gone: set[str] = set()
    for member_id, instance in leaving:
        try:
            gone.add(_leaver(group, member_id, instance).member_id)
            left.append((member_id, instance, None))
        except Refusal as refusal:
            left.append((member_id, instance, refusal.kafka_error))
    return frozenset(gone), LeaveResponse(tuple(left))


def _leaver(group: ConsumerGroup, member_id: str, instance: str | None) -> ConsumerMember:
    if instance is None:
        return group.member(member_id)
    holder = group.instance(instance)
    if holder is None:
        raise UnknownInstanceId(member_id, instance)
    return static_member(group, member_id or holder.member_id, instance)


def _member(
    group: ConsumerGroup, member_id: str, generation: int, instance: str | None
) -> ConsumerMember:
    """A member of the classic protocol in this generation; others are refused."""
    if instance is None:
        member = group.member(member_id)
    else:
        member = static_member(group, member_id, instance)
    if not member.is_classic:
        raise errors.OtherProtocol(member_id)
    if generation != member.epoch:
        raise errors.NotInGeneration(generation, member.epoch)
    return member


# A classic member's metadata and assignment


def metadata_of(session_ms: int, protocols: Iterable[tuple[str, bytes]]) -> r.ClassicMemberMetadata:
    """A member's protocols as a record."""
    return r.ClassicMemberMetadata(
        session_ms, tuple([r.ClassicProtocol(name, data) for name, data in protocols])
    )


def protocols_of(member: ConsumerMember) -> tuple[tuple[str, bytes], ...]:
    """A member's assignors, its favourite first, each with its metadata."""
    said = member.said.classic_member_metadata
    return () if said is None else tuple([(p.name, p.metadata) for p in said.supported_protocols])


def protocol_of(member: ConsumerMember) -> str:
    """The assignor named to a member: its favourite, because the coordinator assigns."""
    return protocols_of(member)[0][0]


def session_ms_of(member: ConsumerMember) -> int:
    """A member's session timeout, from its JoinGroup."""
    said = member.said.classic_member_metadata
    return 0 if said is None else said.session_timeout_ms


def partitions(topics: Iterable[OwnedTopic], names: TopicNames) -> Iterable[Partition]:
    """Partitions by topic id; topics that do not exist are left out."""
    for one in topics:
        topic_id = names.id_of(one.topic)
        if topic_id is not None:
            yield from ((topic_id, number) for number in one.partitions)


def assignment(owned: Iterable[Partition], names: TopicNames, version: int) -> bytes:
    """Partitions as a classic member's Assignment; topics that do not exist are left out."""
    found: dict[str, list[int]] = {}
    for topic_id, number in sorted(owned):
        name = names.name_of(topic_id)
        if name is not None:
            found.setdefault(name, []).append(number)
    topics = tuple([OwnedTopic(name, tuple(numbers)) for name, numbers in found.items()])
    return write_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), version)
