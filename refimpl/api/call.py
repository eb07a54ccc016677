"""The input of a handler, and the answers that it may return."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from attrs import define, field, frozen

from refimpl.broker.node import Node
from refimpl.configs import Configs
from refimpl.security.principals import ANONYMOUS, user_of
from refimpl.wire.framing import Buffer

Values: TypeAlias = Mapping[str, Any]
"""The fields of a response; see `wire.messages`."""
Answer: TypeAlias = Values | list[Buffer] | None
"""Fields of a response, or its body in parts from a codec of our own, or no response at all."""
Handling: TypeAlias = Generator[Any, Any, Answer]
"""A handler that asks its node: yields bodies of requests, is sent bodies of responses."""


@frozen
class ClientTelemetry:
    """Metrics that a client has pushed (KIP-714)."""

    #: In Kafka's writing of a UUID
    client_instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    principal: str
    #: True for the last push of the instance
    is_terminating: bool
    #: For how long the client waits before its next one
    push_interval_ms: int
    #: Of OpenTelemetry's MetricsData as protobuf
    metrics: bytes


class Served(Protocol):
    """The broker that a call came to."""

    @property
    def node(self) -> Node:
        """The node that decides."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters."""
        ...

    @property
    def configs(self) -> Configs:
        """Its configurations: of server.properties, and dynamic ones."""
        ...

    @property
    def listener_name(self) -> str:
        """The name of the listener that the client has come by."""
        ...

    def log_dirs(self) -> Sequence[tuple[str, int, int]]:
        """The path of each log directory, the total and the free bytes of its disk; -1 if
        unknown.
        """
        ...

    def new_id(self) -> bytes:
        """A random UUID (version 4)."""
        ...

    @property
    def client_telemetry(self) -> Callable[[ClientTelemetry], Any] | None:
        """Takes what clients push; None where nobody does, and clients are not asked to."""
        ...

    def telemetry_failed(self, why: Exception) -> None:
        """The function that takes clients' metrics has failed."""
        ...

    def now(self) -> int:
        """The time in ms since 1970."""
        ...

    def elapsed_ns(self) -> int:
        """The time in ns since some moment, for how long things take."""
        ...

    def ask(self, body: Any, then: Callable[[Any], None]) -> None:
        """Let the node handle a request; `then` is called with the body of its response."""
        ...

    def tell(self, body: Any) -> None:
        """Let the node handle a request to which nobody wants a response."""
        ...


@define
class Session:
    """The principal and address of a connection's requests, and the listener that it came by."""

    host: str = ""
    principal: str = ANONYMOUS
    listener: str = "PLAINTEXT"
    port: int = 0
    #: Name and version of the client's software, as its ApiVersions request says (KIP-511)
    software: tuple[str, str] = ("unknown", "unknown")

    @property
    def user(self) -> str:
        """The principal's name, by which quotas know it."""
        return user_of(self.principal)


@define(eq=False)
class Spent:
    """The time that a thread is busy with one request, whose handler may wait in between."""

    clock: Callable[[], int]
    ns: int = 0
    since: int | None = None

    def begin(self) -> bool:
        """The thread is with it from now on; False if it was already."""
        if self.since is not None:
            return False
        self.since = self.clock()
        return True

    def end(self) -> None:
        """The thread turns to something else."""
        self.ns, self.since = self.so_far(), None

    def so_far(self) -> int:
        """In ns."""
        return self.ns + (0 if self.since is None else self.clock() - self.since)


@define(eq=False)
class Call:
    """One request of a client: `request` is kio's message, or what the API's own codec made."""

    broker: Served
    api_key: int
    version: int
    request: Any
    client_id: str | None = None
    session: Session = field(factory=Session)
    #: Topics whose records the client may neither write nor read
    denied: frozenset[str] = frozenset()
    #: Of the whole request, in bytes
    size: int = 0
    #: For how long nothing more is read from the client, once it has its answer (KIP-219)
    throttle_ms: int = 0
    #: The number of the client's connection, 0 for none
    connection: int = 0
    #: None where there are no quotas
    spent: Spent | None = None

    def count_request(self) -> None:
        """Count the time that it took, of which a client may be above its quota (KIP-124)."""
        if self.spent is not None:
            quotas, now = self.broker.node.client_quotas, self.broker.now()
            throttle_ms = quotas.request_throttle_ms(
                self.client_id, self.spent.so_far(), now, self.session.user
            )
            self.throttle_ms = max(self.throttle_ms, throttle_ms)
