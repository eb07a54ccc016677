"""The rules of oracles that read committed logs: of share states, and of transactional ids."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from chaos.oracles.share_log import ShareStateLog
from chaos.oracles.transaction_log import FOLLOWS, TransactionLog
from chaos.oracles.violation import Violation
from chaos.sim.addresses import TOPIC, TOPIC_ID
from chaos.sim.settings import DAY_MS
from refimpl.machines.share_partition import DeliveryState
from refimpl.machines.transaction_coordinator import (
    ProducerIdentity,
    TransactionMetadata,
    TransactionState,
)
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import SHARE_RECORDS, CoordinatorRecord
from refimpl.records.schema import Uuid
from refimpl.records.share_groups import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from refimpl.transactions.log_records import record_of, tombstone

ID = Uuid(TOPIC_ID)
LIMIT = 3
SNAPSHOT, UPDATE = SHARE_RECORDS[0], SHARE_RECORDS[1]
AVAILABLE, ACKNOWLEDGED = int(DeliveryState.AVAILABLE), int(DeliveryState.ACKNOWLEDGED)


def partition(era: int = 0) -> Any:
    """A partition of a coordinator's topic."""
    return SimpleNamespace(name="log:0", era=era, log=SimpleNamespace(committed=list[Any]()))


def commit(oracle: Any, *records: CoordinatorRecord) -> None:
    """These records are committed, and the oracle reads on."""
    oracle.oracle.log.committed += [SimpleNamespace(value=one) for one in records]
    oracle.keep_up()


# Share states


def shares(era: int = 0) -> ShareStateLog:
    return ShareStateLog(partition(era), LIMIT)


def snapshot(
    *batches: StateBatch, state: int = 1, leader: int = 1, start: int = 0, part: int = 0
) -> CoordinatorRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=0,
        state_epoch=state,
        leader_epoch=leader,
        start_offset=start,
        create_timestamp=0,
        write_timestamp=0,
        state_batches=batches,
    )
    return CoordinatorRecord(SNAPSHOT, ShareSnapshotKey("sg", ID, part), value)


def update(*batches: StateBatch, leader: int = 1, start: int = 0) -> CoordinatorRecord:
    value = ShareUpdateValue(
        snapshot_epoch=0, leader_epoch=leader, start_offset=start, state_batches=batches
    )
    return CoordinatorRecord(UPDATE, ShareUpdateKey("sg", ID, 0), value)


def delivered(first: int, last: int, count: int = 1, state: int = AVAILABLE) -> StateBatch:
    return StateBatch(first, last, state, count)


@pytest.mark.parametrize("kind", [snapshot, update])
def test_within_a_state_epoch_start_and_leader_epoch_ascend(kind: Any) -> None:
    log = shares()
    commit(log, snapshot(leader=2, start=5), kind(leader=2, start=5))
    with pytest.raises(Violation, match="StartAscends"):
        commit(log, kind(leader=2, start=4))
    log = shares()
    commit(log, snapshot(leader=2, start=5))
    with pytest.raises(Violation, match="LeaderFenced"):
        commit(log, kind(leader=1, start=5))


def test_another_state_epoch_may_begin_anywhere() -> None:
    log = shares()
    commit(log, snapshot(leader=2, start=5), snapshot(state=2, leader=1, start=3))
    commit(log, update(leader=1, start=3))
    with pytest.raises(Violation, match="StartAscends"):
        commit(log, update(leader=1, start=2))


def test_an_update_needs_a_state() -> None:
    with pytest.raises(Violation, match=r"StateSurvives.*an update of nothing"):
        commit(shares(), update())
    log = shares()
    commit(log, snapshot(part=1))
    with pytest.raises(Violation, match="StateSurvives"):
        commit(log, update())


def test_a_state_that_was_deleted_is_none() -> None:
    log = shares()
    commit(log, snapshot(start=5), evolve(snapshot(), value=None), snapshot(start=1))
    commit(log, evolve(snapshot(), value=None))
    with pytest.raises(Violation, match="StateSurvives"):
        commit(log, update(start=5))


@pytest.mark.parametrize(
    ("kept", "right"),
    [
        ((delivered(1, 2, 2), delivered(3, 3, 1, ACKNOWLEDGED)), True),
        ((delivered(1, 2, 3), delivered(3, 3, 2, ACKNOWLEDGED)), True),
        ((delivered(1, 2, 1), delivered(3, 3, 1, ACKNOWLEDGED)), False),
        ((delivered(1, 2, 2), delivered(3, 3, 1)), False),
        ((delivered(2, 2, 2), delivered(3, 3, 1, ACKNOWLEDGED)), False),
        ((), False),
    ],
)
def test_a_snapshot_has_what_was_written_before_it(
    kept: tuple[StateBatch, ...], right: bool
) -> None:
    log = shares()
    commit(log, snapshot(), update(delivered(0, 2, 2)), update(delivered(3, 3, 1, ACKNOWLEDGED)))
    commit(log, update(start=1))
    if right:
        commit(log, snapshot(*kept, start=1))
    else:
        with pytest.raises(Violation, match="StateSurvives"):
            commit(log, snapshot(*kept, start=1))


def test_a_snapshot_may_leave_out_what_its_own_start_has_passed() -> None:
    log = shares()
    commit(log, snapshot(delivered(0, 2, 2)), snapshot(delivered(2, 2, 2), start=2))
    log = shares()
    commit(log, snapshot(delivered(0, 2, 2)))
    with pytest.raises(Violation, match="StateSurvives"):
        commit(log, snapshot(start=2))


def test_a_snapshot_of_another_state_epoch_begins_with_nothing() -> None:
    log = shares()
    commit(log, snapshot(delivered(0, 2, 2)), snapshot(state=2), snapshot(state=2))


def test_an_update_takes_nothing_back() -> None:
    """The oracle keeps the greater of two; a snapshot must have it."""
    log = shares()
    commit(log, snapshot(), update(delivered(0, 0, 2)), update(delivered(0, 0, 1)))
    with pytest.raises(Violation, match="StateSurvives"):
        commit(log, snapshot(delivered(0, 0, 1)))


def test_a_record_is_delivered_as_often_as_the_limit_says() -> None:
    log = shares()
    commit(log, snapshot(), update(delivered(0, 0, LIMIT)))
    with pytest.raises(Violation, match="CountWithinLimit"):
        commit(log, update(delivered(0, 0, LIMIT + 1)))


def test_the_last_snapshot_of_each_state_is_kept() -> None:
    log = shares()
    commit(log, snapshot(), snapshot(part=1), update(), snapshot())
    log.pruned(1)
    with pytest.raises(Violation, match="NeededIsKept"):
        log.pruned(2)
    commit(log, snapshot(part=1))
    log.pruned(3)
    with pytest.raises(Violation, match="the snapshot at 3 is needed, and the log begins at 4"):
        log.pruned(4)


def test_after_a_permitted_loss_states_are_not_judged() -> None:
    log = shares(era=1)
    commit(log, update())
    assert log.position == 1
    log = shares()
    commit(log, snapshot())
    log.oracle.era = 1
    log.pruned(1)


def test_a_record_is_done_with_below_the_start_or_once_it_is_acknowledged() -> None:
    log = shares()
    commit(log, snapshot(delivered(2, 2, 1), delivered(3, 3, 1, ACKNOWLEDGED), start=1))
    (kept,) = log.kept.values()
    assert [kept.is_final(offset) for offset in range(5)] == [True, False, False, True, False]


def test_what_the_start_has_passed_is_not_kept() -> None:
    log = shares()
    commit(log, snapshot(delivered(0, 3, 1)), update(start=2))
    (kept,) = log.kept.values()
    assert [*kept.deliveries] == [2, 3]


# Transactional ids

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
COMMITS, ABORTS = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMMITTED, ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


def transactions(era: int = 0) -> tuple[TransactionLog, Counter[str]]:
    counts = Counter[str]()

    def count(what: str) -> None:
        counts[what] += 1

    return TransactionLog(partition(era), count), counts


def state(
    of: TransactionState,
    epoch: int = 0,
    *,
    producer: int = 7,
    partitions: tuple[int, ...] = (),
    **times: int,
) -> CoordinatorRecord:
    at = ProducerIdentity(producer, epoch)
    numbers = frozenset(TopicPartition(TOPIC, one) for one in partitions)
    known: Any = {"updated_ms": 0, "started_ms": 0, "timeout_ms": 100} | times
    metadata = TransactionMetadata(state=of, at=at, next=at, partitions=numbers, **known)
    return record_of("tid", metadata, flexible=True)


AFTER = [(one, other) for one in FOLLOWS for other in FOLLOWS]


@pytest.mark.parametrize(("one", "other"), AFTER, ids=lambda of: of.shown)
def test_a_decision_is_carried_out_and_never_replaced(
    one: TransactionState, other: TransactionState
) -> None:
    free = {EMPTY, ONGOING, ABORTS}
    may = {
        **{EMPTY: free, ONGOING: {ONGOING, COMMITS, ABORTS}},
        **{COMMITS: {COMMITTED}, ABORTS: {ABORTED}, COMMITTED: free, ABORTED: free},
    }
    path = {
        **{EMPTY: [], ONGOING: [ONGOING], COMMITS: [ONGOING, COMMITS], ABORTS: [ONGOING, ABORTS]},
        **{COMMITTED: [ONGOING, COMMITS, COMMITTED], ABORTED: [ONGOING, ABORTS, ABORTED]},
    }
    log, _ = transactions()
    commit(log, state(EMPTY), *map(state, path[one]))
    epoch = 1 if other is EMPTY else 0
    if other in may[one]:
        commit(log, state(other, epoch))
    else:
        with pytest.raises(Violation, match="DecidedOnce"):
            commit(log, state(other, epoch))


@pytest.mark.parametrize("first", [one for one in FOLLOWS if one is not EMPTY])
def test_an_id_begins_without_a_transaction(first: TransactionState) -> None:
    log, _ = transactions()
    with pytest.raises(Violation, match=r"DecidedOnce.*after nothing"):
        commit(log, state(first))


def test_an_id_that_expired_begins_anew() -> None:
    log, counts = transactions()
    commit(log, state(EMPTY, 5), tombstone("tid"), state(EMPTY))
    assert counts == {"transactional ids expired": 1}


def test_a_decision_is_about_all_partitions_that_were_added() -> None:
    log, _ = transactions()
    two, three = (1, 2), (1, 2, 3)
    commit(log, state(EMPTY), state(ONGOING, partitions=two), state(ONGOING, partitions=three))
    for wrong in (state(ONGOING, partitions=two), state(COMMITS, partitions=two)):
        with pytest.raises(Violation, match="PartitionsKept"):
            commit(log, wrong)
        log.ids.clear()
        log.known = len(log.oracle.log.committed)
        commit(log, state(EMPTY), state(ONGOING, partitions=three))
    with pytest.raises(Violation, match="PartitionsKept"):
        commit(log, state(COMMITS, partitions=(1, 2, 3, 4)))


def test_partitions_go_once_a_decision_is_carried_out() -> None:
    log, _ = transactions()
    some = (1, 2)
    commit(log, state(EMPTY), state(ONGOING, partitions=some), state(COMMITS, partitions=some))
    commit(log, state(COMMITTED), state(ONGOING, partitions=(3,)))


@pytest.mark.parametrize(
    ("last", "right"),
    [
        (state(EMPTY, 2), False),
        (state(EMPTY, 3), True),
        (state(EMPTY, 0, producer=8), True),
        (state(ONGOING, 2), True),
        (state(ONGOING, 3), False),
        (state(ONGOING, 2, producer=8), False),
        (state(ABORTS, 1), False),
        (state(ABORTS, 2), True),
        (state(ABORTS, 3), True),
        (state(ABORTS, 0, producer=8), True),
    ],
    ids=range(10),
)
def test_epochs_of_a_producer_grow(last: CoordinatorRecord, right: bool) -> None:
    log, _ = transactions()
    commit(log, state(EMPTY, 2))
    if right:
        commit(log, last)
    else:
        with pytest.raises(Violation, match="ProducerEpochsGrow"):
            commit(log, last)


def test_decisions_are_kept_in_their_order_with_the_producer() -> None:
    log, _ = transactions()
    commit(log, state(EMPTY), state(ONGOING), state(COMMITS), state(COMMITTED))
    commit(log, state(ONGOING), state(ABORTS, 1), state(ABORTED, 1))
    assert log.decisions == {"tid": [(7, True), (7, False)]}


@pytest.mark.parametrize(
    ("of", "epoch", "updated_ms", "counted"),
    [
        (ABORTS, 1, 110, {"transactions that timed out"}),
        (ABORTS, 1, 109, set[str]()),
        (ABORTS, 0, 110, set[str]()),
        (COMMITS, 1, 110, set[str]()),
        (COMMITS, 0, 10, set[str]()),
        (COMMITS, 0, 9, {"transactions that ended before they began, by the clocks"}),
        (COMMITS, 0, 10 + DAY_MS, set[str]()),
        (COMMITS, 0, 11 + DAY_MS, {"transactions that took more than a day, by the clocks"}),
    ],
)
def test_transactions_are_counted_by_their_time(
    of: TransactionState, epoch: int, updated_ms: int, counted: set[str]
) -> None:
    log, counts = transactions()
    commit(log, state(EMPTY), state(ONGOING, started_ms=10))
    commit(log, state(of, epoch, updated_ms=updated_ms))
    assert set(counts) == counted


def test_after_a_permitted_loss_ids_are_not_judged() -> None:
    log, _ = transactions(era=1)
    commit(log, state(COMMITS))
    assert log.ids == {}
