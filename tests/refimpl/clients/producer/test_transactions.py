"""The transactions of a producer, without brokers: what each answer leads to."""

from typing import Any

import pytest
from attrs import define, field

from refimpl.clients.backoff import Backoff
from refimpl.clients.metadata import ClientMetadata
from refimpl.clients.network import NetworkClient
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
from refimpl.messages.broker import Request, Response, Timer, TopicPartition
from refimpl.messages.controller import InitProducerIdResponse
from tests.refimpl.clients.producer.transaction_scripts import (
    PlayTransactions,
    transaction_script_of,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = GroupMetadata("g", 3, "m")


@define
class Bench:
    """A producer's transactions, and the one request that waits for its answer."""

    now: int = 0
    asked: Request | None = None
    idle: bool = True
    seen: list[str] = field(factory=list[str])
    network: NetworkClient = field(init=False)
    machine: Transactions = field(init=False)

    def __attrs_post_init__(self) -> None:
        backoff = Backoff(100, 1000, lambda: 0.5)
        nodes = Nodes(backoff, 30_000, 5)
        self.network = NetworkClient(
            *(-1, nodes, ClientMetadata([1]), backoff, True, False, 0),
        )
        self.machine = Transactions("id", 60_000, 5_000, Delivery(), self.network)

    def run(self) -> None:
        self.machine.run(self.now, is_idle=self.idle)
        while self.network.outputs:
            assert self.asked is None
            self.asked = asked = self.network.outputs.pop()
            self.seen.append(type(asked.body).__name__)

    def call(self, kind: Any, **more: Any) -> None:
        self.machine.call(self.now, TransactionCall(kind, kind, **more))
        self.run()

    def answer(self, body: Any) -> None:
        assert self.asked is not None
        number, self.asked = self.asked.correlation_id, None
        self.network.answered(self.now, Response(1, -1, number, body))
        self.run()

    def good(self) -> Any:
        """The answer that all is well."""
        assert self.asked is not None
        body = self.asked.body
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
            elif type(self.asked.body).__name__ == until:
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
    assert bench.machine.due(bench.now) == bench.now + 5_000, "the answers wake it, and no timer"
    bench.idle = True
    bench.run()
    assert bench.asked is not None


STEPS = ["AddPartitionsToTxnRequest", "AddOffsetsToTxnRequest", "TxnOffsetCommitRequest"]
ABORTABLE = ["TOPIC_AUTHORIZATION_FAILED", "TRANSACTION_ABORTABLE", "UNKNOWN_PRODUCER_ID"]
AGAIN = ["COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR"]
FATAL = [
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"),
    "INVALID_PRODUCER_ID_MAPPING",
]


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
    # What the coordinator has refused is in no transaction.
    end = ["EndTxnRequest"] if step == "TxnOffsetCommitRequest" else []
    assert bench.seen == [*end, *epoch]
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


def timed_out(kind: str) -> Bench:
    """A transaction whose end had no result in time."""
    bench = opened()
    bench.settle()
    bench.results()
    bench.call(kind)
    bench.now += 5_000
    bench.run()
    assert [one.error for one in bench.results()] == ["REQUEST_TIMED_OUT"]
    return bench


@pytest.mark.parametrize("kind", ["commit", "abort"])
def test_nothing_begins_before_the_result_of_a_call_that_timed_out_is_heard(kind: str) -> None:
    bench = timed_out(kind)
    bench.settle()
    assert (bench.machine.state, bench.results()) == ("ready", [])
    with pytest.raises(InvalidTransactionState, match="call it again"):
        bench.machine.begin()
    for other in {"init", "commit", "abort", "offsets"} - {kind}:
        bench.call(other)
        assert [one.error for one in bench.results()] == ["INVALID_TXN_STATE"]
    bench.call(kind)
    assert bench.results() == [TransactionDone(kind)]
    bench.machine.begin()


def test_a_call_that_timed_out_says_later_that_it_failed() -> None:
    bench = timed_out("commit")
    bench.answer(bench.bad("TRANSACTION_ABORTABLE"))
    assert bench.results() == []
    bench.call("abort")
    assert [one.error for one in bench.results()] == ["INVALID_TXN_STATE"]
    bench.call("commit")
    assert [one.error for one in bench.results()] == ["TRANSACTION_ABORTABLE"]
    bench.call("abort")
    bench.settle()
    assert bench.results() == [TransactionDone("abort")]


def test_an_abort_that_waits_for_its_epoch_goes_on_after_a_time_out() -> None:
    bench = opened()
    bench.settle()
    bench.results()
    bench.machine.batch_failed("INVALID_RECORD", "it is none")
    bench.call("abort")
    bench.settle("InitTransactionalIdRequest")
    bench.now += 5_000
    bench.run()
    assert [one.error for one in bench.results()] == ["REQUEST_TIMED_OUT"]
    bench.call("abort")
    bench.settle()
    assert bench.results() == [TransactionDone("abort")]
    assert bench.machine.delivery.epoch == 1


@pytest.mark.parametrize("error", ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"])
def test_a_producer_that_may_not_have_its_id_may_ask_again(error: str) -> None:
    bench = opened()
    bench.settle()
    bench.results()
    bench.machine.batch_failed("INVALID_RECORD", "it is none")
    bench.call("abort")
    bench.settle("InitTransactionalIdRequest")
    bench.answer(bench.bad(error))
    assert [(one.error, one.abortable) for one in bench.results()] == [(error, True)]
    bench.call("init")
    assert bench.asked is not None
    assert bench.asked.body[2:] == (-1, -1)  # whoever has it now is fenced, and not this one
    bench.settle()
    assert bench.results() == [TransactionDone("init")]


def test_an_error_that_nobody_expects_of_added_partitions_leaves_an_abort() -> None:
    bench = at("AddPartitionsToTxnRequest")
    bench.answer(bench.bad("INVALID_REQUEST"))
    assert [(one.error, one.abortable) for one in bench.results()] == [("INVALID_REQUEST", True)]


def test_what_may_have_been_added_is_ended() -> None:
    bench = at("AddOffsetsToTxnRequest")
    bench.answer(None)
    bench.machine.batch_failed("INVALID_RECORD", "it is none")
    bench.results()
    bench.call("abort")
    bench.settle("EndTxnRequest")


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_PRODUCER_ID"])
def test_an_abort_does_not_mind_that_a_partition_was_not_added(error: str) -> None:
    bench = ready()
    bench.machine.begin()
    bench.machine.see(T0)
    bench.run()
    bench.call("abort")
    bench.answer(bench.bad(error))
    bench.settle()
    assert bench.results() == [TransactionDone("abort")]


def test_an_abort_that_is_refused_as_abortable_ends_the_producer() -> None:
    bench = opened()
    bench.settle()
    bench.results()
    bench.call("abort")
    bench.answer(bench.bad("TRANSACTION_ABORTABLE"))
    assert [one.abortable for one in bench.results()] == [False]


def test_a_group_that_is_not_found_costs_no_coordinator_of_the_transaction() -> None:
    bench = at("AddOffsetsToTxnRequest")
    bench.answer(bench.good())
    bench.answer(bench.bad("NOT_COORDINATOR"))
    bench.settle()
    bench.seen.clear()
    bench.call("commit")
    assert bench.seen == ["EndTxnRequest"]


def test_a_begin_after_an_error_names_the_error() -> None:
    bench = at("AddPartitionsToTxnRequest")
    bench.answer(bench.bad("TOPIC_AUTHORIZATION_FAILED"))
    with pytest.raises(InvalidTransactionState) as refused:
        bench.machine.begin()
    assert (refused.value.cause, refused.value.abortable) == ("TOPIC_AUTHORIZATION_FAILED", True)


def test_an_abort_does_not_wait_for_a_batch_that_waits_for_the_next_epoch() -> None:
    """The first of two batches is refused for good, the second is to be sent again."""
    steps: list[list[Any]] = [["init"], ["told", {}, False], ["told", {}, False], ["begin"]]
    steps += [["send", 0, 30, 1], ["told", {}, False], ["answer", "1", "", 0]]
    steps += [["send", 0, 30, 2], ["send", 0, 30, 3]]
    steps += [["answer", "1", "INVALID_RECORD", 0], ["answer", "1", "NOT_ENOUGH_REPLICAS", 0]]
    steps += [["abort"], ["told", {}, False]]
    script = transaction_script_of(0) | {"batch_size": 100, "linger": 0, "in_flight": 5}
    play = PlayTransactions(script | {"partitions": 1, "nodes": 1})
    for step in steps:
        play.play(step)
        play.give(Timer(play.now, ""))
    assert [one["api"] for one in play.sent if "api" in one][-2:] == ["EndTxn", "InitProducerId"]
    assert [one.get("error") for one in play.completed][1:] == ["INVALID_RECORD", "INVALID_RECORD"]
