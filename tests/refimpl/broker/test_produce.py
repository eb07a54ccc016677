"""Produce at one leader: what is appended, when it is answered, and what the answer says."""

from typing import Any

import pytest

from refimpl.broker.node import EXPIRE
from refimpl.messages import broker as m
from refimpl.messages.observations import Acknowledged, Ignored, Refused, Written
from refimpl.storage.config import LogConfig
from tests.refimpl.broker.node_cases import ORDERS, Cluster, batch_of, leading

ELSEWHERE = m.TopicPartition("elsewhere", 0)


def answers(found: list[Any]) -> list[m.ProduceResponse]:
    return [one for one in found if isinstance(one, m.ProduceResponse)]


def offsets(found: list[Any]) -> list[tuple[str | None, int]]:
    """Of each partition of each answer: the error, and where its batch went."""
    return [(one.error, one.base_offset) for of in answers(found) for one in of.partitions]


def both(cluster: Cluster, acks: int = -1) -> list[Any]:
    """A batch for a partition that is here, and one for a partition that is not."""
    batches = [(name, batch_of(b"a")) for name in (ORDERS, ELSEWHERE)]
    return cluster.ask(m.ProduceRequest(acks, 100, batches))


def numbered(sequence: int, *values: bytes) -> bytes:
    return batch_of(*values, producer_id=5, producer_epoch=0, base_sequence=sequence)


# When it is answered


def test_who_wants_no_acknowledgement_gets_none_and_no_refusal_either() -> None:
    cluster = leading()
    assert cluster.produce(batch_of(b"a"), acks=0) == []
    assert cluster.partition.log.end == 1
    assert both(cluster, acks=0) == []
    assert cluster.partition.log.end == 2


def test_the_leaders_acknowledgement_comes_at_once_and_no_timer_is_set() -> None:
    cluster = leading()
    batch = batch_of(b"a", b"b")
    cluster.told.clear()
    assert offsets(cluster.produce(batch, acks=1)) == [(None, 0)]
    assert Written(ORDERS, 0, 2) in cluster.told
    assert Acknowledged(ORDERS, 1, batch, 0) in cluster.told
    assert not [one for one in cluster.told if isinstance(one, m.Timer)]


def test_who_waits_for_all_is_waited_for_until_the_time_out() -> None:
    cluster = leading()
    cluster.told.clear()
    assert cluster.produce(batch_of(b"a"), acks=-1, timeout_ms=70) == []
    assert m.Timer(cluster.now + 70, EXPIRE) in cluster.told
    assert not [one for one in cluster.told if isinstance(one, Acknowledged)]


def test_only_what_is_below_the_high_watermark_is_acknowledged() -> None:
    cluster = leading()
    for value in (b"a", b"b"):
        cluster.produce(batch_of(value), acks=-1)
    cluster.follow(2, 2)
    assert offsets(cluster.follow(3, 1)) == [(None, 0)]
    assert offsets(cluster.follow(3, 2)) == [(None, 1)]


def test_the_time_out_of_what_was_acknowledged_tells_nothing() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"), acks=-1, timeout_ms=100)
    assert len(answers([one.body for one in cluster.catch_up()])) == 1
    assert cluster.later(100) == []


def test_a_leader_alone_in_its_isr_answers_at_once_who_waits_for_all() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, (1,))
    assert offsets(cluster.produce(batch_of(b"a"), acks=-1)) == [(None, 0)]


# Several partitions


def test_an_answer_waits_for_all_its_partitions() -> None:
    cluster = leading()
    assert both(cluster) == []
    assert Refused("Produce", "UNKNOWN_TOPIC_OR_PARTITION") in cluster.told
    (told,) = answers([one.body for one in cluster.catch_up()])
    assert {one.partition: one.error for one in told.partitions} == {
        ORDERS: None,
        ELSEWHERE: "UNKNOWN_TOPIC_OR_PARTITION",
    }


def test_what_was_refused_does_not_time_out_as_well() -> None:
    cluster = leading()
    both(cluster)
    cluster.told.append(m.Timer(cluster.now, EXPIRE))
    (told,) = answers(cluster.later(100))
    assert {one.partition: one.error for one in told.partitions} == {
        ORDERS: "REQUEST_TIMED_OUT",
        ELSEWHERE: "UNKNOWN_TOPIC_OR_PARTITION",
    }


# Duplicates (KIP-98)


def test_a_duplicate_of_what_is_committed_is_acknowledged_at_once_and_grows_nothing() -> None:
    cluster = leading()
    cluster.produce(numbered(0, b"a", b"b"), acks=-1)
    cluster.catch_up()
    cluster.told.clear()
    assert offsets(cluster.produce(numbered(0, b"a", b"b"), acks=-1)) == [(None, 0)]
    assert Ignored("duplicates recognised") in cluster.told
    assert not [one for one in cluster.told if isinstance(one, Written)]


def test_a_duplicate_of_what_is_not_committed_waits_as_the_first_does() -> None:
    cluster = leading()
    cluster.produce(numbered(0, b"a"), acks=-1)
    assert cluster.produce(numbered(0, b"a"), acks=-1) == []
    assert offsets([one.body for one in cluster.catch_up()]) == [(None, 0)] * 2


def test_a_duplicate_of_an_older_batch_is_answered_before_the_newer_one() -> None:
    """It came last and is committed first."""
    cluster = leading()
    cluster.produce(numbered(0, b"a"), acks=1)
    cluster.produce(numbered(1, b"b"), acks=-1)
    assert cluster.produce(numbered(0, b"a"), acks=-1) == []
    cluster.follow(2, 2)
    assert offsets(cluster.follow(3, 1)) == [(None, 0)]
    assert offsets(cluster.follow(3, 2)) == [(None, 1)]


def test_a_duplicate_is_no_news_for_who_waits_for_records() -> None:
    cluster = Cluster()
    cluster.decide(1, 1, (1,))
    cluster.produce(numbered(0, b"a"))
    assert cluster.fetch(1, max_wait_ms=50) == []
    assert len(cluster.produce(numbered(0, b"a"))) == 1, "the producer's answer, and no other"
    assert len(cluster.produce(numbered(1, b"b"))) == 2


# Refusals


@pytest.mark.parametrize("acks", [-2, 2])
def test_only_three_kinds_of_acknowledgement_may_be_asked_for(acks: int) -> None:
    cluster = leading()
    assert offsets(cluster.produce(batch_of(b"a"), acks=acks)) == [("INVALID_REQUIRED_ACKS", -1)]
    assert cluster.partition.log.end == 0


def test_only_who_waits_for_all_needs_enough_in_sync() -> None:
    cluster = leading(min_isr=2)
    cluster.decide(1, 2, (1,))
    assert offsets(cluster.produce(batch_of(b"a"), acks=-1)) == [("NOT_ENOUGH_REPLICAS", -1)]
    assert offsets(cluster.produce(batch_of(b"a"), acks=1)) == [(None, 0)]


def test_who_does_not_lead_appends_nothing() -> None:
    cluster = Cluster()
    cluster.decide(2, 1)
    assert offsets(cluster.produce(batch_of(b"a"))) == [("NOT_LEADER_OR_FOLLOWER", -1)]
    assert cluster.partition.log.end == 0


def test_a_refusal_names_no_offsets_and_the_records_that_are_why() -> None:
    """KIP-467."""
    cluster = leading(logs=LogConfig(cleanup_policy=frozenset({"compact"})))
    (told,) = answers(cluster.produce(batch_of(b"without a key", b"too")))
    (refused,) = told.partitions
    assert refused.error == "INVALID_RECORD"
    assert (refused.base_offset, refused.log_append_time_ms, refused.log_start_offset) == (-1,) * 3
    assert [number for number, _ in refused.records] == [0, 1]
    (answer,) = leading().produce(batch_of(b"a"), acks=2)
    assert (answer.partitions[0].log_start_offset, answer.partitions[0].records) == (-1, ())


# Who no longer leads


def test_who_waits_is_told_once_that_the_leader_has_gone() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"), acks=-1)
    cluster.produce(batch_of(b"b"), acks=-1)
    assert offsets(cluster.decide(2, 2)) == [("NOT_LEADER_OR_FOLLOWER", -1)] * 2
    assert cluster.told.count(Refused("Produce", "NOT_LEADER_OR_FOLLOWER")) == 2
    cluster.decide(1, 3)
    assert offsets([one.body for one in cluster.catch_up()]) == []
    assert cluster.later(100) == []
