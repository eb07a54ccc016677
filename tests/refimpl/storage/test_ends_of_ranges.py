"""Round trips at the ends of every range: epochs, sequences, offsets, times."""

from hypothesis import given
from hypothesis import strategies as st

from refimpl.machines.producer import NONE, Batch, Producer, SeenBatch
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.checkpoints import (
    read_epochs,
    read_offsets,
    write_epochs,
    write_offsets,
)
from refimpl.storage.format.control import EndTxnMarker, encode_marker, read_marker
from refimpl.storage.format.txn_index import AbortedTxn, TxnIndex
from refimpl.storage.log.producer_snapshot import read_snapshot, write_snapshot


def ends(least: int, most: int) -> st.SearchStrategy[int]:
    """Whole numbers of a range, and often its ends and what is next to them."""
    near = (least, least + 1, 0, most - 1, most)
    return st.sampled_from([one for one in near if least <= one <= most]) | st.integers(least, most)


EPOCHS, SEQUENCES, INT32, INT64 = (
    ends(0, 2**15 - 1),
    ends(0, 2**31 - 1),
    ends(0, 2**31 - 1),
    ends(0, 2**63 - 1),
)
COUNTS = ends(1, 2**31 - 1)
NAMES = ("logs", "orders-0")


def disk() -> MemoryDisk:
    return MemoryDisk({}, set(NAMES))


@given(INT64, EPOCHS, SEQUENCES, COUNTS, INT64, INT64, ends(-1, 2**31 - 1), ends(-1, 2**63 - 1))
def test_a_snapshot_keeps_a_producer_and_its_last_batch(
    producer_id: int,
    epoch: int,
    sequence: int,
    count: int,
    offset: int,
    timestamp: int,
    coordinator: int,
    opened: int,
) -> None:
    """Sequences go on with 0 after 2^31 - 1, also within a batch."""
    last_sequence, last = (sequence + count - 1) % 2**31, offset + count - 1
    if last >= 2**63:
        offset, last = 2**63 - count, 2**63 - 1
    batch = SeenBatch(sequence, last_sequence, offset, last, timestamp)
    producer = Producer(epoch, coordinator, opened, None, timestamp)
    producer.seen.append(batch)
    on = disk()
    write_snapshot(on, "orders-0/1.snapshot", ProducerState({producer_id: producer}))
    state = read_snapshot(on, "orders-0/1.snapshot")
    assert state.producers == {producer_id: producer}
    again = Batch(producer_id, epoch, sequence, last_sequence, records=count)
    assert state.duplicate_of(again) == batch


@given(INT64, EPOCHS, ends(-1, 2**31 - 1), INT64)
def test_a_snapshot_keeps_a_producer_without_batches(
    producer_id: int, epoch: int, coordinator: int, timestamp: int
) -> None:
    producer, on = Producer(epoch, coordinator, NONE, None, timestamp), disk()
    write_snapshot(on, "orders-0/1.snapshot", ProducerState({producer_id: producer}))
    assert read_snapshot(on, "orders-0/1.snapshot").producers == {producer_id: producer}


@given(INT64, INT64, INT64, INT64)
def test_the_transaction_index_keeps_aborted_transactions(
    first: int, last: int, producer_id: int, stable: int
) -> None:
    on, aborted = disk(), AbortedTxn(first, last, producer_id, stable)
    TxnIndex(on, "orders-0/0.txnindex").append(aborted)
    size = len(on.files["orders-0/0.txnindex"])
    assert TxnIndex(on, "orders-0/0.txnindex", size).entries() == [aborted]


@given(st.booleans(), ends(-(2**31), 2**31 - 1), INT64, EPOCHS, INT64, INT64)
def test_a_marker_is_read_as_it_was_written(
    committed: bool, coordinator: int, producer_id: int, epoch: int, timestamp: int, offset: int
) -> None:
    marker = EndTxnMarker(committed, coordinator)
    about = {"producer_id": producer_id, "producer_epoch": epoch, "timestamp": timestamp}
    assert read_marker(encode_marker(marker, offset=offset, **about)) == marker


@given(st.lists(st.tuples(INT32, INT64), max_size=4))
def test_leader_epochs_are_read_as_they_were_written(epochs: list[tuple[int, int]]) -> None:
    on = disk()
    write_epochs(on, "orders-0/leader-epoch-checkpoint", epochs)
    assert read_epochs(on, "orders-0/leader-epoch-checkpoint") == epochs


@given(st.dictionaries(st.tuples(st.sampled_from(("a", "b")), INT32), INT64, max_size=4))
def test_checkpoints_are_read_as_they_were_written(offsets: dict[tuple[str, int], int]) -> None:
    on = disk()
    write_offsets(on, "logs/recovery-point-offset-checkpoint", offsets)
    assert read_offsets(on, "logs/recovery-point-offset-checkpoint") == offsets
