"""Files that an interrupted deletion, compaction or checkpoint left behind.

`.deleted`, `.cleaned` and `.tmp` files were not finished and are deleted. `.swap` files were
finished but for their names, and replace the segments that they were made from (KAFKA-6264).
"""

from collections.abc import Collection

from refimpl.errors import CorruptFile, RefusedBatch
from refimpl.storage.disk.interface import Disk
from refimpl.storage.log.local_log import DELETED
from refimpl.storage.log.scan import headers
from refimpl.storage.log.segment import INDEX, LOG, TIME_INDEX, TXN_INDEX

CLEANED, SWAP, TEMPORARY = ".cleaned", ".swap", ".tmp"


def finish_leftovers(disk: Disk, folder: str) -> dict[str, int]:
    """Finish or delete leftovers in a partition's folder; return the log's files with their
    sizes.
    """
    sizes = disk.list_files(folder)
    cleaned = [_base(name) for name in sizes if name.endswith(CLEANED)]
    split_at = min(cleaned, default=2**63)
    # A `.cleaned` file shows that its `.swap` is not complete, so it must not go before that.
    doomed = [name for name in sizes if name.endswith(SWAP) and _base(name) >= split_at]
    doomed += [name for name in sizes if name.endswith((DELETED, CLEANED, TEMPORARY))]
    _delete(disk, folder, doomed)
    swaps = [name for name in sizes if name.endswith(SWAP) and name not in doomed]
    if swaps:
        _delete(disk, folder, _replaced(disk, folder, sizes, swaps))
        for name in swaps:
            disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP)}")
        disk.flush_folder(folder)
    if doomed or swaps:
        sizes = disk.list_files(folder)
    orphans = [
        name
        for name in sizes
        if name.endswith((INDEX, TIME_INDEX, TXN_INDEX)) and f"{name[:20]}{LOG}" not in sizes
    ]
    _delete(disk, folder, orphans)
    return {name: size for name, size in sizes.items() if name not in orphans}


def _replaced(disk: Disk, folder: str, sizes: dict[str, int], swaps: Collection[str]) -> list[str]:
    """The segments whose offsets the swapped ones cover."""
    logs = [name for name in swaps if name.endswith(LOG + SWAP)]
    if not logs:
        return []
    start = min(map(_base, logs))
    end = start
    for name in logs:
        path, position = f"{folder}/{name}", 0
        try:
            for at, header in headers(disk, path, 0, sizes[name]):
                end, position = max(end, header.next_offset), at + header.size
        except RefusedBatch as damage:
            raise CorruptFile(path, position, damage.why) from None
    parts = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
    return [name for name in sizes if name.endswith(parts) and start <= _base(name) < end]


def _base(name: str) -> int:
    return int(name[:20])


def _delete(disk: Disk, folder: str, names: Collection[str]) -> None:
    for name in names:
        disk.delete(f"{folder}/{name}")
