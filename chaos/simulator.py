"""One run: three brokers, a controller, a coordinator and clients, from a configuration and a
script of faults, event by event from one heap."""

import hashlib
import traceback
from collections import Counter
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol

from attrs import define

from chaos import messages as m
from chaos.broker import Broker
from chaos.consumer import Consumer, Part
from chaos.controller_node import ControllerNode
from chaos.coordinator_node import CoordinatorNode
from chaos.group_oracle import GroupOracle
from chaos.history import History
from chaos.hosted import Hosted
from chaos.judge import Judge
from chaos.messages import Message
from chaos.nemesis import Nemesis
from chaos.network import Network, Timeline
from chaos.partition_oracle import PartitionOracle
from chaos.producer import Producer
from chaos.protocol_events import Recorder
from chaos.script import Script, expand
from chaos.swarm import Swarm
from chaos.violation import Violation
from chaos.world import World
from refimpl.machines.controller import PartitionState
from refimpl.machines.group import Coordinator, Member
from refimpl.machines.replica import Replica


class Node(Protocol):
    """Whoever has messages delivered."""

    paused_until: int

    def handle(self, message: Message) -> None:
        """Take a message, at the time that the timeline shows."""
        ...


@define(eq=False)
class Run:
    """A run and what came of it: `violation` is None if every promise held."""

    swarm: Swarm
    script: Script
    world: World
    nodes: list[Node]
    judge: Judge
    violation: Violation | None = None
    events: int = 0

    @property
    def complete(self) -> bool:
        """Whether the run came to its end and everything was read once more."""
        return self.judge.done and not any(p.unavailable() for p in self.world.partitions)

    @property
    def now_ms(self) -> int:
        """How far simulated time has come."""
        return self.world.timeline.now

    def go(self, hasher: Any = None) -> "Run":
        """Run to the end, a violation, or the event budget. With a hasher, feed it every step."""
        try:
            self._loop(hasher)
        except Violation as violation:
            self.violation = violation
        except Exception as unforeseen:  # a machine may also break in ways that nobody foresaw
            where = traceback.extract_tb(unforeseen.__traceback__)[-1]
            name = type(unforeseen).__name__
            self.violation = Violation(name, f"{unforeseen} in {where.name}, line {where.lineno}")
        return self

    def _loop(self, hasher: Any) -> None:
        timeline, judge, nodes, budget = (
            self.world.timeline,
            self.judge,
            self.nodes,
            self.swarm.events,
        )
        heap = timeline.heap
        events = 0
        try:
            while not judge.done:
                now, _, target, message = heappop(heap)
                timeline.now = now
                node = nodes[target]
                if node.paused_until > now:
                    timeline.number += 1
                    heappush(heap, (node.paused_until, timeline.number, target, message))
                    continue
                events += 1
                if hasher is not None:
                    hasher.update(repr((now, target, message[0], _plain(message))).encode())
                node.handle(message)
                if events >= budget:
                    raise Violation("EventBudget", f"{budget} events, and no end")
        finally:
            self.events = events


def _plain(message: Message) -> Any:
    """A message without what differs from process to process: places in a trace, functions."""
    return [part for part in message if isinstance(part, int | str | tuple) or part is None]


def build(
    swarm: Swarm, script: Script | None = None, *, events: bool = False, history: bool = False
) -> Run:
    """Set a run up; nothing has happened yet."""
    script = expand(swarm) if script is None else script
    dice = Random(swarm.seed * 2)
    timeline = Timeline()
    network = Network(
        timeline, dice, swarm.delay_ms, swarm.jitter_ms, swarm.drop, swarm.duplicate, swarm.stray
    )
    counts: Counter[str] = Counter()
    states = [_state(swarm) for _ in range(swarm.partitions)]
    replicas = [
        {broker: _replica(broker, swarm) for broker in m.BROKERS} for _ in range(swarm.partitions)
    ]
    partitions = [
        PartitionOracle(f"orders:{p}", swarm, states[p], replicas[p], counts)
        for p in range(swarm.partitions)
    ]
    groups = [Coordinator() for _ in range(swarm.partitions)]
    judged = [
        GroupOracle(f"orders:{p}", swarm, partitions[p], groups[p], counts)
        for p in range(swarm.partitions)
    ]
    world = World(swarm, dice, timeline, network, partitions, judged, counts)
    world.recorder = Recorder.of(swarm.partitions) if events else None
    world.history = History(timeline) if history else None
    return _people(world, swarm, script, states, groups)


def _people(
    world: World,
    swarm: Swarm,
    script: Script,
    states: list[PartitionState],
    groups: list[Coordinator],
) -> Run:
    assignments = [(1, 2, 3), (1, 3, 2)]
    controller = ControllerNode(
        world, states, [assignments[p % 2] for p in range(swarm.partitions)]
    )
    brokers = [_broker(broker, world, controller) for broker in m.BROKERS]
    consumers = [_consumer(m.FIRST_CLIENT + i, world, swarm) for i in range(swarm.consumers)]
    first = m.FIRST_CLIENT + swarm.consumers
    producers = [
        Producer(first + i, i, world, acks, Random(swarm.seed * 2 + 3 + i))
        for i, acks in enumerate(swarm.acks)
    ]
    clients = tuple(range(m.FIRST_CLIENT, first + len(producers)))
    nemesis = Nemesis(world, script, controller, brokers, consumers, clients)
    judge = Judge(world, nemesis, brokers, producers, consumers, groups)
    coordinator = CoordinatorNode(world, groups)
    nodes: list[Node] = [
        *(controller, *brokers, coordinator, nemesis, judge),
        *(*consumers, *producers),
    ]
    for number, _ in enumerate(nodes):
        if number not in (m.NEMESIS, m.JUDGE):
            world.timeline.at(number, number, (m.TICK,))
    for consumer in consumers:
        consumer.subscribe()
    nemesis.start()
    judge.start()
    return Run(swarm, script, world, nodes, judge)


def _state(swarm: Swarm) -> PartitionState:
    return PartitionState.create(
        m.BROKERS,
        min_isr=swarm.min_isr,
        elr_enabled=swarm.elr,
        unclean_election=swarm.unclean,
    )


def _replica(broker: int, swarm: Swarm) -> Replica:
    """As in the spec's Init: everybody knows the first leader, 1."""
    everybody = frozenset(m.BROKERS)
    isr = everybody if broker == 1 else frozenset[int]()
    return Replica(broker, epoch=1, leader=1, isr=isr, up=True, min_isr=swarm.min_isr)


def _broker(broker: int, world: World, controller: ControllerNode) -> Broker:
    recorder = world.recorder
    hosted = [
        Hosted(p, oracle.replicas[broker], oracle, recorder.replication[p] if recorder else None)
        for p, oracle in enumerate(world.partitions)
    ]
    if broker == 1:
        for each in hosted:
            each.oracle.leaders[1] = 1
    return Broker(broker, world, controller, hosted)


def _consumer(node: int, world: World, swarm: Swarm) -> Consumer:
    member = node - m.FIRST_CLIENT + 1
    parts = [Part(p, Member(member, swarm.commit_when)) for p in range(swarm.partitions)]
    return Consumer(node, world, parts)


def run(swarm: Swarm, script: Script | None = None) -> Run:
    """Run a configuration to its end."""
    return build(swarm, script).go()


def trace_hash(swarm: Swarm, script: Script | None = None) -> str:
    """A hash over every step of a run: equal wherever and whenever the run is repeated."""
    hasher = hashlib.blake2b(digest_size=16)
    build(swarm, script).go(hasher)
    return hasher.hexdigest()
