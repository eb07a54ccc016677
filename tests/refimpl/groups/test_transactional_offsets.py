"""Offsets of open transactions: who may write them, when they count, and what a reader is told
meanwhile (KIP-98, KIP-447)."""

from collections.abc import Sequence
from typing import Any

import pytest

from refimpl.coordinator.operation import SetTimer
from refimpl.errors import InvalidProducerEpoch
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.messages.transactions import TxnMarker
from refimpl.records.coordinators import OFFSETS_TOPIC
from refimpl.storage.format.control import EndTxnMarker
from tests.refimpl.groups.coordinating import CONFIG, IDS, NOW, Conversation, Log, answers, loaded
from tests.refimpl.groups.test_offsets import LONGEST, T0, T1, U0, at

RETENTION_MS = CONFIG.offsets_retention_minutes * 60_000
GROUP_LOG = TopicPartition(OFFSETS_TOPIC, 0)


def write(
    told: Conversation, *partitions: m.CommittedPartition, producer: int = 7, **of: Any
) -> Sequence[str | None]:
    """TxnOffsetCommit."""
    asked = m.TxnOffsetCommitRequest("g", "tx", producer, 0, partitions)._replace(**of)
    return [error for _, error in told.ask(asked).partitions]


def end(told: Conversation, producer: int = 7, *, committed: bool = True) -> str | None:
    marker = TxnMarker(producer, 0, committed, (GROUP_LOG,), 3, 0)
    return told.ask(m.EndOffsetsRequest(marker)).error


def read(told: Conversation, *names: TopicPartition) -> dict[TopicPartition, Any]:
    """The answer to a reader of stable offsets: an offset or an error."""
    asked = [(one, IDS[one.topic]) for one in names] if names else None
    found = told.ask(m.OffsetFetchRequest("g", asked, require_stable=True)).partitions
    return {one.partition: one.error or one.offset for one in found}


def again(told: Conversation) -> Conversation:
    """The next coordinator has read the same log."""
    log = Log(told.log.batches, told.log.end, told.log.transactions)
    other = Conversation(log)
    other.coordinator, other.now = loaded(log, told.now), told.now
    return other


UNSTABLE = "UNSTABLE_OFFSET_COMMIT"


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_offsets_count_with_the_end_of_their_transaction(committed: bool, reload: bool) -> None:
    told = Conversation()
    told.commit(at(T0, 1), at(T1, 2))
    assert write(told, at(T0, 10), at(U0, 30)) == [None, None]
    told = again(told) if reload else told
    assert told.offsets() == {T0: 1, T1: 2}, "who does not ask for stable ones"
    assert read(told, T0, T1, U0) == {T0: UNSTABLE, T1: 2, U0: UNSTABLE}
    assert read(told) == {T0: UNSTABLE, T1: 2, U0: UNSTABLE}
    assert end(told, committed=committed) is None
    told = again(told) if reload else told
    after = {T0: 10, T1: 2, U0: 30} if committed else {T0: 1, T1: 2}
    assert told.offsets() == read(told) == after


def test_the_log_has_the_producer_and_the_end() -> None:
    told = Conversation()
    write(told, at(T0, 10))
    end(told)
    written, ended = told.log.transactions.values()
    assert (written.writer, written.marker) == ((7, 0), None)
    assert (ended.writer, ended.marker) == ((7, 0), EndTxnMarker(True, 3))


def test_a_marker_counts_once_it_is_committed() -> None:
    told = Conversation()
    write(told, at(T0, 10))
    marker = TxnMarker(7, 0, True, (GROUP_LOG,), 3, 0)
    assert not answers(told.coordinator.handle(NOW, 9, m.EndOffsetsRequest(marker)))
    answer = answers(told.coordinator.handle(NOW, 2, m.OffsetFetchRequest("g", None)))[2]
    assert answer.partitions == [], "the marker may still be lost"
    told.replicated()
    assert told.offsets() == {T0: 10}


def test_a_marker_that_is_refused_changes_nothing() -> None:
    told = Conversation()
    write(told, at(T0, 10))
    told.log.refuses = InvalidProducerEpoch("older")
    assert end(told) == "INVALID_PRODUCER_EPOCH"
    told.log.refuses = None
    assert read(told, T0) == {T0: UNSTABLE}
    assert end(told) is None


def test_the_later_of_two_offsets_wins_whichever_ends_first() -> None:
    """KAFKA-5247."""
    for first, second in ((7, 8), (8, 7)):
        told = Conversation()
        write(told, at(T0, 10))
        write(told, at(T0, 20), producer=8)
        end(told, first)
        assert read(told, T0) == {T0: UNSTABLE}
        end(told, second)
        assert read(told, T0) == again(told).offsets() == {T0: 20}


def test_an_offset_without_a_transaction_wins_over_what_was_written_before_it() -> None:
    told = Conversation()
    write(told, at(T0, 10))
    told.commit(at(T0, 15))
    write(told, at(T1, 5))
    assert read(told, T0) == {T0: UNSTABLE}, "of an open transaction nothing is known"
    end(told)
    assert told.offsets() == again(told).offsets() == {T0: 15, T1: 5}


def test_the_last_offset_within_a_transaction_counts() -> None:
    told = Conversation()
    write(told, at(T0, 10))
    told.commit(at(T0, 15))
    write(told, at(T0, 11))
    end(told)
    assert told.offsets() == again(told).offsets() == {T0: 11}


def test_metadata_that_is_too_long_is_a_matter_of_its_partition() -> None:
    told = Conversation()
    longer = at(T1, 2, metadata="x" * (LONGEST + 1))
    assert write(told, at(T0, 1), longer) == [None, "OFFSET_METADATA_TOO_LARGE"]
    end(told)
    assert told.offsets() == {T0: 1}


# What removes them


def test_the_offsets_of_a_deleted_topic_do_not_come_back() -> None:
    """KAFKA-19163."""
    told = Conversation()
    write(told, at(T0, 10), at(U0, 30))
    told.delete_topic("t", IDS["t"])
    assert read(told, T0, U0) == {T0: -1, U0: UNSTABLE}
    end(told)
    assert told.offsets() == again(told).offsets() == {U0: 30}


def test_an_operator_deletes_pending_offsets_too() -> None:
    told = Conversation()
    write(told, at(T0, 10), at(U0, 30))
    deleted = told.ask(m.OffsetDeleteRequest("g", (T0,)))
    assert deleted.partitions == [(T0, None)]
    end(told)
    assert told.offsets() == {U0: 30}
    write(told, at(T0, 10))
    assert told.ask(m.DeleteGroupRequest("g")).error is None
    end(told)
    assert told.offsets() == again(told).offsets() == {}


def test_a_group_is_kept_while_a_transaction_may_commit_its_offsets() -> None:
    told = Conversation()
    told.commit(at(T0, 1), at(T1, 2))
    write(told, at(T0, 10))
    told.due(NOW + RETENTION_MS)
    assert told.offsets() == {T0: 1}
    end(told, committed=False)
    told.due(NOW + 2 * RETENTION_MS)
    assert told.offsets() == {}


def test_an_empty_group_is_kept_too() -> None:
    told = Conversation()
    member = told.join()
    told.ask(m.LeaveGroupRequest("g", (m.LeavingMember(member),)))
    write(told, at(T0, 10))
    told.due(NOW + RETENTION_MS)
    assert told.coordinator.shard.store.groups.get("g") is not None
    end(told, committed=False)
    told.due(NOW + 2 * RETENTION_MS)
    assert told.coordinator.shard.store.groups.get("g") is None


def test_a_group_of_which_all_is_pending_exists() -> None:
    told = Conversation()
    write(told, at(T0, 10))
    described = told.ask(m.DescribeGroupRequest("g"))
    assert (described.error, described.state) == (None, "Empty")
    end(told, committed=False)
    assert told.ask(m.DescribeGroupRequest("g")).error == "GROUP_ID_NOT_FOUND"
    store = told.coordinator.shard.store
    assert not store.partitions, "nothing is left of it"


# Who may (KIP-447)


def test_a_producer_that_names_no_consumer_may_always_commit() -> None:
    told = Conversation()
    told.join()
    assert write(told, at(T0, 10)) == [None]


def test_a_consumer_commits_in_its_generation_alone() -> None:
    told = Conversation()
    member = told.join()
    assert write(told, at(T0, 1), member_id=member, generation_id=1) == [None]
    assert write(told, at(T0, 1), member_id=member, generation_id=2) == ["ILLEGAL_GENERATION"]
    assert write(told, at(T0, 1), member_id="other", generation_id=1) == ["UNKNOWN_MEMBER_ID"]
    assert write(told, at(T0, 1), member_id=member) == ["ILLEGAL_GENERATION"]
    fenced = write(told, at(T0, 1), member_id=member, generation_id=1, group_instance_id="i")
    assert fenced == ["UNKNOWN_MEMBER_ID"]


def test_of_a_group_that_is_not_here_there_are_no_generations() -> None:
    told = Conversation()
    assert write(told, at(T0, 1), member_id="m", generation_id=1) == ["ILLEGAL_GENERATION"]
    told.commit(at(T0, 1))
    assert write(told, at(T0, 1), member_id="m", generation_id=1) == ["UNKNOWN_MEMBER_ID"]


def test_a_commit_within_a_transaction_is_no_heartbeat() -> None:
    told = Conversation()
    member = told.join()
    asked = m.TxnOffsetCommitRequest("g", "tx", 7, 0, (at(T0, 1),), member, 1)
    told.log.high_watermark = 10**6
    in_transaction = told.coordinator.handle(NOW, 1, asked)
    plain = m.OffsetCommitRequest("g", member, 1, None, (at(T0, 1),))
    assert not [one for one in in_transaction if isinstance(one, SetTimer)]
    assert [one for one in told.coordinator.handle(NOW, 2, plain) if isinstance(one, SetTimer)]
