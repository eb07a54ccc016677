"""The controller: broker sessions, and a decision whenever one begins or ends.

It does not fail here, and keeps what a metadata store would.
"""

from collections.abc import Callable, Sequence

from attrs import define, field

from chaos import messages as m
from chaos.messages import Message
from chaos.world import World
from refimpl.errors import Refusal
from refimpl.machines.controller import PartitionState, first_live
from refimpl.machines.replica import Replica


@define(eq=False)
class ControllerNode:
    """Decides with one `PartitionState` per partition, and tells brokers by message."""

    world: World
    states: list[PartitionState]
    assignments: Sequence[tuple[int, ...]]
    paused_until: int = 0
    heard: dict[int, int] = field(factory=dict[int, int])
    last_isr: dict[int, frozenset[int]] = field(factory=dict[int, frozenset[int]])
    incarnations: dict[int, int] = field(factory=lambda: dict.fromkeys(m.BROKERS, 0))
    handlers: list[Callable[[Message], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self.handlers = [self._ignore] * m.KINDS
        self.handlers[m.TICK] = self._tick
        self.handlers[m.HEARTBEAT] = self._heartbeat

    def handle(self, message: Message) -> None:
        """Whatever comes."""
        self.handlers[message[0]](message)

    def alive(self, broker: int) -> bool:
        """Whether a broker has a session."""
        return broker in self.states[0].alive

    def reached_by(self, broker: int) -> bool:
        """Whether a broker can reach us: changing the ISR is one conditional write here, or does
        not happen."""
        return self.world.network.reaches(broker, m.CONTROLLER)

    # Asked by leaders

    def shrink_isr(self, partition: int, leader: Replica, follower: int) -> None:
        """Take a laggard out, if this leader is the one in force."""
        state = self.states[partition]
        state.shrink_isr(leader.id, leader.epoch, follower)

    def expand_isr(self, partition: int, leader: Replica, follower: int) -> None:
        """Let a follower in, in the incarnation that caught up."""
        state = self.states[partition]
        state.expand_isr(leader.id, leader.epoch, follower, leader.seen.get(follower, 0))
        self.world.partitions[partition].decided()

    # Sessions

    def _heartbeat(self, message: Message) -> None:
        _, broker, _, incarnation, epochs = message
        if incarnation != self.incarnations[broker]:
            self.world.counts["heartbeats of an earlier incarnation"] += 1
            return
        self.heard[broker] = self.world.timeline.now
        if not self.alive(broker):
            self.world.counts["sessions resumed"] += 1
            for state in self.states:
                state.unfence(broker)
            self._find_leaders()
        for partition, epoch in enumerate(epochs):
            if epoch < self.states[partition].epoch:
                self._tell(partition, broker)

    def _tick(self, message: Message) -> None:
        timeline, swarm = self.world.timeline, self.world.swarm
        timeline.at(timeline.now + max(10, swarm.session_ms // 6), m.CONTROLLER, message)
        for broker in m.BROKERS:
            silent = timeline.now - self.heard.get(broker, 0)
            if silent > swarm.session_ms and self.alive(broker):
                self.world.counts["sessions expired"] += 1
                self.fence(broker)

    def register(self, broker: int, incarnation: int, *, crashed: bool) -> None:
        """A broker has started."""
        self.incarnations[broker] = incarnation
        self.heard[broker] = self.world.timeline.now
        for partition, state in enumerate(self.states):
            state.register(broker, crashed=crashed, incarnation=incarnation)
            self._find_leader(partition)
            self._tell(partition, broker)

    # Decisions

    def fence(self, broker: int) -> None:
        """A broker is gone, or starts again: another one has to do what it did."""
        if not self.alive(broker):
            return
        for partition, state in enumerate(self.states):
            self._fence(partition, state, broker)
            self._find_leader(partition)

    def _fence(self, partition: int, state: PartitionState, broker: int) -> None:
        keeps = state.leader not in (broker, None)
        others = state.isr - {broker}
        successor = (
            state.leader
            if keeps
            else first_live(self.assignments[partition], others, state.alive - {broker})
        )
        if not state.fence(broker, successor):
            return
        self.world.counts["Fence" if others else "GoOffline"] += 1
        if others:
            self._decided(partition, "Fence", {"b": broker, "r": successor or 0})
        else:
            self.last_isr[partition] = frozenset((broker,))
            self._decided(partition, "GoOffline", {"b": broker})

    def _find_leaders(self) -> None:
        for partition in range(len(self.states)):
            self._find_leader(partition)

    def _find_leader(self, partition: int) -> None:
        """Where nobody leads, let one of the ISR; else of the ELR; else, if allowed, anyone."""
        state, assignment = self.states[partition], self.assignments[partition]
        if state.leader is not None:
            return
        for candidates in (state.isr, state.elr):
            broker = first_live(assignment, candidates, state.alive)
            if broker is not None:
                self.elect(partition, broker)
                return
        broker = first_live(assignment, frozenset(assignment), state.alive)
        if broker is None or not state.unclean_election:
            return
        try:
            state.elect_unclean(broker)
        except Refusal:
            return
        self.world.partitions[partition].elected_unclean()
        self._decided(partition, "ElectUnclean", {"r": broker})

    def elect(self, partition: int, broker: int) -> bool:
        """Let this one lead, if it may."""
        state = self.states[partition]
        isr = state.isr
        try:
            state.elect(broker)
        except Refusal:
            return False
        self.world.counts["Elect" if broker in isr else "elections from the ELR"] += 1
        # Truncation knows no ELR: offline, its ISR still names who was the last in it.
        in_sync = broker in (isr or self.last_isr.get(partition, isr))
        self._decided(partition, "Elect" if in_sync else "ElectUnclean", {"r": broker})
        return True

    def _decided(self, partition: int, action: str, params: dict[str, int]) -> None:
        world = self.world
        if world.recorder is not None:
            world.recorder.replication[partition].add(world.timeline.now, action, params)
        world.partitions[partition].decided()
        for broker in m.BROKERS:
            self._tell(partition, broker)

    def _tell(self, partition: int, broker: int) -> None:
        decision = self.states[partition].decision
        self.world.network.send(
            (m.TOLD, m.CONTROLLER, broker, self.incarnations[broker], partition, decision)
        )

    def _ignore(self, message: Message) -> None:
        pass
