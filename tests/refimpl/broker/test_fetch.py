"""Fetches at one leader: who is heard, what is refused, and batches on their way."""

from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.broker.config import BrokerConfig
from refimpl.broker.partition import FEW_FETCHES, DelayedFetch, FetchPart
from refimpl.broker.replica_selector import RACK_AWARE
from refimpl.machines.messages import FetchRequest as ReplicaFetch
from refimpl.messages import broker as m
from refimpl.messages.cluster import TopicDeleted
from refimpl.messages.observations import FetchAnswered, FetchHeard, RecordsRead, Refused
from refimpl.storage.format.batch import HEADER_SIZE
from refimpl.storage.replica.memory_records import MemoryRecords, whole
from tests.refimpl.broker.node_cases import CLIENT, ORDERS, TOPIC_ID, Cluster, batch_of, leading

ELSEWHERE = m.TopicPartition("elsewhere", 0)
ONE = len(batch_of(b"a"))


def committed(count: int = 2, **of: object) -> Cluster:
    """A leader of so many committed batches of one record."""
    cluster = leading(**of)
    for _ in range(count):
        cluster.produce(batch_of(b"a"))
    cluster.catch_up()
    cluster.catch_up()
    return cluster


def fetched(answers: list[m.FetchResponse]) -> list[tuple[str | None, int, int]]:
    """Error, high watermark, and how many bytes."""
    (answer,) = answers
    return [
        (one.error, one.high_watermark, len(one.records.data) if one.records else 0)
        for one in answer.partitions
    ]


# Followers


def test_a_follower_is_heard_with_what_it_said_and_answered() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"))
    cluster.told.clear()
    cluster.follow(2, 0)
    asked = ReplicaFetch(2, 2, 1, 1, 0, -1)
    assert FetchHeard(ORDERS, asked, False, 0) in cluster.told
    assert FetchAnswered(ORDERS, asked) in cluster.told
    cluster.follow(2, 1)
    assert FetchHeard(ORDERS, ReplicaFetch(2, 2, 2, 1, 1, 1), False, 2) in cluster.told


def test_fetches_without_a_number_of_their_own_are_numbered_by_their_requests() -> None:
    cluster = leading()
    asked = m.FetchPartition(ORDERS, 0, 1, -1)
    for _ in range(2):
        cluster.ask(m.FetchRequest((asked,), 0, replica_id=2, replica_epoch=2), 2)
        heard = [one.request.number for one in cluster.told if isinstance(one, FetchHeard)]
        assert heard[-1] == cluster.number


@pytest.mark.parametrize(("replica_id", "reads"), [(-2, 0), (-1, 0), (0, 1), (2, 1)])
def test_every_id_of_a_broker_is_a_followers_and_reads_what_is_not_committed(
    replica_id: int, reads: int
) -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"))
    asked = m.FetchPartition(ORDERS, 0, 1, -1, 1)
    request = m.FetchRequest((asked,), 0, replica_id=replica_id, replica_epoch=2)
    answers = cluster.ask(request, max(replica_id, CLIENT))
    told = [one for one in answers if isinstance(one, m.FetchResponse)]
    assert fetched(told) == [(None, 0, reads * ONE)]
    assert len([one for one in cluster.told if isinstance(one, FetchHeard)]) == reads


def test_a_follower_whose_log_differs_is_told_where_and_not_counted() -> None:
    cluster = leading()
    cluster.produce(batch_of(b"a"))
    cluster.decide(1, 3)
    cluster.produce(batch_of(b"b"))
    asked = m.FetchPartition(ORDERS, 2, 3, 1, 1)
    (answer,) = cluster.ask(m.FetchRequest((asked,), 500, replica_id=2, replica_epoch=2), 2)
    (one,) = answer.partitions
    assert (one.diverging, one.records) == ((1, 1), ())
    assert [one.diverging for one in cluster.told if isinstance(one, FetchHeard)] == [True]
    assert cluster.partition.replica.ends == {}


def test_a_refused_follower_is_told_at_once_and_it_is_noted() -> None:
    cluster = leading()
    (answer,) = cluster.follow(2, 0, epoch=9)
    assert answer.partitions[0].error == "UNKNOWN_LEADER_EPOCH"
    assert Refused("Fetch", "UNKNOWN_LEADER_EPOCH") in cluster.told
    asked = m.FetchPartition(ELSEWHERE, 0, 1, -1, 1)
    waits = m.FetchRequest((asked,), 500, replica_id=2, replica_epoch=2)
    assert fetched(cluster.ask(waits, 2)) == [("UNKNOWN_TOPIC_OR_PARTITION", -1, 0)]


# Consumers


def test_what_consumers_read_is_noted() -> None:
    cluster = committed()
    (answer,) = cluster.fetch(1)
    (one,) = answer.partitions
    assert RecordsRead(ORDERS, 1, one.records) in cluster.told
    cluster.told.clear()
    cluster.fetch(2)
    assert not [one for one in cluster.told if isinstance(one, RecordsRead)]


@pytest.mark.parametrize(
    ("offset", "error"),
    [(-1, "OFFSET_OUT_OF_RANGE"), (0, None), (2, None), (3, "OFFSET_OUT_OF_RANGE")],
)
def test_a_consumer_reads_inside_of_the_log(offset: int, error: str | None) -> None:
    cluster = committed()
    assert [one[0] for one in fetched(cluster.fetch(offset))] == [error]


def test_who_knows_another_leader_epoch_reads_nothing() -> None:
    cluster = committed()
    for epoch, error in ((-1, None), (0, "FENCED_LEADER_EPOCH"), (1, None)):
        asked = m.FetchPartition(ORDERS, 0, epoch)
        assert fetched(cluster.ask(m.FetchRequest((asked,), 0)))[0][0] == error
    asked = m.FetchPartition(ORDERS, 0, 2)
    assert fetched(cluster.ask(m.FetchRequest((asked,), 0)))[0][0] == "UNKNOWN_LEADER_EPOCH"


def test_the_brokers_own_limit_holds_for_consumers() -> None:
    cluster = committed(config=BrokerConfig(fetch_max_bytes=1))
    assert fetched(cluster.fetch(0)) == [(None, 2, ONE)], "the first batch comes whole"
    wide = committed(config=BrokerConfig(fetch_max_bytes=2 * ONE))
    assert fetched(wide.fetch(0)) == [(None, 2, 2 * ONE)]
    assert fetched(wide.ask(m.FetchRequest((m.FetchPartition(ORDERS, 0),), 0, max_bytes=1))) == [
        (None, 2, ONE)
    ]


def test_what_was_read_leaves_less_room_for_the_next_partition() -> None:
    cluster = committed()
    twice = tuple(m.FetchPartition(ORDERS, offset) for offset in (0, 1))
    for room, second in ((3 * ONE, ONE), (3 * ONE - 1, 0), (2 * ONE, 0)):
        answers = cluster.ask(m.FetchRequest(twice, 0, max_bytes=room))
        assert [size for _, _, size in fetched(answers)] == [2 * ONE, second]


def test_a_consumer_of_a_partition_that_is_not_here_is_told_so_whatever_its_rack() -> None:
    cluster = committed(config=BrokerConfig(replica_selector_class=RACK_AWARE))
    asked = (m.FetchPartition(ELSEWHERE, 0),)
    answers = cluster.ask(m.FetchRequest(asked, 500, rack_id="a"))
    assert fetched(answers) == [("UNKNOWN_TOPIC_OR_PARTITION", -1, 0)]


def test_a_fetch_of_nothing_is_answered_at_once() -> None:
    (answer,) = committed().ask(m.FetchRequest((), 500))
    assert answer == m.FetchResponse((), 0)


def test_enough_is_counted_over_all_partitions_and_up_to_their_limits() -> None:
    cluster = committed(0)

    def waits(min_bytes: int, max_bytes: int = m.NO_LIMIT) -> bool:
        asked = m.FetchPartition(ORDERS, 0, max_bytes=max_bytes)
        body = m.FetchRequest((asked,), 50, min_bytes=min_bytes)
        return cluster.ask(body) == []

    assert waits(1)
    cluster.produce(batch_of(b"a"), batch_of(b"b"))
    assert waits(1), "nothing is committed"
    cluster.catch_up()
    assert (waits(2 * ONE), waits(2 * ONE + 1)) == (False, True)
    assert (waits(ONE, max_bytes=ONE), waits(ONE + 1, max_bytes=ONE)) == (False, True)


@given(st.lists(st.integers(1, 9), max_size=5), st.integers(2, 30))
def test_enough_is_the_sum_of_what_partitions_have(sizes: list[int], least: int) -> None:
    parts: list[Any] = [Mock(spec=FetchPart) for _ in sizes]
    for part, size in zip(parts, sizes, strict=True):
        part.available.return_value, part.is_settled.return_value = size, False
    fetch = DelayedFetch(Mock(spec=m.Request), parts, None)
    assert fetch.is_served(parts, least, 0) == (sum(sizes) >= least)


def test_news_that_are_no_records_are_told_however_much_was_wanted() -> None:
    cluster = committed()
    both = (m.FetchPartition(ORDERS, 1), m.FetchPartition(ORDERS, 2))
    for wanted in (both, both[1:]):
        assert cluster.ask(m.FetchRequest(wanted, 50, min_bytes=10**6)) == []
    told = [one for one in cluster.decide(2, 2) if isinstance(one, m.FetchResponse)]
    assert [[one.error for one in answer.partitions] for answer in told] == [
        ["NOT_LEADER_OR_FOLLOWER"] * 2,
        ["NOT_LEADER_OR_FOLLOWER"],
    ]


def test_what_is_not_in_the_log_is_not_waited_for() -> None:
    cluster = committed()
    assert [one[0] for one in fetched(cluster.fetch(3, max_wait_ms=50))] == ["OFFSET_OUT_OF_RANGE"]
    assert cluster.fetch(2, max_wait_ms=50) == []


def test_in_a_session_an_error_that_is_over_is_told_at_once() -> None:
    cluster = committed()
    newer = m.FetchPartition(ORDERS, 2, 2)
    (begun,) = cluster.ask(m.FetchRequest((newer,), 0, session_epoch=0))
    assert [one.error for one in begun.partitions] == ["UNKNOWN_LEADER_EPOCH"]
    cluster.decide(1, 2)
    again = m.FetchRequest((), 50, session_id=begun.session_id, session_epoch=1)
    assert fetched(cluster.ask(again)) == [(None, 2, 0)]
    assert cluster.ask(again._replace(session_epoch=2)) == [], "once"


def test_a_follower_that_waits_is_told_that_the_partition_has_gone() -> None:
    cluster = committed()
    asked = m.FetchPartition(ORDERS, 2, 1, 1, 9)
    body = m.FetchRequest((asked,), 50, replica_id=2, replica_epoch=2, session_epoch=0)
    (begun,) = cluster.ask(body, 2)
    again = m.FetchRequest(
        (), 50, replica_id=2, replica_epoch=2, session_id=begun.session_id, session_epoch=1
    )
    assert cluster.ask(again, 2) == []
    told = cluster.news(TopicDeleted(ORDERS.topic, TOPIC_ID))
    (answer,) = [one for one in told if isinstance(one, m.FetchResponse)]
    assert [one.error for one in answer.partitions] == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_session_that_is_not_known_is_refused() -> None:
    cluster = committed()
    asked = m.FetchRequest((m.FetchPartition(ORDERS, 0),), 0, session_id=9, session_epoch=1)
    assert cluster.ask(asked) == [m.FetchResponse((), 0, "FETCH_SESSION_ID_NOT_FOUND")]
    assert Refused("Fetch", "FETCH_SESSION_ID_NOT_FOUND") in cluster.told


def test_in_a_session_who_was_served_comes_last_the_next_time() -> None:
    """KIP-74."""
    other = m.TopicPartition("orders", 1)
    cluster = Cluster()
    cluster.decide(1, 1, (1,), partitions=(ORDERS, other))
    cluster.produce(batch_of(b"a"), batch_of(b"b"))
    cluster.ask(m.ProduceRequest(1, 100, [(other, batch_of(b"c"))]))
    both = (m.FetchPartition(ORDERS, 0), m.FetchPartition(other, 0))
    (begun,) = cluster.ask(m.FetchRequest(both, 0, max_bytes=1, session_epoch=0))
    assert [one.partition for one in begun.partitions if one.records] == [ORDERS]
    again = m.FetchRequest((), 0, max_bytes=1, session_id=begun.session_id, session_epoch=1)
    (answer,) = cluster.ask(again)
    assert [one.partition for one in answer.partitions if one.records] == [other]


def test_topics_that_are_described_and_missing_are_asked_for() -> None:
    cluster = committed()
    (answer,) = [
        one
        for one in cluster.ask(m.MetadataRequest(("orders", "u"), True))
        if isinstance(one, m.MetadataResponse)
    ]
    assert [one.partition for one in answer.partitions] == [ORDERS]
    assert answer.errors == {"u": "UNKNOWN_TOPIC_OR_PARTITION"}


# Batches on their way


def test_a_batch_that_is_cut_off_is_none_and_an_empty_one_is_one() -> None:
    data = batch_of(b"a") + batch_of(b"b", b"c")
    assert [len(batch) for _, batch in whole(data)] == [ONE, len(data) - ONE]
    assert [len(batch) for _, batch in whole(data[:-1])] == [ONE]
    assert [len(batch) for _, batch in whole(data[: ONE + HEADER_SIZE - 1])] == [ONE]
    assert [*whole(b"")] == []
    empty = data[:8] + (HEADER_SIZE - 12).to_bytes(4, "big") + data[12:HEADER_SIZE]
    assert [len(batch) for _, batch in whole(empty)] == [HEADER_SIZE]


def test_records_before_the_offset_are_not_among_those_that_were_read() -> None:
    records = MemoryRecords(batch_of(b"a", b"b", b"c"), 1)
    assert [one.value for one in records] == [b"b", b"c"]
    assert (len(records), bool(records), bool(MemoryRecords(b""))) == (2, True, False)
    assert records[-1].value == b"c"
    assert [one.value for one in records[:1]] == [b"b"]


# Who waits


def test_fetches_that_were_answered_for_their_time_do_not_pile_up_where_nothing_happens() -> None:
    cluster = committed()
    for _ in range(3 * FEW_FETCHES):
        assert not cluster.fetch(2, max_wait_ms=10)
        assert fetched(cluster.later(10)) == [(None, 2, 0)]
    assert len(cluster.partition.waiting_fetches) <= FEW_FETCHES


def test_many_that_wait_are_all_kept_and_answered() -> None:
    cluster = committed()
    many = 3 * FEW_FETCHES
    for _ in range(many):
        assert not cluster.fetch(2, max_wait_ms=1000)
    assert len(cluster.partition.waiting_fetches) == many
    cluster.produce(batch_of(b"a"))
    answers = [cluster.catch_up(), cluster.catch_up()]
    found = [one for some in answers for one in some if one.target == CLIENT]
    assert [len(one.body.partitions[0].records) for one in found] == [1] * many


class Waiting(DelayedFetch):
    """A fetch that counts how often somebody looked whether it is answered."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "completed":
            Waiting.looks += 1
        return super().__getattribute__(name)


def waiting(cluster: Cluster, count: int) -> list[Waiting]:
    """So many more fetches that wait."""
    request = m.Request(CLIENT, 1, 0, m.FetchRequest((), 0))
    fetches = [Waiting(request, [], None) for _ in range(count)]
    for one in fetches:
        cluster.partition.wait(one)
    return fetches


def test_those_that_wait_are_looked_at_only_when_they_have_doubled() -> None:
    cluster = committed()
    Waiting.looks = 0
    for count, looks in ((FEW_FETCHES, 0), (1, 1), (FEW_FETCHES - 1, 1), (1, 3), (3, 3)):
        waiting(cluster, count)
        assert Waiting.looks == looks * FEW_FETCHES


def test_those_that_were_answered_go_as_soon_as_they_may_be_half() -> None:
    cluster = committed()
    for one in waiting(cluster, FEW_FETCHES + 1):
        one.completed = True
    rest = waiting(cluster, FEW_FETCHES - 1)
    assert len(cluster.partition.waiting_fetches) == 2 * FEW_FETCHES
    rest += waiting(cluster, 1)
    assert cluster.partition.waiting_fetches == rest
