"""Streams groups (KIP-1071): their records in `__consumer_offsets`."""

from typing import Annotated

from attrs import frozen

from refimpl.records.schema import (
    INT16,
    INT32,
    INT64,
    Int8,
    Int16,
    Int32,
    Int64,
    MaybeText,
    Numbers,
    Text,
    Texts,
    UInt16,
    tagged,
)


@frozen
class StreamsGroupMetadataKey:
    """A streams group."""

    group_id: Text


@frozen
class LastAssignmentConfig:
    """A setting that the last assignment was made with."""

    key: Text
    value: Text


@frozen(kw_only=True)
class StreamsGroupMetadataValue:
    """A group's epoch, and the inputs that it was computed from."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Annotated[int, INT32, tagged(0)] = -1
    last_assignment_configs: Annotated[tuple[LastAssignmentConfig, ...] | None, tagged(1)] = ()


@frozen
class StreamsGroupMemberMetadataKey:
    """A member of a streams group."""

    group_id: Text
    member_id: Text


@frozen
class MemberEndpoint:
    """The address at which a member answers queries."""

    host: Text
    port: UInt16


@frozen
class KeyValue:
    """A tag of a client."""

    key: Text
    value: Text


@frozen
class StreamsGroupMemberMetadataValue:
    """A member's own metadata."""

    instance_id: MaybeText
    rack_id: MaybeText
    client_id: Text
    client_host: Text
    rebalance_timeout_ms: Int32
    topology_epoch: Int32
    process_id: Text
    user_endpoint: MemberEndpoint | None
    client_tags: tuple[KeyValue, ...]


@frozen
class StreamsGroupTargetAssignmentMetadataKey:
    """A streams group."""

    group_id: Text


@frozen(kw_only=True)
class StreamsGroupTargetAssignmentMetadataValue:
    """The epoch of the assignment that the group is moving to."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[int, INT64, tagged(0)] = 0


@frozen
class StreamsGroupTargetAssignmentMemberKey:
    """A member of a streams group."""

    group_id: Text
    member_id: Text


@frozen
class TaskIds:
    """Tasks of one subtopology."""

    subtopology_id: Text
    partitions: Numbers


@frozen
class StreamsGroupTargetAssignmentMemberValue:
    """The target tasks of a member."""

    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]


@frozen
class StreamsGroupCurrentMemberAssignmentKey:
    """A member of a streams group."""

    group_id: Text
    member_id: Text


@frozen(kw_only=True)
class OwnedTaskIds:
    """Tasks of one subtopology, and the epochs at which they were assigned."""

    subtopology_id: Text
    partitions: Numbers
    assignment_epochs: Annotated[tuple[int, ...] | None, INT32, tagged(0)] = ()


@frozen
class StreamsGroupCurrentMemberAssignmentValue:
    """The tasks that a member has, and those that it has yet to give up."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: tuple[OwnedTaskIds, ...]
    standby_tasks: tuple[OwnedTaskIds, ...]
    warmup_tasks: tuple[OwnedTaskIds, ...]
    active_tasks_pending_revocation: tuple[OwnedTaskIds, ...]
    standby_tasks_pending_revocation: tuple[OwnedTaskIds, ...]
    warmup_tasks_pending_revocation: tuple[OwnedTaskIds, ...]


@frozen
class StreamsGroupTopologyKey:
    """A streams group."""

    group_id: Text


@frozen
class TopicConfig:
    """A setting of a topic."""

    key: Text
    value: Text


@frozen
class TopicInfo:
    """A topic that the topology needs."""

    name: Text
    partitions: Int32
    replication_factor: Int16
    topic_configs: tuple[TopicConfig, ...]


@frozen
class CopartitionGroup:
    """Topics that must have the same number of partitions, by their places."""

    source_topics: Annotated[tuple[int, ...], INT16]
    source_topic_regex: Annotated[tuple[int, ...], INT16]
    repartition_source_topics: Annotated[tuple[int, ...], INT16]


@frozen
class Subtopology:
    """A part of a topology, with the topics it reads and writes."""

    subtopology_id: Text
    source_topics: Texts
    source_topic_regex: Texts
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: Texts
    repartition_source_topics: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


@frozen
class StreamsGroupTopologyValue:
    """The topology that the members run."""

    epoch: Int32
    subtopologies: tuple[Subtopology, ...]
