"""The group coordinators of one broker: one for each partition of `__consumer_offsets` it leads.

Loaded when it is elected, closed when it resigns; requests find theirs by the group's id.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from attrs import define, evolve, field

from refimpl.broker.context import Context
from refimpl.broker.forwarding import AutoTopics
from refimpl.broker.partition import Partition
from refimpl.errors import Refusal
from refimpl.groups.config import GroupConfig
from refimpl.groups.coordinator import GroupCoordinator, Output, State
from refimpl.groups.observations import GroupOperation, GroupsLoaded, GroupsUnloaded
from refimpl.groups.operation import Answer, Performed, TimerKey
from refimpl.groups.registry import NewId, new_coordinator
from refimpl.groups.topics import TopicDescription
from refimpl.machines.replica_log import Appended
from refimpl.messages import group as m
from refimpl.messages.broker import Request, TopicPartition
from refimpl.messages.cluster import GROUP, ClusterMetadata, ConfigResource
from refimpl.messages.observations import Written
from refimpl.records.coordinators import (
    OFFSETS_TOPIC,
    CoordinatorRecord,
    partition_for,
)
from refimpl.records.schema import Uuid


@define(eq=False)
class PartitionLog:
    """A partition's log, as its group coordinator knows it."""

    context: Context
    partition: Partition

    @property
    def start(self) -> int:
        """The log start offset."""
        return self.partition.log.start

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.partition.log.end

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self.partition.replica.high_watermark

    def append(self, now: int, records: Sequence[CoordinatorRecord]) -> int:
        """Append records as one batch, by one replica's leave: as in Kafka, too few in sync keep
        them from being committed and not from being written."""
        partition = self.partition
        batch = partition.log.keyed_batch(records, now)
        try:
            appended: Appended = partition.replica.write(batch, acks_all=False)
        except Refusal as refusal:
            self.context.refused("GroupCoordinator", refusal)
            raise
        return appended.last_offset

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        """Records from an offset on, and where to go on."""
        log = self.partition.log
        return log.keyed_records(offset, log.slice(offset, size))


@define(eq=False)
class ClusterTopics:
    """The topics that this broker was told of."""

    metadata: ClusterMetadata

    @property
    def version(self) -> int:
        """Grows with each piece of news."""
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
    #: Told after an append: followers may fetch, and a leader alone in sync commits
    appended: Callable[[int, Partition], None]
    #: Sets a timer of the node that calls `expire`
    arm: Callable[[int], None]
    coordinators: dict[int, GroupCoordinator] = field(factory=dict[int, GroupCoordinator])
    _requests: dict[int, Request] = field(factory=dict[int, Request])
    _tokens: int = 0
    #: When each timer is due, and all that were ever set, in order
    _due: dict[tuple[int, TimerKey], int] = field(factory=dict[tuple[int, TimerKey], int])
    _heap: list[tuple[int, int, int, TimerKey]] = field(
        factory=list[tuple[int, int, int, TimerKey]]
    )
    _count: int = 0
    #: When the node's timer comes next
    _armed_at: int | None = None

    # The role of this broker

    def elected(self, now: int, partition: Partition) -> None:
        """This broker leads a partition from now on, in a new epoch: load it from its beginning."""
        if partition.name.topic != OFFSETS_TOPIC:
            return
        self.resigned(now, partition)
        number = partition.name.partition
        log = PartitionLog(self.context, partition)
        coordinator = new_coordinator(
            *(number, log, evolve(self.config, of_group=self._configured)),
            *(ClusterTopics(self.metadata), self.new_id),
        )
        self.coordinators[number] = coordinator
        partition.on_commit = self.committed
        with _Appending(self, now, number):
            self._carry_out(now, number, coordinator.load(now))
        self._loaded(coordinator)

    def _configured(self, group_id: str) -> Mapping[str, str]:
        return self.metadata.configs.get(ConfigResource(GROUP, group_id), {})

    def _loaded(self, coordinator: GroupCoordinator) -> None:
        if coordinator.state is State.ACTIVE:
            name = TopicPartition(OFFSETS_TOPIC, coordinator.partition)
            self.context.outputs.append(GroupsLoaded(name, coordinator.position, coordinator.store))

    def resigned(self, now: int, partition: Partition) -> None:
        """Another one leads, or the partition is gone: what is not answered is not known."""
        number = partition.name.partition
        if partition.name.topic != OFFSETS_TOPIC or number not in self.coordinators:
            return
        partition.on_commit = None
        coordinator = self.coordinators.pop(number)
        self._carry_out(now, number, coordinator.resign())
        for key in [key for key in self._due if key[0] == number]:
            del self._due[key]
        self.context.outputs.append(GroupsUnloaded(partition.name))

    def committed(self, now: int, partition: Partition) -> None:
        """The high watermark of a partition has moved."""
        number = partition.name.partition
        outputs = self.coordinators[number].committed(partition.replica.high_watermark)
        self._carry_out(now, number, outputs)

    def topic_deleted(self, now: int, topic: str, topic_id: bytes) -> None:
        """A topic is gone; what is committed of it goes."""
        for number, coordinator in list(self.coordinators.items()):
            with _Appending(self, now, number):
                self._carry_out(now, number, coordinator.topic_deleted(now, topic, topic_id))

    # Requests

    def handle(self, now: int, request: Request) -> None:
        """Let a group's coordinator answer, if it is here."""
        body: Any = request.body
        if not body.group_id and isinstance(body, m.NEED_A_NAME):
            self.context.respond(request, m.refused(body, "INVALID_GROUP_ID"))
            return
        number = self._partition_of(body.group_id)
        coordinator = self.coordinators.get(number)
        if coordinator is None:
            self.context.respond(request, m.refused(body, "NOT_COORDINATOR"))
            return
        self._tokens += 1
        self._requests[self._tokens] = request
        with _Appending(self, now, number):
            self._carry_out(now, number, coordinator.handle(now, self._tokens, body))

    def list_groups(self, request: Request) -> None:
        """All groups that are here, as far as they are loaded."""
        body: m.ListGroupsRequest = request.body
        groups: list[m.ListedGroup] = []
        for _, coordinator in sorted(self.coordinators.items()):
            if coordinator.state is State.LOADING:
                error = "COORDINATOR_LOAD_IN_PROGRESS"
                self.context.respond(request, m.ListGroupsResponse(error))
                return
            groups += coordinator.operators.listed(body)
        self.context.respond(request, m.ListGroupsResponse(None, groups))

    def _partition_of(self, group_id: str) -> int:
        topic = self.metadata.topics.get(OFFSETS_TOPIC)
        return -1 if topic is None else partition_for(group_id, len(topic.partitions) or 1)

    def find(self, request: Request) -> None:
        """Who coordinates these groups? The topic is made when somebody asks for the first time."""
        body: m.FindCoordinatorRequest = request.body
        found = [self._found(body.key_type, key) for key in body.keys]
        self.context.respond(request, m.FindCoordinatorResponse(found))

    def _found(self, key_type: int, key: str) -> m.FoundCoordinator:
        if key_type != m.GROUP:
            why = "Only groups have coordinators here."
            return m.FoundCoordinator(key, "INVALID_REQUEST", message=why)
        topic = self.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            self.auto_topics.create((OFFSETS_TOPIC,))
            return m.FoundCoordinator(key, "COORDINATOR_NOT_AVAILABLE")
        led = topic.partitions.get(self._partition_of(key))
        leader = None if led is None else led.decision.leader
        broker = None if leader is None else self.metadata.brokers.get(leader)
        if leader is None or broker is None or broker.fenced:
            return m.FoundCoordinator(key, "COORDINATOR_NOT_AVAILABLE")
        return m.FoundCoordinator(key, None, leader)

    # Timers

    def expire(self, now: int) -> int | None:
        """Let what is due happen; answers when to come again.

        A timer that comes before it is due was made superfluous by an earlier one, and sets none:
        each that did would go on beside the others.
        """
        if self._armed_at is None or now < self._armed_at:
            return None
        self._armed_at = now
        self._armed_at = self._let_happen(now)
        return self._armed_at

    def _let_happen(self, now: int) -> int | None:
        while self._heap and self._heap[0][0] <= now:
            at_ms, _, number, key = heappop(self._heap)
            coordinator = self.coordinators.get(number)
            if coordinator is None or self._due.get((number, key)) != at_ms:
                continue
            del self._due[number, key]
            loading = coordinator.state is State.LOADING
            with _Appending(self, now, number):
                self._carry_out(now, number, coordinator.due(now, key))
            if loading:
                self._loaded(coordinator)
                return now  # others get their turn between two parts of a load
        return self._heap[0][0] if self._heap else None

    # Outputs

    def _carry_out(self, now: int, number: int, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output, Answer):
                self.context.respond(self._requests.pop(output.token), output.body)
            elif isinstance(output, Performed):
                name = TopicPartition(OFFSETS_TOPIC, number)
                self.context.outputs.append(GroupOperation(name, output))
            elif output.at_ms is not None:
                self._set(number, output.key, output.at_ms)
            else:
                self._due.pop((number, output.key), None)

    def _set(self, number: int, key: TimerKey, at_ms: int) -> None:
        if self._due.get((number, key)) == at_ms:
            return
        self._due[number, key] = at_ms
        self._count += 1
        heappush(self._heap, (at_ms, self._count, number, key))
        if self._armed_at is None or at_ms < self._armed_at:
            self._armed_at = at_ms
            self.arm(at_ms)


@define(eq=False)
class _Appending:
    """Within it a coordinator may append; behind it that is observed, and followers are told."""

    here: GroupCoordinators
    now: int
    number: int
    _partition: Partition = field(init=False)
    _end: int = field(init=False)

    def __enter__(self) -> None:
        name = TopicPartition(OFFSETS_TOPIC, self.number)
        self._partition = self.here.context.partitions[name]
        self._end = self._partition.log.end

    def __exit__(self, *_: object) -> None:
        partition, end = self._partition, self._partition.log.end
        if end > self._end:
            self.here.context.outputs.append(Written(partition.name, self._end, end))
            self.here.appended(self.now, partition)
