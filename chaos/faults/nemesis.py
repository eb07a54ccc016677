"""Carries the fault script out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.clients.application import Applications
from chaos.clients.group_member import SimulatedMember
from chaos.clients.operator import Operator
from chaos.clients.share_consumer import ShareConsumer
from chaos.clients.transactional_producer import TransactionalProducer
from chaos.faults.script import Fault, Script
from chaos.sim.addresses import (
    BROKERS,
    CONTROLLER,
    GROUP,
    MOST_PARTITIONS,
    NAMED,
    NEMESIS,
    RECEIPTS,
    RESTART,
    SHARE_STATE,
    SHARE_STATE_NUMBER,
    TOPIC,
)
from chaos.sim.hosts import BrokerHost, ControllerHost
from chaos.sim.network import Link, TransactionalNetwork
from chaos.sim.simulation import Simulation
from chaos.sim.store import StoreHost
from refimpl.controller import znodes
from refimpl.messages import controller as c
from refimpl.messages.broker import Request, Response, TopicPartition
from refimpl.messages.cluster import GROUP as GROUP_RESOURCE
from refimpl.messages.cluster import TOPIC as TOPIC_RESOURCE
from refimpl.messages.cluster import ConfigResource
from refimpl.messages.observations import Written
from refimpl.metadata.contract import Delete

NODES = (CONTROLLER, *BROKERS)
RETRY_MS = 100
FIRST_CONFIGURATION = 1000
"""Above the numbers of requests for partitions."""


class Begin(NamedTuple):
    """A fault of the script begins."""

    number: int


class End(NamedTuple):
    """The end of a fault: its effect is undone."""

    undo: Callable[[], None]

    def __repr__(self) -> str:
        """The same in every process."""
        return "End"


@define(eq=False)
class TransactionalClients:
    """The producers of transactions, two for each id, and the applications."""

    producers: Sequence[TransactionalProducer]
    applications: Applications

    @property
    def all(self) -> Sequence[Any]:
        """All of them, as faults number them."""
        return (*self.producers, *self.applications)

    def crash(self, client: Any, *, abandons: bool) -> None:
        """End a client's process."""
        if isinstance(client, TransactionalProducer):
            client.crash(abandons=abandons)
        else:
            client.crash()


@define(eq=False)
class Nemesis:
    """Carries out the faults of a script, and undoes each when its time is over."""

    simulation: Simulation
    script: Script
    controller: ControllerHost | StoreHost
    brokers: Sequence[BrokerHost]
    consumers: Sequence[SimulatedMember]
    clients: tuple[int, ...]
    operator: Operator | None = None
    transactional: "TransactionalClients | None" = None
    sharing: Sequence[ShareConsumer] = ()
    paused_until: int = 0
    over: bool = False
    down: int = 0
    #: Until then the share state's leader moves with each record
    moves_until: int = 0
    #: The number of partitions that the topic shall have, and the acknowledged number
    wanted: int = 0
    partitions: int = 0
    #: The changes of configurations so far, and the newest of each that has no answer
    configurations: int = 0
    unanswered: dict[tuple[ConfigResource, str], int] = field(
        factory=dict[tuple[ConfigResource, str], int]
    )

    def start(self) -> None:
        """Put every fault on the timeline."""
        if self.sharing:
            self.simulation.watch(Written, self._moves_share_state)
        for index, fault in enumerate(self.script):
            self.simulation.timeline.at(fault.at_ms, NEMESIS, Begin(index))

    def handle(self, message: Any) -> None:
        """A fault begins, or ends, or something that was asked for is answered."""
        if isinstance(message, Response):
            self._answered(message)
        if self.over:
            return
        if isinstance(message, End):
            message.undo()
        elif isinstance(message, Begin):
            self._begin(self.script[message.number])

    def _begin(self, fault: Fault) -> None:
        self.simulation.counts[f"fault: {fault.what}"] += 1
        getattr(self, f"_{fault.what}")(fault)

    def heal(self) -> None:
        """End all faults: every process runs and every message arrives."""
        self.over = True
        if self.operator is not None:
            self.operator.stopped = True
        timeline = self.simulation.timeline
        self.simulation.network.heal()
        if isinstance(self.controller, StoreHost):
            self.controller.heal()
        for broker in self.brokers:
            broker.down_for = 0
            broker.disk.heal()
        clients: Sequence[Any] = () if self.transactional is None else self.transactional.all
        self.moves_until = 0
        for node in (*self.brokers, *self.consumers, *clients, *self.sharing):
            node.paused_until = 0
            if not node.up:
                timeline.at(timeline.now, node.id, RESTART)

    def _leader(self, partition: int) -> int | None:
        return self.controller.partition(_name(partition)).leader if self._has(partition) else None

    def _has(self, partition: int) -> bool:
        """True if the partition exists. One that was to be added may be late."""
        return partition in NAMED or partition < self.controller.partitions_of(TOPIC)

    def _broker(self, fault: Fault) -> BrokerHost:
        return self.brokers[(fault.who or self._leader(fault.partition) or 1) - 1]

    def _crash(self, fault: Fault) -> None:
        broker = self._broker(fault)
        if self._may_end(broker):
            self._crash_for(broker, fault.part, fault.for_ms)

    def _crash_for(self, broker: BrokerHost, part: float, for_ms: int) -> None:
        broker.crash(part)
        timeline = self.simulation.timeline
        timeline.at(timeline.now + for_ms, broker.id, RESTART)

    def _clock(self, fault: Fault) -> None:
        """A broker starts again, and its clock shows another time."""
        broker, now = self._broker(fault), self.simulation.timeline.now
        if self._may_end(broker):
            by_ms = int(1000 * fault.part)
            self._crash_for(broker, 1.0, fault.for_ms)
            broker.clock.ahead_ms = by_ms if fault.how == "ahead" else -min(by_ms, now)

    def _stop(self, fault: Fault) -> None:
        broker = self._broker(fault)
        if self._may_end(broker):
            broker.stop(fault.for_ms)

    def _disk(self, fault: Fault) -> None:
        """A broker's disk fails: at its next write the process ends."""
        broker = self._broker(fault)
        if self._may_end(broker) and broker.disk.fail():
            broker.down_for = fault.for_ms

    def _may_end(self, broker: BrokerHost) -> bool:
        """True if the broker's process runs and, without overlap, all others have recovered."""
        may = broker.up and (self.simulation.settings.overlap or self._recovered())
        if may:
            self.down = broker.id
        return may

    def _recovered(self) -> bool:
        """True if all brokers run, and the last one to fail is registered and in sync everywhere.

        Its previous process counts as in sync until the new one is registered.
        """
        if not all(broker.up and not broker.disk.broken for broker in self.brokers):
            return False
        if not self.down:
            return True
        named = set(NAMED if self.transactional is not None else (MOST_PARTITIONS,))
        named = named | {SHARE_STATE_NUMBER} if self.sharing else named - {SHARE_STATE_NUMBER}
        replicated = [number for number in sorted(named) if NAMED[number].topic != RECEIPTS]
        numbers = (*range(self.controller.partitions_of(TOPIC)), *replicated)
        epoch = self.brokers[self.down - 1].node.context.broker_epoch
        return self.controller.knows(self.down, epoch) and all(
            self.down in self.controller.partition(_name(number)).isr for number in numbers
        )

    def _pause(self, fault: Fault) -> None:
        broker = self._broker(fault)
        broker.paused_until = self.simulation.timeline.now + fault.for_ms

    def _lag(self, fault: Fault) -> None:
        """A broker lives and its messages arrive, but metadata reaches it late or with gaps."""
        broker, lag = self._broker(fault).id, self.simulation.network.lag
        by_ms = lag[broker] = int(fault.part * 1000) if fault.how == "late" else -1

        def catch_up() -> None:
            if lag.get(broker) == by_ms:
                del lag[broker]

        self._later(fault, catch_up)

    def _elect(self, fault: Fault) -> None:
        """Let another one lead while the leader is well; and soon the same one again."""
        leader = self._leader(fault.partition)
        self._lead(fault.partition, fault.who)
        if fault.for_ms and leader is not None:
            self._later(fault, lambda: self._lead(fault.partition, leader))

    def _lead(self, partition: int, broker: int) -> None:
        if self._has(partition):
            self.controller.move_leader(_name(partition), broker)

    def _expire(self, fault: Fault) -> None:
        """The store ends the session of a broker, or of the controller's, which lives."""
        if isinstance(self.controller, StoreHost):
            believers = self.controller.believers()
            self.controller.expire(fault.who or (believers[0] if believers else 1))

    def _depose(self, fault: Fault) -> None:
        """An operator deletes /controller; the controller's session continues."""
        if isinstance(self.controller, StoreHost):
            self.controller.operate(Delete(znodes.CONTROLLER))

    def _store(self, fault: Fault) -> None:
        """The store's process ends, and recovers what its disk has."""
        if isinstance(self.controller, StoreHost):
            self.controller.crash(fault.part, fault.for_ms, writing=fault.how == "writing")

    def _reassign(self, fault: Fault) -> None:
        """Move a partition to two brokers, or to another order; and soon to all of them."""
        store, name = self.controller, TopicPartition(TOPIC, fault.partition)
        if isinstance(store, StoreHost):
            first = fault.who or 1
            others = [one for one in BROKERS if one != first]
            store.reassign(name, (first, *others[: 1 if fault.part < 1.0 else 2]))
            self._later(fault, lambda: store.reassign(name, BROKERS))

    def move_back(self) -> None:
        """Assign all replicas to all brokers, and repeat the request until a controller has taken
        it."""
        store = self.controller
        if not isinstance(store, StoreHost):
            return
        for number in range(store.partitions_of(TOPIC)):
            name = TopicPartition(TOPIC, number)
            if store.moved(name):
                store.reassign(name, BROKERS)

    def _add_partition(self, fault: Fault) -> None:
        """Ask for one partition more, until the topic has it (KIP-195)."""
        wanted = max(self.wanted, self.controller.partitions_of(TOPIC)) + 1
        self.wanted = min(wanted, MOST_PARTITIONS)
        self._ask_for_partitions()

    def _ask_for_partitions(self) -> None:
        """Ask the acting controller, and repeat the request later."""
        if self.controller.partitions_of(TOPIC) < self.wanted:
            wanted = c.NewPartitions(TOPIC, self.wanted)
            body = c.Envelope(c.CreatePartitionsRequest((wanted,)))
            for target in self.controller.believers():
                self.simulation.network.send(Request(NEMESIS, target, self.wanted, body))
            at_ms = self.simulation.timeline.now + RETRY_MS
            self.simulation.timeline.at(at_ms, NEMESIS, End(self._ask_for_partitions))

    def _configure(self, fault: Fault) -> None:
        """Change a configuration of a topic or of the group; repeat it until a controller has."""
        resource, key, value = self._configuration(fault)
        self.configurations += 1
        number = self.unanswered[resource, key] = FIRST_CONFIGURATION + self.configurations
        change = c.ConfigAlteration(key, c.SET, value)
        body = c.Envelope(c.IncrementalAlterConfigsRequest(((resource, (change,)),)))

        def ask() -> None:
            if self.unanswered.get((resource, key)) == number:
                for target in self.controller.believers():
                    self.simulation.network.send(Request(NEMESIS, target, number, body))
                at_ms = self.simulation.timeline.now + RETRY_MS
                self.simulation.timeline.at(at_ms, NEMESIS, End(ask))

        ask()

    def _configuration(self, fault: Fault) -> tuple[ConfigResource, str, str]:
        """The resource, the name of its setting, and the value; `who` stands for it."""
        topic = ConfigResource(TOPIC_RESOURCE, _name(fault.partition).topic)
        group = ConfigResource(GROUP_RESOURCE, GROUP)
        match fault.how:
            case "min_isr":
                return topic, "min.insync.replicas", str(fault.who)
            case "unclean":
                return topic, "unclean.leader.election.enable", str(fault.who > 1).lower()
            case "session":
                session_ms = fault.who * self.simulation.settings.member_session_ms
                return group, "consumer.session.timeout.ms", str(session_ms)
            case _:
                return group, "consumer.assignment.interval.ms", str(100 * (fault.who - 1))

    def _configured(self, number: int) -> None:
        """A controller has taken a change."""
        for (resource, key), unanswered in list(self.unanswered.items()):
            if unanswered == number:
                del self.unanswered[resource, key]
                self.simulation.counts[f"configured: {key}"] += 1

    def _answered(self, response: Response) -> None:
        match response.body:
            case c.AlterConfigsResponse([c.ResourceResult(error=None)]):
                self._configured(response.correlation_id)
            case c.CreatePartitionsResponse([c.TopicResult(error=None)]):
                self.partitions = max(self.partitions, response.correlation_id)
                self.simulation.counts["partitions added to the topic"] += 1
            case _:
                pass

    def _member_crash(self, fault: Fault) -> None:
        consumer, timeline = self.consumers[fault.who - 1], self.simulation.timeline
        if consumer.up:
            consumer.crash()
            timeline.at(timeline.now + fault.for_ms, consumer.id, RESTART)

    def _member_leave(self, fault: Fault) -> None:
        consumer, timeline = self.consumers[fault.who - 1], self.simulation.timeline
        if consumer.up:
            consumer.leave()
            timeline.at(timeline.now + fault.for_ms, consumer.id, RESTART)

    def _member_pause(self, fault: Fault) -> None:
        consumer = self.consumers[fault.who - 1]
        consumer.paused_until = self.simulation.timeline.now + fault.for_ms

    # Members of the share group

    def _share_members(self, fault: Fault) -> Sequence[ShareConsumer]:
        return [one for one in self.sharing if fault.who in (0, one.number + 1)]

    def _share_crash(self, fault: Fault) -> None:
        self._end_share_members(fault, ShareConsumer.crash)

    def _share_leave(self, fault: Fault) -> None:
        self._end_share_members(fault, ShareConsumer.leave)

    def _end_share_members(self, fault: Fault, end: Callable[[ShareConsumer], None]) -> None:
        timeline = self.simulation.timeline
        for one in self._share_members(fault):
            if one.up:
                end(one)
                timeline.at(timeline.now + fault.for_ms, one.id, RESTART)

    def _share_pause(self, fault: Fault) -> None:
        for one in self._share_members(fault):
            one.paused_until = self.simulation.timeline.now + fault.for_ms

    def _share_moves(self, fault: Fault) -> None:
        self.moves_until = self.simulation.timeline.now + fault.for_ms

    def _moves_share_state(self, who: int, seen: Written) -> None:
        """Let the next broker lead the share state once something was written to it."""
        timeline = self.simulation.timeline
        if seen.partition == SHARE_STATE and timeline.now < self.moves_until:
            move = End(lambda: self._lead(SHARE_STATE_NUMBER, who % len(BROKERS) + 1))
            timeline.at(timeline.now, NEMESIS, move)

    # Transactional clients, and markers

    def _hit(self, fault: Fault) -> Any | None:
        """The transactional client of a fault; a script may name one that is not there."""
        clients: Sequence[Any] = () if self.transactional is None else self.transactional.all
        return clients[fault.who - 1] if 1 <= fault.who <= len(clients) else None

    def _client_crash(self, fault: Fault) -> None:
        client, timeline = self._hit(fault), self.simulation.timeline
        if self.transactional is not None and client is not None and client.up:
            self.transactional.crash(client, abandons=fault.how == "abandoned")
            timeline.at(timeline.now + fault.for_ms, client.id, RESTART)

    def _client_pause(self, fault: Fault) -> None:
        client = self._hit(fault)
        if client is not None:
            client.paused_until = self.simulation.timeline.now + fault.for_ms

    def _client_takeover(self, fault: Fault) -> None:
        """The other producer of a transactional id begins an instance; this one may sleep."""
        if self.transactional is not None and 1 <= fault.who <= len(self.transactional.producers):
            if fault.how == "paused":
                self._client_pause(fault)
            self.transactional.producers[(fault.who - 1) ^ 1].take_over()

    def _markers(self, fault: Fault) -> None:
        """Requests that end transactions at leaders, and their answers, have their own fate."""
        network = self.simulation.network
        if isinstance(network, TransactionalNetwork):
            fates = network.fates
            fates.append(fault.how)
            self._later(fault, lambda: fates.remove(fault.how) if fault.how in fates else None)

    def _cut(self, fault: Fault) -> None:
        network = self.simulation.network
        links = self._links(fault, self._broker(fault).id)
        network.cut_links(links)
        self._later(fault, lambda: network.heal_links(links))

    def _links(self, fault: Fault, broker: int) -> list[Link]:
        others = [b for b in BROKERS if b != broker]
        everybody = [n for n in (*NODES, *self.clients) if n != broker]
        away = {
            "all": everybody,
            "from": everybody,
            "controller": [CONTROLLER],
            "brokers": others,
            "from_brokers": others,
            "one": others[:1],
        }
        back = {
            "all": everybody,
            "to": everybody,
            "controller": [CONTROLLER],
            "brokers": others,
            "to_brokers": others,
        }
        return [(broker, n) for n in away.get(fault.how, ())] + [
            (n, broker) for n in back.get(fault.how, ())
        ]

    def _slow(self, fault: Fault) -> None:
        network, by_ms = self.simulation.network, int(fault.part * 1000)
        links = self._links(fault, self._broker(fault).id)
        network.slow_links(links, by_ms)
        self._later(fault, lambda: network.slow_links(links, -by_ms))

    def _noise(self, fault: Fault) -> None:
        """All nodes' messages are lost, doubled or late, for a while."""
        self._raise(fault.how, 1)
        self._later(fault, lambda: self._raise(fault.how, -1))

    def _raise(self, noise: str, sign: int) -> None:
        network = self.simulation.network
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
        timeline = self.simulation.timeline
        timeline.at(timeline.now + fault.for_ms, NEMESIS, End(end))


def _name(partition: int) -> TopicPartition:
    return NAMED.get(partition) or TopicPartition(TOPIC, partition)
