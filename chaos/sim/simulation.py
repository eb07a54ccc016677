"""The context of every node of a run: settings, time, the network, and observers."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from attrs import define, field

from chaos.sim.connections import Connections
from chaos.sim.history import History
from chaos.sim.network import Network, Timeline
from chaos.sim.settings import Settings
from refimpl.messages.broker import Request, TopicPartition
from refimpl.messages.group import ConsumerGroupHeartbeatRequest, TxnOffsetCommitRequest
from refimpl.messages.transaction_coordination import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitTransactionalIdRequest,
)
from refimpl.messages.transactions import ADD_PARTITION, WriteTxnMarkersRequest

Watcher: TypeAlias = Callable[[int, Any], None]
"""Called with the observer and the observation."""


OF_CLIENTS = (
    *(AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest),
    *(InitTransactionalIdRequest, TxnOffsetCommitRequest),
)
ORDERED = frozenset((ConsumerGroupHeartbeatRequest, *OF_CLIENTS, WriteTxnMarkersRequest))
"""Requests of which some have to arrive in order, or not at all."""


@define(eq=False)
class Simulation:
    """One run's surroundings. The history exists only on request.

    Watchers of an observation are called in the order in which they were added.
    """

    settings: Settings
    rng: Random
    timeline: Timeline
    network: Network
    counts: Counter[str]
    history: History | None = None
    watchers: dict[type, list[Watcher]] = field(factory=dict[type, list[Watcher]])
    connections: Connections = field(factory=Connections)
    #: By client: the newest of its requests that have to arrive in order
    _newest: dict[int, int] = field(factory=dict[int, int])
    #: By client: the newest of its requests about transactions of version 1
    _transactional: dict[int, int] = field(factory=dict[int, int])
    #: By producer, partition and coordinator's epoch: its newest marker of version 1
    _markers: dict[tuple[int, TopicPartition, int], int] = field(
        factory=dict[tuple[int, TopicPartition, int], int]
    )

    def is_overtaken(self, request: Request) -> bool:
        """True if a request that must arrive in order comes late, or again.

        A heartbeat of KIP-848 that joins states that its sender owns nothing. The protocol assumes
        that a connection delivers in order, or breaks (`ConsumerGroup/bug_late_join`).
        """
        if isinstance(request.body, WriteTxnMarkersRequest):
            return self._are_overtaken(request, request.body)
        if isinstance(request.body, OF_CLIENTS):
            return self._is_late(request)
        if request.correlation_id <= self._newest.get(request.source, 0):
            self.counts["heartbeats overtaken"] += 1
            return True
        self._newest[request.source] = request.correlation_id
        return False

    def _is_late(self, request: Request) -> bool:
        """True if a client's request about its transaction comes late, or again.

        In version 1 all transactions of an instance have one epoch, so only the order of its
        connection tells them apart: a late end ends the next transaction (KIP-890).
        """
        body = request.body
        match body:
            case EndTxnRequest(transaction_version=version):
                own_epochs = version >= 2
            case AddPartitionsToTxnRequest():
                own_epochs = body.verify_only or body.transaction_version >= 2
            case TxnOffsetCommitRequest(transaction_support=support):
                own_epochs = support >= ADD_PARTITION
            case _:
                own_epochs = False
        if own_epochs:
            return False
        if request.correlation_id <= self._transactional.get(request.source, 0):
            self.counts["requests of a transaction overtaken"] += 1
            return True
        self._transactional[request.source] = request.correlation_id
        return False

    def _are_overtaken(self, request: Request, body: WriteTxnMarkersRequest) -> bool:
        """True if a coordinator's markers of version 1 come late, or again.

        They would end the next transaction, which is what version 2 mends (KIP-890). Markers of an
        older coordinator arrive: its epoch tells.
        """
        keys = [
            (marker.producer_id, name, marker.coordinator_epoch)
            for marker in body.markers
            if marker.transaction_version < 2
            for name in marker.partitions
        ]
        number, known = request.correlation_id, self._markers
        if any(number <= known.get(key, 0) for key in keys):
            self.counts["markers overtaken"] += 1
            return True
        for key in keys:
            known[key] = number
        return False

    def watch(self, kind: type, watcher: Watcher) -> None:
        """Call a watcher with every observation of this kind."""
        self.watchers.setdefault(kind, []).append(watcher)

    def observe(self, who: int, observation: Any) -> None:
        """Call every watcher."""
        kind = observation.__class__
        for watcher in self.watchers.get(kind, ()):
            watcher(who, observation)
