"""A broker: a replica of each partition, its disk, and the requests that meet them.

The rules are refimpl's. What is here is what a broker adds: when to ask, whom to answer, and what
to keep waiting.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field

from chaos import messages as m
from chaos.controller_node import ControllerNode
from chaos.disk import Disk
from chaos.messages import Message
from chaos.oracles import PartitionOracle
from chaos.producer_state import ProducerState
from chaos.protocol_events import Trace
from chaos.world import World
from refimpl.errors import Refusal
from refimpl.replica import FetchRequest, Replica


@define(eq=False)
class Hosted:
    """One partition at one broker: the machine and what surrounds it."""

    partition: int
    replica: Replica
    oracle: PartitionOracle
    trace: Trace | None
    disk: Disk = field(factory=Disk)
    producers: ProducerState = field(factory=ProducerState)

    # As leader: acks=all requests that wait for the high watermark, and how far followers are
    parked: deque[tuple[int, Message]] = field(factory=deque[tuple[int, Message]])
    fetched: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    last_fetch: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    caught_up: dict[int, int] = field(factory=dict[int, int])
    late: set[tuple[int, int, int]] = field(factory=set[tuple[int, int, int]])

    # As follower: the request to each leader that has no answer yet
    asked: dict[int, int] = field(factory=dict[int, int])
    asked_at: int = 0


@define(eq=False)
class Broker:
    """One broker process and the machine that it runs on."""

    id: int
    world: World
    controller: ControllerNode
    hosted: list[Hosted]
    up: bool = True
    incarnation: int = 0
    paused_until: int = 0
    requests: int = 0
    kept_part: float = 1.0
    crashed: bool = False
    next_heartbeat: int = 0
    next_flush: int = 0
    next_checkpoint: int = 0
    handlers: list[Callable[[Message], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self.handlers = [self._ignore] * m.KINDS
        self.handlers[m.TICK] = self._tick
        self.handlers[m.RESTART] = self._restart
        self.handlers[m.FETCH] = self._fetch
        self.handlers[m.FETCHED] = self._fetched
        self.handlers[m.TOLD] = self._told
        self.handlers[m.PRODUCE] = self._produce
        self.handlers[m.READ] = self._read

    def handle(self, message: Message) -> None:
        """Whatever comes; a broker that is down hears nothing but that it shall start."""
        if self.up or message[0] <= m.RESTART:
            self.handlers[message[0]](message)

    def _hosts(self, partition: int) -> Hosted:
        return self.hosted[partition]

    # Time passes

    def _tick(self, message: Message) -> None:
        timeline, swarm = self.world.timeline, self.world.swarm
        now = timeline.now
        timeline.at(now + swarm.tick_ms, self.id, message)
        if not self.up:
            return
        for hosted in self.hosted:
            replica = hosted.replica
            if replica.leads:
                self._shrink_isr(hosted)
            elif replica.up and (
                not hosted.asked.get(replica.leader or 0)
                or now - hosted.asked_at > swarm.fetch_timeout_ms
            ):
                self._ask(hosted)
        if now >= self.next_heartbeat:
            self.next_heartbeat = now + swarm.heartbeat_ms
            self._heartbeat()
        if now >= self.next_flush:
            self.next_flush = now + swarm.flush_ms
            for hosted in self.hosted:
                hosted.disk.flush(hosted.replica)
        if now >= self.next_checkpoint:
            self.next_checkpoint = now + swarm.checkpoint_ms
            for hosted in self.hosted:
                hosted.disk.write_checkpoint(hosted.replica)

    def _heartbeat(self) -> None:
        epochs = tuple(h.replica.epoch if h.replica.up else 0 for h in self.hosted)
        self.world.network.send((m.HEARTBEAT, self.id, m.CONTROLLER, self.incarnation, epochs))

    # Follower

    def _ask(self, hosted: Hosted) -> None:
        try:
            request = hosted.replica.fetch_request()
        except Refusal:
            return
        leader = hosted.replica.leader or 0
        self.requests += 1
        hosted.asked[leader] = self.requests
        hosted.asked_at = self.world.timeline.now
        self.world.network.send(
            (m.FETCH, self.id, leader, hosted.partition, self.requests, request)
        )

    def _fetched(self, message: Message) -> None:
        _, leader, _, partition, number, answer, place = message
        hosted = self._hosts(partition)
        if hosted.asked.get(leader) != number:
            self.world.counts["answers nobody waits for"] += 1
            return
        hosted.asked[leader] = 0
        replica = hosted.replica
        end, high_watermark = replica.log.end, replica.high_watermark
        try:
            replica.take_answer(answer)
        except Refusal:
            self.world.counts["void answers"] += 1
            return
        if answer.diverging is not None:
            hosted.disk.truncated(replica.log.end)
            hosted.oracle.cut(replica, end)
        elif answer.records:
            hosted.oracle.copied(replica, end)
        if replica.high_watermark != high_watermark:
            hosted.oracle.moved(replica, high_watermark)
        if place is not None:
            action = "Fetch" if answer.diverging is None else "Truncate"
            place.becomes(action, {"highWatermark": (self.id, replica.high_watermark)})
        if answer.records or answer.diverging is not None:
            self._ask(hosted)

    # Leader

    def _fetch(self, message: Message) -> None:
        _, follower, _, partition, number, request = message
        hosted = self._hosts(partition)
        newest = hosted.fetched.get(follower)
        if newest and newest[0] == request.incarnation and number <= newest[1]:
            self.world.counts["fetches out of order"] += 1
            return
        replica = hosted.replica
        known = replica.seen.get(follower, 0)
        try:
            answer = replica.answer_fetch(request, self.world.swarm.fetch_limit)
        except Refusal as refusal:
            self.world.counts[f"fetch refused: {refusal}"] += 1
            return
        hosted.fetched[follower] = request.incarnation, number
        place = None
        if hosted.trace is not None:
            place = self._place(hosted, request, answer.diverging is not None)
        self.world.network.send((m.FETCHED, self.id, follower, partition, number, answer, place))
        if answer.diverging is None:
            hosted.oracle.heard(replica, request, known)
            self._heard(hosted, follower, request.end)

    def _place(self, hosted: Hosted, request: FetchRequest, diverging: bool) -> Any:
        """Where the answer stands in the trace.

        Whoever asked may have moved on in the meantime, which the leader cannot know.
        """
        trace, now = hosted.trace, self.world.timeline.now
        assert trace is not None
        sender = hosted.oracle.replicas[request.replica]
        params = {"f": request.replica, "l": self.id}
        if sender.epoch == request.epoch and sender.incarnation == request.incarnation:
            return trace.reserve(now, params, None if diverging else "FetchLost")
        self.world.counts["late fetches"] += 1
        late = request.replica, request.incarnation, request.epoch
        if late not in hosted.late:  # a second one of the same changes nothing, and is no step
            hosted.late.add(late)
            trace.add(now, "LateFetch", params)
        return None

    def _heard(self, hosted: Hosted, follower: int, end: int) -> None:
        """A follower has shown how far it is."""
        replica, now = hosted.replica, self.world.timeline.now
        log_end = replica.log.end
        if end >= log_end:
            hosted.caught_up[follower] = now
        else:
            when, then = hosted.last_fetch.get(follower, (0, log_end))
            if end >= then:
                hosted.caught_up[follower] = max(when, hosted.caught_up.get(follower, 0))
        hosted.last_fetch[follower] = now, log_end
        if log_end > replica.high_watermark:
            self._advance_high_watermark(hosted)
        if follower not in replica.isr:
            self._expand_isr(hosted, follower)

    def _advance_high_watermark(self, hosted: Hosted) -> None:
        replica = hosted.replica
        old = replica.high_watermark
        try:
            replica.advance_high_watermark()
        except Refusal:
            return
        hosted.oracle.moved(replica, old)
        new = replica.high_watermark
        if hosted.trace is not None:
            hosted.trace.add(
                self.world.timeline.now,
                "AdvanceHighWatermark",
                {"l": self.id},
                highWatermark=(self.id, new),
            )
        parked = hosted.parked
        while parked and parked[0][0] < new:
            offset, request = parked.popleft()
            self._acknowledge(hosted, request, offset)

    def _shrink_isr(self, hosted: Hosted) -> None:
        """Who has not been at our log end for replica.lag.time.max.ms is out of sync."""
        replica = hosted.replica
        oldest = self.world.timeline.now - self.world.swarm.lag_ms
        for follower in sorted(replica.isr):
            if follower != self.id and hosted.caught_up.get(follower, 0) < oldest:
                if not self._reaches_controller():
                    return
                try:
                    replica.shrink_isr(follower)
                    self.controller.shrink_isr(hosted.partition, replica, follower)
                except Refusal as refusal:
                    self.world.counts[f"shrink refused: {refusal}"] += 1
                    return
                self._adopt_isr(hosted, "ShrinkIsr", follower)

    def _expand_isr(self, hosted: Hosted, follower: int) -> None:
        replica = hosted.replica
        if not self._reaches_controller():
            return
        try:
            replica.expand_isr(follower)
            self.controller.expand_isr(hosted.partition, replica, follower)
        except Refusal as refusal:
            self.world.counts[f"expand refused: {refusal}"] += 1
            return
        self._adopt_isr(hosted, "ExpandIsr", follower)

    def _adopt_isr(self, hosted: Hosted, action: str, follower: int) -> None:
        replica = hosted.replica
        replica.adopt_isr(hosted.oracle.state.isr)
        self.world.counts[action] += 1
        if hosted.trace is not None:
            hosted.trace.add(
                self.world.timeline.now,
                action,
                {"l": self.id, "f": follower},
                isr=(self.id, replica.isr),
            )
        if replica.log.end > replica.high_watermark:
            self._advance_high_watermark(hosted)

    def _reaches_controller(self) -> bool:
        """Changing the ISR is one conditional write at the controller, or does not happen."""
        return self.world.network.reaches(self.id, m.CONTROLLER)

    # Clients

    def _produce(self, message: Message) -> None:
        _, _, _, partition, _, value, acks = message
        hosted = self._hosts(partition)
        replica = hosted.replica
        if self.world.swarm.idempotence and replica.leads:
            known = hosted.producers.offset_of(value)
            if known is not None:
                self.world.counts["duplicates recognised"] += 1
                self._answer_known(hosted, message, known)
                return
        try:
            offset = replica.write(value, acks_all=acks == "all")
        except Refusal as refusal:
            self._refuse(message, str(refusal))
            return
        hosted.oracle.wrote(replica, offset)
        hosted.producers.wrote(value, offset)
        if hosted.trace is not None:
            hosted.trace.add(self.world.timeline.now, "Write", {"l": self.id})
        if acks == "all":
            hosted.parked.append((offset, message))
        else:
            self._acknowledge(hosted, message, offset)
        if len(replica.isr) == 1:
            self._advance_high_watermark(hosted)

    def _answer_known(self, hosted: Hosted, message: Message, offset: int) -> None:
        """The record is in the log already, and acknowledged as soon as it is committed.

        An offset of -1 is one that this producer has long passed, without the record.
        """
        if offset < 0:
            self._refuse(message, "OUT_OF_ORDER_SEQUENCE_NUMBER")
        elif message[6] != "all" or offset < hosted.replica.high_watermark:
            self._acknowledge(hosted, message, offset)
        else:
            hosted.parked.append((offset, message))
            if len(hosted.parked) > 1 and hosted.parked[-2][0] > offset:
                hosted.parked = deque(sorted(hosted.parked, key=lambda waiting: waiting[0]))

    def _acknowledge(self, hosted: Hosted, request: Message, offset: int) -> None:
        _, producer, _, partition, attempt, value, acks = request
        if acks == "all":
            hosted.oracle.acked(hosted.replica, offset, value)
        if acks != "0":
            self.world.network.send(
                (m.PRODUCED, self.id, producer, partition, attempt, value, None, offset)
            )

    def _refuse(self, request: Message, error: str) -> None:
        _, producer, _, partition, attempt, value, acks = request
        self.world.counts[f"produce refused: {error}"] += 1
        if acks != "0":
            self.world.network.send(
                (m.PRODUCED, self.id, producer, partition, attempt, value, error, -1)
            )

    def _read(self, message: Message) -> None:
        """Give a consumer what is below the high watermark, if we lead."""
        _, consumer, _, partition, number, offset = message
        hosted = self._hosts(partition)
        replica = hosted.replica
        records: Any = None
        if replica.leads:
            limit = min(self.world.swarm.read_limit, replica.high_watermark - offset)
            records = replica.log.slice(offset, limit) if limit > 0 else ()
            if records:
                hosted.oracle.read(replica, offset, records)
        self.world.network.send((m.RECORDS, self.id, consumer, partition, number, offset, records))

    # Being told

    def _told(self, message: Message) -> None:
        _, _, _, incarnation, partition, decision = message
        if incarnation != self.incarnation:
            self.world.counts["decisions for an earlier incarnation"] += 1
            return
        hosted = self._hosts(partition)
        replica = hosted.replica
        led, end, high_watermark = replica.leads, replica.log.end, replica.high_watermark
        if decision.leader is None:
            return
        try:
            if decision.leader == self.id:
                replica.become_leader(decision.epoch, decision.isr)
            else:
                replica.become_follower(decision.epoch, decision.leader)
        except Refusal:
            return
        if replica.leads:
            self._now_leads(hosted, led, high_watermark)
        else:
            self._now_follows(hosted, end)

    def _now_leads(self, hosted: Hosted, led: bool, high_watermark: int) -> None:
        replica, now = hosted.replica, self.world.timeline.now
        hosted.oracle.became_leader(replica)
        hosted.oracle.moved(replica, high_watermark)
        self.world.counts["BecomeLeader"] += 1
        hosted.caught_up = dict.fromkeys(m.BROKERS, now)
        hosted.last_fetch = {}
        if hosted.trace is not None:
            hosted.trace.add(
                now,
                "BecomeLeader",
                {"r": self.id, "e": replica.epoch},
                epoch=(self.id, replica.epoch),
                isr=(self.id, replica.isr),
            )
        if not led:
            hosted.producers.rebuild(replica.log)
        if replica.log.end > replica.high_watermark:
            self._advance_high_watermark(hosted)

    def _now_follows(self, hosted: Hosted, end: int) -> None:
        replica = hosted.replica
        hosted.disk.truncated(replica.log.end)
        hosted.oracle.cut(replica, end)
        if hosted.trace is not None:
            hosted.trace.add(
                self.world.timeline.now,
                "BecomeFollower",
                {"r": self.id, "e": replica.epoch},
                epoch=(self.id, replica.epoch),
                isr=(self.id, frozenset[int]()),
                highWatermark=(self.id, replica.high_watermark),
            )
        self.drop_parked(hosted)

    def drop_parked(self, hosted: Hosted) -> None:
        """Who no longer leads can promise nothing: what waited here may be cut off."""
        for _, request in hosted.parked:
            self._refuse(request, "NOT_LEADER_OR_FOLLOWER")
        hosted.parked.clear()

    # Failing

    def crash(self, kept_part: float, *, clean: bool = False) -> None:
        """The process ends; a controlled stop flushes first."""
        self.up, self.crashed = False, not clean
        self.kept_part = kept_part if self.world.swarm.lossy and not clean else 1.0
        for hosted in self.hosted:
            hosted.parked.clear()
            if clean:
                hosted.disk.flush(hosted.replica)
                hosted.disk.write_checkpoint(hosted.replica)

    def _restart(self, message: Message) -> None:
        """Start again, as soon as the controller can be reached; it fences who we were first, so
        whatever we were in sync with or led begins a new epoch."""
        timeline = self.world.timeline
        if self.up:
            return
        if not self._reaches_controller():
            timeline.at(timeline.now + 50, self.id, message)
            return
        self.controller.fence(self.id)
        for hosted in self.hosted:
            self._recover(hosted)
        self.incarnation += 1
        self.up = True
        self.paused_until = 0
        self.world.counts["Restart"] += 1
        self.controller.register(self.id, self.incarnation, crashed=self.crashed)

    def _recover(self, hosted: Hosted) -> None:
        replica = hosted.replica
        kept = hosted.disk.kept(replica, self.kept_part)
        checkpoint = hosted.disk.restored(replica, kept)
        if kept < replica.log.end:
            self.world.counts["records lost from page caches"] += replica.log.end - kept
        replica.restart(checkpoint, kept)
        hosted.disk.flush(replica)
        hosted.asked, hosted.fetched = {}, {}
        hosted.oracle.restarted(replica)
        if hosted.trace is not None:
            hosted.trace.add(
                self.world.timeline.now,
                "Restart",
                {"r": self.id, "checkpoint": checkpoint, "kept": kept},
                highWatermark=(self.id, checkpoint),
                isr=(self.id, frozenset[int]()),
            )

    def _ignore(self, message: Message) -> None:
        pass
