"""An embedded store and its clients on a clock and on connections that a test moves by hand."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from attrs import define, field

from refimpl.metadata.client import ClientOutput, StoreClient, Wake
from refimpl.metadata.contract import (
    Connected,
    Operation,
    Output,
    Result,
    StoreRequest,
    StoreResponse,
)
from refimpl.metadata.durable import DurableStore
from refimpl.metadata.embedded import ConnectionLost, EmbeddedStore, Frame
from refimpl.metadata.errors import StoreError
from refimpl.storage.disk.crashing import CrashDisk, Inode
from refimpl.storage.disk.interface import Disk

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

    store: EmbeddedStore | DurableStore = field(factory=EmbeddedStore)
    now: int = 0
    clients: dict[int, Hosted] = field(factory=dict[int, Hosted])
    _opened: int = 0
    _to_store: deque[Frame] = field(factory=deque[Frame])
    _to_clients: deque[Frame] = field(factory=deque[Frame])

    def open(self, timeout_ms: int = TIMEOUT_MS) -> Hosted:
        """A client whose first frame is on its way."""
        self._opened += 1
        number = self._opened
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
        request = StoreRequest(hosted.requests, operation)
        self.take(hosted, hosted.client.send(self.now, request))
        return hosted.requests

    def ask(self, hosted: Hosted, operation: Operation) -> Result | StoreError:
        """Ask, carry everything, and answer the outcome; events stay in `delivered`."""
        number = self.send(hosted, operation)
        self.run()
        [response] = [
            one
            for one in hosted.delivered
            if isinstance(one, StoreResponse) and one.number == number
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

    def run(self, most: int | None = None) -> None:
        """Carry frames until none is left, or so many have come to the store."""
        while self._to_store or self._to_clients:
            if self._to_store and most != 0:
                self.step_store()
                most = None if most is None else most - 1
            while self._to_clients:
                self.step_clients()
            if most == 0:
                return

    def cut(self, hosted: Hosted) -> None:
        """Break a client's connection at both ends, with all that is under way on it."""
        connection = hosted.client.connection
        for queue in (self._to_store, self._to_clients):
            for frame in [one for one in queue if one.connection == connection]:
                queue.remove(frame)
        self.store.disconnect(connection)
        reset = Frame(connection, 0, ConnectionLost())
        self.take(hosted, hosted.client.receive(self.now, reset))

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


@define(eq=False)
class EmbeddedSubject:
    """The embedded store in memory, for the law book."""

    host: Host = field(factory=Host)
    can_crash: bool = False

    def open(self) -> int:
        return self.host.connected().client.client

    def session_id(self, handle: int) -> int:
        return self.host.clients[handle].client.session_id

    def ask(self, handle: int, operation: Operation) -> Sequence[Output]:
        hosted = self.host.clients[handle]
        self.host.send(hosted, operation)
        self.host.run()
        return self._heard(hosted)

    def lose(self, handle: int, operations: Sequence[Operation], applied: int) -> Sequence[Output]:
        hosted = self.host.clients[handle]
        for one in operations:
            self.host.send(hosted, one)
        hosted.deaf = True
        self.host.run(applied)
        self.host.cut(hosted)
        hosted.deaf = False
        return self.reconnected(handle)

    def expire(self, handle: int) -> Sequence[Output]:
        hosted = self.host.clients[handle]
        hosted.deaf = hosted.mute = True
        self.host.pass_time(2 * TIMEOUT_MS)
        hosted.deaf = hosted.mute = False
        return self.reconnected(handle)

    def close(self, handle: int) -> None:
        hosted = self.host.clients[handle]
        self.host.take(hosted, hosted.client.close(self.host.now))
        self.host.run()
        del self.host.clients[handle]

    def crash(self, handle: int, operations: Sequence[Operation], at: int, kept: float) -> None:
        raise NotImplementedError(self)

    def reconnected(self, handle: int) -> Sequence[Output]:
        hosted = self.host.clients[handle]
        while not hosted.client.connected:
            self.host.pass_time(TIMEOUT_MS // 10)
        heard = self._heard(hosted)
        assert isinstance(heard[-1], Connected)
        return heard

    def end(self) -> None:
        pass

    def _heard(self, hosted: Hosted) -> Sequence[Output]:
        heard, hosted.delivered = hosted.delivered, []
        return heard


class Crash(BaseException):
    """The power is gone."""


def torn(kept: float) -> Callable[[str, Inode], bytes]:
    """Of what was not flushed, this part is kept; what lies behind is gone, or zeros."""

    def keep(path: str, inode: Inode) -> bytes:
        exactly = kept * len(inode.changes)
        count = ceil(exactly)
        data = inode.changes[count - 1].data if count else None
        cut = None if data is None else int(len(data) * (1 - (count - exactly)))
        return inode.after(count, cut, zeros=int(kept * 1000) % 2 == 1)

    return keep


def open_small(disk: Disk, now: int) -> DurableStore:
    """A store that makes a snapshot every few transactions."""
    return DurableStore.open(disk, now, transactions_a_snapshot=4)


@define(eq=False)
class DurableSubject(EmbeddedSubject):
    """The embedded store on a disk that crashes, for the law book."""

    disk: CrashDisk = field(factory=CrashDisk)
    can_crash: bool = True
    reopen: Callable[[Disk, int], DurableStore] = open_small

    def __attrs_post_init__(self) -> None:
        self.host.store = self.reopen(self.disk, self.host.now)

    def crash(self, handle: int, operations: Sequence[Operation], at: int, kept: float) -> None:
        hosted = self.host.clients[handle]
        for one in operations:
            self.host.send(hosted, one)
        self._crash_at(at, self.host.run)
        disk = self._after_crash(kept)
        # The power may go again while the store recovers.
        disk.fail, fresh = self._failing(at // 2), disk
        try:
            self.host.store = self.reopen(disk, self.host.now)
        except Crash:
            self.disk = disk
            fresh = self._after_crash(kept)
            self.host.store = self.reopen(fresh, self.host.now)
        self.disk = fresh
        self.disk.fail = None
        for each in self.host.clients.values():
            self.host.cut(each)

    def _crash_at(self, at: int, work: Callable[[], None]) -> None:
        self.disk.fail = self._failing(at)
        with suppress(Crash):
            work()

    def _failing(self, at: int) -> Callable[[str, str], None]:
        left = iter(range(at))

        def fail(operation: str, path: str) -> None:
            if next(left, None) is None:
                raise Crash

        return fail

    def _after_crash(self, kept: float) -> CrashDisk:
        names = int(kept * (len(self.disk.name_changes) + 0.999))
        return self.disk.crashed(names, torn(kept))
