"""The places of a broker's logs: memory, or directories laid out as Kafka's are.

`meta.properties` says whose directory it is (KIP-78, KIP-858), `.lock` that a process uses it.
"""

import fcntl
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from shutil import disk_usage
from typing import Any, NamedTuple, Protocol

import orjson
from attrs import define, field

from refimpl.boots import named_boot
from refimpl.errors import StorageDamage
from refimpl.machines.log_directories import LogDirectories, Memory
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


class Begun(NamedTuple):
    """A process that begins, by a number that grows.

    `survived` is the broker epoch of the process before if nothing that it wrote can be lost: it
    ended, and the machine, whose page cache has it, went on. Else -1. Kafka counts every end
    without a controlled shutdown as one that may have lost records (KIP-966), for it cannot tell a
    process's from a machine's.
    """

    incarnation: int
    survived: int
    #: Whether every directory is here in which the process before kept logs
    is_whole: bool = True


class Place(NamedTuple):
    """One log directory, as clients are told of it: its path, the bytes of its disk and the free
    ones, -1 if nobody knows.
    """

    path: str
    total: int = -1
    free: int = -1


class UnusableDirectory(Exception):
    """A log directory that this broker cannot use, and why, in one line."""


class UnreadableDirectory(UnusableDirectory):
    """The disk of a log directory does not answer; others may be used without it."""


@define(eq=False)
class GoneDisk(MemoryDisk):
    """The disk of a log directory that cannot be read: an empty one in its place, and the reason.

    Kafka starts with the other directories (KIP-112).
    """

    reason: str = ""


class Directory(Protocol):
    """The places of a broker's logs, as the broker uses them."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that they belong to."""
        ...

    def places(self) -> Sequence[Place]:
        """The log directories, as clients are told of them."""
        ...

    def open(self) -> Sequence[Disk]:
        """The disk of each, for one process at a time; a GoneDisk for one that cannot be read.

        Raises UnusableDirectory, also if none can be read.
        """
        ...

    def release(self) -> None:
        """The process has ended."""
        ...

    def begin(self) -> Begun:
        """A process begins: its number, and what it may rely on."""
        ...

    def registered(self, broker_epoch: int) -> None:
        """The process has this broker epoch; -1 once records may have been lost."""
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

    def places(self) -> Sequence[Place]:
        """One of which nobody knows the space."""
        return [Place(self.name)]

    def open(self) -> Sequence[Disk]:
        """The disk."""
        return [self.disk]

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
    _directories: Sequence[str] = field(factory=tuple[str, ...], init=False)

    @property
    def name(self) -> str:
        """The absolute path."""
        return str(self.path.resolve())

    def places(self) -> Sequence[Place]:
        """The directory, with the space of its file system, if that still answers."""
        try:
            usage = disk_usage(self.path)
        except OSError:
            return [Place(self.name)]
        return [Place(self.name, usage.total, usage.free)]

    def open(self) -> Sequence[Disk]:
        """Make the directory, or see whose it is, and lock it. Raises UnusableDirectory."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as refused:
            raise UnreadableDirectory(f"{self.path}: {refused.strerror}") from None
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
        except OSError as refused:
            self.release()
            raise UnreadableDirectory(f"{self.path}: {refused.strerror}") from None
        except UnusableDirectory:
            self.release()
            raise
        return [disk]

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
        """A number above that of the process before, on disk before it is used."""
        return _begin([self])

    @property
    def directory_id(self) -> str:
        """Its `directory.id`; empty where brokers before KIP-858 wrote none."""
        return properties_of(self.path).get("directory.id", "")

    def last_process(self) -> Mapping[str, Any] | None:
        """The process that ran here last, as it wrote itself down; None for a new directory."""
        assert self._disk is not None
        if PROCESS not in self._disk.list_files(""):
            return None
        return orjson.loads(read_file(self._disk, PROCESS))

    def begin_as(self, incarnation: int, directories: Sequence[str]) -> None:
        """The process with this number begins, and keeps logs in these directories."""
        self._incarnation, self._directories = incarnation, directories
        self.registered(-1)

    def registered(self, broker_epoch: int) -> None:
        """Write the process down: its number, its broker epoch, its directories, and in which boot
        it runs.
        """
        assert self._disk is not None
        process = {
            "incarnation": self._incarnation,
            "boot_id": named_boot(),
            "broker_epoch": broker_epoch,
            "directories": self._directories,
        }
        replace_file(self._disk, PROCESS, orjson.dumps(process))


@define(eq=False)
class SeveralDirectories:
    """The directories of one broker, as `log.dirs` names them (KIP-112)."""

    directories: Sequence[FileDirectory]
    #: Those that can be read
    _serving: Sequence[FileDirectory] = field(default=(), init=False)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, which is that of each."""
        return self.directories[0].cluster_id

    def places(self) -> Sequence[Place]:
        """Each directory, in the order of `log.dirs`."""
        return [place for one in self.directories for place in one.places()]

    def open(self) -> Sequence[Disk]:
        """Lock all that can be read, or none. Raises UnusableDirectory, also for a log in two."""
        disks: list[Disk] = []
        serving: list[FileDirectory] = []
        why: UnreadableDirectory | None = None
        try:
            for one in self.directories:
                try:
                    disks += one.open()
                    serving.append(one)
                except UnreadableDirectory as unreadable:
                    disks.append(GoneDisk(reason=str(unreadable)))
                    why = unreadable
            if why is not None and not serving:
                raise why
            self._check_apart(disks)
        except (OSError, UnusableDirectory):
            self.release()
            raise
        self._serving = serving
        return disks

    def _check_apart(self, disks: Sequence[Disk]) -> None:
        found: dict[str, Path] = {}
        for one, disk in zip(self.directories, disks, strict=True):
            for folder in disk.folders():
                if folder in found:
                    places = f"{found[folder]} and {one.path}"
                    raise UnusableDirectory(f"{folder} is in two log directories: {places}")
                found[folder] = one.path

    def release(self) -> None:
        """Close all files and give the directories free."""
        for one in self.directories:
            one.release()

    def begin(self) -> Begun:
        """A number above that of the process before, on every disk before it is used."""
        return _begin(self._serving, are_all=len(self._serving) == len(self.directories))

    def registered(self, broker_epoch: int) -> None:
        """Write the process down in every directory that can still be written."""
        for one in self._serving:
            with suppress(OSError):
                one.registered(broker_epoch)


def directories_in(paths: Sequence[Path], node_id: int, cluster_id: str) -> Directory:
    """The log directories of one broker at these paths."""
    each = [FileDirectory(path, node_id, cluster_id) for path in paths]
    return each[0] if len(each) == 1 else SeveralDirectories(each)


def _begin(directories: Sequence[FileDirectory], *, are_all: bool = True) -> Begun:
    """Begin a process in these directories.

    Nothing was lost only if all of them say so of the same process, and no directory is gone that
    it had: its logs would be made anew, and empty. One that cannot be read is remembered, because
    a later process may be given other directories in its place. The clock gives the number: a disk
    that was emptied, or put back from a copy, must not make the next process look like an earlier
    one. If the clock went back, the number before gives it.
    """
    lasts = [last for one in directories if (last := one.last_process()) is not None]
    ids = [one.directory_id for one in directories]
    found = LogDirectories.of(ids, map(_memory, lasts))
    incarnation = max([_clock_us(), *(last["incarnation"] + 1 for last in lasts)])
    before = [] if are_all else [one for last in lasts for one in last.get("directories", ())]
    for one in directories:
        one.begin_as(incarnation, list(dict.fromkeys([*ids, *before])))
    return Begun(incarnation, found.survived, found.are_whole)


def _memory(last: Mapping[str, Any]) -> Memory:
    """A directory's memory of its last process. What that wrote may be lost with another boot."""
    same_boot = last["boot_id"] == named_boot() != ""
    epoch = last["broker_epoch"] if same_boot else -1
    return Memory(epoch, frozenset(last.get("directories", ())))


def _clock_us() -> int:
    return time.time_ns() // 1_000


def properties_of(path: Path) -> dict[str, str]:
    """The meta.properties of a directory; empty if there is none, or if it cannot be read.

    Raises UnusableDirectory for one that is damaged.
    """
    disk = FileDisk(path)
    try:
        if not path.is_dir() or META_PROPERTIES not in disk.list_files(""):
            return {}
        return read_meta_properties(disk)
    except OSError:
        return {}
    except StorageDamage as damage:
        raise UnusableDirectory(f"{path}: {damage}") from None
    finally:
        disk.close()
