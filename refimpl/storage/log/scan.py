"""Iteration over the batches of a segment file, by headers alone or with every byte checked."""

from collections.abc import Iterator

from refimpl.errors import CorruptBatch
from refimpl.storage.disk.interface import Disk
from refimpl.storage.format.batch import (
    HEADER_SIZE,
    BatchHeader,
    crc_matches,
    read_header,
)

BLOCK = 4096 + HEADER_SIZE
_CHUNK = 1 << 20


def headers(
    disk: Disk, path: str, position: int, end: int, block: int = BLOCK
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from this position on.

    Blocks of an index interval are read, and large batches are skipped.
    """
    data, start = b"", position
    while position < end:
        at = position - start
        if (len(data) - at < HEADER_SIZE and start + len(data) < end) or at > len(data):
            data, start, at = disk.read(path, position, min(block, end - position)), position, 0
        header = read_header(data, at)
        if position + header.size > end:
            raise CorruptBatch(f"a batch of {header.size} bytes, where {end - position} are left")
        yield position, header
        position += header.size


def whole_batches(
    disk: Disk, path: str, position: int, end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch, its CRC checked.

    Raises at the first damage, after all batches before it.
    """
    data, start = memoryview(b""), position
    while position < end:
        at = position - start
        if len(data) - at < HEADER_SIZE and start + len(data) < end:
            data, start, at = memoryview(disk.read(path, position, _CHUNK)), position, 0
        header = read_header(data, at)
        size = header.size
        if size > end - position:
            raise CorruptBatch(f"a batch of {size} bytes, where {end - position} are left")
        if size > len(data) - at:
            wanted = max(size, _CHUNK)
            data, start, at = memoryview(disk.read(path, position, wanted)), position, 0
        if not crc_matches(data, header, at):
            raise CorruptBatch("a batch whose CRC does not match its bytes")
        yield position, header, data[at : at + size]
        position += size
