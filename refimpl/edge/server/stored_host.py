"""A broker whose cluster keeps its metadata in a store: its node has a session there."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random, SystemRandom
from typing import Any
from uuid import uuid4

from attrs import define, field

from refimpl.broker.config import BrokerConfig
from refimpl.broker.logs import LogDirectory
from refimpl.broker.node import Node
from refimpl.broker.stored_node import StoredNode
from refimpl.controller import znodes
from refimpl.controller.stored_controller import StoredController
from refimpl.edge.server.controller_host import controller_config
from refimpl.edge.server.host import Answers, BrokerHost, auto_topics_config, peer_of
from refimpl.groups.config import GroupConfig
from refimpl.messages.controller import BrokerAddress
from refimpl.metadata.contract import (
    Data,
    GetData,
    MetadataStore,
    Operation,
    Output,
    Result,
    StoreRequest,
    StoreResponse,
)
from refimpl.metadata.errors import StoreError
from refimpl.shares.config import ShareConfig
from refimpl.transactions.config import TransactionConfig


@define(eq=False)
class StoredBrokerHost(BrokerHost):
    """A broker process with a session of a metadata store, a new one for each process."""

    new_store: Callable[[], MetadataStore] = field(kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    store: MetadataStore = field(init=False)
    _own: int = field(default=0, init=False)
    _answers: dict[int, asyncio.Future[Result | StoreError]] = field(
        factory=dict[int, asyncio.Future[Result | StoreError]], init=False
    )

    async def start(self) -> None:
        """Start a process, and let it register. Raises OSError for a port in use."""
        self.store = self.new_store()
        await BrokerHost.start(self)
        self.store.start(self._delivered)

    @property
    def waits_for(self) -> str:
        """The event that the broker needs to be `registered`, in words."""
        node, path = self.node, f"{znodes.BROKER_IDS}/{self.id}"
        assert isinstance(node, StoredNode)
        candidate = node.candidate
        if not candidate.connected:
            return "it has no session of ZooKeeper"
        if not candidate.registered:
            return f"{path} is there, of another session; is another broker of this id running?"
        if candidate.controller_id < 0:
            return "no broker is controller"
        if candidate.controller_id == self.id:
            return "it is controller, and has not read all that ZooKeeper has"
        return f"broker {candidate.controller_id}, which is controller, has told it of nothing"

    async def peer_address(self, broker: int) -> tuple[str, int] | None:
        """The address on which a broker listens for its peers: by its znode, or the last one known.

        Whoever has just registered was told nothing yet, and who restarts has another port.
        """
        path = f"{znodes.BROKER_IDS}/{broker}"
        found = await self._ask_store(GetData(path))
        if isinstance(found, Data):
            registered = znodes.broker_of(found.data, broker, found.stat.czxid).registration
            return peer_of(registered.endpoints)
        return self.peer_registered(broker)

    async def _ask_store(self, operation: Operation) -> Result | StoreError:
        """Ask beside the node, whose own requests have positive numbers."""
        number = -1 - self._own
        self._own += 1
        answer: asyncio.Future[Result | StoreError] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self.store.send(StoreRequest(number, operation))
        return await answer

    async def stop(self, timeout_ms: int = 30_000) -> None:
        """A controlled shutdown, and the end of the session."""
        await BrokerHost.stop(self, timeout_ms)
        await self.store.close()

    def _new_node(self, logs: LogDirectory, incarnation: int) -> Node:
        address = BrokerAddress(self._endpoints(), self.rack)
        candidate = StoredController(
            self.id,
            controller_config(self.configs),
            SystemRandom() if self.seed is None else Random(self.seed),
            address,
            incarnation,
            logs.clean_shutdown_epoch(),
        )
        return StoredNode(
            self.id,
            BrokerConfig.of(self.configs),
            logs,
            dict[str, int](),
            incarnation,
            address=address,
            auto_topics_config=auto_topics_config(self.configs),
            configs=self.configs,
            group_config=GroupConfig.of(self.configs),
            transaction_config=TransactionConfig.of(self.configs),
            share_config=ShareConfig.of(self.configs),
            new_id=lambda: str(uuid4()),
            candidate=candidate,
        )

    def _delivered(self, output: Output) -> None:
        if isinstance(output, StoreResponse) and (answer := self._answers.pop(output.number, None)):
            if not answer.cancelled():
                answer.set_result(output.result)
            return
        self._take(output)
        self.network.run()

    def _carry_out(self, outputs: Sequence[Any], before: Answers = ()) -> None:
        others: list[Any] = []
        for output in outputs:
            if isinstance(output, StoreRequest):
                self.store.send(output)
            else:
                others.append(output)
        BrokerHost._carry_out(self, others, before)
