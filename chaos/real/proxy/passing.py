"""One connection of a client, and its connection to a broker: requests there, answers back.

Requests and answers keep their order. Those behind one that a rule holds back wait as well.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from attrs import define, field, frozen

from chaos.real.proxy.addresses import (
    Place,
    Upstream,
    limited,
    moved,
    names_brokers,
    places,
    read_answer,
    written,
)
from refimpl.edge.server.arrivals import Arrivals
from refimpl.edge.server.faults import Faults
from refimpl.wire.api_names import api_names
from refimpl.wire.errors import WireError
from refimpl.wire.framing import SIZE
from refimpl.wire.headers import read_api, read_client_id
from refimpl.wire.messages import API_VERSIONS, is_flexible
from refimpl.wire.produce import FIRST_FLEXIBLE
from refimpl.wire.reader import (
    after_tagged_fields,
    compact_nullable_string,
    nullable_string,
)

PRODUCE = 0
LONGEST = 1 << 30
_CORRELATION = 4
log = logging.getLogger(__name__)

#: Takes an answer that goes back, and the position of its body
Answered = Callable[[bytes, int], None]
#: The listeners of the proxy for these brokers, which are made where there is none yet
Located = Callable[[list[Place]], Awaitable[dict[Upstream, Upstream]]]


@frozen
class ApiName:
    """An API by its name."""

    name: str


@define(eq=False)
class Passing:
    """A request on its way, and the place of its answer among those of its connection."""

    connection: "Connection"
    api: ApiName
    key: int
    version: int
    correlation_id: int
    frame: bytes
    error: str | None = None
    is_answered: bool = True
    disconnects: bool = False
    answer: bytes | None = None
    #: Writes down the answer when it goes back, if the proxy records
    record: Answered | None = None

    @classmethod
    def of(cls, connection: "Connection", frame: bytes) -> "Passing":
        """Raises WireError where it has no header."""
        key, version, correlation_id = read_api(frame)
        name = api_names().get(key, f"API key {key}")
        return cls(connection, ApiName(name), key, version, correlation_id, frame)

    def begin(self) -> None:
        """Send it to the broker, behind all before it."""
        self.connection.arrivals.begin(self)

    def copy(self, after_ms: int) -> None:
        """Send it once more, so much later, by a connection of its own."""
        self.connection.copies(self.frame, after_ms / 1000, self.has_answer)

    def client_id(self) -> str | None:
        """The client.id in its header, if that can be read at all."""
        try:
            return read_client_id(self.frame, flexible=False)[0]
        except WireError:
            return None

    @property
    def has_answer(self) -> bool:
        """False for a Produce request with acks=0, which no broker answers."""
        return self.key != PRODUCE or _acks(self.frame, self.version) != 0

    def answered(self, frame: bytes) -> int:
        """The place in an answer where its body begins."""
        flexible = self.key != API_VERSIONS and is_flexible(self.key, self.version)
        return after_tagged_fields(frame, _CORRELATION) if flexible else _CORRELATION


def _acks(frame: bytes, version: int) -> int:
    flexible = version >= FIRST_FLEXIBLE
    _, at = read_client_id(frame, flexible=flexible)
    _, at = compact_nullable_string(frame, at) if flexible else nullable_string(frame, at)
    return int.from_bytes(frame[at : at + 2], signed=True)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame, without its size.

    Raises `IncompleteReadError` at the end, and ValueError for a size that no frame has.
    """
    (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
    if not 0 <= size <= LONGEST:
        raise ValueError(f"a frame of {size} bytes: this is not Kafka's protocol")
    return await reader.readexactly(size)


GONE = (asyncio.IncompleteReadError, ConnectionError)


class Recorder(Protocol):
    """A witness of all requests and answers, who writes them down."""

    def reads(self, key: int) -> bool:
        """True for an API of which no version may pass that cannot be read."""
        ...

    def asked(self, passing: Passing) -> Answered | None:
        """A request has come."""
        ...

    def gone(self, connection: "Connection") -> None:
        """A connection is closed."""
        ...

    def ending(self) -> None:
        """The proxy ends, and closes all connections."""
        ...


@define(eq=False)
class Connection:
    """A client, the broker that it speaks to, and what is on its way between them."""

    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    broker: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    faults: Callable[[], Faults]
    located: Located
    #: The node id of the broker, once it is known
    node: Callable[[], int | None]
    #: Sends a frame to the broker once more, after so many seconds; its answer is nobody's
    copies: Callable[[bytes, float, bool], None]
    recorder: Recorder | None = None
    #: Requests that the broker does not have yet
    arrivals: Arrivals[Passing] = field(init=False)
    #: Requests whose answers have not gone back yet, and those of them that the broker has
    places: deque[Passing] = field(factory=deque[Passing], init=False)
    asked: deque[Passing] = field(factory=deque[Passing], init=False)

    def __attrs_post_init__(self) -> None:
        """Hand on what may go."""
        self.arrivals = Arrivals(self._hand_on)

    async def run(self) -> None:
        """Serve until either side is gone."""
        both = [asyncio.ensure_future(one) for one in (self._requests(), self._answers())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            self.end()  # before the proxy's own end can interrupt the waiting
            if self.recorder is not None:
                self.recorder.gone(self)
            for ended in await asyncio.gather(*both, return_exceptions=True):
                if isinstance(ended, Exception):
                    log.warning("a connection is closed: %s", ended)
            for _, writer in (self.client, self.broker):
                with suppress(*GONE, OSError):
                    await writer.wait_closed()

    async def _requests(self) -> None:
        reader, writer = self.client[0], self.broker[1]
        with suppress(*GONE):
            while True:
                passing = Passing.of(self, await read_frame(reader))
                if self.recorder is not None:
                    passing.record = self.recorder.asked(passing)
                if passing.has_answer:
                    self.places.append(passing)
                self.arrivals.wait(passing)
                if not self.faults().meet(passing):
                    passing.begin()
                await writer.drain()

    def _hand_on(self, passing: Passing) -> None:
        """Send a request to the broker."""
        writer = self.broker[1]
        if not writer.is_closing():
            if passing.has_answer:
                self.asked.append(passing)
            writer.writelines((SIZE.pack(len(passing.frame)), passing.frame))

    async def _answers(self) -> None:
        reader, writer = self.broker[0], self.client[1]
        with suppress(*GONE):
            while True:
                frame = await read_frame(reader)
                await self._answered(frame)
                await writer.drain()

    async def _answered(self, frame: bytes) -> None:
        """Send an answer back, unless a fault keeps it, and all that have waited for it."""
        correlation_id = int.from_bytes(frame[:_CORRELATION], signed=True)
        if not self.asked or self.asked[0].correlation_id != correlation_id:
            raise ValueError(f"the broker answers request {correlation_id}, which is not the next")
        passing = self.asked.popleft()
        if passing.disconnects:
            self.end()
        elif passing.is_answered:
            passing.answer = await self._moved(passing, frame)
            while self.places and self.places[0].answer is not None:
                self._returned(self.places.popleft())

    def _returned(self, passing: Passing) -> None:
        """Send an answer back whose turn has come."""
        answer, writer = passing.answer or b"", self.client[1]
        if writer.is_closing():
            return
        if passing.record is not None:
            passing.record(answer, passing.answered(answer))
        writer.writelines((SIZE.pack(len(answer)), answer))

    async def _moved(self, passing: Passing, frame: bytes) -> bytes:
        """An answer whose brokers are where the proxy listens for them."""
        if passing.key == API_VERSIONS:
            body = limited(passing.version, frame, _CORRELATION, self._reads)
            return frame if body is None else frame[:_CORRELATION] + body
        if not names_brokers(passing.key):
            return frame
        at = passing.answered(frame)
        message = read_answer(passing.key, passing.version, frame, at)
        if message is None:
            return frame
        local = await self.located(list(places(message)))
        return written(frame[:at], moved(message, local))

    def _reads(self, key: int) -> bool:
        """True for an API of which nothing may pass unread."""
        recorded = self.recorder is not None and self.recorder.reads(key)
        return recorded or names_brokers(key)

    def end(self) -> None:
        """End both connections, behind what was written."""
        self.client[1].close()
        self.broker[1].close()

    def abort(self) -> None:
        """End both connections at once."""
        for _, writer in (self.client, self.broker):
            writer.transport.abort()
