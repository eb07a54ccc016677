"""Committed offsets, guard by guard: who may commit, what a fetch shows, what goes and when."""

from typing import Any

import pytest

from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.schema import NO_ID
from tests.refimpl.groups.coordinating import (
    CONFIG,
    HOUR_MS,
    IDS,
    NOW,
    Conversation,
    answers,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LONGEST = CONFIG.offset_metadata_max_bytes


def at(partition: TopicPartition, offset: int, **of: Any) -> m.CommittedPartition:
    known = m.CommittedPartition(partition, offset, topic_id=IDS[partition.topic])
    return known._replace(**of)


# ------------------------------------------------------------------------------ commit


def test_a_commit_writes_down_what_it_says() -> None:
    told = Conversation()
    assert told.commit(at(T0, 7, leader_epoch=3, metadata="here")) == [None]
    record = told.last_record()
    value = record.value
    assert (value.offset, value.leader_epoch, value.metadata) == (7, 3, "here")
    assert (value.commit_timestamp, value.expire_timestamp) == (NOW, -1)
    assert (value.topic_id, record.version) == (IDS["t"], 4)


def test_a_commit_with_a_retention_says_when_it_expires_in_an_older_version() -> None:
    told = Conversation()
    assert told.commit(at(T0, 7, leader_epoch=3), retention_ms=5000) == [None]
    record = told.last_record()
    assert (record.value.expire_timestamp, record.version) == (NOW + 5000, 1)
    assert (record.value.leader_epoch, record.value.topic_id) == (-1, NO_ID)
    (fetched,) = told.ask(m.OffsetFetchRequest("g", None)).partitions
    assert (fetched.leader_epoch, fetched.topic_id) == (-1, NO_ID), "as after a load"


def test_metadata_that_is_too_long_is_a_matter_of_its_partition() -> None:
    told = Conversation()
    longest = at(T0, 1, metadata="x" * LONGEST)
    longer = at(T1, 2, metadata="x" * (LONGEST + 1))
    assert told.commit(longest, longer, at(U0, 3, metadata=None)) == [
        None,
        "OFFSET_METADATA_TOO_LARGE",
        None,
    ]
    fetched = told.ask(m.OffsetFetchRequest("g", None)).partitions
    assert {one.partition: (one.offset, one.metadata) for one in fetched} == {
        T0: (1, "x" * LONGEST),
        U0: (3, ""),
    }


def test_for_a_group_that_is_not_here_only_nobody_commits() -> None:
    told = Conversation()
    named = {"member_id": "a", "generation_id": 0}
    assert told.commit(at(T0, 1), **named) == ["GROUP_ID_NOT_FOUND"]
    assert told.commit(at(T0, 1), **named, knows_member_epochs=False) == ["ILLEGAL_GENERATION"]
    assert told.commit(at(T0, 1)) == [None]
    assert told.commit(at(T0, 2), **named) == ["UNKNOWN_MEMBER_ID"]
    assert told.offsets() == {T0: 1}


def test_of_a_classic_group_only_members_of_this_generation_commit() -> None:
    told = Conversation()
    member = told.join()
    assert told.commit(at(T0, 1)) == ["UNKNOWN_MEMBER_ID"]
    assert told.commit(at(T0, 1), member_id=member, generation_id=0) == ["ILLEGAL_GENERATION"]
    assert told.commit(at(T0, 1), member_id=member, generation_id=1) == [None]


# ------------------------------------------------------------------------------ fetch


def test_a_fetch_shows_what_is_asked_for_and_of_all_the_rest_that_there_is_none() -> None:
    told = Conversation()
    told.commit(at(T0, 7, leader_epoch=2, metadata="m"))
    asked = [(T0, IDS["t"]), (T1, IDS["t"]), (U0, NO_ID)]
    first, *others = told.ask(m.OffsetFetchRequest("g", asked)).partitions
    assert first == m.FetchedOffset(T0, None, 7, 2, "m", IDS["t"])
    assert others == [m.FetchedOffset(T1, topic_id=IDS["t"]), m.FetchedOffset(U0)]
    assert told.ask(m.OffsetFetchRequest("other", None)).partitions == []


def test_an_offset_of_another_topic_of_the_name_is_not_shown() -> None:
    told = Conversation()
    told.commit(at(T0, 7), at(T1, 8, topic_id=NO_ID))

    def shown(partition: TopicPartition, topic_id: Any) -> int:
        (one,) = told.ask(m.OffsetFetchRequest("g", [(partition, topic_id)])).partitions
        return one.offset

    assert shown(T0, IDS["t"]) == 7
    assert shown(T0, IDS["u"]) == -1
    assert shown(T0, NO_ID) == 7, "who asks by the name alone knows no id"
    assert shown(T1, IDS["t"]) == 8, "who committed by the name alone knew none"


@pytest.mark.parametrize("partitions", [None, [(T0, IDS["t"])]])
def test_who_asks_for_stable_offsets_sees_what_is_written_and_waits(partitions: Any) -> None:
    told = Conversation()
    told.commit(at(T0, 7))
    coordinator = told.coordinator
    coordinator.handle(NOW, 5, m.OffsetCommitRequest("g", "", -1, None, [at(T0, 8)]))
    unstable = answers(coordinator.handle(NOW, 6, m.OffsetFetchRequest("g", partitions)))
    assert [one.offset for one in unstable[6].partitions] == [7]
    stable = m.OffsetFetchRequest("g", partitions, require_stable=True)
    assert answers(coordinator.handle(NOW, 7, stable)) == {}
    assert [one.offset for one in answers(coordinator.committed(2))[7].partitions] == [8]


def test_only_members_read_the_offsets_of_a_consumer_group() -> None:
    told = Conversation()
    join = m.ConsumerGroupHeartbeatRequest(
        *("g", "a", 0, None, None, 60_000, ("t",)), topic_partitions=()
    )
    epoch = told.ask(join).member_epoch

    def error(member: str | None, member_epoch: int, *, stable: bool = False) -> str | None:
        request = m.OffsetFetchRequest("g", None, member, member_epoch, require_stable=stable)
        return told.ask(request).error

    for stable in (False, True):
        assert error("a", epoch, stable=stable) is None
        assert error(None, -1, stable=stable) is None, "an operator"
        assert error("b", epoch, stable=stable) == "UNKNOWN_MEMBER_ID"
        assert error("a", epoch + 1, stable=stable) == "STALE_MEMBER_EPOCH"


def test_a_group_that_is_not_committed_yet_counts_for_who_asks_for_stable_offsets_alone() -> None:
    told = Conversation()
    join = m.ConsumerGroupHeartbeatRequest(
        *("g", "a", 0, None, None, 60_000, ("t",)), topic_partitions=()
    )
    told.coordinator.handle(NOW, 5, join)
    stranger = m.OffsetFetchRequest("g", None, "b", 1)
    assert answers(told.coordinator.handle(NOW, 6, stranger))[6].error is None
    told.coordinator.handle(NOW, 7, stranger._replace(require_stable=True))
    settled = answers(told.coordinator.committed(told.log.end))
    assert settled[7].error == "UNKNOWN_MEMBER_ID"


# ------------------------------------------------------------------------------ delete


def test_what_is_deleted_is_gone_and_only_that() -> None:
    told = Conversation()
    told.commit(at(T0, 1), at(T1, 2))
    answer = told.ask(m.OffsetDeleteRequest("g", [T0, U0]))
    assert answer == m.OffsetDeleteResponse(None, [(T0, None), (U0, None)])
    assert told.offsets() == {T1: 2}
    assert len(told.log.batches[-1]) == 1, "nothing is written of what was not committed"


def test_of_a_group_that_is_not_here_nothing_is_deleted() -> None:
    told = Conversation()
    assert told.ask(m.OffsetDeleteRequest("g", [T0])).error == "GROUP_ID_NOT_FOUND"
    told.commit(at(T0, 1))
    assert told.ask(m.OffsetDeleteRequest("g", [T0])).error is None
    again = told.ask(m.OffsetDeleteRequest("g", [T0]))
    assert again.error is None, "it is there, empty, until offsets expire"


def test_offsets_of_topics_that_members_read_stay() -> None:
    told = Conversation()
    member = told.join()
    told.commit(at(T0, 1), at(U0, 2), member_id=member, generation_id=1)
    answer = told.ask(m.OffsetDeleteRequest("g", [T0, U0]))
    assert answer.partitions == [(T0, "GROUP_SUBSCRIBED_TO_TOPIC"), (U0, None)]
    assert told.offsets() == {T0: 1}


def test_where_nobody_can_know_what_is_read_nothing_is_deleted() -> None:
    told = Conversation()
    member = told.join("connect", b"x")
    told.commit(at(T0, 1), member_id=member, generation_id=1)
    assert told.ask(m.OffsetDeleteRequest("g", [T0])).error == "NON_EMPTY_GROUP"
    assert told.offsets() == {T0: 1}


def test_with_a_topic_go_its_offsets_by_id_or_without_one() -> None:
    told = Conversation()
    told.commit(at(T0, 1), at(T1, 2, topic_id=NO_ID), at(U0, 3))
    told.delete_topic("t", IDS["u"])
    assert told.offsets() == {T0: 1, U0: 3}
    told.delete_topic("t", IDS["t"])
    assert told.offsets() == {U0: 3}


# ------------------------------------------------------------------------------ expiry


def test_what_nobody_has_used_for_the_retention_goes() -> None:
    told = Conversation()
    told.commit(at(T0, 1))
    told.now += 10
    told.commit(at(T1, 2))
    told.due(NOW + HOUR_MS - 1)
    assert told.offsets() == {T0: 1, T1: 2}
    told.due(NOW + HOUR_MS)
    assert told.offsets() == {T1: 2}
    told.due(NOW + HOUR_MS + 10)
    assert told.offsets() == {}


def test_a_retention_of_the_commit_itself_counts_before_the_brokers() -> None:
    told = Conversation()
    told.commit(at(T0, 1), retention_ms=5000)
    told.commit(at(T1, 2), retention_ms=2 * HOUR_MS)
    told.due(NOW + 4999)
    assert told.offsets() == {T0: 1, T1: 2}
    told.due(NOW + 5000)
    assert told.offsets() == {T1: 2}
    told.due(NOW + HOUR_MS + 1)
    assert told.offsets() == {T1: 2}
    told.due(NOW + 2 * HOUR_MS)
    assert told.offsets() == {}


def test_while_a_group_reads_a_topic_its_offsets_stay_however_old() -> None:
    told = Conversation()
    member = told.join()
    told.commit(at(T0, 1), at(U0, 2), member_id=member, generation_id=1)
    told.due(NOW + 3 * HOUR_MS)
    assert told.offsets() == {T0: 1}
    assert told.coordinator.shard.store.groups.get("g") is not None


def test_a_group_goes_with_its_last_offset_once_it_is_empty() -> None:
    told = Conversation()
    member = told.join()
    told.commit(at(T0, 1), member_id=member, generation_id=1)
    told.ask(m.LeaveGroupRequest("g", [m.LeavingMember(member)]))
    groups = told.coordinator.shard.store.groups
    told.due(NOW + HOUR_MS - 1)
    assert told.offsets() == {T0: 1}
    assert groups.get("g") is not None
    told.due(NOW + HOUR_MS)
    assert told.offsets() == {}
    assert groups.get("g") is None


def test_a_group_with_offsets_left_stays() -> None:
    told = Conversation()
    member = told.join()
    told.commit(at(T0, 1), member_id=member, generation_id=1)
    told.ask(m.LeaveGroupRequest("g", [m.LeavingMember(member)]))
    told.now += 10
    told.commit(at(T1, 2))
    told.due(NOW + HOUR_MS)
    assert told.offsets() == {T1: 2}
    assert told.coordinator.shard.store.groups.get("g") is not None


def test_a_simple_group_is_deleted_with_its_offsets_once() -> None:
    told = Conversation()
    assert told.commit(at(T0, 7)) == [None]
    assert told.ask(m.DeleteGroupRequest("g")).error is None
    assert told.ask(m.DeleteGroupRequest("g")).error == "GROUP_ID_NOT_FOUND"
