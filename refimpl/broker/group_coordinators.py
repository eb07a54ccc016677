"""The group coordinators of one broker, on the partitions of `__consumer_offsets` that it leads.

A request goes to the coordinator of its group's id.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, evolve, field

from refimpl.broker.context import Context
from refimpl.broker.coordinators import (
    Coordinators,
    PartitionCoordinatorLog,
    leader_of,
    partition_of,
)
from refimpl.broker.forwarding import AutoTopics
from refimpl.broker.partition import Partition
from refimpl.broker.share_groups import ShareGroupState
from refimpl.broker.share_persister import SharePersister
from refimpl.broker.verification import Errors, Guards, Verifications
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.groups.config import GroupConfig
from refimpl.groups.registry import NewId, new_coordinator
from refimpl.groups.shard import GroupCoordinator, GroupShard
from refimpl.groups.topics import TopicDescription
from refimpl.messages import group as m
from refimpl.messages.broker import Request, TopicPartition
from refimpl.messages.cluster import GROUP, ClusterMetadata, ConfigResource
from refimpl.messages.transactions import TxnMarker
from refimpl.records.coordinators import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from refimpl.records.schema import Uuid
from refimpl.storage.format.batch import NO_SEQUENCE
from refimpl.storage.replica.transactional import Writer

UNVERIFIED: Mapping[str, str] = {
    "NETWORK_EXCEPTION": "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
}
"""The errors sent in place of those that TxnOffsetCommit does not have."""

AT_LEADERS: Mapping[str | None, str] = dict.fromkeys(
    ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "NOT_LEADER_OR_FOLLOWER",
)
"""The errors of WriteTxnMarkers for those of a group's coordinator."""

TOPIC_OF = {m.GROUP: OFFSETS_TOPIC, m.TRANSACTION: TRANSACTIONS_TOPIC, m.SHARE: SHARE_TOPIC}
"""The topic of each type of coordinators."""


@define(eq=False)
class ClusterTopics:
    """The topics in this broker's metadata."""

    metadata: ClusterMetadata

    @property
    def version(self) -> int:
        """The metadata version, which grows with each update."""
        return self.metadata.metadata_version

    def names(self) -> Iterable[str]:
        """All topics."""
        return self.metadata.topics

    def by_name(self, name: str) -> TopicDescription | None:
        """A topic by its name."""
        topic = self.metadata.topics.get(name)
        if topic is None:
            return None
        brokers = self.metadata.brokers
        racks = [
            frozenset(
                rack
                for replica in one.replicas
                if replica in brokers and (rack := brokers[replica].rack) is not None
            )
            for _, one in sorted(topic.partitions.items())
        ]
        return TopicDescription(Uuid(topic.topic_id), name, racks)

    def by_id(self, topic_id: Uuid) -> TopicDescription | None:
        """A topic by its id."""
        name = self.metadata.topic_names.get(topic_id)
        return None if name is None else self.by_name(name)


@define(eq=False)
class GroupCoordinators:
    """Every group that this broker coordinates."""

    context: Context
    metadata: ClusterMetadata
    auto_topics: AutoTopics
    config: GroupConfig
    #: Makes a part of a member's id that no other member has
    new_id: NewId
    #: Called after an append
    appended: Callable[[int, Partition], None]
    #: Sets a timer of the node that lets the coordinators' timers fire
    arm: Callable[[int], None]
    verifications: Verifications
    #: Of the state of share partitions
    persister: SharePersister
    share_groups: ShareGroupState = field(init=False)
    coordinators: Coordinators[GroupShard] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without groups."""
        self.coordinators = Coordinators(
            self.context, OFFSETS_TOPIC, "GroupCoordinator", self._new, self.appended, self.arm
        )
        self.share_groups = ShareGroupState(
            self.context, self.metadata, self.coordinators, self.persister
        )

    def _new(self, number: int, log: PartitionCoordinatorLog) -> GroupCoordinator:
        config = evolve(self.config, of_group=self.configured)
        return new_coordinator(number, log, config, ClusterTopics(self.metadata), self.new_id)

    def configured(self, group_id: str) -> Mapping[str, str]:
        """A group's own configurations."""
        return self.metadata.configs.get(ConfigResource(GROUP, group_id), {})

    def topic_deleted(self, now: int, topic: str, topic_id: bytes) -> None:
        """Remove the committed offsets of a deleted topic."""
        self.coordinators.operate(now, lambda shard: shard.topic_deleted(topic, topic_id))

    # Requests

    def handle(self, now: int, request: Request) -> None:
        """Let a group's coordinator answer, if it is here."""
        body: Any = request.body
        if not body.group_id and isinstance(body, m.NEED_A_NAME):
            self.context.respond(request, m.refused(body, "INVALID_GROUP_ID"))
            return
        number = partition_of(self.metadata, OFFSETS_TOPIC, body.group_id)
        if number not in self.coordinators.by_partition:
            self.context.respond(request, m.refused(body, "NOT_COORDINATOR"))
        elif isinstance(body, m.TxnOffsetCommitRequest):
            self._verify(now, number, request, body)
        elif self.share_groups.serves(number, body):
            self.share_groups.handle(now, number, request)
        else:
            self.coordinators.handle(now, number, request)

    def _verify(
        self, now: int, number: int, request: Request, body: m.TxnOffsetCommitRequest
    ) -> None:
        """Verify a transaction that begins here, before its offsets are written (KIP-890)."""
        name = TopicPartition(OFFSETS_TOPIC, number)

        def verified(then: int, guards: Guards, errors: Errors) -> None:
            error = errors.get(name)
            if error is None and number not in self.coordinators.by_partition:
                error = "NOT_COORDINATOR"
            if error is None:
                self.coordinators.handle(
                    then, number, request._replace(body=body._replace(guard=guards.get(name)))
                )
            else:
                self.context.respond(request, m.refused(body, UNVERIFIED.get(error, error)))

        writer, write = Writer(body.producer_id, body.producer_epoch), {name: NO_SEQUENCE}
        self.verifications.verify(
            now, body.transactional_id, writer, write, body.transaction_support, verified
        )

    def end_transaction(
        self, now: int, number: int, marker: TxnMarker, then: Callable[[str | None], None]
    ) -> None:
        """Write a transaction's marker; `then` is called once it is committed and its offsets
        count.
        """
        if number in self.coordinators.by_partition:
            self.coordinators.ask(
                now,
                number,
                m.EndOffsetsRequest(marker),
                lambda body: then(AT_LEADERS.get(body.error, body.error)),
            )
        elif TopicPartition(OFFSETS_TOPIC, number) in self.context.partitions:
            then("NOT_LEADER_OR_FOLLOWER")
        else:
            then("UNKNOWN_TOPIC_OR_PARTITION")

    def list_groups(self, request: Request) -> None:
        """Answer all groups of this broker whose partitions are loaded."""
        body: m.ListGroupsRequest = request.body
        groups: list[m.ListedGroup] = []
        for _, coordinator in sorted(self.coordinators.by_partition.items()):
            if coordinator.state is CoordinatorState.LOADING:
                error = "COORDINATOR_LOAD_IN_PROGRESS"
                self.context.respond(request, m.ListGroupsResponse(error))
                return
            groups += coordinator.shard.operators.listed(body)
        self.context.respond(request, m.ListGroupsResponse(None, groups))

    def find(self, request: Request) -> None:
        """FindCoordinator: the coordinators of these groups or transactional ids. The first such
        request creates the topic.
        """
        body: m.FindCoordinatorRequest = request.body
        found = [self._found(body.key_type, key) for key in body.keys]
        self.context.respond(request, m.FindCoordinatorResponse(found))

    def _found(self, key_type: int, key: str) -> m.FoundCoordinator:
        name = TOPIC_OF.get(key_type)
        if key_type == m.SHARE and key.count(":") < 2:
            why = "A share partition is named group:topic id:partition."
            return m.FoundCoordinator(key, "INVALID_REQUEST", message=why)
        if name is None:
            return m.FoundCoordinator(key, "INVALID_REQUEST")
        if name not in self.metadata.topics:
            self.auto_topics.create((name,))
            return m.FoundCoordinator(key, "COORDINATOR_NOT_AVAILABLE")
        leader = leader_of(self.metadata, name, key)
        broker = None if leader is None else self.metadata.brokers.get(leader)
        if leader is None or broker is None or broker.fenced:
            return m.FoundCoordinator(key, "COORDINATOR_NOT_AVAILABLE")
        return m.FoundCoordinator(key, None, leader)
