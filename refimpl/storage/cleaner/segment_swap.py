"""The replacement of segments by the cleaned segment that was made from them.

File names show a restart how far the replacement came (KAFKA-6264, `leftovers` reads them).
`.cleaned` is unfinished and is deleted; `.swap` is complete and replaces the segments whose offsets
it covers. Bytes and names of one step are flushed before the next step begins.
"""

from collections.abc import Sequence

from attrs import define

from refimpl.storage.disk.interface import Buffer, Disk
from refimpl.storage.log.leftovers import CLEANED, SWAP
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.segment import Segment


@define(eq=False)
class CleanedFiles:
    """A view of a disk on which every file's name ends with `.cleaned`."""

    disk: Disk

    def append(self, path: str, *parts: Buffer) -> None:
        """See `Disk`."""
        self.disk.append(path + CLEANED, *parts)

    def overwrite(self, path: str, content: Buffer) -> None:
        """See `Disk`."""
        self.disk.overwrite(path + CLEANED, content)

    def read(self, path: str, position: int, length: int) -> bytes:
        """See `Disk`."""
        return self.disk.read(path + CLEANED, position, length)

    def size(self, path: str) -> int:
        """See `Disk`."""
        return self.disk.size(path + CLEANED)

    def flush(self, path: str) -> None:
        """See `Disk`."""
        self.disk.flush(path + CLEANED)

    def truncate(self, path: str, size: int) -> None:
        """See `Disk`."""
        self.disk.truncate(path + CLEANED, size)

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        self.disk.rename(old + CLEANED, new + CLEANED)

    def delete(self, path: str) -> None:
        """See `Disk`."""
        self.disk.delete(path + CLEANED)

    def list_files(self, folder: str) -> dict[str, int]:
        """The files with the ending `.cleaned`, without it."""
        return {
            name.removesuffix(CLEANED): size
            for name, size in self.disk.list_files(folder).items()
            if name.endswith(CLEANED)
        }

    def folders(self) -> list[str]:
        """See `Disk`."""
        return self.disk.folders()

    def make_folder(self, folder: str) -> None:
        """See `Disk`."""
        self.disk.make_folder(folder)

    def delete_folder(self, folder: str) -> None:
        """See `Disk`."""
        self.disk.delete_folder(folder)

    def flush_folder(self, folder: str) -> None:
        """See `Disk`."""
        self.disk.flush_folder(folder)

    def flush_together(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """See `Disk`."""
        self.disk.flush_together([path + CLEANED for path in files], folders)


def new_cleaned_segment(log: LocalLog, base_offset: int, now_ms: int) -> Segment:
    """An empty segment beside the log; leftovers of an earlier attempt are removed."""
    files = CleanedFiles(log.disk)
    for name in files.list_files(log.folder):
        files.delete(f"{log.folder}/{name}")
    return Segment.create(files, log.folder, base_offset, log.config, now_ms)


def swap_in(log: LocalLog, old: Sequence[Segment], cleaned: Segment, now_ms: int) -> None:
    """Replace consecutive segments by the cleaned one."""
    cleaned.close()
    disk, folder, names = log.disk, log.folder, cleaned.files()
    disk.flush_folder(folder)
    for name in names:
        disk.rename(name + CLEANED, name + SWAP)
    disk.flush_folder(folder)
    log.remove(old, now_ms)
    for name in names:
        disk.rename(name + SWAP, name)
    disk.flush_folder(folder)
    sizes = disk.list_files(folder)
    base = cleaned.base_offset
    segment = Segment.open(disk, folder, base, log.config, old[-1].created_ms, sizes)
    segment.txn_index.take(cleaned.txn_index.entries())
    first = log.segments.index(old[0])
    log.segments[first : first + len(old)] = [segment]
