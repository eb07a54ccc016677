"""The controller on the edge: one for all brokers of this process."""

from collections.abc import Callable, Sequence
from random import Random, SystemRandom
from typing import Any

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
from refimpl.messages.controller import CONTROLLER, UpdateMetadataRequest

OPERATOR = -2
"""The node id of who asks the controller without a broker."""


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
    """The controller, its clock and its timers. `seed` places replicas; None is a random one."""

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
    _written: int = field(default=0, init=False)

    def start(self) -> None:
        """Take requests from now on."""
        rng = SystemRandom() if self.seed is None else Random(self.seed)
        self.timers = Timers(self.clock, self._due)
        self.controller = Controller(controller_config(self.configs), rng)
        self.controller.metadata.cluster_id = self.cluster_id
        if self.log is not None:
            restore(self.controller, self.log.open())
        self.network.nodes[CONTROLLER] = self.receive
        self._carry_out(self.controller.start(self.clock.now()))

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
        """A message of a broker."""
        self._carry_out(self.controller.handle(self.clock.now(), message))

    def expire_session(self, broker: int) -> None:
        """Give a broker up at once, as if it had been silent for too long."""
        self.controller.registry.heard.pop(broker, None)
        now = self.clock.now()
        outputs = self.controller.handle(now, Timer(now, SESSIONS))
        self._carry_out([one for one in outputs if not isinstance(one, Timer)])
        self.network.run()

    def advance(self, by_ms: int) -> None:
        """Let time pass on the controller's clock."""
        self.clock.advanced_ms += by_ms
        if self.timers is not None:
            self.timers.arm()

    def _due(self, name: str) -> None:
        now = self.clock.now()
        self._carry_out(self.controller.handle(now, Timer(now, name)))
        self.network.run()

    def _write(self, outputs: Sequence[Any]) -> None:
        """Keep what has been decided, before anybody is told of it."""
        if self.log is None:
            return
        for output in outputs:
            news = output.body if isinstance(output, Request) else None
            if not isinstance(news, UpdateMetadataRequest) or news.is_full:
                continue
            if news.metadata_version > self._written:
                self._written = news.metadata_version
                self.log.append(news.changes)

    def _carry_out(self, outputs: Sequence[Any]) -> None:
        self._write(outputs)
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
