"""Operations and answers in kazoo's terms, and back."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import logging
from collections.abc import Callable
from typing import Any

from attrs import frozen
from kazoo import exceptions as kz
from kazoo.protocol import serialization as wire
from kazoo.security import OPEN_ACL_UNSAFE

from refimpl.metadata.contract import (
    Change,
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    EventType,
    Existence,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiDone,
    NoResult,
    Operation,
    Result,
    SetData,
    Stat,
    Sync,
    WatchEvent,
)
from refimpl.metadata.errors import (
    BadVersion,
    ConnectionLoss,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    StoreError,
    StoreRefusal,
)
from refimpl.metadata.paths import parent_of

log = logging.getLogger("refimpl.metadata.kazoo")
EVENT_TYPES = {type.name: type for type in EventType} | {
    "CHANGED": EventType.DATA_CHANGED,
    "CHILD": EventType.CHILDREN_CHANGED,
}
ROLLED_BACK = (kz.RolledBackError, kz.RuntimeInconsistency)
NO_ANSWER = (kz.ConnectionLoss, kz.SessionExpiredError, kz.ConnectionClosedError)
Watcher = Callable[[Any], None]


@frozen
class Messages:
    """The conversion of messages; znodes are below `root`, and kazoo calls a watcher with each
    event.
    """

    root: str
    data_watcher: Watcher
    child_watcher: Watcher

    def event(self, event: Any) -> WatchEvent | None:
        """The event in kazoo's call of a watcher; None for the call that reports a disarmed
        watch.
        """
        if event.path is None:
            return None
        return WatchEvent(EVENT_TYPES[event.type], self._ours(event.path))

    def _theirs(self, path: str) -> str:
        return (self.root if path == "/" else f"{self.root}{path}") or "/"

    def _ours(self, path: str) -> str:
        return path[len(self.root) :] or "/"

    def encoded(self, operation: Operation) -> Any:
        """A request of kazoo's."""
        path = "" if isinstance(operation, Multi) else self._theirs(operation.path)
        match operation:
            case Multi():
                return wire.Transaction([self._change(one) for one in operation.operations])
            case GetData():
                return wire.GetData(path, self.data_watcher if operation.watch else None)
            case Exists():
                return wire.Exists(path, self.data_watcher if operation.watch else None)
            case GetChildren():
                return wire.GetChildren2(path, self.child_watcher if operation.watch else None)
            case Sync():
                return wire.Sync(path)
            case _:
                return self._change(operation)

    def _change(self, change: Change) -> Any:
        path = self._theirs(change.path)
        match change:
            case Create():
                flags = change.ephemeral + 2 * change.sequential
                return wire.Create(path, change.data, OPEN_ACL_UNSAFE, flags)
            case SetData():
                return wire.SetData(path, change.data, change.version)
            case Delete():
                return wire.Delete(path, change.version)
            case Check():
                return wire.CheckVersion(path, change.version)

    def decoded(self, operation: Operation, value: Any) -> Result | StoreError:
        """The outcome of a request, from kazoo's value or exception."""
        match operation:
            case Multi():
                return self._multi(operation, value)
            case _ if isinstance(value, Exception):
                return _refusal(operation, value)
            case GetData():
                return Data(value[0] or b"", _stat(value[1]))
            case Exists():
                return Existence(None if value is None else _stat(value))
            case GetChildren():
                return Children(tuple(sorted(value[0])), _stat(value[1]))
            case Sync():
                return NoResult()
            case _:
                return self._done(operation, value)

    def _multi(self, multi: Multi, value: Any) -> Result | StoreError:
        """The outcome of a multi; for a failed one kazoo lists each operation's result, and raises
        nothing.
        """
        if isinstance(value, Exception):
            return _unknown(value)
        for index, one in enumerate(value):
            if isinstance(one, Exception) and not isinstance(one, ROLLED_BACK):
                error = _refusal(multi.operations[index], one)
                return MultiFailed(index, error) if isinstance(error, StoreRefusal) else error
        both = zip(multi.operations, value, strict=True)
        return MultiDone(tuple(self._done(change, one) for change, one in both))

    def _done(self, change: Change, value: Any) -> Created | NoResult | Stat:
        match change:
            case Create():
                return Created(self._ours(value))
            case SetData():
                return _stat(value)
            case _:
                return NoResult()


def _stat(stat: Any) -> Stat:
    return Stat(
        *(stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.cversion),
        *(stat.ephemeralOwner, stat.dataLength, stat.numChildren),
    )


def _refusal(operation: Any, error: Exception) -> StoreError:
    """The refusal for an error of kazoo's, with the path that kazoo leaves out."""
    path: str = operation.path
    match error:
        case kz.NoNodeError():
            return NoNode(parent_of(path) if isinstance(operation, Create) else path)
        case kz.NodeExistsError():
            return NodeExists(path)
        case kz.BadVersionError():
            return BadVersion(path, operation.version)
        case kz.NotEmptyError():
            return NotEmpty(path)
        case kz.NoChildrenForEphemeralsError():
            return NoChildrenForEphemerals(path)
        case _:
            return _unknown(error)


def _unknown(error: Exception) -> StoreError:
    """ConnectionLoss for any other error, which leaves the outcome unknown."""
    log.warning("ZooKeeper answered with %r", error)
    return ConnectionLoss()
