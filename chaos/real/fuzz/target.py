"""A broker that frames are fed to without sockets, and what must be true after each of them."""

import asyncio
import os
import resource
from collections.abc import Iterable
from struct import pack, unpack_from
from typing import Any, Self

import psutil
from attrs import define, field

from refimpl.api.table import APIS, Api
from refimpl.edge import Cluster
from refimpl.edge.server.connection import Connection
from refimpl.edge.server.listener import Listener
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.peer_codec import NotAMessage, decode
from refimpl.wire.errors import WireError
from refimpl.wire.headers import read_api
from refimpl.wire.messages import is_flexible, read_response

API_VERSIONS = 18
#: A new broker after so many frames: what they have made must not add up
FRAMES_PER_BROKER = 2_000
#: Above what the process had with its first broker
MOST_MEMORY = 400 << 20
#: CPU-seconds for one frame of at most 64 KiB
MOST_CPU_S = 5.0
LARGEST = 1 << 20
CONFIGS = {"socket.request.max.bytes": str(LARGEST)}


class FrameDidHarm(AssertionError):
    """A frame has done what no frame may do."""


class Wire(asyncio.Transport):
    """A transport whose other end reads everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.sent += data

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@define(eq=False)
class Watched(Listener):
    """A listener that keeps the bugs of ours that requests have met."""

    failures: list[Exception] = field(factory=list[Exception], init=False)

    def failed(self, api: Api, error: Exception) -> None:
        self.failures.append(error)


@define(eq=False)
class FuzzedBroker:
    """A cluster of one broker, made anew now and then; everything runs in one event loop."""

    loop: asyncio.AbstractEventLoop = field(factory=asyncio.new_event_loop)
    frames: int = 0
    answered: int = 0
    refused: int = 0
    #: What this broker was fed, to see a failure again
    history: list[bytes] = field(factory=list[bytes])
    _cluster: Cluster | None = None
    _listener: Watched | None = None
    _process: psutil.Process = field(factory=lambda: psutil.Process(os.getpid()))
    _memory: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.loop.close()

    def feed(self, frame: bytes, *, chunk: int = 0, framed: bool = True) -> None:
        """One frame, whole or in chunks; `framed` puts its true size before it.

        Raises Broken with what it did.
        """
        if self._cluster is None or len(self.history) >= FRAMES_PER_BROKER:
            self._renew()
        self.frames += 1
        self.history.append(frame)
        before = resource.getrusage(resource.RUSAGE_SELF)
        self.loop.run_until_complete(self._feed(frame, chunk, framed))
        after = resource.getrusage(resource.RUSAGE_SELF)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if spent > MOST_CPU_S:
            raise FrameDidHarm(f"{spent:.1f} CPU-s for one frame of {len(frame)} bytes")
        if self.frames % 200 == 0:
            self._check_memory()

    def feed_peer(self, data: bytes) -> None:
        """Feed a message of another broker, or bytes that are none."""
        self.frames += 1
        try:
            decode(data)
        except NotAMessage:
            self.refused += 1

    async def _feed(self, frame: bytes, chunk: int, framed: bool) -> None:
        listener = self._listener
        assert listener is not None
        wire, connection = Wire(), Connection(listener)
        connection.connection_made(wire)
        data = pack(">i", len(frame)) + frame if framed else frame
        for start in range(0, len(data), chunk or len(data) or 1):
            _receive(connection, wire, data[start : start + (chunk or len(data))])
        for _ in range(3):
            await asyncio.sleep(0)
        self._others_are_served(listener)
        connection.connection_lost(None)
        if listener.failures:
            raise FrameDidHarm(f"a bug of ours: {listener.failures[0]!r}") from listener.failures[0]
        for budget in (listener.budget, listener.in_flight):
            if budget.taken:
                raise FrameDidHarm(f"{budget.taken} bytes of a budget are not given back")
        if listener.connections:
            raise FrameDidHarm(f"{len(listener.connections)} connections are left")
        self.refused += wire.aborted
        if framed:
            self._check_answer(frame, bytes(wire.sent))

    def _others_are_served(self, listener: Listener) -> None:
        wire, connection = Wire(), Connection(listener)
        connection.connection_made(wire)
        probe = pack(">hhih", API_VERSIONS, 0, 2, -1)
        _receive(connection, wire, pack(">i", len(probe)) + probe)
        connection.connection_lost(None)
        if bytes(wire.sent[4:10]) != pack(">ih", 2, 0):
            raise FrameDidHarm("another client gets no answer")

    def _check_answer(self, frame: bytes, sent: bytes) -> None:
        """At most one answer, for the same request, and in the request's version."""
        if not sent:
            return
        self.answered += 1
        (size,) = unpack_from(">i", sent)
        key, version, number = read_api(frame)
        if size != len(sent) - 4 or unpack_from(">i", sent, 4) != (number,):
            raise FrameDidHarm(
                f"an answer of {len(sent)} bytes that is not that of request {number}"
            )
        if key == API_VERSIONS:
            version = version if 0 <= version <= APIS[key].last else 0
        tagged = is_flexible(key, version) and key != API_VERSIONS
        try:
            read_response(key, version, sent, 9 if tagged else 8)
        except WireError as error:
            raise FrameDidHarm(
                f"the answer of {APIS[key].name} {version} is none: {error}"
            ) from error

    def _check_memory(self) -> None:
        memory = self._process.memory_info().rss
        if memory - self._memory > MOST_MEMORY:
            raise FrameDidHarm(f"{memory >> 20} MiB of memory, after {self._memory >> 20} at first")

    def _renew(self) -> None:
        self._close()
        self.history.clear()
        cluster = Cluster(brokers=1, seed=1, configs=CONFIGS)
        self.loop.run_until_complete(cluster.start())
        self.loop.run_until_complete(cluster.create_topic("t", partitions=2))
        host = cluster.hosts[1]
        self._cluster = cluster
        self._listener = Watched(host, host.limits, Budget(LARGEST), host.faults)
        self._memory = self._memory or self._process.memory_info().rss

    def _close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
            self.loop.run_until_complete(asyncio.sleep(0))


def _receive(connection: Connection, wire: Wire, data: bytes) -> None:
    """As the event loop does: into whatever buffer the connection gives."""
    position = 0
    while position < len(data) and not wire.aborted:
        buffer = connection.get_buffer(-1)
        part = data[position : position + len(buffer)]
        buffer[: len(part)] = part
        connection.buffer_updated(len(part))
        position += len(part)
