"""Raw sockets against a listener, and a broker behind it that answers when it is told to."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from struct import pack, unpack
from types import SimpleNamespace
from typing import Any, cast

from attrs import define, field

from refimpl.api.call import Served
from refimpl.configs import Configs
from refimpl.controller.client_quotas import ClientQuotas
from refimpl.edge.server.faults import Faults
from refimpl.edge.server.limits import Limits
from refimpl.edge.server.listener import Listener
from refimpl.edge.server.memory import Budget
from refimpl.messages.cluster import ClusterMetadata
from refimpl.transactions.config import TransactionConfig
from tests.refimpl.edge.patience import PATIENCE_S


@define(eq=False)
class Silent:
    """A broker without a node: what it is asked waits in `asked`."""

    asked: list[tuple[Any, Callable[[Any], None]]] = field(factory=list[Any])
    told: list[Any] = field(factory=list[Any])
    #: Answered at once, where it is set
    answer: Any = None
    configs: Configs = field(factory=Configs)
    client_telemetry: None = None

    def now(self) -> int:
        return 0

    def ask(self, body: Any, then: Callable[[Any], None]) -> None:
        self.asked.append((body, then))
        if self.answer is not None:
            then(self.answer)

    def tell(self, body: Any) -> None:
        self.told.append(body)

    @property
    def node(self) -> Any:
        """A node that knows nothing."""
        nothing = ClusterMetadata()
        return SimpleNamespace(
            metadata=nothing,
            client_quotas=ClientQuotas(nothing, 11, 1000),
            transaction_config=TransactionConfig(),
            authorizer=None,
            client_metrics=SimpleNamespace(disconnected=set[int]().add),
        )


@asynccontextmanager
async def listening(
    limits: Limits | None = None, budget: int = 1 << 30
) -> AsyncGenerator[tuple[Listener, Silent, int]]:
    """A listener, its broker, and its port."""
    broker = Silent()
    listener = Listener(cast("Served", broker), limits or Limits(), Budget(budget), Faults())
    port = listener.listen("127.0.0.1", 0)
    try:
        yield listener, broker, port
    finally:
        listener.close()
        await asyncio.sleep(0)


def request(key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A request in its frame, with a classic header and no client.id."""
    head = pack(">hhih", key, version, correlation_id, -1)
    return pack(">i", len(head) + len(body)) + head + body


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Correlation id and the rest of one response."""
    (size,) = unpack(">i", await reader.readexactly(4))
    data = await reader.readexactly(size)
    return unpack(">i", data[:4])[0], data[4:]


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until this is true; ten seconds at most."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)
