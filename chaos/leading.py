"""What a broker does as a leader of its followers: answer them, commit, and keep the ISR."""

from typing import Any

from attrs import define

from chaos import messages as m
from chaos.controller_node import ControllerNode
from chaos.hosted import Hosted
from chaos.messages import Message
from chaos.serving import Serving
from chaos.world import World
from refimpl.errors import Refusal
from refimpl.machines.replica import FetchRequest


@define(eq=False)
class Leading:
    """The leader's side of a broker's partitions, towards followers and the controller."""

    id: int
    world: World
    controller: ControllerNode
    hosted: list[Hosted]
    serving: Serving

    def fetch(self, message: Message) -> None:
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
            self.advance_high_watermark(hosted)
        if follower not in replica.isr:
            self._expand_isr(hosted, follower)

    def advance_high_watermark(self, hosted: Hosted) -> None:
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
            self.serving.acknowledge(hosted, request, offset)

    def shrink_isr(self, hosted: Hosted) -> None:
        """Who has not been at our log end for replica.lag.time.max.ms is out of sync."""
        replica = hosted.replica
        oldest = self.world.timeline.now - self.world.swarm.lag_ms
        for follower in sorted(replica.isr):
            if follower != self.id and hosted.caught_up.get(follower, 0) < oldest:
                if not self.controller.reached_by(self.id):
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
        if not self.controller.reached_by(self.id):
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
            self.advance_high_watermark(hosted)

    def _hosts(self, partition: int) -> Hosted:
        return self.hosted[partition]
