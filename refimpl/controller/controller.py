"""The controller without I/O: broker sessions, decisions about partitions, operators' requests.

All brokers receive every decision, as the next version of the metadata.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

from refimpl.controller import elections
from refimpl.controller.administration import Administration
from refimpl.controller.config_schema import KafkaConfigSchema
from refimpl.controller.decisions import Decisions
from refimpl.controller.placement import Rng
from refimpl.controller.state import Controlled, ControllerConfig, ControllerState
from refimpl.errors import Refusal
from refimpl.machines import messages as machines
from refimpl.machines.brokers import BrokerRegistry
from refimpl.messages import broker as m
from refimpl.messages import controller as c
from refimpl.messages.cluster import BrokerRegistration, Change, ClusterMetadata, newest
from refimpl.messages.controller import CONTROLLER
from refimpl.messages.observations import (
    Ignored,
    Refused,
    Registered,
    SessionEnded,
    SessionResumed,
)

SESSIONS, BALANCE = "sessions", "balance"


@define(eq=False, repr=False)
class Controller:
    """The decisions of one controller, and their publication.

    On its own (`handle`) it does not fail, keeps the state that a metadata store would, and ends
    the sessions of brokers. On a store, `StoredController` lets it `decide`, writes the changes,
    and only then lets it `tell`.

    All brokers receive changes as the next version of the metadata. Those `behind`, which seem to
    have missed a version, receive all of the metadata. `processes` is the incarnation id behind
    each broker epoch.
    """

    config: ControllerConfig
    rng: Rng
    controller_id: int = CONTROLLER
    controller_epoch: int = 0
    state: ControllerState = field(init=False)
    decisions: Decisions = field(init=False)
    administration: Administration = field(init=False)
    processes: dict[int, int] = field(factory=dict[int, int])
    broker_epochs: int = 0
    behind: set[int] = field(factory=set[int])
    requests: int = 0
    _handlers: dict[type, Callable[[int, Any], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Create the state, and map requests to their handlers."""
        self.state = ControllerState(self.config)
        self.decisions = Decisions(self.state)
        schema = KafkaConfigSchema(self.config.configs)
        self.administration = Administration(
            self.state, self.decisions, self.rng, schema, self.controller_id
        )
        self.metadata.metadata_version = 0
        self._handlers = {
            c.BrokerHeartbeatRequest: self._heartbeat,
            c.BrokerRegistrationRequest: self._register,
            c.AlterPartitionRequest: self._alter_partition,
        }

    @property
    def metadata(self) -> ClusterMetadata:
        """The metadata in force."""
        return self.state.metadata

    @property
    def partitions(self) -> Mapping[m.TopicPartition, Controlled]:
        """Each partition's assignment and state."""
        return self.state.partitions

    @property
    def registry(self) -> BrokerRegistry:
        """The registered brokers, and which of them are alive."""
        return self.state.registry

    # In and out

    def start(self, now: int) -> Sequence[Any]:
        """Begin to check sessions and preferred leaders."""
        self._set_timer(now)
        self.begin(now)
        return self._outputs()

    def begin(self, now: int) -> None:
        """Begin to check preferred leaders."""
        if self.config.leader_imbalance_check_interval_ms:
            self._set(now + self.config.leader_imbalance_check_interval_ms, BALANCE)

    def handle(self, now: int, message: m.Input) -> Sequence[Any]:
        """Take an input; return outputs, in the order in which they happened."""
        self.decide(now, message)
        return self._outputs()

    def decide(self, now: int, message: m.Input) -> None:
        """Take an input; keep the results in the state's changes and outputs, without publishing
        them.
        """
        if isinstance(message, m.Timer):
            self._timer(now, message.name)
        else:
            self._request(now, message)

    def tell(self, changes: Sequence[Change]) -> Sequence[Any]:
        """Publish changes that are in force, and answer the requests that caused them."""
        self._publish(changes)
        outputs, self.state.outputs = self.state.outputs, []
        return outputs

    def take_changes(self) -> Sequence[Change]:
        """The changes since the last call."""
        if not self.state.changes:
            return ()
        changes, self.state.changes = newest(self.state.changes), []
        return changes

    def _timer(self, now: int, name: str) -> None:
        if name == SESSIONS:
            self._end_sessions(now)
            self._set_timer(now)
        else:
            self.decisions.balance()
            self._set(now + self.config.leader_imbalance_check_interval_ms, BALANCE)

    def _request(self, now: int, message: Any) -> None:
        if isinstance(message.body, c.Envelope):
            message = message._replace(body=message.body.body)
        handler = self._handlers.get(message.body.__class__)
        if handler is not None:
            handler(now, message)
            return
        answer = self.administration.ask(now, message.body)
        if answer is not None:
            self._respond(message, answer)

    def _outputs(self) -> Sequence[Any]:
        return self.tell(self.take_changes())

    def _set(self, at_ms: int, name: str) -> None:
        self.state.outputs.append(m.Timer(at_ms, name))

    def _respond(self, request: m.Request, body: Any) -> None:
        source, target, correlation_id, _ = request
        self.state.outputs.append(m.Response(target, source, correlation_id, body))

    # Sessions

    def _set_timer(self, now: int) -> None:
        self._set(now + max(10, self.config.broker_session_timeout_ms // 6), SESSIONS)

    def _end_sessions(self, now: int) -> None:
        for broker in self.registry.silent(now, self.config.broker_session_timeout_ms):
            self.state.outputs.append(SessionEnded(broker))
            self._fence(broker)

    def expect(self, brokers: Sequence[int]) -> None:
        """Count brokers as alive, in an incarnation before the first, until they register."""
        for broker in brokers:
            self.registry.register(broker, 0)
            self.registry.unfence(broker)
            self.state.change(BrokerRegistration(broker, 0, 0))
        self.state.changes = []

    def _register(self, now: int, request: m.Request) -> None:
        """Register a process: end its predecessor's session first.

        The same process may ask again, and gets the same answer; an older one is refused (KIP-631).
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
            self.registry.fence(broker)  # a broker that was expected, with its first process
        self.broker_epochs += 1
        self._respond(request, c.BrokerRegistrationResponse(None, self.broker_epochs))
        crashed = known > 0 and body.previous_broker_epoch != previous
        registration = BrokerRegistration(
            *(broker, self.broker_epochs, body.incarnation_id),
            *(body.endpoints, body.rack, body.log_dirs),
        )
        self.appear(now, registration, crashed=crashed)

    def appear(self, now: int, registration: BrokerRegistration, *, crashed: bool) -> None:
        """Unfence a broker's process under its broker epoch."""
        broker, epoch = registration.broker_id, registration.broker_epoch
        self.processes[broker] = registration.incarnation_id
        self.registry.register(broker, epoch)
        self.registry.heartbeat(broker, epoch, now)
        self.registry.unfence(broker)
        self.state.outputs.append(Registered(broker, registration.incarnation_id, epoch))
        self.state.change(registration)
        self.decisions.broker_registered(broker, crashed=crashed)
        self.behind.add(broker)

    def _heartbeat(self, now: int, request: m.Request) -> None:
        body: c.BrokerHeartbeatRequest = request.body
        broker, registry = body.broker_id, self.registry
        try:
            fenced = registry.heartbeat(broker, body.broker_epoch, now)
            if body.want_shut_down and broker not in registry.leaving:
                registry.shut_down(broker, body.broker_epoch)
                self.state.broker_changed(broker)
        except Refusal as refusal:
            self.state.outputs.append(Ignored("heartbeats of an earlier incarnation"))
            self._respond(request, c.BrokerHeartbeatResponse(refusal.kafka_error, False))
            return
        if broker in registry.leaving:
            self._fence(broker)
        elif fenced:
            self.state.outputs.append(SessionResumed(broker))
            registry.unfence(broker)
            self.state.broker_changed(broker)
            self.decisions.find_leaders()
        if body.offline:
            self.decisions.replicas_failed(broker, body.offline)
        leaving = broker in registry.leaving
        self._respond(request, c.BrokerHeartbeatResponse(None, leaving))
        known = body.controller_epoch, body.metadata_version
        if known < (self.controller_epoch, self.metadata.metadata_version):
            self.behind.add(broker)

    def vanish(self, broker: int) -> None:
        """End a broker's session, as the store reports."""
        self.state.outputs.append(SessionEnded(broker))
        self._fence(broker)

    def _fence(self, broker: int) -> None:
        """Fence a broker that is gone, or starts again: others lead its partitions."""
        if broker in self.registry.alive and broker in self.processes:
            self.registry.fence(broker)
            self.state.broker_changed(broker)
            self.decisions.broker_fenced(broker)

    # What is asked for

    def _alter_partition(self, now: int, request: m.Request) -> None:
        body: c.AlterPartitionRequest = request.body
        name, one = body.partition, self.partitions.get(body.partition)
        if one is None or body.topic_id not in (b"", one.topic_id):
            outcome = machines.AlterPartitionResponse("UNKNOWN_TOPIC_ID", None, -1, frozenset(), -1)
        else:
            outcome = self.decisions.alter_partition(name, body.change)
        self._respond(request, c.AlterPartitionResponse(name, outcome))

    def move_leader(self, now: int, name: m.TopicPartition, broker: int) -> Sequence[Any]:
        """Let this replica lead, or the current leader lead again in a new epoch, if it may.

        It is as if an operator put the replica first in the assignment and had the preferred leader
        elected.
        """
        try:
            self.decisions.elect(name, self.partitions[name], elections.Choice(broker))
        except Refusal as refusal:
            self.state.outputs.append(Refused("ElectLeaders", refusal.kafka_error))
        else:
            self.state.outputs.append(Ignored("preferred elections"))
        return self._outputs()

    # Publishing

    def _publish(self, changes: Sequence[Change]) -> None:
        """Send all brokers the changes, as one version of the metadata."""
        if not changes and not self.behind:
            return
        behind, self.behind = self.behind, set()
        if changes:
            self.metadata.metadata_version += 1
            for broker in self.metadata.brokers:
                if broker not in behind:
                    self._tell(broker, changes, is_full=False)
        everything = tuple(self.metadata.changes()) if behind else ()
        for broker in sorted(behind):
            self._tell(broker, everything, is_full=True)

    def _tell(self, broker: int, changes: Sequence[Change], *, is_full: bool) -> None:
        if broker in self.processes:
            self.requests += 1
            metadata = self.metadata
            news = c.UpdateMetadataRequest(
                self.registry.epochs[broker],
                metadata.metadata_version,
                tuple(changes),
                is_full,
                *(self.controller_epoch, self.controller_id, metadata.cluster_id),
            )
            self.state.outputs.append(m.Request(self.controller_id, broker, self.requests, news))
