"""The embedded controller's decisions on disk: a JSON line for each change of the metadata.

A decision is on disk before any broker hears of it, so that a restart goes on where the last
process was killed. A line that was cut off by that was told to nobody, and is dropped. The file is
written anew, with as few changes as say what is in force, at the start and whenever as much as that
has been added to it, and `LEAST_BYTES` at least.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, cast

import orjson
from attrs import define, field, fields, has

from refimpl.edge.server.log_directory import FileDirectory, UnusableDirectory
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import cluster
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import Change, ClusterMetadata
from refimpl.security.acls import AccessControlEntry, ResourcePattern
from refimpl.security.scram import ScramCredential

FILE = "controller.jsonl"
KIND = "kind"
LEAST_BYTES = 1 << 20
_PLAIN = (int, str, bool, type(None))

_KINDS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (
        cluster.AclsAltered,
        cluster.BrokerRegistration,
        cluster.BrokerUnregistered,
        cluster.ConfigResource,
        cluster.ConfigsAltered,
        cluster.Endpoint,
        cluster.FeaturesUpdated,
        cluster.PartitionRegistration,
        cluster.ProducerIdsAllocated,
        cluster.QuotasAltered,
        cluster.ScramCredentialsAltered,
        cluster.TopicCreated,
        cluster.TopicDeleted,
        AccessControlEntry,
        LeaderAndIsr,
        ResourcePattern,
        ScramCredential,
        TopicPartition,
    )
}


@define(eq=False)
class ControllerLog:
    """The file of one cluster's controller, in a folder of its own."""

    folder: Path
    directory: FileDirectory
    least_bytes: int = LEAST_BYTES
    _handle: int = field(default=-1, init=False)
    _metadata: ClusterMetadata = field(factory=ClusterMetadata, init=False)
    _compacted: int = field(default=0, init=False)
    _added: int = field(default=0, init=False)

    def open(self) -> Sequence[Change]:
        """Read the decisions, as few changes as give the same metadata; the file is written anew
        with those.

        Raises UnusableDirectory, naming the line that cannot be read.
        """
        self.directory.open()
        self._metadata = ClusterMetadata()
        for change in self._read(self.folder / FILE):
            self._metadata.apply(change)
        changes = list(self._metadata.changes())
        self._compact(changes)
        return changes

    def _compact(self, changes: Sequence[Change]) -> None:
        """Put a file with these changes in the place of the old one, at once or not at all."""
        path = self.folder / FILE
        content, temporary = b"".join(map(_line, changes)), path.with_suffix(".tmp")
        temporary.write_bytes(content)
        _flush(temporary)
        temporary.replace(path)
        _flush(self.folder)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._compacted, self._added = len(content), 0

    def _read(self, path: Path) -> Sequence[Change]:
        if not path.exists():
            return []
        found: list[Change] = []
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
            try:
                found.append(_change(orjson.loads(line)))
            except (ValueError, KeyError, TypeError) as mistake:
                raise UnusableDirectory(f"{path}:{number}: no change: {mistake}") from None
        return found

    def append(self, changes: Sequence[Change]) -> None:
        """Return when these are on disk."""
        data = memoryview(b"".join(map(_line, changes)))
        length = len(data)
        while data:
            data = data[os.write(self._handle, data) :]
        os.fdatasync(self._handle)
        for change in changes:
            self._metadata.apply(change)
        self._added += length
        if self._added > max(self.least_bytes, self._compacted):
            self._compact(list(self._metadata.changes()))

    def close(self) -> None:
        """No more is decided."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        self.directory.release()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _line(change: Change) -> bytes:
    return orjson.dumps(_encoded(change)) + b"\n"


def _encoded(value: Any) -> Any:
    """A value as JSON; what JSON has no form for says what it is."""
    own = value.__class__
    if own in _PLAIN:
        return value
    kind = own.__name__
    if kind in _KINDS:
        return {KIND: kind, **{name: _encoded(getattr(value, name)) for name in _names(own)}}
    match value:
        case bytes():
            return {KIND: "bytes", "base64": b64encode(value).decode()}
        case Set():
            several = list(cast("Set[Any]", value))
            return {KIND: "set", "of": [_encoded(one) for one in sorted(several, key=str)]}
        case Mapping():
            pairs = cast("Mapping[str, Any]", value)
            return {KIND: "map", "of": {key: _encoded(one) for key, one in pairs.items()}}
        case str():
            return value
        case Sequence():
            return [_encoded(one) for one in cast("Sequence[Any]", value)]
        case _:
            return value


@cache
def _names(kind: type[Any]) -> Sequence[str]:
    return [one.name for one in fields(kind)] if has(kind) else cast("Any", kind)._fields


def _change(value: Any) -> Change:
    change = _decoded(value)
    if type(change).__name__ not in _KINDS:
        raise ValueError(f"{value!r} is none")
    return change


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(one) for one in cast("list[Any]", value))
    if not isinstance(value, dict):
        return value
    values = cast("dict[str, Any]", value)
    match values.pop(KIND):
        case "bytes":
            return b64decode(values["base64"])
        case "set":
            return frozenset(map(_decoded, values["of"]))
        case "map":
            return {key: _decoded(one) for key, one in values["of"].items()}
        case kind:
            return _KINDS[kind](**{name: _decoded(one) for name, one in values.items()})
