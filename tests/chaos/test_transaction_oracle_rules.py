"""The rules of transactions' oracle one by one, without a run."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.oracles.transactions import AWAKE_MS, TransactionsOracle
from chaos.sim import transaction_messages as t
from chaos.sim.addresses import OFFSETS, OUTPUTS, STATE, TOPIC
from chaos.sim.settings import DAY_MS
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.machines.transaction_coordinator import TransactionState
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    partition_for,
)
from refimpl.records.transactional import InTransaction, TransactionEnd
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.replica.transactional import Writer
from refimpl.transactions.store import TransactionStore
from tests.chaos.seen import Seen, reported

ONE, TWO, RECEIPT = OUTPUTS
INPUT = TopicPartition(TOPIC, 0)
ID = "payments-1"
OF_ID = STATE[partition_for(ID, len(STATE))]
EXPIRES_MS = 1000


@define
class Log:
    """A log with these entries."""

    entries: list[Any] = field(factory=list[Any])
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.entries)

    def slice(self, start: int, size: int) -> None:
        """Nothing but `keyed_records` looks at it."""

    def keyed_records(self, start: int, data: None) -> tuple[list[tuple[int, Any]], int]:
        return [*enumerate(self.entries)][start:], len(self.entries)


@define
class Run:
    """One producer and one application; broker 1 leads everything."""

    expires_ms: int = EXPIRES_MS
    applications: tuple[Any, ...] = ()
    seen: Seen = field(init=False)
    oracle: TransactionsOracle = field(init=False)
    partitions: dict[TopicPartition, Any] = field(init=False)
    logs: dict[TopicPartition, Any] = field(init=False)
    node: Any = field(init=False)
    producer: Any = field(init=False)
    coordinators: dict[int, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        settings = SimpleNamespace(producer_expiration_ms=self.expires_ms, transaction_version=2)
        self.seen = Seen(settings=settings)
        names = (*STATE, *OUTPUTS, OFFSETS, INPUT)
        self.logs = {name: Log() for name in names}
        self.partitions = {
            name: SimpleNamespace(
                name=f"{name.topic}:{name.partition}",
                era=0,
                unsettled=False,
                log=SimpleNamespace(committed=list[Any]()),
                state=SimpleNamespace(leader=1),
                replicas={1: SimpleNamespace(high_watermark=0)},
                unavailable=bool,
            )
            for name in names
        }
        self.coordinators = {
            one.partition: SimpleNamespace(
                state=CoordinatorState.ACTIVE, shard=SimpleNamespace(store=TransactionStore())
            )
            for one in STATE
        }
        self.node = SimpleNamespace(
            partitions={
                name: SimpleNamespace(
                    log=log,
                    replica=SimpleNamespace(high_watermark=5),
                    last_stable_offset=5,
                )
                for name, log in self.logs.items()
            },
            transactions=SimpleNamespace(
                coordinators=SimpleNamespace(by_partition=self.coordinators)
            ),
            groups=SimpleNamespace(coordinators=SimpleNamespace(by_partition=dict[int, Any]())),
        )
        self.producer = SimpleNamespace(
            busy=False,
            stopped=False,
            next_ms=10_000,
            transactional_id=ID,
            manager=SimpleNamespace(state="IN_TRANSACTION"),
        )
        reader = SimpleNamespace(readings=list[Any]())
        of: Any = {
            "simulation": self.seen,
            "brokers": [SimpleNamespace(id=1, node=self.node)],
            "producers": [self.producer],
            "applications": self.applications,
            "reader": reader,
        }
        self.oracle = TransactionsOracle(
            partitions=self.partitions, outputs=OUTPUTS, counts=Counter[str](), **of
        )
        self.oracle.missing_in = lambda oracle: ""
        self.oracle.attach()

    def begins(self, number: int = 0, inputs: tuple[int, ...] = ()) -> None:
        taken = [(INPUT, offset, value_of(number, at)) for at, offset in enumerate(inputs)]
        self.seen.observe(0, t.TransactionBegan(number, ID, Writer(7, 0), taken))

    def decides(self, committed: bool, producer: int = 7) -> None:
        log = self.oracle.logs[OF_ID]
        log.decisions.setdefault(ID, []).append((producer, committed))

    def writes(self, name: TopicPartition, *numbers: int, number: int = 0) -> None:
        """The values are there and acknowledged, without a marker yet."""
        values = [value_of(number, one) for one in numbers]
        self.partitions[name].log.committed += [_record(one) for one in values]
        self.seen.observe(0, t.WriteAcknowledged(number, name, values))

    def marks(self, name: TopicPartition, committed: bool = True) -> None:
        self.partitions[name].log.committed.append(_record(EndTxnMarker(committed, 0)))

    def reads(self, name: TopicPartition, *numbers: int, number: int = 0) -> None:
        for one in numbers:
            self.seen.observe(0, t.CommittedRead(name, 0, value_of(number, one)))

    def asks(self, committed: bool = True, number: int = 0) -> None:
        self.seen.observe(0, t.EndAsked(number, committed))

    def is_told(self, committed: bool = True, number: int = 0) -> None:
        self.seen.observe(0, t.EndTold(number, committed))

    def commits_offset(self, number: int = 0, committed: bool = True) -> None:
        key = OffsetCommitKey("app", INPUT.topic, INPUT.partition)
        value = OffsetCommitValue(offset=1, metadata=str(number), commit_timestamp=0)
        record = CoordinatorRecord(GROUP_RECORDS[1], key, value)
        ends = TransactionEnd(7, committed)
        self.logs[OFFSETS].entries += [InTransaction(record, 7), ends]
        self.partitions[OFFSETS].replicas[1].high_watermark = self.logs[OFFSETS].end


def value_of(number: int, one: int) -> int:
    return t.BASE + number * t.STRIDE + one


def _record(payload: Any) -> Any:
    value = SimpleNamespace(payload=payload, producer_id=7, producer_epoch=0)
    return SimpleNamespace(value=value)


def committed(*, told: bool | None = True) -> Run:
    """A transaction over two partitions that is committed and read."""
    run = Run()
    run.begins()
    for name in (ONE, TWO):
        run.writes(name, name.partition)
    run.asks()
    run.decides(True)
    if told is not None:
        run.is_told(told)
    for name in (ONE, TWO):
        run.marks(name)
        run.reads(name, name.partition)
    return run


# What clients are told and read


def test_who_is_told_that_it_is_committed_has_a_decision_that_is_its_own() -> None:
    run = Run()
    run.decides(True)
    run.begins()
    with reported("ToldIsDecided"):
        run.is_told()
    run.decides(True, producer=8)
    run.decides(False)
    with reported("ToldIsDecided"):
        run.is_told()
    run.decides(True)
    run.is_told()
    run.begins(1)
    run.is_told(False, 1)  # it may have been fenced: nothing has to be decided


def test_nobody_reads_what_nobody_asked_to_commit() -> None:
    run = Run()
    run.begins()
    with reported("AbortedIsNotRead"):
        run.reads(ONE, 0)
    run.asks(False)
    with reported("AbortedIsNotRead"):
        run.reads(ONE, 0)
    run.asks()
    run.reads(ONE, 0)


@pytest.mark.parametrize("flag", ["era", "unsettled"])
def test_after_a_permitted_loss_nothing_is_judged(flag: str) -> None:
    run = Run()
    setattr(run.partitions[ONE], flag, True)
    run.begins()
    run.is_told()
    run.reads(ONE, 0)
    run.oracle.finish()
    assert run.oracle.unfinished() == ""
    assert run.oracle.rest() == -1
    assert run.oracle.counts["runs whose transactions are excused"] == 1


# Rest


def test_producers_stop_but_for_a_while_after_their_rest() -> None:
    run = Run()
    run.oracle.stop()
    assert run.producer.stopped
    assert run.producer.next_ms == 10_000
    run.seen.timeline.now = 50
    wakes_at = 50 + EXPIRES_MS + AWAKE_MS
    assert run.oracle.rest() == wakes_at + AWAKE_MS
    run.seen.timeline.now = 60
    assert run.oracle.rest() == wakes_at + AWAKE_MS
    for now, stopped in (
        *((wakes_at - 1, True), (wakes_at, False)),
        *((wakes_at + AWAKE_MS, False), (wakes_at + AWAKE_MS + 1, True)),
    ):
        run.seen.timeline.now = now
        run.oracle.stop()
        assert run.producer.stopped is stopped
    assert run.producer.next_ms == wakes_at


def test_a_rest_that_begins_at_once_is_one() -> None:
    run = Run(-AWAKE_MS)
    assert run.oracle.rest() == AWAKE_MS
    run.oracle.stop()
    assert not run.producer.stopped


def test_producers_that_do_not_expire_do_not_rest() -> None:
    assert Run(DAY_MS).oracle.rest() == -1
    assert Run(DAY_MS - 1).oracle.rest() > 0
    run = Run()
    run.partitions[ONE].unavailable = lambda: True
    assert run.oracle.rest() == -1
    assert run.oracle.unfinished() == ""


# What goes on


def test_a_producer_that_waits_is_named() -> None:
    run = Run()
    assert run.oracle.unfinished() == ""
    run.producer.busy = True
    assert f"the producer of {ID} waits: IN_TRANSACTION" in run.oracle.unfinished()


@pytest.mark.parametrize("how", ["loading", "none", "nobody leads"])
def test_a_coordinator_that_is_not_active_is_named(how: str) -> None:
    run = Run()
    name = STATE[1]
    if how == "loading":
        run.coordinators[name.partition].state = CoordinatorState.LOADING
    elif how == "none":
        run.coordinators[name.partition] = None
    else:
        run.partitions[name].state.leader = None
    told = run.oracle.unfinished()
    assert ("is not active" in told) is (how != "nobody leads")


@pytest.mark.parametrize("state", TransactionState)
def test_a_transaction_that_nobody_ends_is_named(state: TransactionState) -> None:
    run = Run()
    ids = run.coordinators[OF_ID.partition].shard.store.ids.current
    prepared = state in (TransactionState.PREPARE_ABORT, TransactionState.PREPARE_COMMIT)
    ids["another"] = ids[ID] = SimpleNamespace(state=state, prepared=prepared)
    is_open = prepared or state is TransactionState.ONGOING
    assert (f"transactional id {ID} is" in run.oracle.unfinished()) is is_open


def test_applications_that_have_not_committed_everything_are_named() -> None:
    busy = SimpleNamespace(manager=SimpleNamespace(transaction=None))
    run = Run(applications=(busy,))
    assert "nobody coordinates the applications" in run.oracle.unfinished()
    offsets: Any = SimpleNamespace(committed=lambda key: None)  # pyright: ignore
    store = SimpleNamespace(offsets=offsets)
    shard = SimpleNamespace(shard=SimpleNamespace(store=store))
    run.node.groups.coordinators.by_partition[OFFSETS.partition] = shard
    assert run.oracle.unfinished() == ""
    run.partitions[INPUT].log.committed.append(None)
    assert "have committed 0 of 1" in run.oracle.unfinished()
    offsets.committed = lambda key: SimpleNamespace(offset=1)  # pyright: ignore
    assert run.oracle.unfinished() == ""
    busy.manager.transaction = object()
    assert "an application's transaction is under way" in run.oracle.unfinished()


def test_readers_of_committed_records_get_everything() -> None:
    run = Run()
    reading = SimpleNamespace(name=TWO, position=5)
    run.oracle.reader.readings.append(reading)  # pyright: ignore
    assert run.oracle.unfinished() == ""
    reading.position = 4
    assert "the reader of payments:1 stays at 4 of 5" in run.oracle.unfinished()
    run.node.partitions[TWO].last_stable_offset = 4
    assert "the last stable offset of payments:1 stays at 4 of 5" in run.oracle.unfinished()
    run.partitions[TWO].state.leader = None
    assert run.oracle.unfinished() == ""


def test_what_is_not_replicated_is_named() -> None:
    run = Run()
    run.oracle.missing_in = lambda oracle: "lags" if oracle.name == "payments:1" else ""
    assert run.oracle.unfinished() == "payments:1: lags"


# In the end


def test_a_committed_transaction_is_there_and_was_read() -> None:
    run = committed()
    run.oracle.finish()
    assert run.oracle.counts["transactions visible"] == 1
    assert run.oracle.progress() == 1


def test_a_transaction_without_a_marker_hangs() -> None:
    run = committed()
    run.partitions[ONE].log.committed.pop()
    with reported("NothingHangs"):
        run.oracle.finish()


def test_a_value_is_there_once() -> None:
    run = committed()
    run.writes(ONE, 0)
    run.marks(ONE)
    run.reads(ONE, 0)
    with reported("WrittenOnce"):
        run.oracle.finish()


def test_readers_have_read_what_is_committed_in_its_order() -> None:
    for values in ((), (1,), (0, 0)):
        run = committed()
        run.oracle.read[ONE] = [value_of(0, one) for one in values]
        with reported("ReadIsCommitted"):
            run.oracle.finish()


def test_values_of_an_aborted_transaction_are_not_visible() -> None:
    run = committed()
    run.begins(1)
    run.writes(ONE, 0, number=1)
    run.marks(ONE, committed=False)
    run.oracle.finish()
    assert run.oracle.counts["transactions visible"] == 1


def test_a_transaction_is_visible_in_all_of_its_partitions() -> None:
    run = committed()
    run.partitions[TWO].log.committed[-1] = _record(EndTxnMarker(False, 0))
    run.oracle.read[TWO].clear()
    with reported("Atomic.*1 of 2 acknowledged values"):
        run.oracle.finish()


def test_what_was_told_is_visible() -> None:
    run = committed()
    for name in (ONE, TWO):
        run.partitions[name].log.committed.clear()
        run.oracle.read[name].clear()
    with reported("ToldIsVisible.*nothing is visible"):
        run.oracle.finish()
    with reported("ToldIsVisible.*told aborted"):
        committed(told=False).oracle.finish()
    committed(told=None).oracle.finish()


def test_nothing_is_visible_that_nobody_asked_to_commit() -> None:
    run = committed(told=None)
    run.asks(False)
    with reported("AbortedIsNotRead.*nobody asked"):
        run.oracle.finish()


def _application(*, offset: bool = True, values: bool = True) -> Run:
    run = Run(applications=(object(),))
    run.partitions[INPUT].log.committed.append(None)
    run.begins(inputs=(0,))
    run.writes(ONE, 0)
    run.asks()
    run.marks(ONE, committed=values)
    if values:
        run.reads(ONE, 0)
    run.commits_offset(committed=offset)
    return run


def test_offsets_are_committed_with_the_values_of_their_transaction() -> None:
    _application().oracle.finish()
    with reported("Atomic.*values are visible"):
        _application(offset=False).oracle.finish()
    with reported("Atomic.*values are not visible"):
        _application(values=False).oracle.finish()


def test_each_input_is_processed_once() -> None:
    run = _application(offset=False, values=False)
    with reported("ProcessedOnce.*is in 0 committed"):
        run.oracle.finish()
    run = _application()
    run.partitions[INPUT].log.committed.append(None)
    with reported("ProcessedOnce.*input 1 is in 0 committed"):
        run.oracle.finish()
    run = _application()
    run.begins(1, inputs=(0,))
    run.writes(ONE, 0, number=1)
    run.asks(number=1)
    run.marks(ONE)
    run.reads(ONE, 0, number=1)
    run.commits_offset(1)
    with reported("ProcessedOnce.*is in 2 committed"):
        run.oracle.finish()


def test_what_is_only_pending_at_the_high_watermark_is_not_committed() -> None:
    run = _application()
    run.partitions[OFFSETS].replicas[1].high_watermark = 1
    with reported("Atomic"):
        run.oracle.finish()


def test_a_coordinator_that_loads_has_what_the_live_one_has() -> None:
    run = committed()
    run.coordinators[0].shard.store.ids.current["x"] = SimpleNamespace(last=None)
    with reported("LoadedAsLive"):
        run.oracle.finish()


def test_applications_wait_where_nobody_leads_the_offsets() -> None:
    run = Run(applications=(SimpleNamespace(manager=SimpleNamespace(transaction=None)),))
    run.partitions[OFFSETS].state.leader = None
    assert "nobody coordinates the applications" in run.oracle.unfinished()
