"""The controller without I/O: broker sessions, and a decision whenever one begins or ends.

It does not fail here, and keeps what a metadata store would.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

from refimpl.broker import control_messages as c
from refimpl.broker import messages as m
from refimpl.broker.context import CONTROLLER
from refimpl.broker.observations import (
    Decided,
    Ignored,
    Refused,
    Registered,
    SessionEnded,
    SessionResumed,
)
from refimpl.errors import Refusal
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState, first_live

SESSIONS = "sessions"
NOBODY = 0


@define(eq=False)
class Controlled:
    """One partition: its replicas in the order of preference, its state, and the partition epoch
    that brokers were told of last."""

    assignment: tuple[int, ...]
    state: PartitionState
    published: int = 1


@define(eq=False)
class Controller:
    """Decides with one `PartitionState` for each partition and one registry of brokers, and tells
    brokers by message.

    A decision goes to all brokers as the next version of the metadata; to who seems to have missed
    one, all of the metadata. `processes` is the incarnation id behind each broker epoch.
    """

    registry: BrokerRegistry
    brokers: Sequence[int]
    partitions: Mapping[m.TopicPartition, Controlled]
    session_timeout_ms: int
    processes: dict[int, int] = field(factory=dict[int, int])
    broker_epochs: int = 0
    metadata_version: int = 0
    requests: int = 0
    outputs: list[Any] = field(factory=list[Any])
    _handlers: dict[type, Callable[[int, Any], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self._handlers = {
            c.BrokerHeartbeatRequest: self._heartbeat,
            c.BrokerRegistrationRequest: self._register,
            c.AlterPartitionRequest: self._alter_partition,
            c.ElectLeadersRequest: self._elect_leaders,
        }

    def start(self, now: int) -> Sequence[Any]:
        """Begin to look after sessions."""
        self._set_timer(now)
        return self._outputs()

    def handle(self, now: int, message: m.Input) -> Sequence[Any]:
        """Take an input; answers outputs, in the order in which they happened."""
        if isinstance(message, m.Timer):
            self._end_sessions(now)
            self._set_timer(now)
        else:
            kind = message.body.__class__
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(now, message)
        for name, one in self.partitions.items():
            if one.published != one.state.partition_epoch:
                self._publish(name, one)
        return self._outputs()

    def _outputs(self) -> Sequence[Any]:
        outputs, self.outputs = self.outputs, []
        return outputs

    def _respond(self, request: m.Request, body: Any) -> None:
        source, target, correlation_id, _ = request
        self.outputs.append(m.Response(target, source, correlation_id, body))

    # Sessions

    def _set_timer(self, now: int) -> None:
        self.outputs.append(m.Timer(now + max(10, self.session_timeout_ms // 6), SESSIONS))

    def _end_sessions(self, now: int) -> None:
        for broker in self.registry.silent(now, self.session_timeout_ms):
            self.outputs.append(SessionEnded(broker))
            self._fence(broker)

    def _register(self, now: int, request: m.Request) -> None:
        """A process has started: end what its predecessor had, then take it in.

        The same process may ask again, and is told the same; an older one is refused (KIP-631).
        """
        body: c.BrokerRegistrationRequest = request.body
        broker, known = body.broker_id, self.processes.get(body.broker_id, 0)
        previous = self.registry.epochs.get(broker, -1)
        if body.incarnation_id <= known:
            same = body.incarnation_id == known
            error = None if same else "DUPLICATE_BROKER_REGISTRATION"
            self._respond(request, c.BrokerRegistrationResponse(error, previous if same else -1))
            return
        if known:
            self._fence(broker)
        elif broker in self.registry.alive:
            self.registry.fence(broker)  # a broker of which the first process was waited for
        self.broker_epochs += 1
        self.processes[broker] = body.incarnation_id
        self.registry.register(broker, self.broker_epochs)
        self.registry.heartbeat(broker, self.broker_epochs, now)
        self.registry.unfence(broker)
        self.outputs.append(Registered(broker, body.incarnation_id, self.broker_epochs))
        self._respond(request, c.BrokerRegistrationResponse(None, self.broker_epochs))
        crashed = known > 0 and body.previous_broker_epoch != previous
        for name, one in self.partitions.items():
            one.state.register(broker, crashed=crashed)
            self._find_leader(name, one)
        self._tell_all(broker)

    def _heartbeat(self, now: int, request: m.Request) -> None:
        body: c.BrokerHeartbeatRequest = request.body
        broker, registry = body.broker_id, self.registry
        try:
            fenced = registry.heartbeat(broker, body.broker_epoch, now)
            if body.want_shut_down:
                registry.shut_down(broker, body.broker_epoch)
        except Refusal as refusal:
            self.outputs.append(Ignored("heartbeats of an earlier incarnation"))
            self._respond(request, c.BrokerHeartbeatResponse(refusal.kafka_error, False))
            return
        if broker in registry.leaving:
            self._fence(broker)
        elif fenced:
            self.outputs.append(SessionResumed(broker))
            registry.unfence(broker)
            for name, one in self.partitions.items():
                self._find_leader(name, one)
        leaving = broker in registry.leaving
        self._respond(request, c.BrokerHeartbeatResponse(None, leaving))
        if body.metadata_version < self.metadata_version:
            self._tell_all(broker)

    # Decisions

    def _fence(self, broker: int) -> None:
        """A broker is gone, or starts again: another one has to do what it did."""
        if broker not in self.registry.alive or broker not in self.processes:
            return
        self.registry.fence(broker)
        for name, one in self.partitions.items():
            self._fence_one(name, one, broker)
            self._find_leader(name, one)

    def _fence_one(self, name: m.TopicPartition, one: Controlled, broker: int) -> None:
        state = one.state
        successor = state.leader
        if successor in (broker, None):
            others = state.isr - {broker}
            successor = first_live(one.assignment, others, self.registry.active)
        if state.leader is None:
            if state.remove(broker):
                self._decided(name, one, "Remove", broker)
        elif successor is None:
            state.go_offline(broker)
            self._decided(name, one, "GoOffline", broker)
        elif state.fence(broker, successor):
            self._decided(name, one, "Fence", broker, successor)

    def _find_leader(self, name: m.TopicPartition, one: Controlled) -> None:
        """Where nobody leads, let one of the ISR; else of the ELR; else, if allowed, anyone."""
        state = one.state
        if state.leader is not None:
            return
        try:
            for candidates in (state.isr, state.elr):
                broker = first_live(one.assignment, candidates, self.registry.active)
                if broker is not None:
                    self._elect(name, one, broker)
                    return
            broker = first_live(one.assignment, frozenset(one.assignment), self.registry.active)
            if broker is not None and state.unclean_election:
                state.elect_unclean(broker)
                self._decided(name, one, "ElectUnclean", broker)
        except Refusal as refusal:
            self.outputs.append(Refused("election", refusal.kafka_error))

    def _elect(self, name: m.TopicPartition, one: Controlled, broker: int) -> None:
        """Let this one lead; raises a refusal if it may not."""
        in_isr = broker in one.state.isr
        if one.state.leader is None:
            one.state.elect(broker)
        else:
            one.state.move_leader(broker)
        self._decided(name, one, "Elect" if in_isr else "ElectEligible", broker)

    def _elect_leaders(self, now: int, request: m.Request) -> None:
        """An operator, or the preferred leader's return, asks for another leader (KIP-460)."""
        body: c.ElectLeadersRequest = request.body
        try:
            self._elect(body.partition, self.partitions[body.partition], body.broker_id)
        except Refusal as refusal:
            self.outputs.append(Refused("ElectLeaders", refusal.kafka_error))
        else:
            self.outputs.append(Ignored("preferred elections"))

    def _alter_partition(self, now: int, request: m.Request) -> None:
        """A leader asks for another ISR: a conditional update (KIP-497)."""
        body: c.AlterPartitionRequest = request.body
        one = self.partitions[body.partition]
        before = one.state.isr
        outcome = one.state.alter_partition(body.change)
        for follower in sorted(before ^ one.state.isr):
            action = "ExpandIsr" if follower in one.state.isr else "ShrinkIsr"
            self._observe(body.partition, one, action, body.change.broker_id, follower)
        self._respond(request, c.AlterPartitionResponse(body.partition, outcome))

    def _decided(
        self,
        name: m.TopicPartition,
        one: Controlled,
        action: str,
        broker: int,
        successor: int = NOBODY,
    ) -> None:
        self._observe(name, one, action, broker, successor)
        self._publish(name, one)

    def _observe(
        self, name: m.TopicPartition, one: Controlled, action: str, broker: int, successor: int
    ) -> None:
        state = one.state
        self.outputs.append(
            Decided(name, action, broker, successor, state.decision, state.elr, self.registry.alive)
        )

    # News

    def _publish(self, name: m.TopicPartition, one: Controlled) -> None:
        """Tell all brokers of a partition that has changed."""
        self.metadata_version += 1
        one.published = one.state.partition_epoch
        state = c.PartitionState(name, one.state.decision)
        for broker in self.brokers:
            self._tell(broker, (state,), is_full=False)

    def _tell_all(self, broker: int) -> None:
        states = [
            c.PartitionState(name, one.state.decision) for name, one in self.partitions.items()
        ]
        self._tell(broker, tuple(states), is_full=True)

    def _tell(self, broker: int, states: Sequence[c.PartitionState], *, is_full: bool) -> None:
        if broker in self.processes:
            self.requests += 1
            epoch = self.registry.epochs[broker]
            news = c.LeaderAndIsrRequest(epoch, self.metadata_version, states, is_full)
            self.outputs.append(m.Request(CONTROLLER, broker, self.requests, news))
