"""Rules of the cleaner that no history of the property tests is sure to meet."""

from collections import deque
from collections.abc import Mapping

import pytest
from attrs import evolve

from refimpl.machines.producer import Producer
from refimpl.storage.cleaner.batch_filter import BatchFilter
from refimpl.storage.cleaner.cleaned_transactions import CleanedTransactions
from refimpl.storage.cleaner.compaction import compact
from refimpl.storage.cleaner.offset_map import OffsetMap
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import Record, batches, encode_batch, read_header
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.format.legacy import records_at
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.storage.log.recovery import open_log
from tests.refimpl.storage.cleaner.compacted import CONFIG, FOLDER
from tests.refimpl.storage.format.independent import legacy_written_by_others

ID, EPOCH = 7, 3


def marker(offset: int, *, epoch: int = EPOCH, committed: bool = False) -> bytes:
    return encode_marker(
        EndTxnMarker(committed, 0),
        producer_id=ID,
        producer_epoch=epoch,
        timestamp=0,
        offset=offset,
    )


def transactional(offset: int) -> bytes:
    return encode_batch(
        [Record(0, 0, b"k", b"v")],
        base_offset=offset,
        producer_id=ID,
        producer_epoch=EPOCH,
        base_sequence=0,
        transactional=True,
    )


@pytest.mark.parametrize(("epoch", "stays"), [(EPOCH, True), (EPOCH - 1, False)])
def test_the_newest_marker_of_a_producer_without_batches_stays_for_its_epoch(
    epoch: int, stays: bool
) -> None:
    """Its state is the epoch, by which an older process is fenced after the next start."""
    producers: Mapping[int, Producer] = {ID: Producer(epoch=EPOCH, seen=deque())}
    rules = BatchFilter(OffsetMap(), CleanedTransactions(), producers, 100, 0, end_offset=50)
    batch = marker(10, epoch=epoch)
    due = with_horizon_over(batch)
    left = rules.cleaned(read_header(due), due)
    assert (left is not None) == stays
    assert left is None or list(records_at(left, 0, read_header(bytes(left)))) == []


def with_horizon_over(batch: bytes) -> bytes:
    """The marker as an earlier round has left it: its delete horizon is over."""
    header = read_header(batch)
    return encode_batch(
        list(records_at(batch, 0, header)),
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        transactional=True,
        control=True,
        delete_horizon_ms=1,
    )


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_may_go_once_the_records_of_its_own_transaction_are_gone(committed: bool) -> None:
    """Those of the transaction before have a marker of their own."""
    transactions = CleanedTransactions()
    if not committed:
        transactions.expect([AbortedTxn(10, 11, ID, 12)])
    records, first, second = transactional(10), marker(11, committed=committed), marker(20)
    transactions.discards(read_header(records), records)
    assert not transactions.discards(read_header(first), first)
    assert transactions.discards(read_header(second), second)


def old_log(*times: int) -> MemoryDisk:
    """A segment of format v1 for each time; the first holds a tombstone, the last is active."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    for offset, time in enumerate(times):
        record = Record(0, time, b"%d" % offset, None if offset == 0 else b"v")
        message = legacy_written_by_others([record], 1, Codec.NONE)
        placed = offset.to_bytes(8) + message[8:]
        disk.append(f"{FOLDER}/{offset:020}.log", placed)
    return disk


@pytest.mark.parametrize(("retention_ms", "stays"), [(49, False), (50, False), (51, True)])
def test_an_old_tombstone_goes_by_the_age_of_the_last_clean_segment(
    retention_ms: int, stays: bool
) -> None:
    """The clean part ends with time 150, and the tombstone has time 100."""
    config = evolve(CONFIG, delete_retention_ms=retention_ms)
    log = open_log(old_log(100, 150, 1_000, 1_000), FOLDER, config, 2_000, clean=False)
    log.advance_high_watermark(log.end_offset)
    compact(log, 2, 2_000)
    _, first = next(batches(log.read(0, 10_000)))
    assert first.base_offset == (0 if stays else 1)
