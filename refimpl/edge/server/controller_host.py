"""The controller on the edge: one for all brokers of this process."""

from collections.abc import Callable, Sequence
from random import Random, SystemRandom
from typing import Any, cast

from attrs import define, field

from refimpl.configs import Configs
from refimpl.controller.controller import SESSIONS, Controller
from refimpl.controller.restart import restore
from refimpl.controller.state import ControllerConfig
from refimpl.controller.topics import Defaults
from refimpl.edge.server.clock import Clock, Timers
from refimpl.edge.server.controller_log import ControllerLog
from refimpl.edge.server.network import Network
from refimpl.messages.broker import Request, Response, Timer
from refimpl.messages.controller import CONTROLLER

OPERATOR = -2
"""The node id of who asks the controller without a broker."""

COMMIT = "commit"
"""The controller's message to itself: all that came before this is decided."""


def controller_config(configs: Configs) -> ControllerConfig:
    """The controller's settings in server.properties."""

    def number(name: str) -> int:
        return int(str(configs[name]))

    balance = configs["auto.leader.rebalance.enable"]
    interval_s = number("leader.imbalance.check.interval.seconds")
    return ControllerConfig(
        broker_session_timeout_ms=number("broker.session.timeout.ms"),
        leader_imbalance_check_interval_ms=1000 * interval_s if balance else 0,
        min_insync_replicas=number("min.insync.replicas"),
        unclean_leader_election_enable=bool(configs["unclean.leader.election.enable"]),
        delete_topic_enable=bool(configs["delete.topic.enable"]),
        controller_quota_window_num=number("controller.quota.window.num"),
        controller_quota_window_size_seconds=number("controller.quota.window.size.seconds"),
        configs=configs,
        topics=Defaults(number("num.partitions"), number("default.replication.factor")),
    )


@define(eq=False, repr=False)
class ControllerHost:
    """The controller, its clock and its timers. `seed` places replicas; None is a random one.

    Requests that have come together are decided together: one write to the log, and then one
    version of the metadata for each broker. Nobody hears of a decision, nor gets an answer, before
    that.
    """

    network: Network
    configs: Configs
    cluster_id: str
    seed: int | None = None
    observe: Callable[[int, Any], None] | None = None
    #: Where decisions are kept; None for nowhere
    log: ControllerLog | None = None
    clock: Clock = field(factory=Clock)
    controller: Controller = field(init=False)
    timers: Timers | None = field(default=None, init=False)
    _pending: dict[int, Callable[[Any], None]] = field(
        factory=dict[int, Callable[[Any], None]], init=False
    )
    _asked: int = field(default=0, init=False)
    #: Decisions are made, or timers have fired, of which nobody has heard
    _owes: bool = field(default=False, init=False)

    def start(self) -> None:
        """Take requests from now on."""
        rng = SystemRandom() if self.seed is None else Random(self.seed)
        self.timers = Timers(self.clock, self._due)
        self.controller = Controller(controller_config(self.configs), rng)
        self.controller.metadata.cluster_id = self.cluster_id
        if self.log is not None:
            restore(self.controller, self.log.open())
        self._owes = False
        self.network.nodes[CONTROLLER] = self.receive
        self._carry_out(self.controller.start(self.clock.now()))

    @property
    def has_told_all(self) -> bool:
        """True if every decision is on disk and on its way to the brokers."""
        return not self._owes

    def close(self) -> None:
        """The process ends."""
        self.network.nodes.pop(CONTROLLER, None)
        if self.timers is not None:
            self.timers.clear()
        if self.log is not None:
            self.log.close()

    def ask(self, body: Any, then: Callable[[Any], None] | None = None) -> None:
        """Put a request to the controller; `then` is called with the answer's body."""
        self._asked += 1
        if then is not None:
            self._pending[self._asked] = then
        self.receive(Request(OPERATOR, CONTROLLER, self._asked, body))
        self.network.run()

    def receive(self, message: Request | Response) -> None:
        """Take a message of a broker; whoever has to hear of it does by the next commit."""
        if message.body is COMMIT:
            self._commit()
            return
        self.controller.decide(self.clock.now(), cast("Request", message))
        if not self._owes:
            self._owes = True
            self.network.send(Response(CONTROLLER, CONTROLLER, 0, COMMIT))

    def expire_session(self, broker: int) -> None:
        """Give a broker up at once, as if it had been silent for too long."""
        self._commit()
        self.controller.registry.heard.pop(broker, None)
        now = self.clock.now()
        self.controller.decide(now, Timer(now, SESSIONS))
        self._commit(set_timers=False)
        self.network.run()

    def advance(self, by_ms: int) -> None:
        """Let time pass on the controller's clock."""
        self.clock.advanced_ms += by_ms
        if self.timers is not None:
            self.timers.arm()

    def _due(self, name: str) -> None:
        now = self.clock.now()
        self.controller.decide(now, Timer(now, name))
        self._commit()
        self.network.run()

    def _commit(self, *, set_timers: bool = True) -> None:
        """Keep what has been decided, and then tell everybody of it."""
        self._owes = False
        changes = self.controller.take_changes()
        if changes and self.log is not None:
            self.log.append(changes)
        outputs = self.controller.tell(changes)
        if not set_timers:
            outputs = [one for one in outputs if not isinstance(one, Timer)]
        self._carry_out(outputs)

    def _carry_out(self, outputs: Sequence[Any]) -> None:
        for output in outputs:
            kind = output.__class__
            if kind is Response and output.target == OPERATOR:
                then = self._pending.pop(output.correlation_id, None)
                if then is not None:
                    then(output.body)
            elif kind is Request or kind is Response:
                self.network.send(output)
            elif kind is Timer:
                assert self.timers is not None
                self.timers.set(output.at_ms, output.name)
            elif self.observe is not None:
                self.observe(CONTROLLER, output)
