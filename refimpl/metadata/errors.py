"""Errors of a metadata store: an operation was refused, or its outcome is unknown.

A `Refused` operation has changed nothing. After `ConnectionLoss` it may have been applied or not,
and only reading again shows that. A conditional write that is blindly repeated fails by its own
success.
"""

from typing import ClassVar

from attrs import fields, frozen, has


class StoreError(Exception):
    """An operation without a result."""

    says: ClassVar[str] = ""
    """The reason, with a place for each field."""

    def __str__(self) -> str:
        """The reason, with the values."""
        kind = type(self)
        if not has(kind) or not self.says:
            return kind.__name__
        values = {one.name: getattr(self, one.name) for one in fields(kind)}
        return f"{kind.__name__}: {self.says.format(**values)}"

    def __eq__(self, other: object) -> bool:
        """Compare by type and values, because errors are answers."""
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        """A hash that agrees with equality."""
        return hash((type(self), self.args))


class StoreRefusal(StoreError):
    """A guard was false, and the store has not changed."""


@frozen
class NoNode(StoreRefusal):
    """The znode, or the parent of one to be created, does not exist."""

    says = "{path} does not exist"
    path: str


@frozen
class NodeExists(StoreRefusal):
    """A znode of this path exists already."""

    says = "{path} exists already"
    path: str


@frozen
class BadVersion(StoreRefusal):
    """The znode's data have another version than the operation's condition."""

    says = "{path} does not have version {expected}"
    path: str
    expected: int


@frozen
class NotEmpty(StoreRefusal):
    """A znode with children cannot be deleted."""

    says = "{path} has children"
    path: str


@frozen
class NoChildrenForEphemerals(StoreRefusal):
    """An ephemeral znode cannot have children."""

    says = "{path} is ephemeral, and can have no children"
    path: str


@frozen
class InvalidOperation(StoreRefusal):
    """The operation cannot succeed in any state: its path or its data are not allowed."""

    says = "{reason}"
    reason: str


@frozen
class MultiFailed(StoreRefusal):
    """One operation of a multi, named by its index, was refused, so none of them was applied."""

    says = "operation {index} was refused: {error}"
    index: int
    error: StoreRefusal


@frozen
class ConnectionLoss(StoreError):
    """The connection was lost before the answer came: the outcome is unknown."""

    says = "the connection was lost; whether the operation was applied is unknown"


@frozen
class SessionExpired(StoreError):
    """The session is over, with its ephemeral znodes; operations under way have an unknown
    outcome.
    """

    says = "session {session_id:#x} has expired"
    session_id: int
