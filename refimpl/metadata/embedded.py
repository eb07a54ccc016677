"""The embedded store's server: sessions, watches and the tree, `handle(now, frame) → frames`.

It is deterministic and knows no clock, thread or socket. Connections behave as TCP does: frames of
a connection are taken in the order of their numbers, and a gap breaks it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from attrs import define, field, frozen

from refimpl.metadata.contract import (
    Connected,
    Create,
    Delete,
    EventType,
    Exists,
    Expired,
    GetChildren,
    GetData,
    Multi,
    NoResult,
    Operation,
    Result,
    SetData,
    StoreRequest,
    StoreResponse,
    Sync,
    WatchEvent,
)
from refimpl.metadata.errors import StoreRefusal
from refimpl.metadata.paths import must_be_valid
from refimpl.metadata.tree import Tree


class SessionConnection(NamedTuple):
    """One connection of a client: the client, and a number that it never uses twice."""

    client: int
    number: int


class Frame(NamedTuple):
    """A message on a connection; frames in one direction are numbered from 1."""

    connection: SessionConnection
    number: int
    body: Any


# Frames of a client besides requests, and frames to it besides responses, events and its state.


@frozen
class Connect:
    """The first frame of a connection: open a session, or go on with this one."""

    session_id: int
    timeout_ms: int


@frozen
class Ping:
    """A sign of life; answered with a ping."""


@frozen
class CloseSession:
    """End the session; answered with `Expired`."""


@frozen
class ConnectionLost:
    """The connection is gone, as after a TCP reset."""


# Journal entries, which can be redone.


@frozen
class OpenSession:
    """A session was opened; its id is the zxid."""

    timeout_ms: int


@frozen
class EndSession:
    """A session was closed, or has expired."""


Write: TypeAlias = Create | Delete | SetData | Multi | OpenSession | EndSession


class Journal(Protocol):
    """The journal of the store's writes, written before any answer goes out."""

    def append(self, zxid: int, session: int, write: Write) -> None:
        """Record a write that was applied under this zxid."""
        ...


@define(eq=False)
class TreeSession:
    """A session, its connection, if any, and the watches that it has armed there."""

    id: int
    timeout_ms: int
    heard_at: int
    connection: SessionConnection | None = None
    data_watches: set[str] = field(factory=set[str])
    child_watches: set[str] = field(factory=set[str])


@define(eq=False)
class Link:
    """The numbers of a connection: those of the next frame to take and of the last one sent."""

    session: TreeSession | None = None
    next: int = 1
    sent: int = 0


@define(eq=False)
class EmbeddedStore:
    """ZooKeeper's contract in one process; `StoreClient` is the other end."""

    min_timeout_ms: int = 1
    max_timeout_ms: int = 600_000
    journal: Journal | None = None
    tree: Tree = field(factory=Tree)
    zxid: int = 0
    sessions: dict[int, TreeSession] = field(factory=dict[int, TreeSession])
    _links: dict[SessionConnection, Link] = field(factory=dict[SessionConnection, Link])
    _newest: dict[int, int] = field(factory=dict[int, int])
    _outputs: list[Frame] = field(factory=list[Frame])

    def handle(self, now: int, frame: Frame) -> Sequence[Frame]:
        """Take a frame of a client; return the frames that go out because of it, in order."""
        link = self._links.get(frame.connection) or self._accept(frame)
        if link is None or frame.number > link.next:
            self._reset(frame.connection)
        elif frame.number == link.next:
            link.next += 1
            if link.session is not None:
                link.session.heard_at = now
            self._take(now, link, frame.connection, frame.body)
        return self._sent()

    def handle_all(self, now: int, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Take several frames, one after the other."""
        return [out for one in frames for out in self.handle(now, one)]

    def disconnect(self, connection: SessionConnection) -> None:
        """End a connection; its session goes on, without its watches, until it expires."""
        link = self._links.pop(connection, None)
        if link is not None and link.session is not None:
            session = link.session
            session.connection = None
            session.data_watches.clear()
            session.child_watches.clear()

    def expire(self, now: int) -> Sequence[Frame]:
        """End every session whose timeout is over; return the frames to the others."""
        for session in list(self.sessions.values()):
            if now >= session.heard_at + session.timeout_ms:
                self._end(session)
        return self._sent()

    @property
    def next_expiry(self) -> int | None:
        """The time of the next expiry, if no frame arrives before; None without sessions."""
        return min((s.heard_at + s.timeout_ms for s in self.sessions.values()), default=None)

    def redo(self, zxid: int, session: int, write: Write) -> None:
        """Apply a write from a journal again."""
        self.zxid = zxid
        match write:
            case OpenSession():
                self.sessions[zxid] = TreeSession(zxid, write.timeout_ms, 0)
            case EndSession():
                self.tree.end_session(zxid, session)
                self.sessions.pop(session, None)
            case _:
                self.tree.apply(zxid, session, write)

    def restarted(self, now: int) -> None:
        """Give every session its whole timeout again, because no frame could arrive meanwhile."""
        for session in self.sessions.values():
            session.heard_at = now

    # Connections

    def _accept(self, frame: Frame) -> Link | None:
        """Open a connection by its first frame, unless it is a late copy of an earlier one's."""
        client, number = frame.connection
        if frame.number != 1 or number <= self._newest.get(client, 0):
            return None
        self._newest[client] = number
        link = self._links[frame.connection] = Link()
        return link

    def _take(self, now: int, link: Link, connection: SessionConnection, body: Any) -> None:
        match body:
            case Connect():
                self._connect(now, link, connection, body)
            case Ping():
                self._send(connection, body)
            case CloseSession() if link.session is not None:
                self._end(link.session)
            case StoreRequest() if link.session is not None:
                result = self._execute(link.session, body.operation)
                self._send(connection, StoreResponse(body.number, result))
            case _:
                self._reset(connection)

    def _connect(self, now: int, link: Link, connection: SessionConnection, asked: Connect) -> None:
        session = self.sessions.get(asked.session_id)
        if session is None and asked.session_id:
            self._send(connection, Expired())
            self.disconnect(connection)
            return
        if session is None:
            session = self._open(now, asked.timeout_ms)
        elif session.connection is not None:
            self._reset(session.connection)  # the session has moved: nothing of the old one counts
        session.heard_at = now
        session.connection, link.session = connection, session
        self._send(connection, Connected(session.id, session.timeout_ms))

    def _open(self, now: int, asked_ms: int) -> TreeSession:
        timeout_ms = min(max(asked_ms, self.min_timeout_ms), self.max_timeout_ms)
        self.zxid += 1
        self._note(0, OpenSession(timeout_ms))
        session = self.sessions[self.zxid] = TreeSession(self.zxid, timeout_ms, now)
        return session

    def _end(self, session: TreeSession) -> None:
        """End a session: delete its znodes, with events to the others, then the session itself."""
        self.zxid += 1
        self.tree.end_session(self.zxid, session.id)
        self._note(session.id, EndSession())
        del self.sessions[session.id]
        connection = session.connection
        self._fire(self.tree.events)
        if connection is not None:
            self._send(connection, Expired())
            self.disconnect(connection)

    def _reset(self, connection: SessionConnection) -> None:
        self.disconnect(connection)
        self._outputs.append(Frame(connection, 0, ConnectionLost()))

    # Operations

    def _execute(self, session: TreeSession, operation: Operation) -> Result | StoreRefusal:
        try:
            must_be_valid(operation)
            match operation:
                case GetData():
                    data = self.tree.get(operation.path)
                    self._arm(session.data_watches, operation)
                    return data
                case Exists():
                    self._arm(session.data_watches, operation)
                    return self.tree.exists(operation.path)
                case GetChildren():
                    children = self.tree.children(operation.path)
                    self._arm(session.child_watches, operation)
                    return children
                case Sync():
                    return NoResult()
                case _:
                    return self._write(session, operation)
        except StoreRefusal as refused:
            return refused

    def _write(self, session: TreeSession, write: Create | Delete | SetData | Multi) -> Result:
        """Apply a write under a zxid of its own; a refused write uses up its zxid as well."""
        self.zxid += 1
        result = self.tree.apply(self.zxid, session.id, write)
        self._note(session.id, write)
        self._fire(self.tree.events)
        return result

    def _note(self, session: int, write: Write) -> None:
        if self.journal is not None:
            self.journal.append(self.zxid, session, write)

    # Watches

    def _arm(self, watches: set[str], read: GetData | Exists | GetChildren) -> None:
        if read.watch:
            watches.add(read.path)

    def _fire(self, events: Sequence[WatchEvent]) -> None:
        """Send events to every session that watches, and disarm the watches, before any answer goes
        out.
        """
        for event in events:
            for session in self.sessions.values():
                if session.connection is not None and _disarm(session, event):
                    self._send(session.connection, event)

    def _send(self, connection: SessionConnection, body: Any) -> None:
        link = self._links[connection]
        link.sent += 1
        self._outputs.append(Frame(connection, link.sent, body))

    def _sent(self) -> Sequence[Frame]:
        frames, self._outputs = self._outputs, []
        return frames


def _disarm(session: TreeSession, event: WatchEvent) -> bool:
    """Disarm the session's watches that this event fires; True if there were any."""
    path, armed = event.path, False
    if event.type is not EventType.CHILDREN_CHANGED and path in session.data_watches:
        session.data_watches.remove(path)
        armed = True
    if event.type in (EventType.CHILDREN_CHANGED, EventType.DELETED):
        armed |= path in session.child_watches
        session.child_watches.discard(path)
    return armed
