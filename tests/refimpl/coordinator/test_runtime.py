"""A coordinator of groups by itself: loading, waiting for the high watermark, time, and the end."""

from collections.abc import Sequence
from typing import Any

import pytest

from refimpl.coordinator.operation import Answer, Performed, SetTimer
from refimpl.coordinator.runtime import APPEND, LOAD, CoordinatorState
from refimpl.errors import Refusal, StorageOffline
from refimpl.groups import consumer_errors
from refimpl.groups import errors as coordinator_errors
from refimpl.groups.shard import EXPIRE, GroupCoordinator
from refimpl.machines import classic_group_errors, consumer_group_errors
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from tests.refimpl.groups.coordinating import (
    CONFIG,
    HOUR_MS,
    IDS,
    NOW,
    Log,
    answers,
    elected,
    loaded,
    refusal,
    topic_deleted,
)

T0 = TopicPartition("t", 0)
TIME_OUT_MS = CONFIG.offsets_commit_timeout_ms
CHECK_MS = CONFIG.offsets_retention_check_interval_ms


def commit(offset: int = 7, group: str = "g") -> m.OffsetCommitRequest:
    """A commit of somebody who is no member."""
    one = m.CommittedPartition(T0, offset, topic_id=IDS["t"])
    return m.OffsetCommitRequest(group, "", -1, None, [one])


def fetch(*, stable: bool = False, group: str = "g") -> m.OffsetFetchRequest:
    return m.OffsetFetchRequest(group, None, require_stable=stable)


def said(outputs: Sequence[Any]) -> list[Any]:
    """Answers and timers, and not what was performed."""
    return [one for one in outputs if not isinstance(one, Performed)]


def timers(outputs: Sequence[Any]) -> list[SetTimer]:
    return [one for one in outputs if isinstance(one, SetTimer)]


def asked(coordinator: GroupCoordinator, request: Any, now: int = NOW) -> Any:
    """The immediate answer to a request."""
    return answers(coordinator.handle(now, 99, request)).get(99)


def offset_of(coordinator: GroupCoordinator, *, committed: bool = True) -> list[int]:
    found = coordinator.shard.store.offsets_of("g", committed=committed)
    return [value.offset for _, value in found]


def log_of(*offsets: int, high_watermark: int) -> Log:
    """A log of commits, one batch each, as a leader before this one has left it."""
    log = Log()
    earlier = loaded(log)
    for offset in offsets:
        earlier.handle(NOW, 1, commit(offset))
    log.high_watermark = high_watermark
    return log


# ------------------------------------------------------------------------------ loading


def test_a_log_is_read_bit_by_bit_and_then_the_coordinator_is_active() -> None:
    coordinator = elected(log_of(1, 2, 3, 4, high_watermark=4))
    assert said(coordinator.load(NOW)) == [SetTimer(LOAD, NOW)]
    assert coordinator.state is CoordinatorState.LOADING
    assert said(coordinator.due(NOW + 5, LOAD)) == [SetTimer(EXPIRE, NOW + 5 + CHECK_MS)]
    assert coordinator.state is CoordinatorState.ACTIVE
    assert offset_of(coordinator) == [4]


def test_what_is_there_at_the_election_is_read_and_no_more() -> None:
    log = log_of(1, 2, 3, high_watermark=3)
    coordinator = elected(log)
    loaded(log).handle(NOW, 1, commit(9))
    assert len(log.batches) == 4
    assert said(coordinator.load(NOW)) == [SetTimer(EXPIRE, NOW + CHECK_MS)]
    assert offset_of(coordinator, committed=False) == [3]


def test_an_active_coordinator_reads_nothing_more() -> None:
    log = log_of(1, high_watermark=1)
    coordinator = loaded(log)
    loaded(log).handle(NOW, 1, commit(9))
    assert said(coordinator.load(NOW)) == []
    assert said(coordinator.due(NOW, LOAD)) == []
    assert offset_of(coordinator, committed=False) == [1]


def test_what_stands_above_the_high_watermark_is_written_and_not_committed() -> None:
    log = log_of(1, 2, 3, high_watermark=2)
    coordinator = loaded(log)
    assert offset_of(coordinator) == [2]
    assert offset_of(coordinator, committed=False) == [3]
    assert asked(coordinator, fetch(stable=True)) is None
    log.high_watermark = 3
    answered = answers(coordinator.committed(3))
    assert [one.offset for one in answered[99].partitions] == [3]
    assert offset_of(coordinator) == [3]


def test_what_was_committed_while_it_was_read_is_committed() -> None:
    log = log_of(1, 2, 3, 4, high_watermark=2)
    coordinator = elected(log)
    coordinator.load(NOW)
    log.high_watermark = 4
    coordinator.load(NOW)
    assert offset_of(coordinator) == [4]


def test_while_it_loads_it_refuses_all_but_heartbeats_at_once() -> None:
    coordinator = elected(log_of(1, 2, 3, 4, high_watermark=0))
    refused = asked(coordinator, fetch())
    assert refused == m.OffsetFetchResponse("g", "COORDINATOR_LOAD_IN_PROGRESS")
    assert asked(coordinator, m.HeartbeatRequest("g", 1, "a")) == m.HeartbeatResponse(None)
    described = asked(coordinator, m.DescribeGroupRequest("g"))
    assert described.message == "partition 0 is read up to offset 0 of 4"
    assert not coordinator.waiting


def test_when_it_has_loaded_sessions_begin_afresh() -> None:
    log = Log()
    join = m.ConsumerGroupHeartbeatRequest(
        *("k", "a", 0, None, None, 60_000, ("t",)), topic_partitions=()
    )
    loaded(log).handle(NOW, 1, join)
    log.high_watermark = log.end
    coordinator, outputs = elected(log), list[Any]()
    for _ in range(log.end + 1):
        outputs += coordinator.load(NOW + 1)
    assert coordinator.state is CoordinatorState.ACTIVE
    sessions = [at_ms for key, at_ms in timers(outputs) if key.member_id == "a"]
    assert sessions == [NOW + 1 + CONFIG.consumer_session_timeout_ms]
    assert timers(outputs)[-1] == SetTimer(EXPIRE, NOW + 1 + CHECK_MS)


# ------------------------------------------------------------------------------ answers


def test_a_commit_is_answered_when_the_high_watermark_has_passed_it() -> None:
    log = Log()
    coordinator = loaded(log)
    assert said(coordinator.handle(NOW, 1, commit(7))) == [SetTimer(APPEND, NOW + TIME_OUT_MS)]
    assert said(coordinator.handle(NOW + 1, 2, commit(8))) == []
    assert said(coordinator.committed(0)) == []
    assert said(coordinator.committed(1)) == [Answer(1, m.OffsetCommitResponse([(T0, None)]))]
    assert said(coordinator.committed(2)) == [Answer(2, m.OffsetCommitResponse([(T0, None)]))]
    assert not coordinator.waiting
    assert not coordinator.deferred


def test_where_all_is_committed_at_once_nobody_waits() -> None:
    log = Log(high_watermark=10**6)
    coordinator = loaded(log)
    assert asked(coordinator, commit(7)) == m.OffsetCommitResponse([(T0, None)])
    assert not coordinator.deferred


def test_who_reads_what_is_committed_does_not_wait_for_what_is_written() -> None:
    coordinator = loaded(Log())
    coordinator.handle(NOW, 1, commit(7))
    assert asked(coordinator, fetch()) == m.OffsetFetchResponse("g", None, [])
    coordinator.committed(1)
    (found,) = asked(coordinator, fetch()).partitions
    assert (found.partition, found.offset, found.topic_id) == (T0, 7, IDS["t"])


def test_a_refusal_waits_for_what_is_written_too() -> None:
    coordinator = loaded(Log())
    coordinator.handle(NOW, 1, commit(7))
    stranger = m.HeartbeatRequest("g", 1, "a")
    assert asked(coordinator, stranger) is None
    answered = answers(coordinator.committed(1))
    assert answered[99] == m.HeartbeatResponse("UNKNOWN_MEMBER_ID")


def test_a_request_that_no_group_takes_is_refused() -> None:
    coordinator = loaded(Log())
    with pytest.raises(TypeError, match="is no request to a group coordinator"):
        coordinator.handle(NOW, 1, "nonsense")


def test_whatever_refuses_a_group_gives_a_reason_for_clients_to_show() -> None:
    modules = (
        *(coordinator_errors, consumer_errors),
        *(classic_group_errors, consumer_group_errors),
    )
    kinds: list[type[Refusal]] = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]
    assert len(kinds) > 20
    assert [kind.__name__ for kind in kinds if not kind.says] == []


def test_who_waits_for_too_long_is_told_that_nobody_knows() -> None:
    coordinator = loaded(Log())
    coordinator.handle(NOW, 1, commit(7))
    coordinator.handle(NOW, 2, fetch(stable=True))
    coordinator.handle(NOW + 3, 3, commit(8))
    assert said(coordinator.due(NOW + TIME_OUT_MS - 1, APPEND)) == [
        SetTimer(APPEND, NOW + TIME_OUT_MS)
    ]
    outputs = coordinator.due(NOW + TIME_OUT_MS, APPEND)
    assert answers(outputs) == {
        1: m.OffsetCommitResponse([(T0, "COORDINATOR_NOT_AVAILABLE")]),
        2: m.OffsetFetchResponse("g", "NOT_COORDINATOR"),
    }
    assert timers(outputs) == [SetTimer(APPEND, NOW + TIME_OUT_MS + 3)]
    last = coordinator.due(NOW + TIME_OUT_MS + 3, APPEND)
    assert answers(last) == {3: m.OffsetCommitResponse([(T0, "COORDINATOR_NOT_AVAILABLE")])}
    assert timers(last) == []
    assert said(coordinator.committed(2)) == []
    assert offset_of(coordinator) == [8], "what was written counts, though nobody was told"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("UNKNOWN_TOPIC_OR_PARTITION", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("MESSAGE_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
        ("RECORD_LIST_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
        ("INVALID_RECORD", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_refused_append_is_answered_at_once_and_changes_nothing(error: str, told: str) -> None:
    log = Log()
    coordinator = loaded(log)
    coordinator.handle(NOW, 1, commit(7))
    log.refuses = refusal(error)
    assert asked(coordinator, commit(8)) == m.OffsetCommitResponse([(T0, told)])
    assert offset_of(coordinator, committed=False) == [7]
    assert coordinator.written == 1


def test_a_log_directory_that_failed_coordinates_nothing() -> None:
    log = Log()
    coordinator = loaded(log)
    log.refuses = StorageOffline("the disk is gone")
    assert asked(coordinator, commit(8)) == m.OffsetCommitResponse([(T0, "NOT_COORDINATOR")])


# ------------------------------------------------------------------------------ what was done


def performed(outputs: Sequence[Any]) -> list[Performed]:
    return [one for one in outputs if isinstance(one, Performed)]


def test_what_a_request_did_to_its_group_is_said() -> None:
    coordinator = loaded(Log())
    join = m.ConsumerGroupHeartbeatRequest(
        *("k", "a", 0, None, None, 60_000, ("t",)), topic_partitions=()
    )
    (joined,) = performed(coordinator.handle(NOW, 1, join))
    assert (joined.about, joined.error, joined.before) == (join, None, None)
    assert joined.after is coordinator.shard.store.groups.get("k")
    assert [one.token for one in joined.answers] == [1]
    assert joined.end == coordinator.written > 0
    leave = m.ConsumerGroupHeartbeatRequest("k", "a", -1)
    (left,) = performed(coordinator.handle(NOW, 2, leave))
    assert left.before is joined.after
    assert not left.after.members


def test_a_refusal_is_said_with_the_group_as_it_is_and_not_while_it_is_loaded() -> None:
    coordinator = loaded(Log())
    stranger = m.HeartbeatRequest("g", 1, "a")
    (refused,) = performed(coordinator.handle(NOW, 1, stranger))
    assert refused == Performed("g", stranger, "UNKNOWN_MEMBER_ID", None, None, (), 0)
    (answer,) = coordinator.handle(NOW, 2, m.ListGroupsRequest())
    assert answer == Answer(2, m.ListGroupsResponse("UNSUPPORTED_VERSION"))
    loading = elected(log_of(1, 2, 3, 4, high_watermark=0))
    assert performed(loading.handle(NOW, 1, stranger)) == []


# ------------------------------------------------------------------------------ time


def test_offsets_that_nobody_uses_are_looked_for_again_and_again() -> None:
    log = Log(high_watermark=10**6)
    coordinator = loaded(log, NOW)
    coordinator.handle(NOW, 1, commit(7))
    before = NOW + HOUR_MS - 1
    assert said(coordinator.due(before, EXPIRE)) == [SetTimer(EXPIRE, before + CHECK_MS)]
    assert offset_of(coordinator, committed=False) == [7]
    assert said(coordinator.due(before + 1, EXPIRE)) == [SetTimer(EXPIRE, before + 1 + CHECK_MS)]
    assert offset_of(coordinator, committed=False) == []


def test_what_is_done_for_nobody_is_waited_for_by_nobody() -> None:
    log = Log()
    coordinator = loaded(log, NOW)
    coordinator.handle(NOW, 1, commit(7))
    log.high_watermark = 1
    coordinator.committed(1)
    later = NOW + HOUR_MS
    assert said(coordinator.due(later, EXPIRE)) == [SetTimer(EXPIRE, later + CHECK_MS)]
    assert len(log.batches) == 2
    assert not coordinator.deferred


def test_before_it_is_active_and_after_no_timer_does_anything() -> None:
    log = log_of(7, 7, 7, 7, high_watermark=4)
    coordinator = elected(log)
    coordinator.load(NOW)
    assert said(coordinator.due(NOW + 2 * HOUR_MS, EXPIRE)) == []
    assert said(coordinator.due(NOW + 2 * HOUR_MS, APPEND)) == []
    assert said(topic_deleted(coordinator, NOW, "t", IDS["t"])) == []
    assert len(log.batches) == 4
    coordinator.resign()
    assert said(coordinator.due(NOW + 2 * HOUR_MS, EXPIRE)) == []
    assert said(coordinator.load(NOW)) == []
    assert said(topic_deleted(coordinator, NOW, "t", IDS["t"])) == []
    assert len(log.batches) == 4


def test_with_a_topic_its_offsets_go() -> None:
    log = Log(high_watermark=10**6)
    coordinator = loaded(log)
    coordinator.handle(NOW, 1, commit(7))
    assert said(topic_deleted(coordinator, NOW, "u", IDS["u"])) == []
    assert said(topic_deleted(coordinator, NOW, "t", IDS["u"])) == []
    assert offset_of(coordinator, committed=False) == [7]
    topic_deleted(coordinator, NOW, "t", IDS["t"])
    assert offset_of(coordinator, committed=False) == []


# ------------------------------------------------------------------------------ the end


def test_who_resigns_answers_everybody_that_another_one_coordinates() -> None:
    log = Log()
    coordinator = loaded(log)
    coordinator.handle(NOW, 1, commit(7))
    coordinator.handle(NOW, 2, fetch(stable=True))
    assert answers(coordinator.resign()) == {
        1: m.OffsetCommitResponse([(T0, "NOT_COORDINATOR")]),
        2: m.OffsetFetchResponse("g", "NOT_COORDINATOR"),
    }
    assert coordinator.state is CoordinatorState.CLOSED
    assert said(coordinator.committed(1)) == []
    refused = asked(coordinator, m.DescribeGroupRequest("g"))
    assert refused.error == "NOT_COORDINATOR"
    assert asked(coordinator, m.HeartbeatRequest("g", 1, "a")).error == "NOT_COORDINATOR"
    assert len(log.batches) == 1
