"""The embedded store's writes and its whole state as bytes, each piece under a checksum.

A piece is a length, a CRC-32C of the length and the payload, and the payload as JSON; data are
strings of as many characters as they have bytes. Zeros, as a torn write may leave them, are none.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson
from crc32c import crc32c

from refimpl.metadata.contract import Change, Check, Create, Delete, Multi, SetData
from refimpl.metadata.embedded import EmbeddedStore, EndSession, OpenSession, TreeSession, Write
from refimpl.metadata.tree import Znode

HEAD = struct.Struct(">II")
LENGTH = struct.Struct(">I")
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Create, Delete, SetData, Check, OpenSession, EndSession)
}


class Transaction(NamedTuple):
    """An applied write, its session and its zxid."""

    zxid: int
    session: int
    write: Write


def encode_batch(transactions: Sequence[Transaction]) -> bytes:
    """The writes that are flushed together as one piece: all of it is there, or none."""
    return _piece([[one.zxid, one.session, _encoded(one.write)] for one in transactions])


def decode_batch(payload: bytes) -> Sequence[Transaction]:
    """The transactions of a piece."""
    return [
        Transaction(zxid, session, _decoded(write))
        for zxid, session, write in orjson.loads(payload)
    ]


def pieces(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Whole pieces from the start, each with its end; the first incomplete one ends the
    iteration.
    """
    position = 0
    while (payload := piece_at(content, position)) is not None:
        position += HEAD.size + len(payload)
        yield position, payload


def piece_at(content: bytes, position: int) -> bytes | None:
    """The payload of the whole piece that begins here; None if there is none."""
    if len(content) - position < HEAD.size:
        return None
    length, checksum = HEAD.unpack_from(content, position)
    begin = position + HEAD.size
    if length > len(content) - begin:
        return None
    payload = content[begin : begin + length]
    return payload if _checksum(payload) == checksum else None


def encode_state(store: EmbeddedStore) -> bytes:
    """The whole store as one piece: its zxid, its sessions, its znodes."""
    nodes = [
        [
            path,
            _text(one.data),
            one.czxid,
            one.mzxid,
            one.pzxid,
            one.version,
            one.created,
            one.owner,
        ]
        for path, one in store.tree.nodes.items()
    ]
    sessions = [[one.id, one.timeout_ms] for one in store.sessions.values()]
    return _piece([store.zxid, sessions, nodes])


def decode_state(payload: bytes, store: EmbeddedStore) -> None:
    """Put an encoded state into an empty store."""
    store.zxid, sessions, nodes = orjson.loads(payload)
    store.sessions = {id: TreeSession(id, timeout_ms, 0) for id, timeout_ms in sessions}
    tree = store.tree
    for path, data, czxid, mzxid, pzxid, version, created, owner in nodes:
        node = Znode(data.encode("latin-1"), czxid, mzxid, pzxid, version, created, owner)
        tree.nodes[path] = node
        if owner:
            tree.ephemerals.setdefault(owner, set()).add(path)
    for path in tree.nodes:
        if path != "/":
            parent, _, name = path.rpartition("/")
            tree.nodes[parent or "/"].children.add(name)


def _piece(value: Any) -> bytes:
    payload = orjson.dumps(value)
    return HEAD.pack(len(payload), _checksum(payload)) + payload


def _checksum(payload: bytes) -> int:
    return crc32c(payload, crc32c(LENGTH.pack(len(payload))))


def _encoded(write: Write | Change) -> list[Any]:
    match write:
        case Multi():
            return ["Multi", [_encoded(one) for one in write.operations]]
        case Create():
            return [
                *("Create", write.path, _text(write.data)),
                *(write.ephemeral, write.sequential),
            ]
        case SetData():
            return ["SetData", write.path, _text(write.data), write.version]
        case Delete() | Check():
            return [type(write).__name__, write.path, write.version]
        case OpenSession():
            return ["OpenSession", write.timeout_ms]
        case EndSession():
            return ["EndSession"]


def _decoded(encoded: Sequence[Any]) -> Any:
    kind, *values = encoded
    if kind == "Multi":
        return Multi(tuple(_decoded(one) for one in values[0]))
    if kind in ("Create", "SetData"):
        values[1] = values[1].encode("latin-1")
    return KINDS[kind](*values)


def _text(data: bytes) -> str:
    return data.decode("latin-1")
