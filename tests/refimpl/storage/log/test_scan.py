"""Batches that are read in blocks: none is missed, and none is damaged by where a block ends."""

from itertools import accumulate

import pytest

from refimpl.errors import CorruptBatch
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.log.scan import headers, whole_batches

PATH = "orders-0/0.log"


@pytest.mark.parametrize("sizes", [[400_000] * 6, [10, 1_500_000, 10], [2_000_000, 2_000_000]])
@pytest.mark.parametrize("block", [100, 1 << 20])
def test_batches_above_a_block_come_whole(sizes: list[int], block: int) -> None:
    disk = MemoryDisk()
    disk.make_folder("orders-0")
    written = [encode_batch([Record(0, 1_000, b"k", bytes(size))]) for size in sizes]
    disk.append(PATH, *written)
    end = disk.size(PATH)
    starts = [0, *accumulate(map(len, written))][:-1]
    found = [*whole_batches(disk, PATH, 0, end)]
    assert [position for position, _, _ in found] == starts
    assert [bytes(data) for *_, data in found] == written
    assert [position for position, _ in headers(disk, PATH, 0, end, block)] == starts
    with pytest.raises(CorruptBatch, match="are left"):
        list(whole_batches(disk, PATH, 0, end - 1))
