"""A group coordinator's requests to share coordinators: to initialise, set, read and delete state.

What concerns the group alone is `refimpl.groups.share`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.coordinators import Coordinators
from refimpl.broker.share_persister import SharePersister
from refimpl.coordinator.operation import Outcome
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.errors import Refusal
from refimpl.groups.shard import GroupShard
from refimpl.groups.share import ShareGroups
from refimpl.machines.share_group import ShareGroup
from refimpl.messages import group as m
from refimpl.messages import share as s
from refimpl.messages.broker import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    Request,
    Response,
    TopicPartition,
)
from refimpl.messages.cluster import ClusterMetadata
from refimpl.records.schema import NO_ID, Uuid

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"

Found = tuple[Uuid, str, int]
"""A topic's id, its name, and a partition's number."""


@define(eq=False)
class _Several:
    """Answers about several share partitions, until all are there."""

    missing: int
    then: Callable[[int, dict[s.ShareKey, s.ShareStateResponse]], None]
    answers: dict[s.ShareKey, s.ShareStateResponse] = field(
        factory=dict[s.ShareKey, s.ShareStateResponse]
    )

    def take(self, now: int, key: s.ShareKey, answer: s.ShareStateResponse) -> None:
        """Take an answer; the last one ends the wait."""
        self.answers[key] = answer
        self.missing -= 1
        if self.missing == 0:
            self.then(now, self.answers)


@define(eq=False)
class _Ends:
    """Answers of leaders about the ends of their partitions, until all are there."""

    then: Callable[[Mapping[TopicPartition, int]], None]
    missing: int = 0
    found: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])


@define(eq=False)
class PartitionEnds:
    """The committed ends of partitions, as their leaders know them (ListOffsets)."""

    context: Context
    metadata: ClusterMetadata
    _asked: dict[int, tuple[int, _Ends]] = field(factory=dict[int, tuple[int, _Ends]])

    def ask(
        self,
        partitions: Iterable[TopicPartition],
        then: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        """Find the ends; those of partitions without a leader that answers are left out."""
        asking, by_leader = _Ends(then), dict[int, list[ListOffsetsPartition]]()
        for name in partitions:
            here, known = self.context.partitions.get(name), self.metadata.partitions.get(name)
            leader = None if known is None else known.decision.leader
            if here is not None and here.replica.leads:
                asking.found[name] = here.replica.high_watermark
            elif leader is not None and leader != self.context.id:
                by_leader.setdefault(leader, []).append(ListOffsetsPartition(name, LATEST))
        asking.missing = len(by_leader)
        for leader, wanted in by_leader.items():
            number = self.context.request(leader, ListOffsetsRequest(tuple(wanted)))
            self._asked[number] = leader, asking
        if not by_leader:
            then(asking.found)

    def answered(self, response: Response) -> bool:
        """True if this answers a request of ours."""
        _, asking = self._asked.pop(response.correlation_id, (0, None))
        if asking is None:
            return False
        body: ListOffsetsResponse = response.body
        self._take(asking, {one.partition: one.offset for one in body.partitions if not one.error})
        return True

    def disconnected(self, broker: int) -> None:
        """Go on without the answers of a broker whose connection is lost."""
        for number, (leader, asking) in list(self._asked.items()):
            if leader == broker:
                del self._asked[number]
                self._take(asking, {})

    def _take(self, asking: _Ends, found: Mapping[TopicPartition, int]) -> None:
        asking.found.update(found)
        asking.missing -= 1
        if asking.missing == 0:
            asking.then(asking.found)


@define(eq=False)
class ShareGroupState:
    """The state of the share groups that this broker coordinates."""

    context: Context
    metadata: ClusterMetadata
    coordinators: Coordinators[GroupShard]
    persister: SharePersister
    ends: PartitionEnds = field(init=False)
    #: Initialisations on their way
    _asked: set[s.ShareKey] = field(factory=set[s.ShareKey])

    def __attrs_post_init__(self) -> None:
        """Begin without requests to others."""
        self.ends = PartitionEnds(self.context, self.metadata)

    def serves(self, number: int, body: Any) -> bool:
        """True if a request needs the state of share partitions."""
        if isinstance(body, m.DeleteGroupRequest):
            group = self._shard(number).store.groups.get(body.group_id)
            return isinstance(group, ShareGroup)
        return isinstance(
            body,
            m.ShareGroupHeartbeatRequest
            | m.DescribeShareOffsetsRequest
            | m.AlterShareOffsetsRequest
            | m.DeleteShareOffsetsRequest,
        )

    def _shard(self, number: int) -> GroupShard:
        return self.coordinators.by_partition[number].shard

    def _logic(self, number: int) -> ShareGroups:
        logics = self._shard(number).logics
        return next(one for one in logics if isinstance(one, ShareGroups))

    def handle(self, now: int, number: int, request: Request) -> None:
        """Answer a request, after what the share coordinators have to say."""
        body = request.body
        if isinstance(body, m.ShareGroupHeartbeatRequest):
            self._heartbeat(now, number, request)
            return
        coordinator = self.coordinators.by_partition[number]
        if coordinator.state is not CoordinatorState.ACTIVE:
            error = (
                "COORDINATOR_LOAD_IN_PROGRESS"
                if coordinator.state is CoordinatorState.LOADING
                else "NOT_COORDINATOR"
            )
            self.context.respond(request, m.refused(body, error))
            return
        try:
            if isinstance(body, m.DescribeShareOffsetsRequest):
                self._describe(now, number, request)
            elif isinstance(body, m.AlterShareOffsetsRequest):
                self._alter(now, number, request)
            elif isinstance(body, m.DeleteShareOffsetsRequest):
                self._delete_offsets(now, number, request)
            else:
                self._delete_group(now, number, request)
        except Refusal as refusal:
            message = str(refusal).partition(": ")[2]
            self.context.respond(request, m.refused(body, refusal.kafka_error, message))

    # Initialising

    def _heartbeat(self, now: int, number: int, request: Request) -> None:
        """Let the coordinator answer, then have the state of new partitions initialised."""

        def answered(body: Any) -> None:
            self.context.respond(request, body)
            if body.error is None and number in self.coordinators.by_partition:
                self._initialise(now, number, request.body.group_id)

        self.coordinators.ask(now, number, request.body, answered)

    def _initialise(self, now: int, number: int, group_id: str) -> None:
        epoch, found = self._logic(number).initialising(group_id)
        for topic_id, partition in found:
            key = s.ShareKey(group_id, topic_id, partition)
            if key not in self._asked:
                self._asked.add(key)

                def answered(
                    when: int, answer: s.ShareStateResponse, key: s.ShareKey = key
                ) -> None:
                    self._asked.discard(key)
                    if answer.error is None and number in self.coordinators.by_partition:
                        self._operate(
                            *(when, number),
                            lambda one: one.initialised(group_id, [(key.topic_id, key.partition)]),
                        )

                self.persister.send(now, s.InitializeShareStateRequest(key, epoch, -1), answered)

    def _operate(self, now: int, number: int, decide: Callable[[ShareGroups], Outcome]) -> None:
        logic = self._logic(number)
        self.coordinators.operate_on(now, number, lambda shard: decide(logic))

    def _ask(
        self,
        now: int,
        bodies: Sequence[Any],
        then: Callable[[int, dict[s.ShareKey, s.ShareStateResponse]], None],
    ) -> None:
        """Ask about several share partitions; `then` takes all answers."""
        if not bodies:
            then(now, {})
            return
        several = _Several(len(bodies), then)
        for body in bodies:

            def answered(
                when: int, answer: s.ShareStateResponse, key: s.ShareKey = body.key
            ) -> None:
                several.take(when, key, answer)

            self.persister.send(now, body, answered)

    def _existing(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """The ids of the topics of those partitions that exist."""
        topics = self.metadata.topics
        return {
            one: Uuid(topics[one.topic].topic_id)
            for one in partitions
            if one.topic in topics and one.partition in topics[one.topic].partitions
        }

    # Operators

    def _describe(self, now: int, number: int, request: Request) -> None:
        body: m.DescribeShareOffsetsRequest = request.body
        group = self._shard(number).store.groups.committed(body.group_id)
        wanted = body.partitions
        if not isinstance(group, ShareGroup):  # nothing is known of where it starts
            topics = self.metadata.topics
            unknown = [
                m.DescribedShareOffset(one, Uuid(topics[one.topic].topic_id))
                if one.topic in topics
                else m.DescribedShareOffset(one)
                for one in wanted or ()
            ]
            response = m.DescribeShareOffsetsResponse(body.group_id, None, None, unknown)
            self.context.respond(request, response)
            return
        if wanted is None:
            wanted = [
                TopicPartition(name, partition)
                for name, numbers in group.initialized.values()
                for partition in sorted(numbers)
            ]
        ids = self._existing(wanted)

        def answered(when: int, answers: dict[s.ShareKey, s.ShareStateResponse]) -> None:
            self.ends.ask(ids, lambda ends: described(answers, ends))

        def described(
            answers: dict[s.ShareKey, s.ShareStateResponse], ends: Mapping[TopicPartition, int]
        ) -> None:
            found = [
                self._described(body.group_id, one, ids.get(one), answers, ends.get(one))
                for one in wanted
            ]
            response = m.DescribeShareOffsetsResponse(body.group_id, None, None, found)
            self.context.respond(request, response)

        asked = [
            s.ReadShareStateSummaryRequest(s.ShareKey(body.group_id, topic_id, one.partition))
            for one, topic_id in ids.items()
        ]
        self._ask(now, asked, answered)

    def _described(
        self,
        group_id: str,
        name: TopicPartition,
        topic_id: Uuid | None,
        answers: dict[s.ShareKey, s.ShareStateResponse],
        end: int | None,
    ) -> m.DescribedShareOffset:
        if topic_id is None:
            return m.DescribedShareOffset(name)
        answer = answers[s.ShareKey(group_id, topic_id, name.partition)]
        if answer.error is not None:
            return m.DescribedShareOffset(name, topic_id, error=answer.error)
        start, lag = answer.start_offset, -1
        if start >= 0 and end is not None:
            lag = max(0, end - start - max(answer.delivery_complete_count, 0))
        return m.DescribedShareOffset(name, topic_id, start, max(answer.leader_epoch, 0), lag)

    def _alter(self, now: int, number: int, request: Request) -> None:
        """Begin a new life of partitions: in a new epoch of the group, then at the coordinators."""
        body: m.AlterShareOffsetsRequest = request.body
        logic = self._logic(number)
        group = logic.resettable(body.group_id)
        ids = self._existing(name for name, _ in body.offsets)
        found = [(topic_id, one.topic, one.partition) for one, topic_id in ids.items()]
        if found or group.epoch:  # a group is not made for partitions that do not exist
            self._operate(now, number, lambda one: one.reset(body.group_id, found))
        epoch, _ = logic.initialising(body.group_id)
        starts = dict(body.offsets)
        topics = self.metadata.topics

        def answered(when: int, answers: dict[s.ShareKey, s.ShareStateResponse]) -> None:
            errors = {(key.topic_id, key.partition): one.error for key, one in answers.items()}
            results = [
                (one, errors[ids[one], one.partition], ids[one])
                if one in ids
                else (
                    one,
                    UNKNOWN,
                    Uuid(topics[one.topic].topic_id) if one.topic in topics else NO_ID,
                )
                for one, _ in body.offsets
            ]
            self.context.respond(request, m.AlterShareOffsetsResponse(None, None, results))

        asked = [
            s.InitializeShareStateRequest(
                s.ShareKey(body.group_id, topic_id, one.partition), epoch, starts[one]
            )
            for one, topic_id in ids.items()
        ]
        self._ask(now, asked, answered)

    def _delete_offsets(self, now: int, number: int, request: Request) -> None:
        body: m.DeleteShareOffsetsRequest = request.body
        group = self._logic(number).empty(body.group_id)
        topics = self.metadata.topics
        known = {*group.initialized, *group.initializing}
        named = {one: Uuid(topics[one].topic_id) for one in body.topics if one in topics}
        ids = {one: topic_id for one, topic_id in named.items() if topic_id in known}
        asked = self._deletions(group, set(ids.values()))

        def answered(when: int, answers: dict[s.ShareKey, s.ShareStateResponse]) -> None:
            errors = {key.topic_id: one.error for key, one in answers.items() if one.error}
            gone = [one for one in ids.values() if one not in errors]
            if number in self.coordinators.by_partition:
                self._operate(when, number, lambda one: one.without_topics(body.group_id, gone))
            results = [
                (one, UNKNOWN, NO_ID) if one not in ids else (one, errors.get(ids[one]), ids[one])
                for one in body.topics
            ]
            self.context.respond(request, m.DeleteShareOffsetsResponse(None, None, results))

        self._ask(now, asked, answered)

    def _deletions(self, group: ShareGroup, topics: set[Uuid]) -> list[s.DeleteShareStateRequest]:
        return [
            s.DeleteShareStateRequest(s.ShareKey(group.group_id, topic_id, partition))
            for known in (group.initialized, group.initializing)
            for topic_id, (_, numbers) in known.items()
            for partition in sorted(numbers)
            if topic_id in topics
        ]

    def _delete_group(self, now: int, number: int, request: Request) -> None:
        """Delete the state of all partitions first, then the group."""
        group = self._logic(number).empty(request.body.group_id)
        topics = {*group.initialized, *group.initializing}

        def answered(when: int, answers: dict[s.ShareKey, s.ShareStateResponse]) -> None:
            error = next((one.error for one in answers.values() if one.error is not None), None)
            if error is None and number in self.coordinators.by_partition:
                self.coordinators.handle(when, number, request)
            else:
                self.context.respond(request, m.refused(request.body, error or "NOT_COORDINATOR"))

        self._ask(now, self._deletions(group, topics), answered)
