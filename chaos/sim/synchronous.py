"""A metadata store and brokers that may be controller, without a network: all arrives at once.

For tests that stop at every single operation of the store, and for counting them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import define, field

from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.metadata import Metadata
from refimpl.controller import znodes
from refimpl.controller.state import ControllerConfig
from refimpl.controller.stored_controller import StoredController
from refimpl.messages import broker as m
from refimpl.messages.cluster import BrokerRegistration, Endpoint
from refimpl.messages.controller import BrokerAddress, Envelope, UpdateMetadataRequest
from refimpl.metadata import contract
from refimpl.metadata.client import StoreClient, Wake
from refimpl.metadata.embedded import Connect, EmbeddedStore, Frame, SessionConnection

CLIENT = 1_000
SESSION_MS = 1_000


@define(eq=False)
class Candidate:
    """A broker's process: its candidature, its session, and its received metadata."""

    controller: StoredController
    client: StoreClient
    metadata: Metadata
    up: bool = True


@define(eq=False)
class StoredCluster:
    """Brokers on one store.

    After `until` operations of the store, no request of a broker in `doomed` reaches it: their
    processes have ended, at any point of their work.
    """

    config: ControllerConfig
    store: EmbeddedStore = field(factory=EmbeddedStore)
    candidates: dict[int, Candidate] = field(factory=dict[int, Candidate])
    answers: dict[int, Any] = field(factory=dict[int, Any])
    operations: int = 0
    until: int = -1
    #: The action after so many operations
    interrupt: tuple[int, Callable[[], None]] | None = None
    now: int = 0
    asked: int = 0
    _frames: deque[Frame] = field(factory=deque[Frame])

    def start(self, broker: int, incarnation: int = 1, rack: str | None = None) -> None:
        """Start a broker's process, and let all that follows from it happen."""
        endpoint = Endpoint("PLAINTEXT", f"host{broker}", 9092)
        controller = StoredController(
            broker, self.config, Random(broker), BrokerAddress((endpoint,), rack), incarnation
        )
        client = StoreClient(broker * CLIENT + incarnation, SESSION_MS)
        metadata = Metadata(context=Context(broker, BrokerConfig(), incarnation))
        self.candidates[broker] = Candidate(controller, client, metadata)
        self._from_client(broker, client.start(self.now))
        self.settle()

    def end(self, broker: int) -> None:
        """A process ends, without a word."""
        self.candidates[broker].up = False

    def wait(self, ms: int = SESSION_MS) -> None:
        """Let time pass, in steps in which sessions are kept alive."""
        for _ in range(4):
            self.now += ms // 3
            for broker, one in list(self.candidates.items()):
                if one.up:
                    self._from_client(broker, one.client.wake(self.now))
            self.settle()
            for frame in self.store.expire(self.now):
                self._to_client(frame)
            self.settle()

    @property
    def acting(self) -> StoredController | None:
        """The acting controller."""
        found = [one.controller for one in self.candidates.values() if one.up]
        return next((one for one in found if one.controller is not None), None)

    def ask(self, body: Any) -> Any:
        """Put a request to the controller; its answer, or None if there was none."""
        acting = self.acting
        if acting is None:
            return None
        self.asked += 1
        request = m.Request(CLIENT, acting.broker, self.asked, Envelope(body))
        self._outputs(acting.broker, acting.handle(self.now, request))
        self.settle()
        return self.answers.get(self.asked)

    def appear(self, broker: int) -> None:
        """Let a broker's ephemeral znode be there, at once, by a session of its own."""
        data = znodes.broker(BrokerRegistration(broker, -1, 1), -1)
        connection = SessionConnection(broker * CLIENT, 1)
        write = contract.Create(f"{znodes.BROKER_IDS}/{broker}", data, ephemeral=True)
        for number, body in enumerate((Connect(0, 600_000), contract.StoreRequest(1, write)), 1):
            for frame in self.store.handle(self.now, Frame(connection, number, body)):
                if frame.connection != connection:
                    self._to_client(frame)

    def settle(self) -> None:
        """Let everything arrive."""
        while self._frames:
            frame = self._frames.popleft()
            broker = frame.connection.client // CLIENT
            if not self.candidates[broker].up:
                continue
            if isinstance(frame.body, contract.StoreRequest):
                self.operations += 1
                if self.operations == self.until:
                    self.end(broker)  # applied, and the answer is lost
            for answer in self.store.handle(self.now, frame):
                self._to_client(answer)
            if self.interrupt is not None and self.operations == self.interrupt[0]:
                interrupt, self.interrupt = self.interrupt[1], None
                interrupt()

    def _to_client(self, frame: Frame) -> None:
        broker, incarnation = divmod(frame.connection.client, CLIENT)
        one = self.candidates[broker]
        if one.up and one.controller.incarnation_id == incarnation:
            self._from_client(broker, one.client.receive(self.now, frame))

    def _from_client(self, broker: int, outputs: Sequence[Any]) -> None:
        for output in outputs:
            if isinstance(output, Frame):
                self._frames.append(output)
        controller = self.candidates[broker].controller
        for output in outputs:
            if not isinstance(output, Frame | Wake):
                self._outputs(broker, controller.handle(self.now, output))

    def _outputs(self, broker: int, outputs: Sequence[Any]) -> None:
        client = self.candidates[broker].client
        for output in outputs:
            if isinstance(output, contract.StoreRequest):
                self._from_client(broker, client.send(self.now, output))
            elif isinstance(output, m.Response):
                self.answers[output.correlation_id] = output.body
            elif isinstance(output, m.Request):
                self._told(output.target, output.body)

    def _told(self, broker: int, news: UpdateMetadataRequest) -> None:
        one = self.candidates.get(broker)
        if one is not None and one.up:
            one.metadata.take(news)
