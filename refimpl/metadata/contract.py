"""The contract of a metadata store: ZooKeeper's, as messages without I/O.

A store is a tree of znodes. A session sends it `Request`s and receives `Response`s, `WatchEvent`s
and the changes of its own state. The laws, each with its formula, are in docs/metadata-store.md;
`tests/refimpl/metadata/law_book.py` tests every store against them. In short:

- *Order.* Writes are totally ordered by zxid. Operations of one session take effect in the order
  sent, and it receives answers and events in the order of zxids: an event comes before any answer
  that shows the change, and a session never sees a state older than one it has seen.
- *Condition.* `SetData`, `Delete` and `Check` with a version hold only at that version. A version
  grows by one with each write, and restarts at 0 when the path is created anew: a comparison across
  a deletion compares `czxid`, too.
- *Atomicity.* A `Multi` is applied as a whole, under one zxid, or not at all.
- *Sessions.* When a session ends, its ephemeral znodes are deleted in one transaction. The store
  ends it after `timeout_ms` of silence, even if its owner does not notice.
- *Watches.* A watch reports that something changed at least once since it was armed, and is gone by
  that. It may be late. Reading and arming are one operation, so nothing is missed between them.
  `Exists` arms on absent znodes as well; a read that is refused arms nothing.
- *Connection.* `Suspended` disarms all watches and answers all operations under way with
  `ConnectionLoss`: each of them was applied or not, and those applied are a prefix.

Not promised: that a read is as fresh as another session's write (`Sync` first), or that the owner
of a session knows that it is over.

Source: the ZooKeeper Programmer's Guide (guarantees, watches, sessions); ZooKeeper 3.9.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol, TypeAlias

from attrs import frozen

from refimpl.metadata.errors import StoreError

ANY_VERSION = -1
"""The version of an operation that is not conditional."""

MAX_DATA_BYTES = 1_000_000
"""The limit of all data in one operation; ZooKeeper drops the connection at 1,048,575 bytes a
request.
"""


@frozen
class Stat:
    """A znode's metadata besides its data.

    `czxid`, `mzxid` and `pzxid` are the zxids of its creation, of the last write of its data and of
    the last creation or deletion of a child. `version` counts writes of its data, `cversion`
    creations and deletions of children. `ephemeral_owner` is a session id, or 0.
    """

    czxid: int
    mzxid: int
    pzxid: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int


# Writes


@frozen
class Create:
    """Create a znode; answered with `Created`.

    The path of a sequential one is completed by ten digits: the number of children ever created
    under its parent. Raises NoNode, NodeExists, NoChildrenForEphemerals.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@frozen
class Delete:
    """Delete a znode; answered with `Done`. Raises NoNode, BadVersion, NotEmpty."""

    path: str
    version: int = ANY_VERSION


@frozen
class SetData:
    """Write a znode's data; answered with its `Stat`. Raises NoNode, BadVersion."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@frozen
class Check:
    """In a multi: nothing happens unless the znode has this version; answered with `Done`."""

    path: str
    version: int = ANY_VERSION


Change: TypeAlias = Create | Delete | SetData | Check


@frozen
class Multi:
    """All of these or none; answered with `MultiDone`. Raises MultiFailed."""

    operations: tuple[Change, ...]


# Reads


@frozen
class GetData:
    """Read a znode, and arm a data watch; answered with `Data`. Raises NoNode, arming nothing."""

    path: str
    watch: bool = False


@frozen
class Exists:
    """Read if a znode exists, and arm a data watch in either case; answered with `Existence`."""

    path: str
    watch: bool = False


@frozen
class GetChildren:
    """List the names of the children, and arm a child watch; answered with `Children`.

    Raises NoNode, arming nothing.
    """

    path: str
    watch: bool = False


@frozen
class Sync:
    """Let this session's next reads see all earlier writes; answered with `Done`."""

    path: str = "/"


Operation: TypeAlias = Create | Delete | SetData | Multi | GetData | Exists | GetChildren | Sync


# Answers


@frozen
class Created:
    """The path of the new znode, with its digits if it is sequential."""

    path: str


@frozen
class NoResult:
    """Applied, without a result."""


@frozen
class Data:
    """A znode's data and stat."""

    data: bytes
    stat: Stat


@frozen
class Existence:
    """A znode's stat, or None if it does not exist."""

    stat: Stat | None


@frozen
class Children:
    """The names of a znode's children, in order, and its stat."""

    names: tuple[str, ...]
    stat: Stat


@frozen
class MultiDone:
    """The answers of a multi's operations, in their order."""

    results: "tuple[Created | NoResult | Stat, ...]"


Result: TypeAlias = Created | NoResult | Stat | Data | Existence | Children | MultiDone


# Between a session and a store


@frozen
class StoreRequest:
    """An operation of a session; `number` is the session's own, and comes back in the response."""

    number: int
    operation: Operation


@frozen
class StoreResponse:
    """The outcome of the request of the same number."""

    number: int
    result: Result | StoreError


class EventType(Enum):
    """The change of a watched path."""

    CREATED = "created"
    DELETED = "deleted"
    DATA_CHANGED = "changed"
    CHILDREN_CHANGED = "child"


@frozen
class WatchEvent:
    """A watch has fired, and is gone.

    A data watch fires on CREATED, DATA_CHANGED and DELETED, a child watch on CHILDREN_CHANGED and
    DELETED; a deletion disarms both with one event.
    """

    type: EventType
    path: str


@frozen
class Connected:
    """The session is connected, anew if its id is another one: read and arm everything again."""

    session_id: int
    timeout_ms: int


@frozen
class Suspended:
    """The connection is lost; the session may go on or be over. No watch is armed any more.

    All operations under way have been answered with ConnectionLoss, and later ones will be. The
    owner stops deciding by earlier reads, because others may have taken over.
    """


@frozen
class Expired:
    """The session is over, and so are its ephemeral znodes; a new one will be opened."""


SessionState: TypeAlias = Connected | Suspended | Expired
Output: TypeAlias = StoreResponse | WatchEvent | SessionState


class MetadataStore(Protocol):
    """One session of a store; the results of requests are delivered later, in order.

    `deliver` is called with each `Output`, never from within `send`.
    """

    def start(self, deliver: Callable[[Output], None]) -> None:
        """Open the session; `Connected` will be delivered."""
        ...

    def send(self, request: StoreRequest) -> None:
        """Send an operation; exactly one `Response` with its number will be delivered."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral znodes are deleted now."""
        ...


def changes_of(operation: Operation) -> Sequence[Change]:
    """The changes that an operation asks for; none for a read."""
    match operation:
        case Multi(operations=several):
            return several
        case Create() | Delete() | SetData():
            return (operation,)
        case _:
            return ()
