"""Fetches: which partitions a broker is asked for, and what becomes of its answers.

One fetch at a time goes to each broker, once nothing that came from there waits to be returned.
KIP-227 (sessions), KIP-320 (leader epochs), KIP-392 (followers).
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from attrs import define, field

from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.errors import FETCH_AGAIN, WAIT
from refimpl.clients.consumer.position import FETCHING, NONE, OffsetAndEpoch, Position
from refimpl.clients.consumer.records import Fetched, Opener
from refimpl.clients.consumer.sessions import ConsumerFetchSession
from refimpl.clients.metadata import NOBODY, ClientMetadata
from refimpl.clients.network import NetworkClient
from refimpl.errors import Refusal
from refimpl.messages.broker import (
    READ_COMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    TopicPartition,
)


@define(eq=False)
class Fetcher:
    """The fetches of one consumer."""

    config: ConsumerConfig
    network: NetworkClient
    positions: dict[TopicPartition, Position]
    opener: Opener
    #: Tells the application of an error: name, sentence, partitions
    fail: Callable[[str, str, tuple[TopicPartition, ...]], None]
    #: A position is no more in the log
    reset: Callable[[TopicPartition, Position], None]
    sessions: dict[int, ConsumerFetchSession] = field(
        factory=dict[int, ConsumerFetchSession], init=False
    )
    _asked: set[int] = field(factory=set[int], init=False)
    #: The partition that is returned next, and those behind it
    _turn: list[TopicPartition] = field(factory=list[TopicPartition], init=False)

    @property
    def metadata(self) -> ClientMetadata:
        """Which node leads which partition."""
        return self.network.metadata

    # Requests

    def run(self, now: int) -> None:
        """Ask each broker for the partitions of which nothing is there."""
        busy = {
            self._node(now, name, one)
            for name, one in self.positions.items()
            if one.buffer is not None and one.is_fetchable
        }
        wanted: dict[int, dict[TopicPartition, FetchPartition]] = {}
        for name, one in self.positions.items():
            if not one.is_fetchable or one.buffer is not None or now < one.not_before:
                continue
            node = self._node(now, name, one)
            if node == NOBODY:
                self.metadata.wanted = True
            elif node not in self._asked and node not in busy:
                wanted.setdefault(node, {})[name] = FetchPartition(
                    name,
                    one.offset,
                    one.leader_epoch,
                    max_bytes=self.config.max_partition_fetch_bytes,
                )
        for node, partitions in wanted.items():
            if self.network.nodes.is_ready(node, now):
                self._ask(now, node, partitions)

    def _node(self, now: int, name: TopicPartition, position: Position) -> int:
        """The follower that was named, for as long as metadata lasts; else the leader."""
        if position.replica != NONE:
            if now < position.replica_until_ms and position.replica in self.metadata.nodes:
                return position.replica
            position.replica = NONE
        return self.metadata.leader(name)

    def _ask(self, now: int, node: int, wanted: dict[TopicPartition, FetchPartition]) -> None:
        session = self.sessions.setdefault(node, ConsumerFetchSession())
        named, forgotten = session.named(wanted)
        config = self.config
        body = FetchRequest(
            named,
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.isolation_level,
            session_id=session.id,
            session_epoch=session.epoch,
            forgotten=forgotten,
            rack_id=config.client_rack,
        )
        self._asked.add(node)
        self.network.ask(now, node, body, lambda at, one: self._answered(at, node, wanted, one))

    # Answers

    def _answered(
        self,
        now: int,
        node: int,
        wanted: dict[TopicPartition, FetchPartition],
        answer: FetchResponse | None,
    ) -> None:
        self._asked.discard(node)
        session = self.sessions[node]
        if answer is None:
            session.failed()
            for position in filter(None, map(self.positions.get, wanted)):
                if position.replica == node:
                    position.replica = NONE  # the leader may name another one
            return
        session.answered(answer)
        for one in answer.partitions if answer.error is None else ():
            asked, position = wanted.get(one.partition), self.positions.get(one.partition)
            if asked is not None and position is not None:
                self._take(now, asked, position, one)

    def _take(
        self, now: int, asked: FetchPartition, position: Position, one: FetchedPartition
    ) -> None:
        try:
            if one.error is None:
                self._fetched(now, asked, position, one)
            else:
                self._refused(now, asked, position, one.error)
        except Refusal:
            return  # the position has moved since

    def _fetched(
        self, now: int, asked: FetchPartition, position: Position, one: FetchedPartition
    ) -> None:
        position.must_be_at(asked.fetch_offset, asked.current_leader_epoch)
        position.high_watermark = one.high_watermark
        if one.preferred_read_replica != NONE and position.state == FETCHING:
            position.replica = one.preferred_read_replica
            position.replica_until_ms = now + self.config.metadata_max_age_ms
        if not one.records:
            return
        aborted = None
        if self.config.isolation_level == READ_COMMITTED:
            aborted = sorted(one.aborted_transactions or (), key=lambda txn: txn.first_offset)
        batches = iter(self.opener.batches(one.partition, one.records))
        at = OffsetAndEpoch(asked.fetch_offset, position.epoch)
        buffer = Fetched(at, batches, aborted)
        position.fetched(asked.fetch_offset, asked.current_leader_epoch, buffer)
        if one.partition not in self._turn:
            self._turn.append(one.partition)

    def _refused(self, now: int, asked: FetchPartition, position: Position, error: str) -> None:
        name = asked.partition
        if error in FETCH_AGAIN:
            self.metadata.wanted = True
        if position.state != FETCHING:
            return  # it is not of this question any more
        position.not_before = now + self.network.backoff.wait_ms(0)
        if error in FETCH_AGAIN:
            position.replica = NONE
        elif error == "OFFSET_OUT_OF_RANGE":
            if position.out_of_range(asked.fetch_offset, asked.current_leader_epoch):
                self.reset(name, position)
        elif error not in WAIT:
            self.fail(error, f"no records can be fetched from {name}", (name,))

    # Records

    def collect(self, most: int) -> Iterator[tuple[TopicPartition, list[Any]]]:
        """Records for the application, one partition after the other, in turn."""
        turn, self._turn = self._turn, []
        held: list[TopicPartition] = []
        while turn:
            name = turn.pop(0)
            position = self.positions.get(name)
            if position is None or position.buffer is None:
                continue
            if most == 0 or not position.is_fetchable:
                (self._turn if most == 0 else held).append(name)
                continue
            buffer, records = position.buffer, position.hand_out(most)
            most -= len(records)
            if not buffer.is_empty:
                self._turn.insert(0 if most == 0 else len(self._turn), name)
            if records:
                yield name, records
            elif isinstance(buffer, Fetched) and buffer.unreadable is not None:
                offset, error = buffer.unreadable
                position.buffer = None
                sentence = f"record {offset} of {name} cannot be read: {error}"
                self.fail("CORRUPT_MESSAGE", sentence, (name,))
        self._turn += held

    def due(self, now: int) -> float:
        """When a broker that has failed may be asked again."""
        return min(
            (
                max(one.not_before, now + 1, self._ready_at(now, name, one))
                for name, one in self.positions.items()
                if one.is_fetchable and one.buffer is None
            ),
            default=inf,
        )

    def _ready_at(self, now: int, name: TopicPartition, position: Position) -> float:
        node = self._node(now, name, position)
        return inf if node == NOBODY or node in self._asked else self.network.nodes.ready_at(node)
