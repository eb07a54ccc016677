"""One request of a client, from its frame to its place among the connection's responses."""

from typing import Protocol

from attrs import define

from refimpl.api.call import Session
from refimpl.api.table import Api
from refimpl.edge.server.arrivals import Arrivals
from refimpl.edge.server.memory import Budget
from refimpl.wire.errors import WireError
from refimpl.wire.framing import Buffer
from refimpl.wire.headers import read_client_id
from refimpl.wire.messages import is_flexible


class Requester(Protocol):
    """The connection by which a request came."""

    host: str
    number: int
    has_session: bool
    session: Session

    @property
    def arrivals(self) -> "Arrivals[Received]":
        """Its requests that the broker does not have yet."""
        ...

    def answered(self, received: "Received", parts: list[Buffer] | None) -> None:
        """Take its response."""

    def mute(self, time_ms: int) -> None:
        """Handle nothing more for so long."""

    def refuse(self, error: WireError) -> None:
        """End the connection, because of this error."""

    def end(self) -> None:
        """End the connection behind the responses that are ready."""

    def abort(self) -> None:
        """End the connection at once."""


@define(eq=False)
class Received:
    """A request, which faults may hold back, and the place of its response among the others.

    It takes so much of a budget, until it is answered and all before it are.
    """

    connection: Requester
    api: Api
    frame: Buffer
    size: int
    budget: Budget
    #: A fault's doing: refuse it with this error, or keep its answer
    error: str | None = None
    is_answered: bool = True
    #: The connection ends in place of the answer
    disconnects: bool = False
    done: bool = False
    parts: list[Buffer] | None = None

    def begin(self) -> None:
        """Hand it to the broker, behind all before it."""
        self.connection.arrivals.begin(self)

    def answer(self, parts: list[Buffer] | None) -> None:
        """Its response, or None for none."""
        if self.disconnects:
            self.connection.end()
        elif self.is_answered:
            self.connection.answered(self, parts)

    def client_id(self) -> str | None:
        """The client.id in its header, if that can be read at all."""
        api, frame = self.api, self.frame
        version = int.from_bytes(frame[2:4], signed=True)
        try:
            if not api.first <= version <= api.last:
                return None
            return read_client_id(frame, flexible=is_flexible(api.key, version))[0]
        except WireError:
            return None
