"""Messages between members of groups and their coordinator, under Kafka's names.

Named tuples, as in `refimpl.messages.broker`. Every request but FindCoordinator and ListGroups is
about one group, whose id decides its coordinator. A Kafka request about several groups becomes
several of these. An error is Kafka's name of it, or None.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refimpl.machines.replica_log import Guard
from refimpl.messages.broker import TopicPartition
from refimpl.messages.transactions import TxnMarker
from refimpl.records.schema import NO_ID, Uuid

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Types of coordinators, as FindCoordinator names them."""

CLASSIC, CONSUMER, SHARED = "classic", "consumer", "share"
"""Types of groups (KIP-848), as ListGroups names them."""

UNKNOWN_GENERATION = -1
"""The generation or member epoch of a client that is no member."""


# Finding


class FindCoordinatorRequest(NamedTuple):
    """Find the coordinators of these groups, or of these transactional ids (KIP-699)."""

    key_type: int
    keys: Sequence[str]


class FoundCoordinator(NamedTuple):
    """The coordinator of one key: the broker's id, -1 with an error."""

    key: str
    error: str | None
    node_id: int = -1
    message: str | None = None


class FindCoordinatorResponse(NamedTuple):
    """The coordinators, in the order of the keys."""

    coordinators: Sequence[FoundCoordinator]


# Classic groups


class JoinGroupRequest(NamedTuple):
    """Join the next generation.

    `protocols` are the assignors that the member supports, its favourite first, each with the
    member's metadata. `requires_known_member_id` (KIP-394, version 4) and `can_skip_assignment`
    (KIP-814, version 9) are abilities of the client.
    """

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    client_id: str = ""
    client_host: str = ""
    reason: str | None = None
    requires_known_member_id: bool = True
    can_skip_assignment: bool = True


class JoinGroupMember(NamedTuple):
    """A member, as the leader receives it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(NamedTuple):
    """The generation that has begun; `members` are for the leader alone."""

    error: str | None
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinGroupMember] = ()


class SyncGroupRequest(NamedTuple):
    """Ask for the assignment; the leader's carries all of them: pairs of member id and bytes."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


class SyncGroupResponse(NamedTuple):
    """A member's assignment."""

    error: str | None
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class HeartbeatRequest(NamedTuple):
    """A member of this generation lives."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(NamedTuple):
    """The answer to a heartbeat; an error if the member has to rejoin."""

    error: str | None


class LeavingMember(NamedTuple):
    """A member that leaves; an operator names a static member by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroupRequest(NamedTuple):
    """Members leave (KIP-345)."""

    group_id: str
    members: Sequence[LeavingMember]


class LeftMember(NamedTuple):
    """The result for one leaving member."""

    member_id: str
    group_instance_id: str | None
    error: str | None


class LeaveGroupResponse(NamedTuple):
    """The result for each leaving member."""

    error: str | None
    members: Sequence[LeftMember] = ()


# Consumer groups (KIP-848)


class TopicIdPartitions(NamedTuple):
    """Partitions of one topic, by its id."""

    topic_id: Uuid
    partitions: tuple[int, ...]


class ConsumerGroupHeartbeatRequest(NamedTuple):
    """A member joins (epoch 0), lives (above), leaves (-1), or leaves for a while (-2).

    None means unchanged. `may_lack_member_id` is set for version 0: the coordinator then generates
    the id of a client that joins without one (KIP-1082).
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicIdPartitions, ...] | None = None
    client_id: str = ""
    client_host: str = ""
    may_lack_member_id: bool = False


class ConsumerGroupHeartbeatResponse(NamedTuple):
    """The member's epoch, and its assignment if it has changed."""

    error: str | None
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicIdPartitions, ...] | None = None


class ConsumerGroupDescribeRequest(NamedTuple):
    """Describe a consumer group (KIP-848)."""

    group_id: str


class NamedTopicPartitions(NamedTuple):
    """Partitions of one topic, by its id and its name."""

    topic_id: Uuid
    topic_name: str
    partitions: tuple[int, ...]


class DescribedConsumerMember(NamedTuple):
    """A member: its metadata, its current assignment and its target.

    `member_type` is -1 for unknown, 0 for classic, 1 for consumer (KIP-1099).
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[NamedTopicPartitions, ...]
    target_assignment: tuple[NamedTopicPartitions, ...]
    member_type: int = 1


class ConsumerGroupDescribeResponse(NamedTuple):
    """One consumer group."""

    group_id: str
    error: str | None
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[DescribedConsumerMember] = ()


# Share groups (KIP-932)


class ShareGroupHeartbeatRequest(NamedTuple):
    """A member joins (epoch 0), lives (above), or leaves (-1). None means unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareGroupHeartbeatResponse(NamedTuple):
    """The member's epoch, and its assignment if it has changed."""

    error: str | None
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicIdPartitions, ...] | None = None


class ShareGroupDescribeRequest(NamedTuple):
    """Describe a share group."""

    group_id: str


class DescribedShareMember(NamedTuple):
    """A member of a share group, and its assignment."""

    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: tuple[NamedTopicPartitions, ...]


class ShareGroupDescribeResponse(NamedTuple):
    """One share group."""

    group_id: str
    error: str | None
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[DescribedShareMember] = ()


class DescribeShareOffsetsRequest(NamedTuple):
    """Ask for a share group's start offsets; None asks for all of them."""

    group_id: str
    partitions: Sequence[TopicPartition] | None


class DescribedShareOffset(NamedTuple):
    """A share partition's start, and how many records are not done with; -1 for unknown."""

    partition: TopicPartition
    topic_id: Uuid = NO_ID
    start_offset: int = -1
    leader_epoch: int = 0
    lag: int = -1
    error: str | None = None


class DescribeShareOffsetsResponse(NamedTuple):
    """The start offsets of a share group."""

    group_id: str
    error: str | None
    error_message: str | None = None
    partitions: Sequence[DescribedShareOffset] = ()


class AlterShareOffsetsRequest(NamedTuple):
    """Set the start offsets of a share group without members."""

    group_id: str
    offsets: Sequence[tuple[TopicPartition, int]]


class AlterShareOffsetsResponse(NamedTuple):
    """The result for each partition: error and topic id."""

    error: str | None
    error_message: str | None = None
    partitions: Sequence[tuple[TopicPartition, str | None, Uuid]] = ()


class DeleteShareOffsetsRequest(NamedTuple):
    """Delete the state of topics in a share group without members."""

    group_id: str
    topics: Sequence[str]


class DeleteShareOffsetsResponse(NamedTuple):
    """The result for each topic: error and topic id."""

    error: str | None
    error_message: str | None = None
    topics: Sequence[tuple[str, str | None, Uuid]] = ()


# Offsets


class CommittedPartition(NamedTuple):
    """The committed offset of one partition: the next offset to read.

    `commit_timestamp` is of version 1, -1 elsewhere.
    """

    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: Uuid = NO_ID


class OffsetCommitRequest(NamedTuple):
    """Commit the group's next offsets.

    `generation_id` is a member epoch in consumer groups, and -1 for a client that is no member.
    `retention_ms` is of versions 2 to 4, -1 elsewhere. `knows_member_epochs` is true if the client
    knows member epochs (version 9).
    """

    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None
    partitions: Sequence[CommittedPartition]
    retention_ms: int = -1
    knows_member_epochs: bool = True


class OffsetCommitResponse(NamedTuple):
    """The result for each partition."""

    partitions: Sequence[tuple[TopicPartition, str | None]]


class TxnOffsetCommitRequest(NamedTuple):
    """Commit the group's next offsets with a producer's transaction (KIP-98, KIP-447).

    Member, generation and instance count if any of them is named. `transaction_support` is that of
    `refimpl.messages.transactions`; `guard` is the one under which the write was verified.
    """

    group_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[CommittedPartition]
    member_id: str = ""
    generation_id: int = UNKNOWN_GENERATION
    group_instance_id: str | None = None
    transaction_support: int = 0
    guard: Guard | None = None


class TxnOffsetCommitResponse(NamedTuple):
    """The result for each partition."""

    partitions: Sequence[tuple[TopicPartition, str | None]]


class EndOffsetsRequest(NamedTuple):
    """The end of a transaction, for the offsets that were written within it in one partition."""

    marker: TxnMarker


class EndOffsetsResponse(NamedTuple):
    """The result: None once the marker is committed."""

    error: str | None


class OffsetFetchRequest(NamedTuple):
    """Ask for the group's committed offsets; None asks for all of them.

    With `require_stable` the answer waits for offsets that are not committed yet (KIP-447). Member
    id and epoch are those of version 9.
    """

    group_id: str
    partitions: Sequence[tuple[TopicPartition, Uuid]] | None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    """One partition's committed offset; -1 for none."""

    partition: TopicPartition
    error: str | None = None
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: Uuid = NO_ID


class OffsetFetchResponse(NamedTuple):
    """The committed offsets of a group."""

    group_id: str
    error: str | None
    partitions: Sequence[FetchedOffset] = ()


class OffsetDeleteRequest(NamedTuple):
    """Delete the group's offsets of these partitions (KIP-496)."""

    group_id: str
    partitions: Sequence[TopicPartition]


class OffsetDeleteResponse(NamedTuple):
    """The result for each partition."""

    error: str | None
    partitions: Sequence[tuple[TopicPartition, str | None]] = ()


# Operators


class ListGroupsRequest(NamedTuple):
    """List this broker's groups, in these states (KIP-518) and of these types (KIP-848); empty for
    all.
    """

    states: Sequence[str] = ()
    types: Sequence[str] = ()


class ListedGroup(NamedTuple):
    """A group in the answer to ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class ListGroupsResponse(NamedTuple):
    """The groups that this broker coordinates."""

    error: str | None
    groups: Sequence[ListedGroup] = ()


class DescribeGroupRequest(NamedTuple):
    """Describe a classic group: one group of a DescribeGroups request."""

    group_id: str


class DescribedMember(NamedTuple):
    """A member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


class DescribeGroupResponse(NamedTuple):
    """One classic group; a missing one is Dead."""

    group_id: str
    error: str | None
    message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[DescribedMember] = ()


class DeleteGroupRequest(NamedTuple):
    """Delete a group without members; one group of a DeleteGroups request."""

    group_id: str


class DeleteGroupResponse(NamedTuple):
    """The result of deleting the group."""

    group_id: str
    error: str | None


# Refusing


def refused(request: object, error: str, message: str | None = None) -> object:
    """The response that refuses a request as a whole."""
    match request:
        case JoinGroupRequest():
            return JoinGroupResponse(error, request.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error)
        case HeartbeatRequest():
            return HeartbeatResponse(error)
        case LeaveGroupRequest():
            if error == "UNKNOWN_MEMBER_ID":  # of a group that is not there nobody is a member
                left = [LeftMember(*one[:2], error) for one in request.members]
                return LeaveGroupResponse(None, left)
            return LeaveGroupResponse(error)
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error, message)
        case ConsumerGroupDescribeRequest():
            return ConsumerGroupDescribeResponse(request.group_id, error, message)
        case ShareGroupHeartbeatRequest():
            return ShareGroupHeartbeatResponse(error, message)
        case ShareGroupDescribeRequest():
            return ShareGroupDescribeResponse(request.group_id, error, message)
        case DescribeShareOffsetsRequest():
            return DescribeShareOffsetsResponse(request.group_id, error, message)
        case AlterShareOffsetsRequest():
            return AlterShareOffsetsResponse(error, message)
        case DeleteShareOffsetsRequest():
            return DeleteShareOffsetsResponse(error, message)
        case OffsetCommitRequest():
            return OffsetCommitResponse([(one.partition, error) for one in request.partitions])
        case TxnOffsetCommitRequest():
            return TxnOffsetCommitResponse([(one.partition, error) for one in request.partitions])
        case EndOffsetsRequest():
            return EndOffsetsResponse(error)
        case OffsetFetchRequest():
            return OffsetFetchResponse(request.group_id, error)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error)
        case ListGroupsRequest():
            return ListGroupsResponse(error)
        case DescribeGroupRequest():
            return DescribeGroupResponse(request.group_id, error, message)
        case DeleteGroupRequest():
            return DeleteGroupResponse(request.group_id, error)
        case _:
            raise TypeError(f"{type(request).__name__} is no request to a group coordinator")


NEED_A_NAME = (
    *(JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest),
    *(OffsetDeleteRequest, ConsumerGroupDescribeRequest, TxnOffsetCommitRequest),
    *(ShareGroupDescribeRequest, DescribeShareOffsetsRequest),
    *(AlterShareOffsetsRequest, DeleteShareOffsetsRequest),
)
"""Requests that are refused if the group's name is empty; ConsumerGroupHeartbeat explains it
better.
"""

REQUESTS: Mapping[type, str] = {
    kind: kind.__name__.removesuffix("Request")
    for kind in (
        *(JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest),
        *(ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest),
        *(ShareGroupHeartbeatRequest, ShareGroupDescribeRequest, DescribeShareOffsetsRequest),
        *(AlterShareOffsetsRequest, DeleteShareOffsetsRequest),
        *(OffsetCommitRequest, OffsetFetchRequest, OffsetDeleteRequest, TxnOffsetCommitRequest),
        *(DescribeGroupRequest, DeleteGroupRequest),
    )
}
"""The names of the requests about one group, which its coordinator answers."""
