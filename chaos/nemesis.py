"""Carries the fault script out."""

from collections.abc import Callable, Sequence

from attrs import define

from chaos import messages as m
from chaos.broker import Broker
from chaos.consumer import Consumer
from chaos.controller_node import ControllerNode
from chaos.messages import Message
from chaos.network import Link
from chaos.script import Fault, Script
from chaos.world import World

NODES = (m.CONTROLLER, *m.BROKERS, m.COORDINATOR)


@define(eq=False)
class Nemesis:
    """Breaks what the script says, and mends it when its time is over."""

    world: World
    script: Script
    controller: ControllerNode
    brokers: Sequence[Broker]
    consumers: Sequence[Consumer]
    clients: tuple[int, ...]
    paused_until: int = 0
    over: bool = False
    down: int = 0

    def start(self) -> None:
        """Put every fault on the timeline."""
        for index, fault in enumerate(self.script):
            self.world.timeline.at(fault.at_ms, m.NEMESIS, (m.FAULT, index))

    def handle(self, message: Message) -> None:
        """A fault begins (its index), or ends (a function)."""
        if self.over:
            return
        if callable(message[1]):
            message[1]()
            return
        self._begin(self.script[int(message[1])])

    def _begin(self, fault: Fault) -> None:
        self.world.counts[f"fault: {fault.what}"] += 1
        getattr(self, f"_{fault.what}")(fault)

    def heal(self) -> None:
        """From now on nothing is wrong: everybody runs and everything arrives."""
        self.over = True
        timeline = self.world.timeline
        self.world.network.heal()
        for node in (*self.brokers, *self.consumers):
            node.paused_until = 0
            if not node.up:
                timeline.at(timeline.now, node.id, (m.RESTART,))

    def _broker(self, fault: Fault) -> Broker:
        leader = self.world.partitions[fault.partition].state.leader
        return self.brokers[(fault.who or leader or 1) - 1]

    def _crash(self, fault: Fault) -> None:
        self._end(fault, clean=False)

    def _stop(self, fault: Fault) -> None:
        self._end(fault, clean=True)

    def _end(self, fault: Fault, *, clean: bool) -> None:
        broker, timeline = self._broker(fault), self.world.timeline
        if broker.up and (self.world.swarm.overlap or self._recovered()):
            self.down = broker.id
            broker.crash(fault.part, clean=clean)
            timeline.at(timeline.now + fault.for_ms, broker.id, (m.RESTART,))

    def _recovered(self) -> bool:
        """Whether everybody is up, and who went down last in sync everywhere."""
        states = self.controller.states
        back = not self.down or all(self.down in state.isr for state in states)
        return back and all(broker.up for broker in self.brokers)

    def _pause(self, fault: Fault) -> None:
        broker = self._broker(fault)
        broker.paused_until = self.world.timeline.now + fault.for_ms

    def _elect(self, fault: Fault) -> None:
        """Let another one lead while the leader is well; and soon the same one again."""
        leader = self.controller.states[fault.partition].leader
        self._lead(fault.partition, fault.who)
        if fault.for_ms and leader is not None:
            self._later(fault, lambda: self._lead(fault.partition, leader))

    def _lead(self, partition: int, broker: int) -> None:
        if self.controller.elect(partition, broker):
            self.world.counts["preferred elections"] += 1

    def _member_crash(self, fault: Fault) -> None:
        consumer, timeline = self.consumers[fault.who - 1], self.world.timeline
        if consumer.up:
            consumer.crash()
            timeline.at(timeline.now + fault.for_ms, consumer.id, (m.RESTART,))

    def _member_pause(self, fault: Fault) -> None:
        consumer = self.consumers[fault.who - 1]
        consumer.paused_until = self.world.timeline.now + fault.for_ms

    def _cut(self, fault: Fault) -> None:
        network = self.world.network
        links = self._links(fault, self._broker(fault).id)
        network.cut_links(links)
        self._later(fault, lambda: network.heal_links(links))

    def _links(self, fault: Fault, broker: int) -> list[Link]:
        others = [b for b in m.BROKERS if b != broker]
        everybody = [n for n in (*NODES, *self.clients) if n != broker]
        away = {
            "all": everybody,
            "from": everybody,
            "controller": [m.CONTROLLER],
            "brokers": others,
            "from_brokers": others,
            "one": others[:1],
        }
        back = {
            "all": everybody,
            "to": everybody,
            "controller": [m.CONTROLLER],
            "brokers": others,
            "to_brokers": others,
        }
        return [(broker, n) for n in away.get(fault.how, ())] + [
            (n, broker) for n in back.get(fault.how, ())
        ]

    def _slow(self, fault: Fault) -> None:
        network, by_ms = self.world.network, int(fault.part * 1000)
        links = self._links(fault, self._broker(fault).id)
        network.slow_links(links, by_ms)
        self._later(fault, lambda: network.slow_links(links, -by_ms))

    def _noise(self, fault: Fault) -> None:
        """Everybody's messages are lost, doubled or late, for a while."""
        self._raise(fault.how, 1)
        self._later(fault, lambda: self._raise(fault.how, -1))

    def _raise(self, noise: str, sign: int) -> None:
        network = self.world.network
        match noise:
            case "drop":
                network.drop += sign * 0.3
            case "duplicate":
                network.duplicate += sign * 0.4
            case "stray":
                network.stray += sign * 0.2
            case _:
                network.jitter_ms += sign * 150

    def _later(self, fault: Fault, end: Callable[[], None]) -> None:
        timeline = self.world.timeline
        timeline.at(timeline.now + fault.for_ms, m.NEMESIS, (m.FAULT, end))
