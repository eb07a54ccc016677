"""Share groups (KIP-932): records of `__consumer_offsets`, and all of `__share_group_state`.

The group coordinator keeps members and assignments. The share coordinator keeps the records that
were delivered and acknowledged.
"""

from typing import Annotated

from attrs import frozen

from refimpl.records.schema import (
    INT32,
    INT64,
    Id,
    Int8,
    Int16,
    Int32,
    Int64,
    MaybeText,
    Numbers,
    Text,
    Texts,
    tagged,
)


@frozen
class ShareGroupMemberMetadataKey:
    """A member of a share group."""

    group_id: Text
    member_id: Text


@frozen
class ShareGroupMemberMetadataValue:
    """A member's own metadata."""

    rack_id: MaybeText
    client_id: Text
    client_host: Text
    subscribed_topic_names: Texts


@frozen
class ShareGroupMetadataKey:
    """A share group."""

    group_id: Text


@frozen
class ShareGroupMetadataValue:
    """A group's epoch, and a hash of the topics it subscribes to."""

    epoch: Int32
    metadata_hash: Int64


@frozen
class ShareGroupTargetAssignmentMetadataKey:
    """A share group."""

    group_id: Text


@frozen(kw_only=True)
class ShareGroupTargetAssignmentMetadataValue:
    """The epoch of the assignment that the group is moving to."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[int, INT64, tagged(0)] = 0


@frozen
class ShareGroupTargetAssignmentMemberKey:
    """A member of a share group."""

    group_id: Text
    member_id: Text


@frozen
class TopicPartition:
    """Partitions of one topic that a member shall read."""

    topic_id: Id
    partitions: Numbers


@frozen
class ShareGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: tuple[TopicPartition, ...]


@frozen
class ShareGroupCurrentMemberAssignmentKey:
    """A member of a share group."""

    group_id: Text
    member_id: Text


@frozen
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Id
    partitions: Numbers


@frozen
class ShareGroupCurrentMemberAssignmentValue:
    """The current assignment of a member."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[TopicPartitions, ...]


@frozen
class ShareGroupStatePartitionMetadataKey:
    """A share group."""

    group_id: Text


@frozen
class TopicPartitionsInfo:
    """Partitions of one topic, by id and by name."""

    topic_id: Id
    topic_name: Text
    partitions: Numbers


@frozen
class TopicInfo:
    """A topic, by id and by name."""

    topic_id: Id
    topic_name: Text


@frozen
class ShareGroupStatePartitionMetadataValue:
    """The partitions whose state is being created, exists, or is being deleted."""

    initializing_topics: tuple[TopicPartitionsInfo, ...]
    initialized_topics: tuple[TopicPartitionsInfo, ...]
    deleting_topics: tuple[TopicInfo, ...]


@frozen
class ShareSnapshotKey:
    """A partition as a share group reads it."""

    group_id: Text
    topic_id: Id
    partition: Int32


@frozen
class StateBatch:
    """Records in one state of delivery."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@frozen(kw_only=True)
class ShareSnapshotValue:
    """The whole state of a partition: delivery counts, and acknowledged records."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[int, INT32, tagged(0)] = -1
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: tuple[StateBatch, ...]


@frozen
class ShareUpdateKey:
    """A partition as a share group reads it."""

    group_id: Text
    topic_id: Id
    partition: Int32


@frozen(kw_only=True)
class ShareUpdateValue:
    """The changes since the last snapshot."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[int, INT32, tagged(0)] = -1
    state_batches: tuple[StateBatch, ...]
