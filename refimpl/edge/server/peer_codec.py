"""Messages between brokers as bytes: the node's own messages, field by field.

A value is a tag and what it stands for; a message is its class's number in `MESSAGES` and its
fields in order. Both ends must know the same classes, so `FINGERPRINT` is the first thing that a
connection compares. Record batches are bytes here as everywhere, and are copied once.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence, Set
from types import ModuleType
from typing import Any, cast

from attrs import fields, has

from refimpl.machines import messages as machines
from refimpl.machines.replica_log import EpochEnd
from refimpl.messages import broker as messages
from refimpl.messages import cluster, share, transaction_coordination, transactions
from refimpl.messages import controller as control_messages
from refimpl.security.acls import AccessControlEntry, AclBinding, AclFilter, ResourcePattern
from refimpl.security.scram import ScramCredential
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.replica.memory_records import MemoryRecords

MODULES = (
    *(cluster, control_messages, messages, transactions, transaction_coordination, machines),
    share,
)
OTHERS: tuple[type[Any], ...] = (
    *(EpochEnd, AbortedTxn, AccessControlEntry, AclBinding, AclFilter, ResourcePattern),
    ScramCredential,
)
U32, I64, F64 = struct.Struct(">I"), struct.Struct(">q"), struct.Struct(">d")
NONE, TRUE, FALSE, INT, FLOAT, TEXT, BYTES, SEQUENCE, SET, MAP, RECORDS, MESSAGE = range(12)
DEEPEST = 20


class NotAMessage(ValueError):
    """The bytes are no message of ours: cut off, of another version, or of somebody else."""


def _classes(module: ModuleType) -> Iterator[type[Any]]:
    for one in vars(module).values():
        if isinstance(one, type) and one.__module__ == module.__name__:
            kind = cast("type[Any]", one)
            if hasattr(kind, "_fields") or (has(kind) and kind.__hash__ is not object.__hash__):
                yield kind


def names_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a message's class, in order."""
    if hasattr(kind, "_fields"):
        return kind._fields
    return tuple(one.name for one in fields(kind))


MESSAGES: Sequence[type[Any]] = sorted(
    {*OTHERS, *(one for module in MODULES for one in _classes(module))},
    key=lambda one: f"{one.__module__}.{one.__qualname__}",
)
_NUMBERS = {kind: number for number, kind in enumerate(MESSAGES)}
_FIELDS = {kind: names_of(kind) for kind in MESSAGES}
FINGERPRINT = hashlib.sha256(
    repr([(kind.__qualname__, _FIELDS[kind]) for kind in MESSAGES]).encode()
).digest()[:8]
"""Of all classes and their fields: the version of this protocol."""


def encode(message: Any) -> bytes:
    """A message as bytes. Raises TypeError for what is none of ours."""
    parts: list[bytes] = []
    _put(message, parts.append)
    return b"".join(parts)


def decode(data: bytes) -> Any:
    """The message that these bytes are, all of them. Raises NotAMessage."""
    try:
        message, end = _take(memoryview(data), 0, 0)
    except (struct.error, IndexError, UnicodeDecodeError, TypeError) as wrong:
        raise NotAMessage(f"a message of {len(data)} bytes: {wrong}") from None
    if end != len(data):
        raise NotAMessage(f"a message of {len(data)} bytes, which ends at byte {end}")
    return message


def _put(value: Any, put: Any) -> None:
    kind = value.__class__
    if kind in _NUMBERS:
        put(bytes((MESSAGE, _NUMBERS[kind])))
        for name in _FIELDS[kind]:
            _put(getattr(value, name), put)
    elif value is None:
        put(bytes((NONE,)))
    elif kind is bool:
        put(bytes((TRUE if value else FALSE,)))
    elif kind is int:
        put(bytes((INT,)) + I64.pack(value))
    elif kind is float:
        put(bytes((FLOAT,)) + F64.pack(value))
    elif kind is str:
        text = value.encode()
        put(bytes((TEXT,)) + U32.pack(len(text)) + text)
    elif kind is MemoryRecords:
        put(bytes((RECORDS,)) + I64.pack(value.start) + U32.pack(len(value.data)))
        put(value.data)
    elif isinstance(value, bytes | bytearray | memoryview):
        content = bytes(cast("Buffer", value))
        put(bytes((BYTES,)) + U32.pack(len(content)))
        put(content)
    else:
        _put_several(value, put)


def _put_several(value: Any, put: Any) -> None:
    several: Any = value
    if isinstance(value, Mapping):
        put(bytes((MAP,)) + U32.pack(len(several)))
        for key, one in several.items():
            _put(key, put)
            _put(one, put)
    elif isinstance(value, Sequence | Set) and not _is_named_tuple(several):
        put(bytes((SET if isinstance(value, Set) else SEQUENCE,)) + U32.pack(len(several)))
        for one in several:
            _put(one, put)
    else:
        raise TypeError(f"{type(several).__name__} is not for other brokers: {several!r}")


def _is_named_tuple(value: Any) -> bool:
    """A class that is not registered shall not arrive as a mere tuple."""
    return hasattr(value, "_fields")


def _take(data: memoryview, at: int, depth: int) -> tuple[Any, int]:
    if depth > DEEPEST:
        raise NotAMessage("values within values without an end")
    tag, at = data[at], at + 1
    if tag == MESSAGE:
        kind = MESSAGES[data[at]]
        values, at = _several(data, at + 1, len(_FIELDS[kind]), depth)
        return kind(*values), at
    if tag <= FALSE:
        return (None, True, False)[tag], at
    if tag == INT:
        return I64.unpack_from(data, at)[0], at + 8
    if tag == FLOAT:
        return F64.unpack_from(data, at)[0], at + 8
    if tag == RECORDS:
        start = I64.unpack_from(data, at)[0]
        content, at = _content(data, at + 8)
        return MemoryRecords(content, start), at
    if tag in (TEXT, BYTES):
        content, at = _content(data, at)
        return content.decode() if tag == TEXT else content, at
    if tag in (SEQUENCE, SET, MAP):
        (count,) = U32.unpack_from(data, at)
        values, at = _several(data, at + 4, count * (2 if tag == MAP else 1), depth)
        if tag == MAP:
            return dict(zip(values[::2], values[1::2], strict=True)), at
        return (tuple if tag == SEQUENCE else frozenset)(values), at
    raise NotAMessage(f"tag {tag} at byte {at - 1}")


def _several(data: memoryview, at: int, count: int, depth: int) -> tuple[list[Any], int]:
    if count > len(data) - at:
        raise NotAMessage(f"{count} values in {len(data) - at} bytes")
    values: list[Any] = []
    for _ in range(count):
        value, at = _take(data, at, depth + 1)
        values.append(value)
    return values, at


def _content(data: memoryview, at: int) -> tuple[bytes, int]:
    (size,) = U32.unpack_from(data, at)
    end = at + 4 + size
    if end > len(data):
        raise NotAMessage(f"{size} bytes from byte {at + 4} of {len(data)} on")
    return bytes(data[at + 4 : end]), end
