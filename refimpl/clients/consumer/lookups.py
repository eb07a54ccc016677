"""Questions about offsets: where to begin, whether a position is of the leader's log, and others.

Committed offsets come from the coordinator (OffsetFetch), offsets by time from leaders
(ListOffsets), the ends of leader epochs too (OffsetForLeaderEpoch, KIP-320).
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from attrs import define, field

from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.membership import Membership
from refimpl.clients.consumer.position import (
    INITIALIZING,
    NONE,
    RESETTING,
    VALIDATING,
    OffsetAndEpoch,
    Position,
)
from refimpl.clients.coordinator import Coordinator
from refimpl.clients.errors import OLD_METADATA, RETRIABLE
from refimpl.clients.metadata import NOBODY
from refimpl.clients.network import NetworkClient, Then
from refimpl.configs import duration_ms
from refimpl.errors import Refusal
from refimpl.messages import group as g
from refimpl.messages.broker import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    TopicPartition,
)
from refimpl.records.schema import NO_ID

Fail = Callable[[str, str, tuple[TopicPartition, ...]], None]
#: Errors of a committed offset after which it is asked for again
UNSETTLED = frozenset(("UNSTABLE_OFFSET_COMMIT", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"))


@define(eq=False)
class Query:
    """The application's question about offsets; `then` takes the answers, or an error's name."""

    wanted: Mapping[TopicPartition, int]
    then: Callable[[int, Any, str | None], None]
    until_ms: float
    #: Of the group, not of the log
    committed: bool = False
    found: dict[TopicPartition, Any] = field(factory=dict[TopicPartition, Any])
    asked: set[TopicPartition] = field(factory=set[TopicPartition])
    not_before: int = 0


@define(eq=False)
class Lookups:
    """All questions about offsets of one consumer."""

    config: ConsumerConfig
    network: NetworkClient
    positions: dict[TopicPartition, Position]
    fail: Fail
    coordinator: Coordinator | None = None
    membership: Membership | None = None
    #: The time of day at time 0 of the clock, for resets by duration
    epoch_ms: int = 0
    queries: list[Query] = field(factory=list[Query], init=False)
    _fetching: bool = field(default=False, init=False)
    _not_before: int = field(default=0, init=False)

    def reset(self, name: TopicPartition, position: Position, why: str) -> None:
        """The position is not known, or not in the log: go on as auto.offset.reset says."""
        strategy = self.config.auto_offset_reset
        if strategy == "none":
            error = "OFFSET_OUT_OF_RANGE" if position.offset != NONE else "NO_OFFSET_FOR_PARTITION"
            self.fail(error, f"{name}: {why}, and auto.offset.reset is none", (name,))
        else:
            position.reset(strategy)

    # What there is to ask

    def run(self, now: int) -> None:
        """Ask for each position that is not known, or not validated."""
        self._begin(now)
        resets: dict[int, list[tuple[TopicPartition, Position]]] = {}
        checks: dict[int, list[tuple[TopicPartition, Position]]] = {}
        for name, one in self.positions.items():
            if one.state not in (RESETTING, VALIDATING) or now < one.not_before:
                continue
            if one.asked == one.question:
                continue
            node = self._leader(now, name)
            if node is not None:
                by_node = resets if one.state == RESETTING else checks
                by_node.setdefault(node, []).append((name, one))
        for node, found in resets.items():
            self._list(now, node, found)
        for node, found in checks.items():
            self._validate(now, node, found)
        for query in [*self.queries]:
            self._run(now, query)

    def _leader(self, now: int, name: TopicPartition) -> int | None:
        """The leader, if it may have a request."""
        node = self.network.metadata.leader(name)
        if node == NOBODY:
            self.network.metadata.wanted = True
            return None
        return node if self.network.nodes.is_ready(node, now) else None

    # Committed offsets

    def _begin(self, now: int) -> None:
        """Ask for the committed offsets of all partitions that have no position yet."""
        fresh = {name: one for name, one in self.positions.items() if one.state == INITIALIZING}
        if not fresh or self._fetching or now < self._not_before:
            return
        if self.coordinator is None:
            for name, one in fresh.items():
                self.reset(name, one, "it has no position")
        elif self.coordinator.is_ready(now):
            self._fetching = True
            self._fetch(now, [*fresh], lambda at, answer: self._began(at, fresh, answer))
        else:
            self.coordinator.find(now)

    def _fetch(self, now: int, partitions: list[TopicPartition], then: Then) -> None:
        assert self.coordinator is not None
        member = self.membership
        reader: tuple[str | None, int] = (None, -1)
        if member is not None and not self.config.is_classic and member.group_generation > 0:
            reader = member.member_id, member.group_generation
        wanted = [(name, NO_ID) for name in partitions]
        body = g.OffsetFetchRequest(self.coordinator.key, wanted, *reader, require_stable=True)
        self.coordinator.ask(now, body, then)

    def _began(
        self,
        now: int,
        fresh: dict[TopicPartition, Position],
        answer: g.OffsetFetchResponse | None,
    ) -> None:
        self._fetching = False
        error = self._error_of(now, answer)
        if answer is None or error is not None:
            self._not_before = now + self.network.backoff.wait_ms(0)
            if error is not None and error not in RETRIABLE | UNSETTLED:
                self.fail(error, "committed offsets cannot be read", tuple(fresh))
            return
        for one in answer.partitions:
            position = fresh.get(one.partition)
            if position is None or self.positions.get(one.partition) is not position:
                continue
            if position.state != INITIALIZING:
                continue  # the application has sought
            if one.offset < 0:
                self.reset(one.partition, position, "the group has committed no offset")
                if position.state == INITIALIZING:  # the application hears of it first
                    self._not_before = now + self.network.backoff.wait_ms(0)
            else:
                position.begin(OffsetAndEpoch(one.offset, one.leader_epoch))

    def _error_of(self, now: int, answer: g.OffsetFetchResponse | None) -> str | None:
        assert self.coordinator is not None
        errors = () if answer is None else (answer.error, *(one.error for one in answer.partitions))
        error = next((one for one in errors if one is not None), None)
        if answer is None or error is not None:
            self.coordinator.is_trouble(now, error)
        return error

    # Resets

    def _list(self, now: int, node: int, found: list[tuple[TopicPartition, Position]]) -> None:
        asked = {name: (one, one.question) for name, one in found}
        partitions = [
            ListOffsetsPartition(name, self._time(now, one.strategy), one.leader_epoch)
            for name, one in found
        ]
        for _, one in found:
            one.asked = one.question
        body = ListOffsetsRequest(partitions, self.config.isolation_level)
        self.network.ask(now, node, body, lambda at, answer: self._listed(at, asked, answer))

    def _time(self, now: int, strategy: str | None) -> int:
        if strategy in ("latest", "earliest"):
            return LATEST if strategy == "latest" else EARLIEST
        return now + self.epoch_ms - (duration_ms(strategy or "") or 0)

    def _listed(
        self, now: int, asked: dict[TopicPartition, Any], answer: ListOffsetsResponse | None
    ) -> None:
        told = {} if answer is None else {one.partition: one for one in answer.partitions}
        for name, (position, question) in asked.items():
            if self._is_void(name, position, question):
                continue
            one = told.get(name)
            if one is None or one.error is not None:
                self._again(now, name, position, None if one is None else one.error)
            elif one.offset < 0:  # nothing is as young: go on at the end, as Kafka does
                position.reset("latest")
            else:
                strategy = position.strategy or ""
                position.complete_reset(strategy, OffsetAndEpoch(one.offset, one.leader_epoch))

    def _is_void(self, name: TopicPartition, position: Position, question: Any) -> bool:
        """True if the position is gone, or asks something else by now."""
        if position.asked == question:
            position.asked = None
        return self.positions.get(name) is not position or position.question != question

    def _again(self, now: int, name: TopicPartition, position: Position, error: str | None) -> None:
        position.not_before = now + self.network.backoff.wait_ms(0)
        if error is None or error in OLD_METADATA:
            self.network.metadata.wanted = True
        elif error not in RETRIABLE:
            self.fail(error, f"the offset of {name} cannot be asked for", (name,))

    # Validation

    def _validate(self, now: int, node: int, found: list[tuple[TopicPartition, Position]]) -> None:
        asked = {name: (one, one.question) for name, one in found}
        partitions = [(name, one.leader_epoch, one.epoch) for name, one in found]
        for _, one in found:
            one.asked = one.question
        body = OffsetForLeaderEpochRequest(partitions)
        self.network.ask(now, node, body, lambda at, answer: self._validated(at, asked, answer))

    def _validated(
        self,
        now: int,
        asked: dict[TopicPartition, Any],
        answer: OffsetForLeaderEpochResponse | None,
    ) -> None:
        told = {} if answer is None else {one[0]: one for one in answer.partitions}
        for name, (position, question) in asked.items():
            if self._is_void(name, position, question):
                continue
            _, error, epoch, end = told.get(name, (name, "NETWORK_EXCEPTION", NONE, NONE))
            if error is not None:
                self._again(now, name, position, error)
            else:
                self._compare(name, position, OffsetAndEpoch(end, epoch))

    def _compare(self, name: TopicPartition, position: Position, end: OffsetAndEpoch) -> None:
        resets = self.config.auto_offset_reset != "none"
        at = OffsetAndEpoch(position.offset, position.epoch)
        try:
            result = position.complete_validation(at, position.leader_epoch, end, resets=resets)
        except Refusal:
            return
        if result == "unknown" and resets:
            position.reset(self.config.auto_offset_reset)
        elif result != "valid" and not resets:
            where = f"the leader's log ends at {end.offset}" if end.offset != NONE else "it is gone"
            sentence = f"{name}: records before {at.offset} of epoch {at.epoch} are lost, {where}"
            self.fail("LOG_TRUNCATION", sentence, (name,))
            position.not_before = 2**62  # until the application seeks

    # The application's questions

    def _run(self, now: int, query: Query) -> None:
        if len(query.found) == len(query.wanted):
            self._end(now, query, query.found, None)
        elif now >= query.until_ms:
            self._end(now, query, None, "REQUEST_TIMED_OUT")
        elif now >= query.not_before and query.committed:
            self._ask_committed(now, query)
        elif now >= query.not_before:
            by_node: dict[int, list[TopicPartition]] = {}
            for name in query.wanted:
                if name in query.found or name in query.asked:
                    continue
                self.network.metadata.use(name.topic, now)
                node = self._leader(now, name)
                if node is not None:
                    by_node.setdefault(node, []).append(name)
            for node, names in by_node.items():
                self._ask(now, node, query, names)

    def _ask(self, now: int, node: int, query: Query, names: list[TopicPartition]) -> None:
        query.asked |= {*names}
        body = ListOffsetsRequest(
            [ListOffsetsPartition(name, query.wanted[name]) for name in names],
            self.config.isolation_level,
        )

        def told(at: int, answer: ListOffsetsResponse | None) -> None:
            query.asked -= {*names}
            query.not_before = at + self.network.backoff.wait_ms(0)
            for one in () if answer is None else answer.partitions:
                if one.error is None:
                    query.found[one.partition] = one
                    query.not_before = at
                elif one.error in OLD_METADATA:
                    self.network.metadata.wanted = True
                elif one.error not in RETRIABLE:
                    self._end(at, query, None, one.error)

        self.network.ask(now, node, body, told)

    def _ask_committed(self, now: int, query: Query) -> None:
        assert self.coordinator is not None
        if query.asked:
            return
        if not self.coordinator.is_ready(now):
            self.coordinator.find(now)
            return
        query.asked |= {*query.wanted}

        def told(at: int, answer: g.OffsetFetchResponse | None) -> None:
            query.asked.clear()
            query.not_before = at + self.network.backoff.wait_ms(0)
            error = self._error_of(at, answer)
            if answer is not None and error is None:
                query.found = dict.fromkeys(query.wanted)
                query.found |= {one.partition: one for one in answer.partitions}
                query.not_before = at
            elif error is not None and error not in RETRIABLE | UNSETTLED:
                self._end(at, query, None, error)

        self._fetch(now, [*query.wanted], told)

    def _end(self, now: int, query: Query, value: Any, error: str | None) -> None:
        if query in self.queries:
            self.queries.remove(query)
        query.then(now, value, error)

    def due(self, now: int) -> float:
        """When something may be asked again."""
        due = inf
        for name, one in self.positions.items():
            if one.state in (RESETTING, VALIDATING) and one.asked != one.question:
                node = self.network.metadata.leader(name)
                ready = inf if node == NOBODY else self.network.nodes.ready_at(node)
                due = min(due, max(one.not_before, ready, now + 1))
            elif one.state == INITIALIZING and not self._fetching:
                ready = now if self.coordinator is None else self.coordinator.due(now)
                due = min(due, max(self._not_before, ready, now + 1))
        for query in self.queries:
            due = min(
                due, query.until_ms, max(query.not_before, now + 1) if not query.asked else inf
            )
        return due
