"""The controller without I/O: broker sessions, and a decision whenever one begins or ends.

It does not fail here, and keeps what a metadata store would.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

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
from refimpl.machines.messages import AlterPartitionRequest

SESSIONS = "sessions"
NOBODY = 0


@define(eq=False)
class Session:
    """What the controller knows of a broker's process."""

    incarnation_id: int
    broker_epoch: int


@define(eq=False)
class Controlled:
    """One partition: its replicas in the order of preference, and its state."""

    assignment: tuple[int, ...]
    state: PartitionState


@define(eq=False)
class Controller:
    """Decides with one `PartitionState` for each partition, and tells brokers by message.

    A decision goes to all brokers as the next version of the metadata; to who seems to have missed
    one, all of the metadata.
    """

    brokers: Sequence[int]
    registry: BrokerRegistry
    partitions: Mapping[m.TopicPartition, Controlled]
    session_timeout_ms: int
    sessions: dict[int, Session] = field(factory=dict[int, Session])
    broker_epochs: int = 0
    metadata_version: int = 0
    requests: int = 0
    outputs: list[Any] = field(factory=list[Any])
    _handlers: dict[type, Callable[[int, Any], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self._handlers = {
            m.BrokerHeartbeatRequest: self._heartbeat,
            m.BrokerRegistrationRequest: self._register,
            m.AlterPartitionRequest: self._alter_partition,
            m.ElectLeadersRequest: self._elect_leaders,
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
        return self._outputs()

    def alive(self, broker: int) -> bool:
        """Whether a broker has a session."""
        return broker in self.registry.alive

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
            if broker in self.sessions:
                self.outputs.append(SessionEnded(broker))
                self._fence(broker)

    def _register(self, now: int, request: m.Request) -> None:
        """A process has started: end what its predecessor had, then take it in.

        The same process may ask again, and is told the same; an older one is refused (KIP-631).
        """
        body: m.BrokerRegistrationRequest = request.body
        broker, session = body.broker_id, self.sessions.get(body.broker_id)
        if session is not None and session.incarnation_id >= body.incarnation_id:
            same = session.incarnation_id == body.incarnation_id
            error = None if same else "DUPLICATE_BROKER_REGISTRATION"
            epoch = session.broker_epoch if same else -1
            self._respond(request, m.BrokerRegistrationResponse(error, epoch))
            return
        self._fence(broker)
        self.broker_epochs += 1
        previous = session.broker_epoch if session is not None else -1
        self.sessions[broker] = Session(body.incarnation_id, self.broker_epochs)
        self.outputs.append(Registered(broker, body.incarnation_id, self.broker_epochs))
        crashed = session is not None and body.previous_broker_epoch != previous
        self._respond(request, m.BrokerRegistrationResponse(None, self.broker_epochs))
        if self.alive(broker):  # of a new cluster: nobody else had this id
            self.registry.fence(broker)
        self.registry.register(broker, self.broker_epochs)
        self.registry.heartbeat(broker, self.broker_epochs, now)
        self.registry.unfence(broker)
        for name, one in self.partitions.items():
            one.state.register(broker, crashed=crashed)
            self._find_leader(name, one)
        self._tell_all(broker)

    def _heartbeat(self, now: int, request: m.Request) -> None:
        body: m.BrokerHeartbeatRequest = request.body
        broker = body.broker_id
        try:
            self.registry.heartbeat(broker, body.broker_epoch, now)
        except Refusal as refusal:
            self.outputs.append(Ignored("heartbeats of an earlier incarnation"))
            self._respond(request, m.BrokerHeartbeatResponse(refusal.kafka_error, False))
            return
        if body.want_shut_down:
            self._fence(broker)
            self._respond(request, m.BrokerHeartbeatResponse(None, True))
            return
        if not self.alive(broker):
            self.outputs.append(SessionResumed(broker))
            self.registry.unfence(broker)
            for name, one in self.partitions.items():
                self._find_leader(name, one)
        self._respond(request, m.BrokerHeartbeatResponse(None, False))
        if body.metadata_version < self.metadata_version:
            self._tell_all(broker)

    # Decisions

    def _fence(self, broker: int) -> None:
        """A broker is gone, or starts again: another one has to do what it did."""
        if not self.alive(broker) or broker not in self.sessions:
            return
        self.registry.fence(broker)
        for name, one in self.partitions.items():
            self._fence_one(name, one, broker)
            self._find_leader(name, one)

    def _fence_one(self, name: m.TopicPartition, one: Controlled, broker: int) -> None:
        state = one.state
        others, successor = state.isr - {broker}, state.leader
        if successor == broker:
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
        state, in_isr = one.state, broker in one.state.isr
        if state.leader is None:
            state.elect(broker)
        else:
            state.move_leader(broker)
        self._decided(name, one, "Elect" if in_isr else "ElectEligible", broker)

    def _elect_leaders(self, now: int, request: m.Request) -> None:
        """An operator, or the preferred leader's return, asks for another leader (KIP-460)."""
        body: m.ElectLeadersRequest = request.body
        try:
            self._elect(body.partition, self.partitions[body.partition], body.broker_id)
        except Refusal as refusal:
            self.outputs.append(Refused("ElectLeaders", refusal.kafka_error))
        else:
            self.outputs.append(Ignored("preferred elections"))

    def _alter_partition(self, now: int, request: m.Request) -> None:
        """A leader asks for another ISR: a conditional update (KIP-497)."""
        body: m.AlterPartitionRequest = request.body
        one = self.partitions[body.partition]
        state, isr, known = one.state, one.state.isr, one.state.partition_epoch
        asked = AlterPartitionRequest(
            body.broker_id,
            body.broker_epoch,
            body.leader_epoch,
            body.partition_epoch,
            tuple(body.new_isr),
        )
        answer = state.alter_partition(asked)
        for follower in sorted(isr ^ state.isr):
            action = "ExpandIsr" if follower in state.isr else "ShrinkIsr"
            self._observe(body.partition, one, action, body.broker_id, follower)
        self._respond(
            request,
            m.AlterPartitionResponse(
                body.partition,
                answer.error,
                answer.leader_epoch,
                answer.partition_epoch,
                answer.isr,
            ),
        )
        if state.partition_epoch != known:
            self._publish(body.partition, one)

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

    def _publish(self, name: m.TopicPartition, one: Controlled) -> None:
        """A partition has changed: that is the next version of the metadata."""
        self.metadata_version += 1
        state = m.PartitionState(name, one.state.decision, one.state.partition_epoch)
        for broker_id in self.brokers:
            self._tell(broker_id, (state,), is_full=False)

    def _observe(
        self, name: m.TopicPartition, one: Controlled, action: str, broker: int, successor: int
    ) -> None:
        state = one.state
        self.outputs.append(
            Decided(name, action, broker, successor, state.decision, state.elr, self.registry.alive)
        )

    # News

    def _tell_all(self, broker: int) -> None:
        states = [
            m.PartitionState(name, one.state.decision, one.state.partition_epoch)
            for name, one in self.partitions.items()
        ]
        self._tell(broker, tuple(states), is_full=True)

    def _tell(self, broker: int, states: Sequence[m.PartitionState], *, is_full: bool) -> None:
        session = self.sessions.get(broker)
        if session is not None:
            self.requests += 1
            news = m.LeaderAndIsrRequest(
                session.broker_epoch, self.metadata_version, states, is_full
            )
            self.outputs.append(m.Request(CONTROLLER, broker, self.requests, news))
