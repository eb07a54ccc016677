"""The valid paths of znodes, and the operations that no state of a store can execute."""

from refimpl.metadata.contract import (
    MAX_DATA_BYTES,
    Create,
    Delete,
    Multi,
    Operation,
    SetData,
    changes_of,
)
from refimpl.metadata.errors import InvalidOperation

# Control characters, surrogates, private use and the last of the plane, as ZooKeeper refuses them.
FORBIDDEN = ((0x00, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0xFFFF))


def parent_of(path: str) -> str:
    """The path of the znode above this one."""
    return path.rpartition("/")[0] or "/"


def must_be_valid(operation: Operation) -> None:
    """Raise InvalidOperation for an operation that every store refuses in every state."""
    if isinstance(operation, Multi) and not operation.operations:
        raise InvalidOperation("a multi has at least one operation")
    size = 0
    for one in changes_of(operation):
        if isinstance(one, Create | SetData):
            size += len(one.data)
        if isinstance(one, Create | Delete) and one.path == "/":
            raise InvalidOperation("the root is always there")
        _must_be_a_path(one.path, sequential=isinstance(one, Create) and one.sequential)
    if size > MAX_DATA_BYTES:
        raise InvalidOperation(f"{size} bytes of data, where {MAX_DATA_BYTES} are allowed")
    if not isinstance(operation, Multi | Create):
        _must_be_a_path(operation.path, sequential=False)


def _must_be_a_path(path: str, *, sequential: bool) -> None:
    if not path.startswith("/"):
        raise InvalidOperation(f"a path begins with a slash, and {path!r} does not")
    names = path[1:].split("/")
    if sequential:
        names[-1] += "1"  # the digits complete the last name, which may be empty
    if path != "/" and any(name in ("", ".", "..") for name in names):
        raise InvalidOperation(f"{path!r} has an empty or a relative name in it")
    if any(first <= ord(sign) <= last for sign in path for first, last in FORBIDDEN):
        raise InvalidOperation(f"{path!r} has a character in it that no path may have")
