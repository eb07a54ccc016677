"""The place of a broker's logs: memory, or a directory laid out as Kafka's are.

`meta.properties` says whose directory it is (KIP-78, KIP-858), `.lock` that a process uses it.
"""

import fcntl
import os
from base64 import urlsafe_b64encode
from pathlib import Path
from secrets import token_bytes
from shutil import disk_usage
from typing import Any, NamedTuple, Protocol

import orjson
from attrs import define, field

from refimpl.broker.file_logs import FileLogs
from refimpl.errors import StorageDamage
from refimpl.messages.broker import TopicPartition
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.disk.interface import Disk, MemoryDisk, read_file, replace_file
from refimpl.storage.format.checkpoints import (
    META_PROPERTIES,
    read_meta_properties,
    write_meta_properties,
)

LOCK = ".lock"
#: Not Kafka's: which process ran here last, and in which boot of the machine
PROCESS = "highwater-process"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Begun(NamedTuple):
    """A process that begins, by a number that grows.

    `survived` is the broker epoch of the process before if nothing that it wrote can be lost: it
    ended, and the machine, whose page cache has it, went on. Else -1. Kafka counts every end
    without a controlled shutdown as one that may have lost records (KIP-966), for it cannot tell a
    process's from a machine's.
    """

    incarnation: int
    survived: int


class UnusableDirectory(Exception):
    """A log directory that this broker cannot use, and why, in one line."""


class Directory(Protocol):
    """The place of a broker's logs, as the broker uses it."""

    cluster_id: str

    @property
    def name(self) -> str:
        """Its path, as clients receive it."""
        ...

    def space(self) -> tuple[int, int]:
        """The bytes of its disk in all, and the free ones; -1 if nobody knows."""
        ...

    def open(self) -> Disk:
        """The disk, for one process at a time. Raises UnusableDirectory."""
        ...

    def release(self) -> None:
        """The process has ended."""
        ...

    def begin(self) -> Begun:
        """A process begins: its number, and what it may rely on."""
        ...

    def registered(self, broker_epoch: int) -> None:
        """The process has this broker epoch."""
        ...


def random_id() -> str:
    """22 characters of base64: a cluster's or a directory's id; none begins with a hyphen."""
    while True:
        text = urlsafe_b64encode(token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


@define(eq=False)
class MemoryDirectory:
    """A disk that is there as long as this object."""

    cluster_id: str
    disk: MemoryDisk = field(factory=MemoryDisk)
    incarnations: int = 0
    broker_epoch: int = -1
    name: str = "memory"

    def space(self) -> tuple[int, int]:
        """Nobody knows."""
        return -1, -1

    def open(self) -> Disk:
        """The disk."""
        return self.disk

    def release(self) -> None:
        """Nothing is held."""

    def begin(self) -> Begun:
        """Memory keeps everything, however a process ends."""
        self.incarnations += 1
        return Begun(self.incarnations, self.broker_epoch)

    def registered(self, broker_epoch: int) -> None:
        """The process has this broker epoch."""
        self.broker_epoch = broker_epoch


@define(eq=False)
class FileDirectory:
    """A directory of the file system, locked while a process uses it."""

    path: Path
    node_id: int
    cluster_id: str
    _lock: int | None = field(default=None, init=False)
    _disk: FileDisk | None = field(default=None, init=False)
    _incarnation: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        """The absolute path."""
        return str(self.path.resolve())

    def space(self) -> tuple[int, int]:
        """Of the file system."""
        usage = disk_usage(self.path)
        return usage.total, usage.free

    def open(self) -> Disk:
        """Make the directory, or see whose it is, and lock it. Raises UnusableDirectory."""
        self.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise UnusableDirectory(
                f"{self.path}: another process uses this log directory (it holds {LOCK})"
            ) from None
        self._lock = handle
        disk = self._disk = FileDisk(self.path)
        try:
            self._claim(disk)
        except UnusableDirectory:
            self.release()
            raise
        return disk

    def _claim(self, disk: FileDisk) -> None:
        if META_PROPERTIES not in disk.list_files(""):
            properties = {
                "version": "1",
                "cluster.id": self.cluster_id,
                "node.id": str(self.node_id),
                "directory.id": random_id(),
            }
            write_meta_properties(disk, properties)
            return
        found = properties_of(self.path)
        for key, ours in (("cluster.id", self.cluster_id), ("node.id", str(self.node_id))):
            if found.get(key) != ours:
                raise UnusableDirectory(
                    f"{self.path / META_PROPERTIES}: {key} is {found.get(key)}, expected {ours}"
                )

    def release(self) -> None:
        """Close all files and give the directory free."""
        if self._disk is not None:
            self._disk.close()
            self._disk = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def begin(self) -> Begun:
        """One more than the process before, on disk before it is used."""
        assert self._disk is not None
        last: dict[str, Any] = {"incarnation": 0, "boot_id": "", "broker_epoch": -1}
        if PROCESS in self._disk.list_files(""):
            last = orjson.loads(read_file(self._disk, PROCESS))
        survived = last["boot_id"] == _boot_id() != ""
        self._incarnation = last["incarnation"] + 1
        self.registered(-1)
        return Begun(self._incarnation, last["broker_epoch"] if survived else -1)

    def registered(self, broker_epoch: int) -> None:
        """Write the process down: its number, its broker epoch, and in which boot it runs."""
        assert self._disk is not None
        process = {
            "incarnation": self._incarnation,
            "boot_id": _boot_id(),
            "broker_epoch": broker_epoch,
        }
        replace_file(self._disk, PROCESS, orjson.dumps(process))


def _boot_id() -> str:
    """Linux's number of this boot of the machine; nothing elsewhere."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def properties_of(path: Path) -> dict[str, str]:
    """The meta.properties of a directory; empty if there is none. Raises UnusableDirectory."""
    disk = FileDisk(path)
    try:
        if not path.is_dir() or META_PROPERTIES not in disk.list_files(""):
            return {}
        return read_meta_properties(disk)
    except StorageDamage as damage:
        raise UnusableDirectory(f"{path}: {damage}") from None
    finally:
        disk.close()


def partitions_in(logs: FileLogs) -> list[TopicPartition]:
    """The partitions that a log directory has."""
    directory = logs.directory
    return [TopicPartition(*one) for one in (*directory.logs, *directory.damaged)]
