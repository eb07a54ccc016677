"""The rules of one transactional id, guard by guard."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from refimpl.errors import Refusal
from refimpl.machines import transaction_errors as errors
from refimpl.machines.transaction_coordinator import (
    IDLE,
    LAST_EPOCH,
    PREPARED,
    ProducerIdentity,
    TransactionMetadata,
    TransactionState,
)

AT, BEFORE, OTHER = (ProducerIdentity(*one) for one in ((7, 4), (7, 3), (8, 4)))
STATES = [
    one for one in TransactionState if one is TransactionState.ONGOING or one in IDLE | PREPARED
]


def metadata(state: TransactionState = TransactionState.ONGOING, **of: Any) -> TransactionMetadata:
    partitions = frozenset[str]() if state in IDLE else frozenset({"p"})
    one = TransactionMetadata(state=state, at=AT, next=AT, last=BEFORE, partitions=partitions)
    return evolve(one, **of)


def new_id() -> int:
    return 9


STEPS: dict[str, Callable[[TransactionMetadata, ProducerIdentity], Any]] = {
    "init_producer_id": lambda one, at: one.init_producer_id(at, new_id),
    "init_fences": lambda one, at: one.init_fences(at),
    "add_partitions": lambda one, at: one.add_partitions(at, ("q",)),
    "verify_partition": lambda one, at: one.verify_partition(at, "p"),
    "end_txn": lambda one, at: one.end_txn(at, 2, new_id, committed=True),
    "time_out": lambda one, at: one.time_out(),
    "complete": lambda one, at: one.complete(0),
}
ALLOWED = {
    "init_producer_id": IDLE,
    "init_fences": {TransactionState.ONGOING},
    "add_partitions": {*IDLE, TransactionState.ONGOING},
    "verify_partition": {TransactionState.ONGOING},
    "end_txn": {TransactionState.ONGOING},
    "time_out": {TransactionState.ONGOING},
    "complete": PREPARED,
}


@pytest.mark.parametrize("state", STATES, ids=lambda one: one.shown)
@pytest.mark.parametrize("step", STEPS)
def test_each_step_has_its_states(step: str, state: TransactionState) -> None:
    before = metadata(state)
    if state in ALLOWED[step]:
        STEPS[step](before, AT)
    else:
        with pytest.raises(Refusal):
            STEPS[step](before, AT)
    assert before == metadata(state)


@pytest.mark.parametrize("step", ["add_partitions", "verify_partition", "end_txn"])
def test_only_the_producer_of_now_may_act(step: str) -> None:
    with pytest.raises(errors.InvalidProducerIdMapping):
        STEPS[step](metadata(), OTHER)
    for wrong in (BEFORE, AT.above()):
        with pytest.raises(errors.ProducerFenced):
            STEPS[step](metadata(), wrong)


@pytest.mark.parametrize("wrong", [AT.above(), OTHER, ProducerIdentity(7, 0)])
def test_an_expected_identity_is_the_one_of_now(wrong: ProducerIdentity) -> None:
    for state, step in (
        (TransactionState.EMPTY, "init_producer_id"),
        (TransactionState.ONGOING, "init_fences"),
    ):
        with pytest.raises(errors.ProducerFenced):
            STEPS[step](metadata(state), wrong)
    with pytest.raises(errors.ProducerFenced):
        metadata(TransactionState.EMPTY).init_again(wrong)
    assert metadata(TransactionState.EMPTY).init_again(BEFORE) == AT
    with pytest.raises(errors.ConcurrentTransactions):
        metadata(TransactionState.ONGOING).init_fences(BEFORE)


def test_the_next_epoch_is_one_more_and_behind_the_last_another_id() -> None:
    assert metadata(TransactionState.EMPTY).init_producer_id(None, new_id).at == AT.above()
    last = metadata(TransactionState.EMPTY, last_epoch=4)
    assert last.init_producer_id(None, new_id).at == ProducerIdentity(9, 0)
    ended = metadata(last_epoch=4).end_txn(AT, 2, new_id, committed=True)
    assert (ended.at, ended.next, ended.last) == (AT.above(), ProducerIdentity(9, 0), AT)
    assert ended.complete(0).at == ProducerIdentity(9, 0)


def test_a_fence_leaves_nobody_an_identity_and_a_time_out_its_producer() -> None:
    fenced, late = metadata().init_fences(None), metadata().time_out()
    assert fenced.at == fenced.next == late.at == late.next == AT.above()
    assert (fenced.last, late.last) == (None, AT)
    assert fenced.complete(0).end_again(AT, 2, committed=False) is None
    assert late.complete(0).end_again(AT, 2, committed=False) == AT.above()


def test_a_retry_is_of_the_same_end() -> None:
    done = metadata().end_txn(AT, 2, new_id, committed=True)
    with pytest.raises(errors.ConcurrentTransactions):
        done.end_again(AT, 2, committed=True)
    done = done.complete(0)
    assert done.end_again(AT, 2, committed=True) == AT.above()
    with pytest.raises(errors.NothingToEnd):
        done.end_again(AT, 2, committed=False)
    assert done.end_again(done.at, 2, committed=True) is None, "it has begun nothing since"
    assert metadata(TransactionState.EMPTY).end_again(BEFORE, 2, committed=True) is None
    before_2 = metadata().end_txn(AT, 0, new_id, committed=False).complete(0)
    assert before_2.end_again(AT, 0, committed=False) == AT


def test_a_transaction_is_complete_once_nobody_owes_an_answer() -> None:
    with pytest.raises(errors.MarkersNotWritten):
        metadata(TransactionState.PREPARE_COMMIT).complete(1)


def test_only_partitions_of_the_transaction_are_verified() -> None:
    metadata().verify_partition(AT, "p")
    with pytest.raises(errors.TransactionAbortable):
        metadata().verify_partition(AT, "q")


def test_partitions_that_are_there_change_nothing() -> None:
    one = metadata()
    assert one.add_partitions(AT, ("p",)) is one
    assert one.add_partitions(AT, ("p", "q")).partitions == {"p", "q"}
    empty = metadata(TransactionState.EMPTY)
    assert empty.add_partitions(AT, ()).state is TransactionState.ONGOING


def test_a_producer_whose_last_epoch_timed_out_is_given_none_above() -> None:
    """One more end would bring its marker to 32768, for which records have no room."""
    last = ProducerIdentity(7, LAST_EPOCH)
    begun = TransactionMetadata(at=last, next=last).add_partitions(last, ["t-0"])
    ended = begun.time_out().complete(0)
    assert ended.end_again(last, 2, committed=False) is None
    with pytest.raises(errors.ProducerFenced):
        ended.end_txn(last, 2, lambda: 8, committed=False)
    assert ended.init_producer_id(None, lambda: 8).at == ProducerIdentity(8, 0)
    before = ProducerIdentity(7, LAST_EPOCH - 1)
    begun = TransactionMetadata(at=before, next=before).add_partitions(before, ["t-0"])
    assert begun.time_out().complete(0).end_again(before, 2, committed=False) == last
