"""What a handler is given, and what it may give back."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from attrs import define

from refimpl.broker.node import Node
from refimpl.wire.framing import Buffer

Values: TypeAlias = Mapping[str, Any]
"""The fields of a response; see `wire.messages`."""
Answer: TypeAlias = Values | list[Buffer] | None
"""Fields of a response, or its body in parts from a codec of our own, or no response at all."""
Handling: TypeAlias = Generator[Any, Any, Answer]
"""A handler that asks its node: yields bodies of requests, is sent bodies of responses."""


class Endpoint(NamedTuple):
    """Where clients reach a broker (advertised.listeners), and its broker.rack."""

    id: int
    host: str
    port: int
    rack: str | None = None


class Served(Protocol):
    """The broker that a call came to."""

    @property
    def node(self) -> Node:
        """Who decides."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters."""
        ...

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All brokers that live, this one among them."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """What was set of server.properties, by name."""
        ...

    def now(self) -> int:
        """The time in ms since 1970."""
        ...

    def ask(self, body: Any, then: Callable[[Any], None]) -> None:
        """Let the node handle a request; `then` is called with the body of its response."""
        ...


@define(eq=False)
class Call:
    """One request of a client: `request` is kio's message, or what the API's own codec made."""

    broker: Served
    api_key: int
    version: int
    request: Any
    client_id: str | None = None
    client_host: str = ""
