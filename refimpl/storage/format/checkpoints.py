"""The small text files around a log: checkpoints, ids, and the clean shutdown mark.

A checkpoint is a version, a count and a line per entry. Each file is replaced as a whole, so that a
crash leaves the old one or the new one (KIP-101, KIP-516, KIP-858, KIP-966).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence

import orjson

from refimpl.errors import CorruptFile, UnsupportedFormat
from refimpl.storage.disk.interface import Disk, read_file, replace_file, replace_files

LEADER_EPOCHS = "leader-epoch-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

Partition = tuple[str, int]
_VERSION = 0


def write_checkpoint(disk: Disk, path: str, lines: Sequence[str]) -> None:
    """Write a checkpoint: version, count, and a line per entry."""
    replace_file(disk, path, _checkpoint(lines))


def _checkpoint(lines: Sequence[str]) -> bytes:
    text = "\n".join((str(_VERSION), str(len(lines)), *lines))
    return f"{text}\n".encode()


def read_checkpoint(disk: Disk, path: str, fields: int) -> list[tuple[list[str], int]]:
    """The entries' fields, each with the position of its line."""
    content = read_file(disk, path)
    if not content:
        return []  # Kafka creates the file before it has an entry, and may be killed then
    entries: list[tuple[list[str], int]] = []
    position = 0
    for line in content.split(b"\n")[: content.count(b"\n")]:
        try:
            entries.append((line.decode("ascii").split(" "), position))
        except UnicodeDecodeError:
            raise CorruptFile(path, position, "no text, where a checkpoint has lines") from None
        position += len(line) + 1
    if len(entries) < 2:
        raise CorruptFile(path, position, "the end, where a checkpoint has version and count")
    version, count = (_number(path, words[-1], at) for words, at in entries[:2])
    if version != _VERSION:
        raise UnsupportedFormat(path, 0, f"a checkpoint of version {version}, not {_VERSION}")
    if len(entries) - 2 != count:
        raise CorruptFile(path, position, f"{len(entries) - 2} entries, where {count} are promised")
    for words, at in entries[2:]:
        if len(words) != fields:
            raise CorruptFile(path, at, f"{len(words)} fields in a line, not {fields}")
    return entries[2:]


def write_offsets(disk: Disk, path: str, offsets: Mapping[Partition, int]) -> None:
    """Write an offset per partition, as in the three checkpoints of a log directory."""
    ordered = sorted(offsets.items())
    write_checkpoint(disk, path, [f"{topic} {part} {offset}" for (topic, part), offset in ordered])


def read_offsets(disk: Disk, path: str) -> dict[Partition, int]:
    """Read an offset per partition."""
    return {
        (topic, _number(path, part, at)): _number(path, offset, at)
        for (topic, part, offset), at in read_checkpoint(disk, path, fields=3)
    }


def write_epochs(disk: Disk, path: str, epochs: Iterable[tuple[int, int]]) -> None:
    """Write the start offset of each leader epoch."""
    replace_file(disk, path, epochs_checkpoint(epochs))


def epochs_checkpoint(epochs: Iterable[tuple[int, int]]) -> bytes:
    """The content of a leader-epoch-checkpoint."""
    return _checkpoint([f"{epoch} {start}" for epoch, start in epochs])


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """Read the start offset of each leader epoch."""
    return [
        (_number(path, epoch, at), _number(path, start, at))
        for (epoch, start), at in read_checkpoint(disk, path, fields=2)
    ]


def write_partition_metadata(disk: Disk, topic_ids: Mapping[str, bytes]) -> None:
    """Write each folder's topic id: a name can be used again, an id cannot (KIP-516).

    The folders survive a crash from then on.
    """
    files = {
        f"{folder}/{PARTITION_METADATA}": f"version: 0\ntopic_id: {_to_text(topic_id)}".encode()
        for folder, topic_id in topic_ids.items()
    }
    replace_files(disk, files, [""])


def read_partition_metadata(disk: Disk, folder: str) -> bytes:
    """The topic id of a folder."""
    path = f"{folder}/{PARTITION_METADATA}"
    fields = _properties(read_file(disk, path), ": ")
    version, topic_id = fields.get("version"), fields.get("topic_id")
    if version is None or topic_id is None:
        raise CorruptFile(path, 0, "no `version: ` and `topic_id: ` lines")
    if version != "0":
        raise UnsupportedFormat(path, 0, f"version {version}, not 0")
    try:
        return urlsafe_b64decode(f"{topic_id}==")
    except ValueError:
        raise CorruptFile(path, 0, f"{topic_id!r}, where a topic id has 22 letters") from None


def write_meta_properties(disk: Disk, properties: Mapping[str, str]) -> None:
    """Write the owner of a log directory; version 1 has cluster.id, node.id and directory.id
    (KIP-858).
    """
    lines = [f"{key}={value}" for key, value in sorted(properties.items())]
    replace_file(disk, META_PROPERTIES, "\n".join(["#", *lines, ""]).encode())


def read_meta_properties(disk: Disk) -> dict[str, str]:
    """The owner of a log directory: its meta.properties."""
    found = _properties(read_file(disk, META_PROPERTIES), "=")
    if (version := found.get("version")) not in ("0", "1"):
        raise UnsupportedFormat(META_PROPERTIES, 0, f"version {version}, neither 0 nor 1")
    return found


def write_clean_shutdown(disk: Disk, broker_epoch: int = -1) -> None:
    """Write the mark that everything is on disk, with the broker epoch (KIP-966)."""
    mark = orjson.dumps({"version": 0, "brokerEpoch": broker_epoch})
    replace_file(disk, CLEAN_SHUTDOWN, mark)


def take_clean_shutdown(disk: Disk) -> bool:
    """True if the last shutdown was clean; the mark is deleted for good before anything else."""
    if CLEAN_SHUTDOWN not in disk.list_files(""):
        return False
    disk.delete(CLEAN_SHUTDOWN)
    disk.flush_folder("")
    return True


def _to_text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def _properties(content: bytes, separator: str) -> dict[str, str]:
    lines = content.decode(errors="replace").splitlines()
    pairs = (line.partition(separator) for line in lines if not line.startswith("#"))
    return {key.strip(): value.strip() for key, found, value in pairs if found}


def _number(path: str, text: str, position: int) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptFile(path, position, f"{text!r}, where a number should be") from None
