"""A reader of committed records: it leaves out aborted ones by the list in each answer."""

from bisect import insort
from typing import Any

from attrs import define, field

from chaos.clients.leaders import Leaders
from chaos.sim.addresses import TICK, Tick
from chaos.sim.simulation import Simulation
from chaos.sim.transaction_messages import CommittedRead
from chaos.sim.transactional_records import entry_of
from refimpl.messages.broker import (
    READ_COMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    MetadataResponse,
    Request,
    TopicPartition,
)

WAIT_MS, TIMEOUT_MS, EVERY_MS = 40, 150, 25
LIMIT = 50


@define(eq=False)
class Reading:
    """One partition: the next offset, and the request that has no answer."""

    name: TopicPartition
    position: int = 0
    asked: int = 0
    asked_ms: int = 0


@define(eq=False)
class CommittedReader:
    """Reads each partition from its start, with isolation.level=read_committed."""

    id: int
    simulation: Simulation
    leaders: Leaders
    readings: list[Reading]
    requests: int = 0
    paused_until: int = 0
    up: bool = field(default=True, init=False)

    def handle(self, message: Any) -> None:
        """A tick, or an answer."""
        if type(message) is Tick:
            timeline = self.simulation.timeline
            timeline.at(timeline.now + EVERY_MS, self.id, TICK)
            for one in self.readings:
                self._ask(timeline.now, one)
        elif type(message.body) is MetadataResponse:
            self.leaders.told(message.body)
        elif type(message.body) is FetchResponse:
            (fetched,) = message.body.partitions
            one = next((r for r in self.readings if r.asked == message.correlation_id), None)
            if one is not None:
                one.asked = 0
                self._take(one, fetched)

    def _ask(self, now: int, one: Reading) -> None:
        if one.asked:
            if now - one.asked_ms < TIMEOUT_MS:
                return
            self.leaders.refresh()
        leader = self.leaders.of(one.name)
        if leader is None:
            return
        self.requests += 1
        one.asked, one.asked_ms = self.requests, now
        wanted = (FetchPartition(one.name, one.position),)
        body = FetchRequest(wanted, WAIT_MS, max_bytes=LIMIT, isolation_level=READ_COMMITTED)
        self.simulation.network.send(Request(self.id, leader, one.asked, body))

    def _take(self, one: Reading, fetched: FetchedPartition) -> None:
        if fetched.error is not None:
            self.leaders.refresh()
            return
        waiting = sorted((a.first_offset, a.producer_id) for a in fetched.aborted_transactions)
        aborted: list[int] = []
        for offset, record in enumerate(fetched.records, one.position):
            while waiting and waiting[0][0] <= offset:
                insort(aborted, waiting.pop(0)[1])
            entry = entry_of(record)
            if entry.committed is not None:
                if not entry.committed and entry.producer_id in aborted:
                    aborted.remove(entry.producer_id)
            elif entry.producer_id not in aborted:
                read = CommittedRead(one.name, offset, entry.value)
                self.simulation.observe(self.id, read)
            one.position = offset + 1
