"""Brokers whose cluster keeps its metadata in a store: each may be controller."""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, field

from chaos.sim.addresses import STORE, TOPIC_IDS, ProcessTimer
from chaos.sim.hosts import BrokerHost
from chaos.sim.store import PROCESSES, StoreHost
from refimpl.broker.stored_node import StoredNode
from refimpl.controller.state import ControllerConfig
from refimpl.controller.stored_controller import StoredController
from refimpl.messages import observations as o
from refimpl.messages.broker import Request, Timer
from refimpl.messages.controller import BrokerAddress
from refimpl.metadata import contract
from refimpl.metadata.client import StoreClient, Wake
from refimpl.metadata.embedded import Frame

WAKE = "store"
FIRST = 0
"""The epoch before the first process: the topic exists, and no broker has crashed yet."""
OF_PARTITIONS = (
    *(o.Written, o.HighWatermarkAdvanced, o.FetchHeard, o.FetchAnswered, o.AnswerTaken),
    *(o.BecameLeader, o.BecameFollower, o.IsrAltered, o.Acknowledged, o.RecordsRead, o.Decided),
)
"""The observations of partitions; the operators' topics are not watched."""


@define(eq=False)
class StoredBrokerHost(BrokerHost):
    """A broker's machine; every process has a session of its own, and keeps it while it can."""

    controllers: ControllerConfig = field(kw_only=True)
    client: StoreClient = field(init=False)
    wake_at: int = -1

    @property
    def _store(self) -> StoreHost:
        assert isinstance(self.controller, StoreHost)
        return self.controller

    def acts_as_controller(self) -> bool:
        """True if the process runs and believes that it is controller."""
        node = self.nodes[-1]
        return self.up and isinstance(node, StoredNode) and node.candidate.controller is not None

    @property
    def _client_id(self) -> int:
        return self.id * PROCESSES + len(self.nodes)

    def start(self) -> None:
        """Start a process, and let it open a session."""
        simulation = self.simulation
        self.up, self.paused_until, self.wake_at = True, 0, -1
        process = len(self.nodes) + 1
        rng = Random(simulation.settings.seed * 2 + self.id * PROCESSES + process)
        candidate = StoredController(
            self.id,
            self.controllers,
            rng,
            BrokerAddress(),
            process,
            self.disk.clean_shutdown_epoch() if process > 1 else FIRST,
        )
        node = StoredNode(
            self.id,
            self.config,
            self.disk,
            self._min_isr(),
            process,
            candidate=candidate,
            group_config=self.groups,
            transaction_config=self.transactions,
            share_config=self.shares,
        )
        self.nodes.append(node)
        self._carry_out(node.start(self.clock.now_ms(), self._partitions()))
        self.client = StoreClient(self._client_id, simulation.settings.session_ms)
        self._from_store(self.client.start(simulation.timeline.now))

    def handle(self, message: Any) -> None:
        """Pass messages, timers and the session's events to the process."""
        if self.up and type(message) is Request and isinstance(message.body, Frame):
            if message.body.connection.client == self._client_id:
                self._from_store(self.client.receive(self.simulation.timeline.now, message.body))
        elif self.up and type(message) is ProcessTimer and message.timer.name == WAKE:
            if message.process == len(self.nodes) and message.timer.at_ms == self.wake_at:
                self._from_store(self.client.wake(self.simulation.timeline.now))
        else:
            BrokerHost.handle(self, message)

    def _from_store(self, outputs: Sequence[Any]) -> None:
        """Frames go out before the received ones are handled."""
        timeline = self.simulation.timeline
        for output in outputs:
            if isinstance(output, Frame):
                self._store.carry(self.id, STORE, output)
        for output in outputs:
            if isinstance(output, Frame):
                continue
            if isinstance(output, Wake):
                if output.at_ms != self.wake_at:
                    self.wake_at = output.at_ms
                    timer = ProcessTimer(len(self.nodes), Timer(output.at_ms, WAKE))
                    timeline.at(output.at_ms, self.id, timer)
            else:
                self._carry_out(self.node.handle(self.clock.now_ms(), output))

    def _carry_out(self, outputs: Sequence[Any]) -> None:
        """Carry outputs out. A request's immediate results come after all outputs beside it."""
        others: list[Any] = []
        requests: list[contract.StoreRequest] = []
        for output in outputs:
            if isinstance(output, contract.StoreRequest):
                requests.append(output)
            elif isinstance(output, o.Deciding):
                decided = tuple(one for one in output.decided if self._is_watched(one))
                self._store.intend(self._client_id, output._replace(decided=decided))
            elif self._is_watched(output):
                others.append(output)
        BrokerHost._carry_out(self, others)
        for request in requests:
            self._from_store(self.client.send(self.simulation.timeline.now, request))

    def _is_watched(self, output: Any) -> bool:
        return not isinstance(output, OF_PARTITIONS) or output.partition.topic in TOPIC_IDS

    def _stopped(self) -> None:
        self._from_store(self.client.close(self.simulation.timeline.now))
        BrokerHost._stopped(self)
