"""Coordinators' records as a load reads them: the values that count, and those that may still."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.errors import CorruptBatch
from refimpl.groups.store import GroupStore
from refimpl.machines.producer import Batch
from refimpl.machines.replica_log import Origin
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    write_record,
)
from refimpl.records.schema import NO_ID
from refimpl.records.share_groups import ShareUpdateKey, ShareUpdateValue
from refimpl.records.transactional import Entry, InTransaction, TransactionEnd
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.format.record import Record
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.replica.files import PartitionReplicaLog
from refimpl.storage.replica.transactional import Writer

OFFSET, ALL = GROUP_RECORDS[1], 1 << 30
PLACES = [("g", TopicPartition("t", partition)) for partition in range(2)]


def a_log(topic: str = "__consumer_offsets") -> PartitionReplicaLog:
    directory = LogDir.open(MemoryDisk(), 0)
    return PartitionReplicaLog(directory.create((topic, 0), bytes(16), 0), lambda: 0)


def commit(partition: int, number: int | None) -> CoordinatorRecord:
    """An offset of the group, or its end."""
    key = OffsetCommitKey("g", "t", partition)
    if number is None:
        return CoordinatorRecord(OFFSET, key)
    value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=0)
    return CoordinatorRecord(OFFSET, key, value, 3)


def plain(log: PartitionReplicaLog, *records: CoordinatorRecord) -> None:
    log.append(1, log.keyed_batch(records, 0), Origin.COORDINATOR)


def pending(log: PartitionReplicaLog, record: CoordinatorRecord, producer_id: int = 7) -> None:
    guard = log.producers.start_verification(Batch(producer_id, 0, -1, -1, True, 1), 0)
    batch = log.keyed_batch([record], 0, Writer(producer_id, 0))
    log.append(1, batch, Origin.COORDINATOR, guard=guard)


def ended(log: PartitionReplicaLog, *, committed: bool, producer_id: int = 7) -> None:
    marker = log.marker_batch(Writer(producer_id, 0), EndTxnMarker(committed, 0), 0)
    log.append(1, marker, Origin.COORDINATOR)


def read(
    log: PartitionReplicaLog, committed: int = 0, start: int = 0
) -> Sequence[tuple[int, Entry]]:
    found, end = log.keyed_records(start, log.slice(start, ALL), committed)
    assert end == log.end
    return found


def offsets(found: Sequence[tuple[int, Entry]]) -> list[int]:
    return [offset for offset, _ in found]


def test_a_value_is_left_out_if_a_later_record_that_is_committed_replaces_it() -> None:
    log = a_log()
    plain(log, commit(0, 5), commit(1, 5))
    plain(log, commit(0, 6))
    plain(log, commit(0, None))
    plain(log, commit(0, 7))
    assert offsets(read(log)) == [0, 1, 2, 3, 4]
    assert offsets(read(log, 5)) == [1, 3, 4]  # a tombstone says more than that a value ends
    assert offsets(read(log, 4)) == [1, 3, 4]  # the last one may be truncated
    assert offsets(read(log, 3)) == [1, 2, 3, 4]
    assert offsets(read(log, 5, start=2)) == [3, 4]


def test_records_of_transactions_neither_replace_nor_are_replaced() -> None:
    log = a_log()
    plain(log, commit(0, 5))
    pending(log, commit(0, 6))
    plain(log, commit(1, 5), commit(1, 6))
    ended(log, committed=True)
    assert read(log, 5) == [
        (0, commit(0, 5)),
        (1, InTransaction(commit(0, 6), 7)),
        (3, commit(1, 6)),
        (4, TransactionEnd(7, True)),
    ]


def test_a_share_groups_update_is_not_replaced_by_the_next_one() -> None:
    log = a_log("__share_group_state")
    for number in range(2):
        value = ShareUpdateValue(
            snapshot_epoch=0,
            leader_epoch=0,
            start_offset=number,
            delivery_complete_count=0,
            state_batches=(),
        )
        plain(log, CoordinatorRecord(SHARE_RECORDS[1], ShareUpdateKey("g", NO_ID, 0), value))
    assert offsets(read(log, 2)) == [0, 1]


def test_the_value_that_counts_must_be_readable() -> None:
    """One that is replaced need not be: compaction would not read it either."""
    log = a_log("__transaction_state")
    key, _ = write_record(CoordinatorRecord(TRANSACTION_RECORDS[0], TransactionLogKey("id")))
    log.append(1, encode_batch([Record(0, 0, key, b"\x00\x07")]))
    with pytest.raises(CorruptBatch, match="unknown record version 7"):
        read(log, 1)
    log.append(1, encode_batch([Record(0, 0, key, None)]))
    assert offsets(read(log, 2)) == [1]
    with pytest.raises(CorruptBatch, match="unknown record version 7"):
        read(log, 1)


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(("plain", "plain", "removed", "pending", "committed", "aborted")),
        st.integers(0, 1),
        st.integers(0, 9),
    ),
    max_size=12,
)


def written(story: Sequence[Step]) -> PartitionReplicaLog:
    """A log with these commits of two partitions and of two producers' transactions."""
    log = a_log()
    for what, which, number in story:
        if what in ("committed", "aborted"):
            ended(log, committed=what == "committed", producer_id=7 + which)
        elif what == "pending":
            pending(log, commit(which, number), 7 + number % 2)
        else:
            plain(log, commit(which, number if what == "plain" else None))
    return log


def replayed(log: PartitionReplicaLog, high_watermark: int, left_out_below: int) -> GroupStore:
    store = GroupStore()
    for offset, entry in read(log, left_out_below):
        store.replay(entry, None if offset < high_watermark else offset)
    return store


def seen(store: GroupStore) -> object:
    """All that requests are answered by."""
    return [
        (place, view(place), store.is_unstable(place))
        for view in (store.offsets.get, store.offsets.committed)
        for place in PLACES
    ] + [store.group_ids(committed=committed) for committed in (False, True)]


@given(steps, st.integers(0, 12))
def test_a_load_that_leaves_out_what_is_replaced_ends_in_the_same_state(
    story: list[Step], high_watermark: int
) -> None:
    """Also when all that is above the high watermark is committed, or truncated, afterwards."""
    log = written(story)
    for later in (GroupStore.commit, GroupStore.revert):
        whole, short = (replayed(log, high_watermark, below) for below in (0, high_watermark))
        assert seen(short) == seen(whole)
        for store in (whole, short):
            later(store, log.end if later is GroupStore.commit else high_watermark)
        assert seen(short) == seen(whole)
