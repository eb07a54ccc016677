"""A transaction coordinator: what it answers, when, and what a failover leaves of it."""

from typing import Any

import pytest
from attrs import evolve

from refimpl.coordinator.runtime import APPEND, CoordinatorState
from refimpl.machines.transaction_coordinator import TransactionState as Txn
from refimpl.messages import transaction_coordination as m
from refimpl.messages.controller import InitProducerIdResponse
from refimpl.transactions.config import TransactionConfig
from refimpl.transactions.shard import EXPIRE, TIME_OUT
from tests.refimpl.groups.coordinating import refusal
from tests.refimpl.transactions.coordinating import CONFIG, ID, NOW, OFFSETS, P0, P1, Conversation

CONCURRENT = "CONCURRENT_TRANSACTIONS"
FENCED = "PRODUCER_FENCED"
NO_MAPPING = "INVALID_PRODUCER_ID_MAPPING"


def test_each_instance_gets_the_next_epoch_of_one_producer_id() -> None:
    c = Conversation()
    assert c.init() == InitProducerIdResponse(None, 7, 0)
    assert c.init() == InitProducerIdResponse(None, 7, 1)
    assert c.ids[0] == 8


def test_a_transaction_is_added_to_committed_and_completed() -> None:
    c = Conversation()
    at = c.begun(P0, P1)
    assert c.decided == []
    assert c.end(at) == m.EndTxnResponse(None, 7, 1)
    assert c.decided == [ID], "once, when the decision is committed"
    (marker,) = c.markers()
    assert marker == (7, 1, True, (P0, P1), 1, 2)
    c.complete()
    assert c.metadata.state is Txn.COMPLETE_COMMIT
    assert c.metadata.at == c.metadata.next == (7, 1)
    assert c.metadata.partitions == frozenset()


def test_in_version_1_the_epoch_stays_and_the_answer_has_none() -> None:
    c = Conversation()
    at = c.begun()
    assert c.add(P1, at=at, transaction_version=0) is None
    assert c.end(at, version=0) == m.EndTxnResponse(None)
    assert c.metadata.at == at
    (marker,) = c.markers()
    assert marker == (*at, True, (P0, P1), 1, 0)
    c.complete()
    assert c.add(P0, at=at) is None


@pytest.mark.parametrize(("level", "told"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_a_marker_is_of_the_level_in_force_and_of_no_later_one_than_its_transaction(
    level: int, told: int
) -> None:
    """An administrator may change the level between the decision and the marker."""
    c = Conversation(config=evolve(CONFIG, transaction_version=2))
    c.end(c.begun(P0))
    c.config = evolve(CONFIG, transaction_version=level)
    (marker,) = c.markers()
    assert marker.transaction_version == told


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_nothing_happens_between_a_decision_and_its_last_marker(
    version: int, committed: bool
) -> None:
    c = Conversation()
    at = c.begun(P0, P1)
    assert c.end(at, committed=committed, version=version).error is None
    c.write(P0)
    now = (7, c.metadata.at.epoch)
    assert c.init().error == CONCURRENT
    assert c.add(P0, at=now) == CONCURRENT
    assert c.end(at, committed=committed, version=version).error == CONCURRENT
    assert c.add(P0, at=now, verify_only=True) == CONCURRENT
    c.complete()
    assert c.end(at, committed=committed, version=version).error is None, "a retry is told again"
    assert c.end(at, committed=not committed, version=version).error == "INVALID_TXN_STATE"
    assert c.init().error is None


def test_a_retry_in_version_2_is_told_the_epoch_once_more() -> None:
    c = Conversation()
    at = c.begun()
    told = c.end(at)
    c.complete()
    assert c.end(at) == told


def test_nothing_begun_may_be_aborted_in_version_2_alone() -> None:
    c = Conversation()
    _, *at = c.init()
    assert c.end((at[0], at[1])).error == "INVALID_TXN_STATE"
    assert c.end((at[0], at[1]), committed=False, version=0).error == "INVALID_TXN_STATE"
    assert c.end((at[0], at[1]), committed=False) == m.EndTxnResponse(None, 7, 1)
    assert c.markers()[0].partitions == ()
    c.complete()
    assert c.metadata.state is Txn.COMPLETE_ABORT


def test_who_is_not_the_producer_is_told_so() -> None:
    c = Conversation()
    assert c.add(P0, at=(7, 0)) == NO_MAPPING
    assert c.end((7, 0)).error == NO_MAPPING
    at = c.begun()
    for wrong, error in (((8, 0), NO_MAPPING), ((7, 1), FENCED), ((7, -1), FENCED)):
        assert c.add(P1, at=wrong) == error
        assert c.add(P0, at=wrong, verify_only=True) == error
        assert c.end(wrong).error == error
        assert c.ask(m.AddOffsetsToTxnRequest(ID, *wrong, "g")).error == error
    assert c.metadata.at == at
    assert c.metadata.partitions == {P0}


def test_a_partition_is_verified_by_committed_state() -> None:
    c = Conversation()
    at = c.begun(P0)
    assert c.add(P0, at=at, verify_only=True) is None
    assert c.add(P1, at=at, verify_only=True) == "TRANSACTION_ABORTABLE"
    c.replicated = False
    token = c.send(m.AddPartitionsToTxnRequest(ID, *at, (P1,)))
    assert token not in c.answers
    assert c.add(P1, at=at, verify_only=True) == "TRANSACTION_ABORTABLE"
    c.commit()
    assert c.answers[token].partitions == [(P1, None)]
    assert c.add(P1, at=at, verify_only=True) is None


def test_a_partition_that_is_there_is_added_without_a_record() -> None:
    c = Conversation()
    at = c.begun(P0, P1)
    before = c.log.end
    assert c.add(P1, at=at) is None
    assert c.log.end == before


def test_a_groups_offsets_are_a_partition() -> None:
    c = Conversation()
    _, *at = c.init()
    assert c.ask(m.AddOffsetsToTxnRequest(ID, at[0], at[1], "g")).error is None
    assert c.metadata.partitions == {OFFSETS}
    assert c.metadata.client_version == 0, "since version 2 nobody asks for it"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_has_its_limits(timeout_ms: int) -> None:
    assert Conversation().init(timeout_ms=timeout_ms).error == "INVALID_TRANSACTION_TIMEOUT"


@pytest.mark.parametrize("half", [(7, -1), (-1, 0)])
def test_half_an_identity_is_refused(half: tuple[int, int]) -> None:
    assert Conversation().init(*half).error == "INVALID_REQUEST"


# Fences


def test_a_new_instance_aborts_the_transaction_of_the_one_before() -> None:
    c = Conversation()
    at = c.begun()
    assert c.init() == InitProducerIdResponse(CONCURRENT)
    (marker,) = c.markers()
    assert marker[:3] == (7, 1, False)
    assert c.end(at).error == FENCED
    c.complete()
    assert c.init() == InitProducerIdResponse(None, 7, 2), "the epoch of the fence is nobody's"
    assert c.end(at, committed=False).error == FENCED


def test_a_fenced_producer_is_not_revived_by_its_own_abort() -> None:
    """Kafka 4.3 gives it the epoch of the fence (F7)."""
    c = Conversation()
    at = c.begun()
    c.init()
    assert c.end(at, committed=False).error == FENCED
    c.complete()
    assert c.end(at, committed=False).error == FENCED


def test_an_instance_that_names_its_epoch_gets_the_next_and_asks_again_for_it() -> None:
    c = Conversation()
    c.init()
    assert c.init(7, 0) == InitProducerIdResponse(None, 7, 1)
    assert c.init(7, 0) == InitProducerIdResponse(None, 7, 1), "its answer was lost"
    assert c.init(7, 1) == InitProducerIdResponse(None, 7, 2)
    assert c.init(7, 0).error == FENCED
    assert c.init(8, 2).error == FENCED


def test_a_zombie_cannot_abort_its_successors_transaction() -> None:
    """Kafka 4.3 does not look at the epoch while a transaction is open (F5)."""
    c = Conversation()
    c.init()
    at = c.begun()
    assert c.init(7, 0).error == FENCED
    assert c.metadata.state is Txn.ONGOING
    assert c.init(*at).error == CONCURRENT, "the newest may abort its own"
    assert c.metadata.state is Txn.PREPARE_ABORT


def test_an_exhausted_epoch_is_followed_by_another_producer_id() -> None:
    c = Conversation()
    c.init()
    c.shard.store.ids.put(ID, _with_epoch(c, 32766))
    assert c.init(7, 32766) == InitProducerIdResponse(None, 8, 0)
    assert c.init(7, 32766) == InitProducerIdResponse(None, 8, 0), "its answer was lost"
    c.fail_over()
    assert c.init(7, 32766) == InitProducerIdResponse(None, 8, 0)


def test_the_end_with_the_last_epoch_gives_another_producer_id() -> None:
    c = Conversation()
    c.init()
    c.shard.store.ids.put(ID, _with_epoch(c, 32766))
    assert c.add(P0, at=(7, 32766)) is None
    assert c.end((7, 32766)) == m.EndTxnResponse(None, 8, 0)
    assert c.markers()[0][:2] == (7, 32767), "the marker is of the old one"
    c.fail_over()
    c.complete()
    assert c.metadata.at == (8, 0)
    assert c.end((7, 32766)) == m.EndTxnResponse(None, 8, 0)
    assert c.add(P0, at=(8, 0)) is None


def _with_epoch(c: Conversation, epoch: int) -> Any:
    from attrs import evolve

    from refimpl.machines.transaction_coordinator import ProducerIdentity

    at = ProducerIdentity(7, epoch)
    return evolve(c.metadata, at=at, next=at)


# Answers wait


def test_an_answer_waits_for_its_record_and_others_for_the_answer() -> None:
    c = Conversation()
    at = c.begun()
    c.replicated = False
    ended, again = c.send(m.EndTxnRequest(ID, *at, True)), c.send(m.EndTxnRequest(ID, *at, True))
    assert c.answers.keys().isdisjoint({ended, again})
    assert c.decided == [], "no marker for what may be lost"
    c.commit()
    assert c.answers[ended] == m.EndTxnResponse(None, 7, 1)
    assert c.answers[again].error == CONCURRENT
    assert c.decided == [ID]


def test_a_record_that_is_not_committed_in_time_is_not_told() -> None:
    c = Conversation()
    at = c.begun()
    c.replicated = False
    token = c.send(m.EndTxnRequest(ID, *at, True))
    c.now = c.timers[APPEND]
    c.take(c.coordinator.due(c.now, APPEND))
    assert c.answers[token].error == "COORDINATOR_NOT_AVAILABLE"
    c.commit()
    assert c.decided == [ID], "it is committed all the same"


def test_a_refused_append_has_changed_nothing() -> None:
    c = Conversation()
    at = c.begun()
    c.log.refuses = refusal("NOT_LEADER_OR_FOLLOWER")
    assert c.end(at).error == "NOT_COORDINATOR"
    assert c.metadata.state is Txn.ONGOING
    c.log.refuses = None
    assert c.end(at).error is None


# Failover


def story(c: Conversation) -> None:
    """A transaction with a time-out in the end, and one that commits: a record for each change."""
    at = c.begun(P0)
    assert c.add(P1, at=at) is None
    c.end(at)
    c.complete()
    c.add(P0, at=(7, 1))
    c.now += 60_000
    c.take(c.coordinator.due(c.now, TIME_OUT))
    c.complete()
    c.init()


def test_a_failover_at_each_record_leaves_the_same_state() -> None:
    whole = Conversation()
    story(whole)
    assert whole.log.end == 9
    for count in range(1, whole.log.end + 1):
        c = Conversation()
        c.log.pairs, c.log.high_watermark = whole.log.pairs[:count], count
        c.fail_over()
        rest = Conversation()
        rest.log.pairs, rest.log.high_watermark = whole.log.pairs[:1], 1
        rest.fail_over()
        for offset, record in rest_records(whole, 1, count):
            rest.shard.replay(record, offset)
        assert rest.shard.store.ids.current == c.shard.store.ids.current
        prepared = c.metadata.prepared
        assert c.decided == ([ID] if prepared else []), "what was decided goes on"
        if prepared:
            c.complete()
        assert c.init().error == (CONCURRENT if c.metadata.state is Txn.PREPARE_ABORT else None)


def rest_records(c: Conversation, first: int, end: int) -> list[Any]:
    found: list[Any] = []
    at = first
    while at < end:
        records, at = c.log.read(at, 1)
        found += records
    return [one for one in found if one[0] < end]


def test_nothing_is_done_by_what_is_loaded_and_not_committed() -> None:
    """Kafka 4.3 answers, verifies and sends markers at once (F2)."""
    c = Conversation()
    at = c.begun(P0)
    c.replicated = False
    c.send(m.EndTxnRequest(ID, *at, True))
    c.fail_over()
    assert c.coordinator.state is CoordinatorState.LOADING
    assert c.decided == []
    loading = "COORDINATOR_LOAD_IN_PROGRESS"
    assert c.init().error == loading
    assert c.add(P0, at=at, verify_only=True) == loading
    assert c.end(at).error == loading
    c.commit()
    assert c.decided == [ID]
    assert c.end(at).error == CONCURRENT


def test_a_decision_that_is_lost_is_not_carried_out() -> None:
    c = Conversation()
    at = c.begun(P0)
    c.replicated = False
    token = c.send(m.EndTxnRequest(ID, *at, True))
    c.fail_over(lost=1)
    assert c.answers[token].error == "NOT_COORDINATOR"
    assert c.decided == []
    c.replicated = True
    assert c.end(at, committed=False).error is None
    assert c.markers()[0].committed is False


def test_a_producer_asks_again_after_a_failover() -> None:
    """Kafka 4.3 fences it: the epoch before is in memory alone (KAFKA-20357)."""
    c = Conversation()
    c.init()
    assert c.init(7, 0) == InitProducerIdResponse(None, 7, 1)
    c.fail_over()
    assert c.init(7, 0) == InitProducerIdResponse(None, 7, 1)


def test_the_marker_of_another_coordinator_has_its_epoch() -> None:
    c = Conversation()
    c.end(c.begun(P0))
    c.fail_over(epoch=9)
    assert c.markers()[0].coordinator_epoch == 9


@pytest.mark.parametrize("broken", [b"\0\0", b"\0\7", None])
def test_a_load_that_fails_serves_nothing(broken: bytes | None) -> None:
    """Kafka 4.3 logs it, and serves what it has read before."""
    c = Conversation()
    at = c.begun(P0)
    c.end(at)
    key, value = c.log.pairs[-1]
    assert value is not None
    unknown_state = value[:16] + b"\x63" + value[17:]
    c.log.pairs.append((key, unknown_state if broken is None else broken))
    c.log.high_watermark = c.log.end
    c.fail_over()
    assert c.coordinator.state is CoordinatorState.CLOSED
    assert c.coordinator.failure is not None
    assert c.decided == []
    assert c.init().error == c.end(at).error == "NOT_COORDINATOR"
    assert c.add(P0, at=at, verify_only=True) == "NOT_COORDINATOR"


# Time


def test_a_transaction_that_takes_long_is_aborted_and_its_producer_goes_on() -> None:
    c = Conversation()
    at = c.begun(P0)
    assert c.timers[TIME_OUT] == NOW + 10_000
    c.now += 59_999
    c.take(c.coordinator.due(c.now, TIME_OUT))
    assert c.metadata.state is Txn.ONGOING
    c.now += 1
    c.take(c.coordinator.due(c.now, TIME_OUT))
    assert c.timers[TIME_OUT] == c.now + 10_000
    assert c.metadata.state is Txn.PREPARE_ABORT
    assert c.markers()[0][:3] == (7, 1, False)
    assert c.end(at, committed=False).error == CONCURRENT
    c.complete()
    assert c.end(at).error == "INVALID_TXN_STATE", "it is not committed"
    assert c.end(at, committed=False) == m.EndTxnResponse(None, 7, 1)
    assert c.end(at, version=0).error == FENCED
    assert c.init(*at) == InitProducerIdResponse(None, 7, 1)


def test_a_producer_that_took_long_is_fenced_once_another_instance_has_begun() -> None:
    c = Conversation()
    at = c.begun(P0)
    c.now += 60_000
    c.take(c.coordinator.due(c.now, TIME_OUT))
    c.complete()
    assert c.init() == InitProducerIdResponse(None, 7, 2)
    assert c.end(at, committed=False).error == FENCED
    assert c.init(*at).error == FENCED


def test_the_time_of_a_transaction_counts_from_its_first_partition() -> None:
    c = Conversation()
    _, *at = c.init()
    c.now += 50_000
    c.add(P0, at=(at[0], at[1]))
    c.now += 50_000
    c.add(P1, at=(at[0], at[1]))
    c.take(c.coordinator.due(c.now, TIME_OUT))
    assert c.metadata.state is Txn.ONGOING
    assert c.metadata.started_ms == NOW + 50_000


def test_a_transaction_that_a_clock_ahead_began_counts_from_the_load() -> None:
    c = Conversation(now=NOW + 100_000_000)
    c.begun(P0)
    c.now = NOW
    c.fail_over()
    c.now += 59_999
    c.take(c.coordinator.due(c.now, TIME_OUT))
    assert c.metadata.state is Txn.ONGOING
    c.now += 1
    c.take(c.coordinator.due(c.now, TIME_OUT))
    assert c.metadata.state is Txn.PREPARE_ABORT


def test_a_decided_transaction_does_not_time_out() -> None:
    c = Conversation()
    c.end(c.begun(P0))
    c.now += 10**9
    c.take(c.coordinator.due(c.now, TIME_OUT))
    assert c.metadata.state is Txn.PREPARE_COMMIT


def test_an_id_expires_by_the_brokers_clock_and_not_within_a_transaction() -> None:
    week_ms = 7 * 86_400_000
    c = Conversation()
    at = c.begun(P0)
    c.now += week_ms
    c.take(c.coordinator.due(c.now, EXPIRE))
    assert c.metadata.state is Txn.ONGOING
    c.end(at)
    c.complete()
    c.now += week_ms - 1
    c.take(c.coordinator.due(c.now, EXPIRE))
    assert ID in c.shard.store.ids.current
    c.now += 1
    c.take(c.coordinator.due(c.now, EXPIRE))
    assert ID not in c.shard.store.ids.current
    assert c.log.pairs[-1][1] is None, "a tombstone"
    assert c.add(P0, at=(7, 1)) == NO_MAPPING
    c.fail_over()
    assert c.init() == InitProducerIdResponse(None, 8, 0)


def test_many_ids_expire_in_several_batches() -> None:
    c = Conversation(ids=[*range(2000)])
    for number in range(700):
        c.init(transactional_id=f"id-{number}")
    c.now += 7 * 86_400_000
    c.take(c.coordinator.due(c.now, EXPIRE))
    assert len(c.shard.store.ids.current) == 200
    assert c.timers[EXPIRE] == c.now
    c.take(c.coordinator.due(c.now, EXPIRE))
    assert c.shard.store.ids.current == {}
    assert c.timers[EXPIRE] == c.now + 3_600_000


# Operators


def test_an_id_is_described() -> None:
    c = Conversation()
    assert c.ask(m.DescribeTransactionRequest(ID)).error == "TRANSACTIONAL_ID_NOT_FOUND"
    c.begun(P1, P0)
    described = c.ask(m.DescribeTransactionRequest(ID))
    assert described == m.DescribeTransactionResponse(
        ID, None, "Ongoing", 60_000, NOW, 7, 0, [P0, P1]
    )


def test_without_flexible_records_version_0_is_written() -> None:
    c = Conversation(config=TransactionConfig(transaction_version=0))
    c.end(c.begun(P0))
    assert {value[:2] for _, value in c.log.pairs if value} == {b"\0\0"}
    c.fail_over()
    assert c.decided == [ID]
