"""A coordinator's store: groups, offsets, and the partitions for which a group ever committed."""

from refimpl.groups.classic_records import record_of, tombstone_of
from refimpl.groups.offsets import OFFSET_COMMIT, tombstone
from refimpl.groups.store import GroupStore
from refimpl.machines.classic_group import ClassicGroup
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    CoordinatorRecord,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordType,
)
from refimpl.records.transactional import InTransaction, TransactionEnd
from tests.refimpl.groups.coordinating import NOW, Log, elected

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def new_store() -> GroupStore:
    return elected(Log()).shard.store


def commit(offset: int, name: TopicPartition = T0, group: str = "g") -> CoordinatorRecord:
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=NOW)
    return CoordinatorRecord(OFFSET_COMMIT, OffsetCommitKey(group, *name), value)


def test_a_record_of_a_type_that_nobody_knows_says_nothing() -> None:
    store = new_store()
    unknown = RecordType(99, GroupMetadataKey, OffsetCommitValue)
    store.replay(CoordinatorRecord(unknown, GroupMetadataKey("g"), commit(1).value))
    assert store.group_ids() == []


def test_partitions_are_known_as_long_as_something_is_committed_of_them() -> None:
    store = new_store()
    store.replay(commit(1))
    store.replay(commit(2, T1))
    assert {group: list(names) for group, names in store.partitions.items()} == {"g": [T0, T1]}
    store.replay(tombstone("g", T0))
    assert list(store.partitions["g"]) == [T1]
    store.replay(tombstone("g", T1))
    assert store.partitions == {}
    store.replay(tombstone("g", T1))
    assert store.partitions == {}, "a tombstone of nothing"


def test_what_is_deleted_by_a_record_that_may_be_cut_off_is_known_until_that_is_committed() -> None:
    store = new_store()
    store.replay(commit(1))
    store.replay(tombstone("g", T0), 5)
    assert list(store.offsets_of("g")) == []
    assert [value.offset for _, value in store.offsets_of("g", committed=True)] == [1]
    assert (store.is_simple("g"), store.is_simple("g", committed=True)) == (False, True)
    store.commit(6)
    assert "g" in store.partitions
    assert list(store.offsets_of("g", committed=True)) == []
    assert store.partitions == {}, "whoever looks tidies up"


def test_what_is_cut_off_was_never_said() -> None:
    store = new_store()
    store.replay(commit(1))
    store.replay(commit(2), 5)
    store.replay(record_of("c", ClassicGroup(since=NOW)), 6)
    assert [value.offset for _, value in store.offsets_of("g")] == [2]
    store.replay(InTransaction(commit(3, T1), 7), 7)
    assert store.groups.get("c") is not None
    assert store.unstable_of("g") == [T1]
    store.revert(5)
    assert [value.offset for _, value in store.offsets_of("g")] == [1]
    assert store.groups.get("c") is None
    assert store.unstable_of("g") == []


def test_groups_are_those_with_a_value_and_those_with_offsets_as_written_or_as_committed() -> None:
    store = new_store()
    store.replay(record_of("old", ClassicGroup(since=NOW)))
    store.replay(commit(1, group="simple"))
    store.replay(tombstone_of("old"), 5)
    store.replay(record_of("new", ClassicGroup(since=NOW)), 6)
    store.replay(commit(1, group="later"), 7)
    assert sorted(store.group_ids()) == ["later", "new", "simple"]
    assert sorted(store.group_ids(committed=True)) == ["old", "simple"]
    store.commit(8)
    assert sorted(store.group_ids(committed=True)) == ["later", "new", "simple"]


def test_a_transaction_holds_nothing_but_offsets() -> None:
    store = new_store()
    store.replay(InTransaction(record_of("c", ClassicGroup(since=NOW)), 7))
    store.replay(TransactionEnd(7, True))
    assert store.group_ids() == []


def test_a_simple_group_whose_last_offset_was_deleted_by_request_is_still_one() -> None:
    store = new_store()
    store.replay(commit(1))
    store.replay(tombstone("g", T0))
    assert store.group_ids() == []
    store.emptied["g"] = None
    assert store.group_ids() == store.group_ids(committed=True) == ["g"]
