"""The znodes of a store: the effect of each operation on them, and the watches that it fires."""

from collections.abc import Callable

from attrs import define, field

from refimpl.metadata.contract import (
    ANY_VERSION,
    Change,
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    EventType,
    Existence,
    Multi,
    MultiDone,
    NoResult,
    SetData,
    Stat,
    WatchEvent,
)
from refimpl.metadata.errors import (
    BadVersion,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    StoreRefusal,
)
from refimpl.metadata.paths import parent_of


@define(eq=False)
class Znode:
    """One node; `created` counts the children that it ever had, for sequential names."""

    data: bytes = b""
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    version: int = 0
    created: int = 0
    owner: int = 0
    children: set[str] = field(factory=set[str])

    @property
    def stat(self) -> Stat:
        """The Stat for clients: each child that is gone was created once and deleted once."""
        count = len(self.children)
        return Stat(
            *(self.czxid, self.mzxid, self.pzxid, self.version),
            *(2 * self.created - count, self.owner, len(self.data), count),
        )


Undo = Callable[[], None]


@define(eq=False)
class Tree:
    """All znodes by path, and the ephemeral ones by session.

    `events` are the last change's events for watches; a refused change has changed nothing, and has
    none.
    """

    nodes: dict[str, Znode] = field(factory=lambda: {"/": Znode()})
    ephemerals: dict[int, set[str]] = field(factory=dict[int, set[str]])
    events: list[WatchEvent] = field(factory=list[WatchEvent])
    _undo: list[Undo] = field(factory=list[Undo])

    # Reads

    def get(self, path: str) -> Data:
        """Read data and stat. Raises NoNode."""
        node = self._node(path)
        return Data(node.data, node.stat)

    def exists(self, path: str) -> Existence:
        """Read the stat; None if the znode does not exist."""
        node = self.nodes.get(path)
        return Existence(node.stat if node else None)

    def children(self, path: str) -> Children:
        """Read the names of the children, in order, and the stat. Raises NoNode."""
        node = self._node(path)
        return Children(tuple(sorted(node.children)), node.stat)

    # Writes

    def apply(
        self, zxid: int, session: int, change: Change | Multi
    ) -> Created | NoResult | Stat | MultiDone:
        """Apply the whole change, or raise `Refused` and apply nothing."""
        self._undo, self.events = [], []
        try:
            if isinstance(change, Multi):
                return self._multi(zxid, session, change)
            return self._change(zxid, session, change)
        except StoreRefusal:
            for undo in reversed(self._undo):
                undo()
            self.events = []
            raise

    def end_session(self, zxid: int, session: int) -> None:
        """Delete the ephemeral znodes of a session in one transaction."""
        self.events = []
        for path in sorted(self.ephemerals.get(session, ())):
            self._delete(zxid, Delete(path))
        self.ephemerals.pop(session, None)

    def _multi(self, zxid: int, session: int, multi: Multi) -> MultiDone:
        results: list[Created | NoResult | Stat] = []
        for index, one in enumerate(multi.operations):
            try:
                results.append(self._change(zxid, session, one))
            except StoreRefusal as error:
                raise MultiFailed(index, error) from error
        return MultiDone(tuple(results))

    def _change(self, zxid: int, session: int, change: Change) -> Created | NoResult | Stat:
        match change:
            case Create():
                return self._create(zxid, session, change)
            case Delete():
                return self._delete(zxid, change)
            case SetData():
                return self._set(zxid, change)
            case Check():
                self._at_version(change.path, change.version)
                return NoResult()

    def _create(self, zxid: int, session: int, create: Create) -> Created:
        parent_path = parent_of(create.path)
        parent = self._node(parent_path)
        path = f"{create.path}{parent.created:010d}" if create.sequential else create.path
        if path in self.nodes:
            raise NodeExists(create.path)
        if parent.owner:
            raise NoChildrenForEphemerals(create.path)
        owner = session if create.ephemeral else 0
        self.nodes[path] = Znode(create.data, zxid, zxid, zxid, owner=owner)
        if owner:
            self.ephemerals.setdefault(owner, set()).add(path)
        before = parent.created, parent.pzxid
        parent.children.add(path.rpartition("/")[2])
        parent.created, parent.pzxid = parent.created + 1, zxid
        self._undo.append(lambda: self._uncreate(path, parent, before))
        self._touched(EventType.CREATED, path)
        self._touched(EventType.CHILDREN_CHANGED, parent_path)
        return Created(path)

    def _uncreate(self, path: str, parent: Znode, before: tuple[int, int]) -> None:
        node = self.nodes.pop(path)
        self.ephemerals.get(node.owner, set()).discard(path)
        parent.children.discard(path.rpartition("/")[2])
        parent.created, parent.pzxid = before

    def _delete(self, zxid: int, delete: Delete) -> NoResult:
        path = delete.path
        node = self._at_version(path, delete.version)
        if node.children:
            raise NotEmpty(path)
        parent_path = parent_of(path)
        parent = self.nodes[parent_path]
        before = parent.pzxid
        del self.nodes[path]
        self.ephemerals.get(node.owner, set()).discard(path)
        parent.children.discard(path.rpartition("/")[2])
        parent.pzxid = zxid
        self._undo.append(lambda: self._undelete(path, node, parent, before))
        self._touched(EventType.DELETED, path)
        self._touched(EventType.CHILDREN_CHANGED, parent_path)
        return NoResult()

    def _undelete(self, path: str, node: Znode, parent: Znode, pzxid: int) -> None:
        self.nodes[path] = node
        if node.owner:
            self.ephemerals.setdefault(node.owner, set()).add(path)
        parent.children.add(path.rpartition("/")[2])
        parent.pzxid = pzxid

    def _set(self, zxid: int, change: SetData) -> Stat:
        node = self._at_version(change.path, change.version)
        before = node.data, node.mzxid, node.version
        node.data, node.mzxid, node.version = change.data, zxid, node.version + 1
        self._undo.append(lambda: self._unset(node, before))
        self._touched(EventType.DATA_CHANGED, change.path)
        return node.stat

    def _unset(self, node: Znode, before: tuple[bytes, int, int]) -> None:
        node.data, node.mzxid, node.version = before

    def _at_version(self, path: str, version: int) -> Znode:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path, version)
        return node

    def _node(self, path: str) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _touched(self, what: EventType, path: str) -> None:
        self.events.append(WatchEvent(what, path))
