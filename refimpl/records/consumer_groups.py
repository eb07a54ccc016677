"""The group coordinator's records of consumer groups, since KIP-848.

There is one record per fact: the group, each member, the target assignment, each member's current
assignment.
"""

from typing import Annotated

from attrs import frozen

from refimpl.records.schema import (
    INT32,
    INT64,
    Data,
    Id,
    Int8,
    Int32,
    Int64,
    MaybeText,
    Numbers,
    Text,
    Texts,
    tagged,
)


@frozen
class GroupKey:
    """A group."""

    group_id: Text


@frozen
class MemberKey:
    """A member of a group."""

    group_id: Text
    member_id: Text


@frozen
class RegularExpressionKey:
    """A regular expression that a member subscribes to."""

    group_id: Text
    regular_expression: Text


@frozen(kw_only=True)
class ConsumerGroupMetadata:
    """A group's epoch, and a hash of the topics it subscribes to (KIP-1101)."""

    epoch: Int32
    metadata_hash: Annotated[int, INT64, tagged(0)] = 0


@frozen
class PartitionRacks:
    """The racks of a partition's replicas."""

    partition: Int32
    racks: Texts


@frozen
class TopicMetadata:
    """A topic that a group subscribes to."""

    topic_id: Id
    topic_name: Text
    num_partitions: Int32
    partition_metadata: tuple[PartitionRacks, ...]


@frozen
class ConsumerGroupPartitionMetadata:
    """The topics that a group subscribes to; written until KIP-1101."""

    topics: tuple[TopicMetadata, ...]


@frozen
class ClassicProtocol:
    """An assignor of a member that uses the classic protocol."""

    name: Text
    metadata: Data


@frozen
class ClassicMemberMetadata:
    """The metadata of a member that uses the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: tuple[ClassicProtocol, ...]


@frozen(kw_only=True)
class ConsumerGroupMemberMetadata:
    """A member's own metadata."""

    instance_id: MaybeText
    rack_id: MaybeText
    client_id: Text
    client_host: Text
    subscribed_topic_names: Texts
    subscribed_topic_regex: MaybeText
    rebalance_timeout_ms: Int32 = -1
    server_assignor: MaybeText
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tagged(0)] = (
        ClassicMemberMetadata(0, ())
    )


@frozen(kw_only=True)
class TargetAssignmentMetadata:
    """The epoch of the assignment that the group is moving to."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[int, INT64, tagged(0)] = 0


@frozen
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Id
    partitions: Numbers


@frozen
class TargetAssignmentMember:
    """The target assignment of a member."""

    topic_partitions: tuple[TopicPartitions, ...]


@frozen(kw_only=True)
class OwnedPartitions:
    """Partitions of one topic, and the epochs at which they were assigned (KIP-1251)."""

    topic_id: Id
    partitions: Numbers
    assignment_epochs: Annotated[tuple[int, ...] | None, INT32, tagged(0)] = ()


@frozen
class CurrentMemberAssignment:
    """The partitions that a member owns, and those that it has yet to give up."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[OwnedPartitions, ...]
    partitions_pending_revocation: tuple[OwnedPartitions, ...]


@frozen
class RegularExpression:
    """The topics that a regular expression matched when it was last resolved."""

    topics: Texts
    version: Int64
    timestamp: Int64
