"""The transactions of a producer, without brokers: what each answer leads to."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from refimpl.clients.backoff import Backoff
from refimpl.clients.producer.delivery import Delivery
from refimpl.clients.producer.errors import InvalidTransactionState
from refimpl.clients.producer.messages import (
    GroupMetadata,
    TransactionCall,
    TransactionDone,
    TransactionFailed,
)
from refimpl.clients.producer.transactions import Transactions
from refimpl.clients.requests import Nodes
from refimpl.messages import group as g
from refimpl.messages import transaction_coordination as t
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import InitProducerIdResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = GroupMetadata("g", 3, "m")


@define
class Bench:
    """A producer's transactions, and the one request that waits for its answer."""

    now: int = 0
    asked: tuple[int, Any, Callable[[int, Any], None]] | None = None
    idle: bool = True
    seen: list[str] = field(factory=list[str])
    machine: Transactions = field(init=False)

    def __attrs_post_init__(self) -> None:
        backoff = Backoff(100, 1000, lambda: 0.5)
        nodes = Nodes(backoff, 30_000, 5)
        delivery = Delivery()
        self.machine = Transactions(
            *("id", 60_000, 5_000, delivery, nodes, lambda: [1], backoff, self.send)
        )

    def send(self, now: int, node: int, body: Any, then: Callable[[int, Any], None]) -> None:
        assert self.asked is None
        self.asked = node, body, then
        self.seen.append(type(body).__name__)

    def run(self) -> None:
        self.machine.run(self.now, is_idle=self.idle)

    def call(self, kind: Any, **more: Any) -> None:
        self.machine.call(self.now, TransactionCall(kind, kind, **more))
        self.run()

    def answer(self, body: Any) -> None:
        assert self.asked is not None
        _, _, then = self.asked
        self.asked = None
        then(self.now, body)
        self.run()

    def good(self) -> Any:
        """The answer that all is well."""
        assert self.asked is not None
        body = self.asked[1]
        match body:
            case g.FindCoordinatorRequest(_, keys):
                return g.FindCoordinatorResponse([g.FoundCoordinator(keys[0], None, 1)])
            case t.InitTransactionalIdRequest():
                return InitProducerIdResponse(None, 7, body.producer_epoch + 1)
            case t.AddPartitionsToTxnRequest():
                return t.AddPartitionsToTxnResponse([(one, None) for one in body.partitions])
            case t.AddOffsetsToTxnRequest():
                return t.AddOffsetsToTxnResponse(None)
            case g.TxnOffsetCommitRequest():
                return g.TxnOffsetCommitResponse([(o.partition, None) for o in body.partitions])
            case _:
                return t.EndTxnResponse(None)

    def bad(self, error: str) -> Any:
        """The answer with an error."""
        match self.good():
            case InitProducerIdResponse():
                return InitProducerIdResponse(error, -1, -1)
            case t.AddPartitionsToTxnResponse(partitions):
                return t.AddPartitionsToTxnResponse([(one, error) for one, _ in partitions])
            case t.AddOffsetsToTxnResponse():
                return t.AddOffsetsToTxnResponse(error)
            case g.TxnOffsetCommitResponse(partitions):
                return g.TxnOffsetCommitResponse([(one, error) for one, _ in partitions])
            case g.FindCoordinatorResponse():
                return g.FindCoordinatorResponse([g.FoundCoordinator("id", error)])
            case _:
                return t.EndTxnResponse(error)

    def settle(self, until: str = "") -> None:
        """Answer well, up to a request of this name."""
        for _ in range(50):
            if self.asked is None:
                self.now += 100
                self.run()
            elif type(self.asked[1]).__name__ == until:
                return
            else:
                self.answer(self.good())
        assert not until, f"no {until} was asked: {self.seen}"

    def results(self) -> list[Any]:
        taken, self.machine.outputs = self.machine.outputs, []
        return taken


def ready() -> Bench:
    bench = Bench()
    bench.call("init")
    bench.settle()
    assert bench.results() == [TransactionDone("init")]
    return bench


def opened() -> Bench:
    """A transaction with a partition and offsets, of which nothing was asked yet."""
    bench = ready()
    bench.machine.begin()
    bench.machine.see(T0)
    bench.call("offsets", offsets={T1: (5, -1, "")}, group=GROUP)
    bench.seen.clear()
    return bench


def test_requests_come_in_kafkas_order() -> None:
    bench = opened()
    bench.settle()
    assert bench.results() == [TransactionDone("offsets")]
    bench.call("commit")
    bench.settle()
    assert bench.results() == [TransactionDone("commit")]
    assert bench.seen == [
        *("AddOffsetsToTxnRequest", "FindCoordinatorRequest", "TxnOffsetCommitRequest"),
        "EndTxnRequest",
    ]
    assert bench.machine.state == "ready"
    assert not bench.machine.added


def test_a_transaction_in_which_nothing_was_sent_ends_without_a_request() -> None:
    bench = ready()
    bench.machine.begin()
    bench.seen.clear()
    bench.call("commit")
    assert bench.results() == [TransactionDone("commit")]
    assert bench.seen == []


def test_an_end_waits_until_no_batch_is_under_way() -> None:
    bench = opened()
    bench.settle()
    bench.idle = False
    bench.call("commit")
    assert bench.asked is None
    bench.idle = True
    bench.run()
    assert bench.asked is not None


STEPS = ["AddPartitionsToTxnRequest", "AddOffsetsToTxnRequest", "TxnOffsetCommitRequest"]
ABORTABLE = ["TOPIC_AUTHORIZATION_FAILED", "TRANSACTION_ABORTABLE", "UNKNOWN_PRODUCER_ID"]
AGAIN = ["COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR"]
FATAL = ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"]


def at(step: str) -> Bench:
    """A bench that waits for the answer to a request."""
    bench = ready()
    bench.machine.begin()
    if step == "AddPartitionsToTxnRequest":
        bench.machine.see(T0)
        bench.call("commit")
    else:
        bench.call("offsets", offsets={T1: (5, -1, "")}, group=GROUP)
    bench.settle(step)
    return bench


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", AGAIN)
def test_what_may_succeed_later_is_asked_again(step: str, error: str) -> None:
    bench = at(step)
    bench.answer(bench.bad(error))
    assert bench.asked is None
    bench.settle()
    assert bench.seen.count(step) == 2
    assert [type(one) for one in bench.results()] == [TransactionDone]


@pytest.mark.parametrize("step", STEPS)
def test_a_lost_connection_is_asked_again_of_the_coordinator_that_is_found(step: str) -> None:
    bench = at(step)
    bench.seen.clear()
    bench.answer(None)
    bench.settle()
    assert bench.seen[:2] == ["FindCoordinatorRequest", step]


def test_another_coordinator_is_found_and_each_wait_is_twice_as_long() -> None:
    bench = at("AddPartitionsToTxnRequest")
    bench.seen.clear()
    waits: list[int] = []
    for _ in range(3):
        bench.answer(bench.bad("CONCURRENT_TRANSACTIONS"))
        start = bench.now
        while bench.asked is None:
            bench.now += 1
            bench.run()
        waits.append(bench.now - start)
    assert waits == [100, 200, 400]
    bench.answer(bench.bad("NOT_COORDINATOR"))
    bench.settle("FindCoordinatorRequest")
    assert bench.seen == [*["AddPartitionsToTxnRequest"] * 3, "FindCoordinatorRequest"]


def test_the_reason_of_a_refusal_is_that_of_what_was_attempted() -> None:
    bench = ready()
    bench.machine.begin()
    bench.machine.see(T0)
    bench.machine.see(T1)
    bench.call("commit")
    rows = [(T0, "OPERATION_NOT_ATTEMPTED"), (T1, "TOPIC_AUTHORIZATION_FAILED")]
    bench.answer(t.AddPartitionsToTxnResponse(rows))
    assert [one.error for one in bench.results()] == ["TOPIC_AUTHORIZATION_FAILED"]
    assert [*bench.machine.adding] == [T0, T1]  # their batches are still held back


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", ABORTABLE)
def test_some_errors_leave_an_abort_alone(step: str, error: str) -> None:
    bench = at(step)
    bench.answer(bench.bad(error))
    (failed,) = bench.results()
    assert isinstance(failed, TransactionFailed)
    assert (failed.error, failed.abortable) == (error, True)
    bench.call("commit")
    assert [one.error for one in bench.results()] == [error]
    bench.seen.clear()
    bench.call("abort")
    bench.settle()
    assert bench.results() == [TransactionDone("abort")]
    epoch = ["InitTransactionalIdRequest"] if error == "UNKNOWN_PRODUCER_ID" else []
    assert bench.seen == ["EndTxnRequest", *epoch]
    assert bench.machine.delivery.epoch == len(epoch)
    bench.machine.begin()


@pytest.mark.parametrize("step", [*STEPS, "EndTxnRequest", "InitTransactionalIdRequest"])
@pytest.mark.parametrize("error", FATAL)
def test_other_errors_end_the_producer(step: str, error: str) -> None:
    if step == "InitTransactionalIdRequest":
        bench = Bench()
        bench.call("init")
        bench.settle(step)
    elif step == "EndTxnRequest":
        bench = opened()
        bench.settle()
        bench.results()
        bench.call("commit")
    else:
        bench = at(step)
    bench.answer(bench.bad(error))
    wanted = "PRODUCER_FENCED" if error == "INVALID_PRODUCER_EPOCH" else error
    (failed,) = bench.results()
    assert (failed.error, failed.abortable) == (wanted, False)
    for kind in ("init", "commit", "abort"):
        bench.call(kind)
        assert [(one.error, one.abortable) for one in bench.results()] == [(wanted, False)]
    with pytest.raises(InvalidTransactionState):
        bench.machine.begin()


def test_a_batch_that_was_not_written_fails_the_commit_that_waits() -> None:
    bench = opened()
    bench.settle()
    bench.results()
    bench.idle = False
    bench.call("commit")
    bench.machine.batch_failed("REQUEST_TIMED_OUT", "no result in time")
    (failed,) = bench.results()
    assert (failed.error, failed.abortable) == ("REQUEST_TIMED_OUT", True)
    assert bench.machine.why_not() == ("REQUEST_TIMED_OUT", "no result in time")


def test_a_call_that_times_out_goes_on_with_the_next_one() -> None:
    bench = opened()
    bench.settle()
    bench.results()
    bench.call("commit")
    bench.now += 5_000
    bench.run()
    assert [one.error for one in bench.results()] == ["REQUEST_TIMED_OUT"]
    bench.call("commit")
    bench.answer(bench.good())
    assert bench.results() == [TransactionDone("commit")]
    assert bench.seen.count("EndTxnRequest") == 1


def test_offsets_that_time_out_are_no_end_of_a_commit() -> None:
    bench = opened()
    bench.now += 5_000
    bench.run()
    assert [one.error for one in bench.results()] == ["REQUEST_TIMED_OUT"]
    bench.call("commit")
    bench.settle("EndTxnRequest")
    assert bench.results() == []
    bench.settle()
    assert bench.results() == [TransactionDone("commit")]
