"""A broker: a replica of each partition, its disk, and the requests that meet them.

The rules are refimpl's. What is here is what a broker adds: when to ask, whom to answer, and what
to keep waiting.
"""

from collections.abc import Callable

from attrs import define, field

from chaos import messages as m
from chaos.controller_node import ControllerNode
from chaos.following import Following
from chaos.hosted import Hosted
from chaos.leading import Leading
from chaos.messages import Message
from chaos.serving import Serving
from chaos.world import World
from refimpl.errors import Refusal


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
    kept_part: float = 1.0
    crashed: bool = False
    next_heartbeat: int = 0
    next_flush: int = 0
    next_checkpoint: int = 0
    following: Following = field(init=False)
    leading: Leading = field(init=False)
    serving: Serving = field(init=False)
    handlers: list[Callable[[Message], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self.following = Following(self.id, self.world, self.hosted)
        self.serving = Serving(self.id, self.world, self.hosted)
        self.leading = Leading(self.id, self.world, self.controller, self.hosted, self.serving)
        self.handlers = [self._ignore] * m.KINDS
        self.handlers[m.TICK] = self._tick
        self.handlers[m.RESTART] = self._restart
        self.handlers[m.FETCH] = self.leading.fetch
        self.handlers[m.FETCHED] = self.following.fetched
        self.handlers[m.TOLD] = self._told
        self.handlers[m.PRODUCE] = self._produce
        self.handlers[m.READ] = self.serving.read

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
                self.leading.shrink_isr(hosted)
            elif replica.up and (
                not hosted.asked.get(replica.leader or 0)
                or now - hosted.asked_at > swarm.fetch_timeout_ms
            ):
                self.following.ask(hosted)
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

    def _produce(self, message: Message) -> None:
        hosted = self.serving.produce(message)
        if hosted is not None and len(hosted.replica.isr) == 1:
            self.leading.advance_high_watermark(hosted)

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
            self.leading.advance_high_watermark(hosted)

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
        self.serving.drop_parked(hosted)

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
        if not self.controller.reached_by(self.id):
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
