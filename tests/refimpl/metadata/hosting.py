"""An embedded store and its clients on a clock and on connections that a test moves by hand."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from refimpl.metadata.client import ClientOutput, StoreClient, Wake
from refimpl.metadata.contract import Operation, Output, Request, Response, Result
from refimpl.metadata.embedded import EmbeddedStore, Frame
from refimpl.metadata.errors import StoreError

TIMEOUT_MS = 3000


@define(eq=False)
class Hosted:
    """A client, what it has delivered since it was last asked, and when it wants to be woken."""

    client: StoreClient
    delivered: list[Output] = field(factory=list[Output])
    wake_at: int | None = None
    requests: int = 0
    deaf: bool = False
    """Frames of the store do not come through."""
    mute: bool = False
    """Frames of the client do not come through."""


@define(eq=False)
class Host:
    """Carries frames in order, and moves the clock only when it is told to."""

    store: EmbeddedStore = field(factory=EmbeddedStore)
    now: int = 0
    clients: dict[int, Hosted] = field(factory=dict[int, Hosted])
    _to_store: deque[Frame] = field(factory=deque[Frame])
    _to_clients: deque[Frame] = field(factory=deque[Frame])

    def open(self, timeout_ms: int = TIMEOUT_MS) -> Hosted:
        """A client whose first frame is on its way."""
        number = len(self.clients) + 1
        hosted = self.clients[number] = Hosted(StoreClient(number, timeout_ms))
        self.take(hosted, hosted.client.start(self.now))
        return hosted

    def connected(self, timeout_ms: int = TIMEOUT_MS) -> Hosted:
        """A client with a session."""
        hosted = self.open(timeout_ms)
        self.run()
        hosted.delivered.clear()
        return hosted

    def send(self, hosted: Hosted, operation: Operation) -> int:
        """Ask; nothing is carried yet."""
        hosted.requests += 1
        request = Request(hosted.requests, operation)
        self.take(hosted, hosted.client.send(self.now, request))
        return hosted.requests

    def ask(self, hosted: Hosted, operation: Operation) -> Result | StoreError:
        """Ask, carry everything, and answer the outcome; events stay in `delivered`."""
        number = self.send(hosted, operation)
        self.run()
        [response] = [
            one for one in hosted.delivered if isinstance(one, Response) and one.number == number
        ]
        hosted.delivered.remove(response)
        return response.result

    def take(self, hosted: Hosted, outputs: Sequence[ClientOutput]) -> None:
        """Carry out what a client puts out."""
        for one in outputs:
            if isinstance(one, Frame):
                if not hosted.mute:
                    self._to_store.append(one)
            elif isinstance(one, Wake):
                hosted.wake_at = one.at_ms
            else:
                hosted.delivered.append(one)

    def run(self) -> None:
        """Carry frames until none is left."""
        while self._to_store or self._to_clients:
            while self._to_store:
                self.step_store()
            while self._to_clients:
                self.step_clients()

    def step_store(self) -> None:
        """Let the store have the oldest frame that is on its way to it."""
        self._to_clients.extend(self.store.handle(self.now, self._to_store.popleft()))

    def step_clients(self) -> None:
        """Let the oldest frame that is on its way to a client arrive."""
        frame = self._to_clients.popleft()
        hosted = self.clients[frame.connection.client]
        if not hosted.deaf:
            self.take(hosted, hosted.client.receive(self.now, frame))

    def pass_time(self, ms: int) -> None:
        """Let so much time pass, waking whoever asked for it."""
        until = self.now + ms
        while (due := self._next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self._to_clients.extend(self.store.expire(self.now))
            for hosted in self.clients.values():
                if hosted.wake_at is not None and hosted.wake_at <= self.now:
                    hosted.wake_at = None
                    self.take(hosted, hosted.client.wake(self.now))
            self.run()
        self.now = until

    def _next_due(self) -> int | None:
        times: list[Any] = [hosted.wake_at for hosted in self.clients.values()]
        times.append(self.store.next_expiry)
        return min((one for one in times if one is not None), default=None)
