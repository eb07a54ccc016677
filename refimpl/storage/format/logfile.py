"""A log file for tools: read from the start, batch by batch, without recovery."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

from refimpl.errors import (
    CorruptBatch,
    CorruptFile,
    UnsupportedFormat,
    UnsupportedForMessageFormat,
)
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import LOG_OVERHEAD, MAGIC_AT, BatchHeader, read_header


def base_offset_of(path: Path) -> int:
    """The offset in the name of a segment's file."""
    digits = path.name.partition(".")[0]
    if not digits.isdecimal():
        raise CorruptFile(str(path), 0, "its name does not begin with an offset")
    return int(digits)


def mapped(path: Path) -> memoryview:
    """The file's bytes, loaded only when they are read; released with the last slice."""
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return memoryview(b"")
        return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))


@contextmanager
def placed_at(path: Path, position: int) -> Generator[None]:
    """Report damage that is found in here as damage of this file, at this position."""
    try:
        yield
    except UnsupportedForMessageFormat as newer:
        raise UnsupportedFormat(str(path), position, newer.why) from None
    except CorruptBatch as broken:
        raise CorruptFile(str(path), position, broken.why) from None


def batches_of(path: Path, data: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; a torn one at the end is left to the caller."""
    while len(data) - position > MAGIC_AT:
        size = LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + 12], signed=True)
        if position + size > len(data) and size > LOG_OVERHEAD:
            return
        with placed_at(path, position):
            header = read_header(data, position)
        yield position, header
        position += header.size
