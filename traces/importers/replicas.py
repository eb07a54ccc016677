"""Find the logs of replicas: log directories of brokers, and the files beside the logs."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from refimpl.errors import StorageDamage
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    Partition,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
)
from refimpl.storage.format.logfile import base_offset_of
from traces.model.problems import Problems

_FOLDER = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_CHECKPOINTS = (HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS)
_LEAVING = ("-delete", "-future", "-stray")


@frozen
class Replica:
    """The log of one partition on one broker, and its broker's checkpoints of it."""

    node: int
    topic: str
    partition: int
    segments: tuple[Path, ...]
    topic_id: str | None
    high_watermark: int | None
    log_start: int
    #: From here on what is torn is what a crash leaves, and what recovery would cut.
    safe_until: int | None

    @property
    def name(self) -> str:
        """As a trace names a partition."""
        return f"{self.topic}:{self.partition}"


@frozen
class Broker:
    """One log directory of one broker."""

    root: Path
    node: int
    clean: bool
    offsets: dict[str, dict[Partition, int]]

    def replica(self, folder: Path, topic: str, partition: int) -> Replica:
        """Describe the log in one folder."""
        segments = sorted(folder.glob("*.log"), key=base_offset_of)
        known = {name: at.get((topic, partition)) for name, at in self.offsets.items()}
        first = base_offset_of(segments[0]) if segments else 0
        crashed = not self.clean and RECOVERY_POINTS in self.offsets
        return Replica(
            node=self.node,
            topic=topic,
            partition=partition,
            segments=tuple(segments),
            topic_id=_topic_id(folder),
            high_watermark=known.get(HIGH_WATERMARKS),
            log_start=max(first, known.get(LOG_STARTS) or 0),
            safe_until=(known.get(RECOVERY_POINTS) or 0) if crashed else None,
        )


def replicas(
    folders: Iterable[Path], wanted: Iterable[str], problems: Problems
) -> Iterator[Replica | str]:
    """Every log in these folders, or, as text, what was passed over and why.

    A folder is a log directory, or the folder of one partition in it. Internal topics are read
    only if they are among the `wanted` ones.
    """
    topics = frozenset(wanted)
    for given in folders:
        one = _FOLDER.fullmatch(given.name) and any(given.glob("*.log"))
        root = given.parent if one else given
        try:
            broker = _broker(root.resolve(), problems)
        except StorageDamage as damage:
            problems.add(str(root / damage.path), None, f"byte {damage.position}", damage.found)
            continue
        inside = [given] if one else sorted(path for path in root.iterdir() if path.is_dir())
        if broker is None:
            continue
        if not any(_FOLDER.fullmatch(path.name) for path in inside):
            problems.add(str(given), None, "", "expected folders of partitions, such as orders-0")
        for folder in inside:
            yield from _inside(broker, folder, topics, problems)


def _inside(
    broker: Broker, folder: Path, topics: frozenset[str], problems: Problems
) -> Iterator[Replica | str]:
    found = _FOLDER.fullmatch(folder.name)
    if folder.name.endswith(_LEAVING):
        yield "folders of partitions that come or go (-delete, -future, -stray)"
    elif found is None:
        yield "folders that are no partition's"
    elif topics and found[1] not in topics:
        yield "partitions of topics that were not asked for"
    elif not topics and found[1].startswith("__"):
        yield "partitions of internal topics (--topic asks for them)"
    else:
        unfinished = [path for path in folder.iterdir() if path.suffix in (".swap", ".cleaned")]
        if unfinished:
            message = "compaction was interrupted here: start and stop the broker first"
            problems.add(str(min(unfinished)), None, "", message)
        try:
            yield broker.replica(folder, found[1], int(found[2]))
        except StorageDamage as damage:
            problems.add(damage.path, None, f"byte {damage.position}", damage.found)


def _broker(root: Path, problems: Problems) -> Broker | None:
    files = {name: root / name for name in (*_CHECKPOINTS, META_PROPERTIES)}
    disk = MemoryDisk(
        {name: bytearray(path.read_bytes()) for name, path in files.items() if path.is_file()}
    )
    node = _node(disk, root)
    if node is None:
        message = f"expected {META_PROPERTIES} with node.id, or a name that ends in the broker's id"
        problems.add(str(root), None, "", message)
        return None
    offsets = {name: read_offsets(disk, name) for name in _CHECKPOINTS if name in disk.files}
    return Broker(root, node, (root / CLEAN_SHUTDOWN).exists(), offsets)


def _node(disk: MemoryDisk, root: Path) -> int | None:
    properties = read_meta_properties(disk) if META_PROPERTIES in disk.files else {}
    digits = properties.get("node.id") or properties.get("broker.id") or ""
    if not digits:
        ending = re.search(r"(\d+)$", root.name)
        digits = ending[1] if ending else ""
    return int(digits) if digits.isdecimal() else None


def _topic_id(folder: Path) -> str | None:
    file = folder / PARTITION_METADATA
    if not file.is_file():
        return None
    path = f"{folder.name}/{PARTITION_METADATA}"
    disk = MemoryDisk({path: bytearray(file.read_bytes())}, {folder.name})
    return urlsafe_b64encode(read_partition_metadata(disk, folder.name)).decode().rstrip("=")
