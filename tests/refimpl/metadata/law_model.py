"""A tree by the laws of docs/metadata-store.md, written from ZooKeeper's guarantees alone.

States are immutable, so that a law may compare two of them. Zxids are unknown: a transaction has
its place in the order, and the store's name for it is learned when it is first seen.
"""

from collections.abc import Mapping

from attrs import define, evolve, field, frozen

from refimpl.metadata.contract import (
    ANY_VERSION,
    Change,
    Check,
    Create,
    Created,
    Delete,
    EventType,
    Multi,
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

BEFORE_TIME = 0
"""The place in the order of whatever made the root."""


@frozen
class Node:
    """A znode; `owner` is a session of the book, and zxids are places in the order."""

    data: bytes
    owner: int | None
    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    born: int = 0
    died: int = 0


State = Mapping[str, Node]
EMPTY: State = {"/": Node(b"", None, BEFORE_TIME, BEFORE_TIME, BEFORE_TIME)}


@frozen
class Outcome:
    """The state after a transaction, what it did to paths, and what its answers must be."""

    state: State
    touched: tuple[WatchEvent, ...] = ()
    answers: tuple[Created | NoResult | Node, ...] = ()


def children(state: State, path: str) -> list[str]:
    """The names right below a path."""
    below = path.rstrip("/") + "/"
    names = [one[len(below) :] for one in state if one.startswith(below) and one != "/"]
    return sorted(name for name in names if "/" not in name)


def parent(path: str) -> str:
    """The path above this one."""
    return path[: path.rindex("/")] or "/"


def apply(state: State, place: int, session: int, write: Change | Multi) -> Outcome | StoreRefusal:
    """The only result that a write may have in this state."""
    if not isinstance(write, Multi):
        return _change(Outcome(state), place, session, write)
    outcome = Outcome(state)
    for index, one in enumerate(write.operations):
        after = _change(outcome, place, session, one)
        if isinstance(after, StoreRefusal):
            return MultiFailed(index, after)
        outcome = after
    return outcome


def end_session(state: State, place: int, session: int) -> Outcome:
    """All ephemeral znodes of a session go in one transaction."""
    outcome = Outcome(state)
    for path in [path for path, node in state.items() if node.owner == session]:
        after = _change(outcome, place, session, Delete(path))
        assert isinstance(after, Outcome)
        outcome = after
    return outcome


def _change(before: Outcome, place: int, session: int, change: Change) -> Outcome | StoreRefusal:
    state = before.state
    match change:
        case Create():
            return _create(before, place, session, change)
        case _ if change.path not in state:
            return NoNode(change.path)
        case _ if change.version not in (ANY_VERSION, state[change.path].version):
            return BadVersion(change.path, change.version)
        case Delete():
            return _delete(before, place, change)
        case SetData():
            old = state[change.path]
            new = evolve(old, data=change.data, mzxid=place, version=old.version + 1)
            return _then(before, {**state, change.path: new}, new, EventType.DATA_CHANGED, change)
        case Check():
            return Outcome(state, before.touched, (*before.answers, NoResult()))


def _create(before: Outcome, place: int, session: int, create: Create) -> Outcome | StoreRefusal:
    state, above = before.state, parent(create.path)
    if above not in state:
        return NoNode(above)
    home = state[above]
    path = f"{create.path}{home.born:010}" if create.sequential else create.path
    if path in state:
        return NodeExists(create.path)
    if home.owner is not None:
        return NoChildrenForEphemerals(create.path)
    node = Node(create.data, session if create.ephemeral else None, place, place, place)
    after = {**state, path: node, above: evolve(home, born=home.born + 1, pzxid=place)}
    return _then(before, after, Created(path), EventType.CREATED, Create(path))


def _delete(before: Outcome, place: int, delete: Delete) -> Outcome | StoreRefusal:
    state, above = before.state, parent(delete.path)
    if children(state, delete.path):
        return NotEmpty(delete.path)
    home = state[above]
    after = {**state, above: evolve(home, died=home.died + 1, pzxid=place)}
    del after[delete.path]
    return _then(before, after, NoResult(), EventType.DELETED, delete)


def _then(
    before: Outcome,
    state: State,
    answer: Created | NoResult | Node,
    what: EventType,
    change: Change,
) -> Outcome:
    touched = [WatchEvent(what, change.path)]
    if what is not EventType.DATA_CHANGED:
        touched.append(WatchEvent(EventType.CHILDREN_CHANGED, parent(change.path)))
    return Outcome(state, (*before.touched, *touched), (*before.answers, answer))


@define
class Zxids:
    """The store's zxids for places in the order of transactions; it must keep that order."""

    names: dict[int, int] = field(factory=dict[int, int])

    def must_fit(self, place: int, zxid: int) -> None:
        """One name for one place, and later places have larger names."""
        assert self.names.setdefault(place, zxid) == zxid, f"transaction {place} has two zxids"
        for other, name in self.names.items():
            assert (other < place) == (name < zxid) or other == place, (
                f"transactions {other} and {place} have zxids {name} and {zxid}"
            )


def must_be_stat_of(
    stat: Stat, state: State, path: str, zxids: Zxids, owners: Mapping[int, int]
) -> None:
    """A stat says of a znode what the state does; `owners` are the ids of the book's sessions."""
    _must_agree(stat, state[path], len(children(state, path)), zxids, owners, path)


def must_be_written(stat: Stat, node: Node, zxids: Zxids, owners: Mapping[int, int]) -> None:
    """The stat that answers a write; in a multi, of the znode as it was just then."""
    _must_agree(stat, node, stat.num_children, zxids, owners, "the written znode")


def _must_agree(
    stat: Stat, node: Node, count: int, zxids: Zxids, owners: Mapping[int, int], path: str
) -> None:
    owner = 0 if node.owner is None else owners[node.owner]
    expected = (node.version, node.born + node.died, owner, len(node.data), count)
    found = (
        *(stat.version, stat.cversion, stat.ephemeral_owner),
        *(stat.data_length, stat.num_children),
    )
    assert found == expected, f"the stat of {path} is {found}, and not {expected}"
    for place, zxid in ((node.czxid, stat.czxid), (node.mzxid, stat.mzxid)):
        zxids.must_fit(place, zxid)
    zxids.must_fit(node.pzxid, stat.pzxid)
