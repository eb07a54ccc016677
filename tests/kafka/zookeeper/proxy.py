"""A TCP proxy on the test's own loop, between one client and a server, with faults on cue."""

import asyncio
from contextlib import suppress

from attrs import define, field

PING = (-2).to_bytes(4, "big", signed=True)
"""The xid in the answer to a ping, behind its length: no answer to anybody's request."""


@define(eq=False)
class Proxy:
    """Carries bytes both ways. Nothing comes through while it is `silent`; while it `refuses`,
    connections are closed; with `cut_at_answer` a connection breaks in place of the next answer.
    """

    to: int
    port: int = 0
    refuses: bool = False
    cut_at_answer: bool = False
    open: asyncio.Event = field(factory=asyncio.Event)
    cuts: int = 0
    _server: asyncio.Server = field(init=False)
    _writers: set[asyncio.StreamWriter] = field(factory=set[asyncio.StreamWriter])
    _tasks: set[asyncio.Task[None]] = field(factory=set[asyncio.Task[None]])

    async def start(self) -> "Proxy":
        self.open.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def silent(self) -> bool:
        return not self.open.is_set()

    @silent.setter
    def silent(self, silent: bool) -> None:
        (self.open.clear if silent else self.open.set)()

    def cut(self) -> None:
        """Break every connection, now."""
        for writer in self._writers:
            writer.transport.abort()

    async def stop(self) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        if self.refuses:
            to_client.transport.abort()
            return
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            to_client.transport.abort()
            return
        pair = (to_client, to_server)
        self._writers.update(pair)
        pumps = [
            asyncio.ensure_future(self._pump(from_client, to_server, answers=False)),
            asyncio.ensure_future(self._pump(from_server, to_client, answers=True)),
        ]
        self._tasks.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for writer in pair:
            self._writers.discard(writer)
            writer.transport.abort()
        for pump in pumps:
            pump.cancel()
            self._tasks.discard(pump)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self.open.wait()
                if answers and self.cut_at_answer and data[4:8] != PING:
                    self.cut_at_answer = False
                    self.cuts += 1
                    return
                writer.write(data)
