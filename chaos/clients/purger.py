"""A client that deletes a group's committed records, as Kafka Streams does with its own topics."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import define, field

from chaos.clients.leaders import Leaders
from chaos.sim.addresses import TICK, TOPIC, Tick
from chaos.sim.history import Call
from chaos.sim.simulation import Simulation
from refimpl.messages.broker import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    MetadataResponse,
    Request,
    Response,
    TopicPartition,
)

EVERY_MS = 40
TIMEOUT_MS = 100
PROCESS = "purger#0"
"""The name in the history."""


@define(eq=False)
class Purger:
    """Sends DeleteRecords up to an offset below the group's committed one (KIP-107).

    For each partition, `asked` is the greatest offset ever requested, and `deleted` the greatest
    answered low watermark.
    """

    id: int
    simulation: Simulation
    partitions: Sequence[TopicPartition]
    committed: Callable[[int], int]
    rng: Random
    leaders: Leaders
    paused_until: int = 0
    requests: int = 0
    asked: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])
    deleted: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])
    calls: dict[int, Call] = field(factory=dict[int, Call])

    def handle(self, message: Any) -> None:
        """A tick, or an answer."""
        if type(message) is Tick:
            self._tick()
        elif type(message.body) is DeleteRecordsResponse:
            self._answered(message)
        elif type(message.body) is MetadataResponse:
            self.leaders.told(message.body)

    def _tick(self) -> None:
        timeline = self.simulation.timeline
        timeline.at(timeline.now + EVERY_MS, self.id, TICK)
        name = self.partitions[int(self.rng.random() * len(self.partitions))]
        offset = int(self.committed(name.partition) * self.rng.choice((0.5, 0.9, 1.0)))
        leader = self.leaders.of(name)
        if leader is None or not offset:
            return
        self.requests += 1
        self.asked[name] = max(self.asked.get(name, 0), offset)
        body = DeleteRecordsRequest(((name, offset),), TIMEOUT_MS)
        if (history := self.simulation.history) is not None:
            partitions = [f"{TOPIC}:{name.partition}"]
            call = history.invoke(PROCESS, "delete_records", partitions=partitions)
            self.calls[self.requests] = call
        self.simulation.network.send(Request(self.id, leader, self.requests, body))

    def _answered(self, response: Response) -> None:
        body: DeleteRecordsResponse = response.body
        for name, error, low_watermark in body.partitions:
            if error is not None:
                self.leaders.refresh()
            else:
                self.simulation.counts["records deleted at all replicas"] += 1
                self.deleted[name] = max(self.deleted.get(name, 0), low_watermark)
            self._write_down(response.correlation_id, name, error, low_watermark)

    def _write_down(
        self, request: int, name: TopicPartition, error: str | None, low_watermark: int
    ) -> None:
        """Record a request's outcome. A refused request may have succeeded by another copy."""
        call, history = self.calls.pop(request, None), self.simulation.history
        if call is None or history is None:
            return
        if error is None:
            history.complete(call, offsets={f"{TOPIC}:{name.partition}": low_watermark})
        else:
            history.complete(call, "info", error=error)
