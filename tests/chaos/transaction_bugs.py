"""Bugs of transactions: one for each place where their oracles speak."""

from typing import Any

from attrs import evolve

from chaos.oracles.transactions import Known, TransactionsOracle
from chaos.sim import transaction_messages as t
from chaos.sim.addresses import APPLICATION, OFFSETS, STATE, TOPIC
from chaos.sim.transactional_records import entry_of
from refimpl.coordinator.runtime import CoordinatorState as CoordinatorState
from refimpl.machines.replica_log import Record
from refimpl.machines.transaction_coordinator import (
    ProducerIdentity,
    TransactionMetadata,
    TransactionState,
)
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import partition_for
from refimpl.storage.replica.memory import BatchedValue, RecordBatch
from refimpl.storage.replica.transactional import Writer
from refimpl.transactions.log_records import record_of
from tests.chaos.oracle_bugs import E
from tests.chaos.oracle_cases import Cluster, breaks

L, T = "TransactionLog", "TransactionsOracle"
WITH: dict[str, Any] = {"transactions": True, "transactional_ids": 1}
PAID, NEW = "payments-0", 99_999


def oracle(c: Cluster) -> TransactionsOracle:
    """The oracle of this run."""
    assert c.run.transactions is not None
    return c.run.transactions


def coordinator(c: Cluster, name: TopicPartition) -> Any:
    """The coordinator of a partition of transactional ids."""
    return dict(oracle(c).coordinators())[name]


def written(transactional_id: str, metadata: TransactionMetadata) -> Record:
    """The record of an id."""
    record = record_of(transactional_id, metadata, flexible=True)
    return Record(1, BatchedValue(RecordBatch((record,)), 0))


def decides(c: Cluster, transactional_id: str, *states: dict[str, Any]) -> None:
    """The coordinator writes these states of an id, one after the other, and they are committed."""
    name = STATE[partition_for(transactional_id, len(STATE))]
    log = oracle(c).logs[name]
    fresh = TransactionMetadata(at=ProducerIdentity(7, 0), next=ProducerIdentity(7, 0))
    metadata = log.ids.get(transactional_id, fresh)
    for changes in states:
        metadata = evolve(metadata, **changes)
        oracle(c).partitions[name].log.commit(written(transactional_id, metadata))
    leader = log.oracle.state.leader
    assert leader is not None
    mark = log.oracle.replicas[leader].high_watermark
    c.run.simulation.observe(leader, o.HighWatermarkAdvanced(name, mark, mark))


ONGOING = {"state": TransactionState.ONGOING, "partitions": frozenset((OFFSETS,))}


@breaks(
    f"{L}._judge: DecidedOnce",
    f"{L}.keep_up: _judge()",
    f"{T}._advanced: keep_up()",
    **WITH,
)
def decides_what_is_over(c: Cluster) -> None:
    decides(c, PAID, {"state": TransactionState.PREPARE_COMMIT})


@breaks(f"{L}._judge: DecidedOnce again", **WITH)
def begins_without_an_instance(c: Cluster) -> None:
    decides(c, "nobody", ONGOING)


@breaks(f"{L}._judge: PartitionsKept", **WITH)
def forgets_a_partition(c: Cluster) -> None:
    decides(c, PAID, ONGOING, {"state": TransactionState.PREPARE_COMMIT, "partitions": frozenset()})


@breaks(f"{L}._judge: ProducerEpochsGrow", **WITH)
def gives_an_epoch_again(c: Cluster) -> None:
    decides(c, PAID, {"state": TransactionState.EMPTY, "partitions": frozenset()})


# As it happens


def begins(c: Cluster, **of: Any) -> Known:
    """A client begins another transaction."""
    began = t.TransactionBegan(NEW, PAID, Writer(7, 0), ())
    c.run.simulation.observe(0, began)
    known = oracle(c).known[NEW]
    for name, value in of.items():
        setattr(known, name, value)
    return known


@breaks(f"{T}._told: ToldIsDecided", **WITH)
def tells_what_is_not_decided(c: Cluster) -> None:
    begins(c)
    c.run.simulation.observe(0, t.EndTold(NEW, True))


@breaks(f"{T}._read: AbortedIsNotRead", **WITH)
def shows_what_nobody_commits(c: Cluster) -> None:
    begins(c)
    value = t.BASE + NEW * t.STRIDE
    c.run.simulation.observe(0, t.CommittedRead(oracle(c).outputs[0], 0, value))


# The end


def visible(c: Cluster, *, inputs: bool = False) -> int:
    """The number of a transaction that is visible."""
    seen = {t.number_of(value) for values in oracle(c).read.values() for value in values}
    return min(n for n in seen if bool(oracle(c).known[n].began.inputs) is inputs)


def again(c: Cluster, *, ended: bool) -> tuple[TopicPartition, int]:
    """A committed value comes once more at the end of its partition, with its marker or without."""
    name = next(name for name, values in oracle(c).read.items() if values)
    log = oracle(c).partitions[name].log
    records = [record for record in log.committed if isinstance(record, Record)]
    value = next(one for one in records if entry_of(one).value in oracle(c).read[name])
    producer = entry_of(value).producer_id
    ends = [one for one in records if entry_of(one).committed]
    end = next(one for one in ends if entry_of(one).producer_id == producer)
    for record in (value, end) if ended else (value,):
        log.commit(record)
    return name, entry_of(value).value


@breaks(f"{T}.finish: WrittenOnce", **WITH)
def writes_a_value_twice(c: Cluster) -> None:
    name, value = again(c, ended=True)
    oracle(c).read[name].append(value)
    oracle(c).finish()


@breaks(f"{T}.finish: ReadIsCommitted", **WITH)
def withholds_a_committed_value(c: Cluster) -> None:
    next(values for values in oracle(c).read.values() if values).pop()
    oracle(c).finish()


@breaks(f"{E}._scan: finish() again", **WITH)
def withholds_a_value_until_the_end(c: Cluster) -> None:
    next(values for values in oracle(c).read.values() if values).pop()
    c.finish()


@breaks(f"{T}._visible: NothingHangs", **WITH)
def leaves_a_transaction_open(c: Cluster) -> None:
    again(c, ended=False)
    oracle(c).finish()


@breaks(f"{T}._atomic: Atomic", f"{T}.finish: _atomic()", **WITH)
def loses_a_part_of_a_transaction(c: Cluster) -> None:
    oracle(c).known[visible(c)].written[oracle(c).outputs[0]].add(-1)
    oracle(c).finish()


@breaks(f"{T}._atomic: ToldIsVisible", **WITH)
def loses_a_transaction(c: Cluster) -> None:
    begins(c, told=True, asked=True)
    oracle(c).finish()


@breaks(f"{T}._atomic: ToldIsVisible again", **WITH)
def shows_what_was_told_aborted(c: Cluster) -> None:
    oracle(c).known[visible(c)].told = False
    oracle(c).finish()


@breaks(f"{T}._atomic: AbortedIsNotRead", **WITH)
def commits_what_nobody_asked_to(c: Cluster) -> None:
    oracle(c).known[visible(c)].asked = None
    oracle(c).finish()


@breaks(f"{T}._atomic: Atomic again", **WITH)
def loses_the_offsets_of_a_transaction(c: Cluster) -> None:
    known = oracle(c).known[visible(c)]
    known.began = known.began._replace(inputs=[(TopicPartition(TOPIC, 7), 0, -1)])
    oracle(c).finish()


@breaks(f"{T}._once: ProcessedOnce", f"{T}.finish: _once()", **WITH)
def processes_an_input_in_no_transaction(c: Cluster) -> None:
    del oracle(c).known[visible(c, inputs=True)]
    oracle(c).finish()


@breaks(f"{T}._loads_as_it_lives: LoadedAsLive", f"{T}.finish: _loads_as_it_lives()", **WITH)
def knows_what_is_not_in_its_log(c: Cluster) -> None:
    ids = coordinator(c, STATE[0]).shard.store.ids
    ids.put("ghost", TransactionMetadata(at=ProducerIdentity(7, 0), next=ProducerIdentity(7, 0)))
    oracle(c).finish()


# Transactions that do not come to their end


@breaks(f"{T}._waiting: the producer of waits:", **WITH)
def answers_no_producer(c: Cluster) -> None:
    oracle(c).producers[0].manager.state = "end"
    c.finish()


@breaks(f"{T}._undecided: the transaction coordinator of is not active", **WITH)
def loads_for_ever(c: Cluster) -> None:
    coordinator(c, STATE[0]).state = CoordinatorState.LOADING
    c.finish()


@breaks(f"{T}._undecided: transactional id is", **WITH)
def leaves_a_transaction_undecided(c: Cluster) -> None:
    metadata = TransactionMetadata(
        at=ProducerIdentity(7, 0), next=ProducerIdentity(7, 0), state=TransactionState.ONGOING
    )
    name = STATE[0]
    for replica in oracle(c).partitions[name].replicas.values():
        replica.log.extend((written("payments-9", metadata),))
        replica.high_watermark = replica.log.end
    coordinator(c, name).shard.store.ids.put("payments-9", metadata)
    c.finish()


def of_applications(c: Cluster) -> dict[int, Any]:
    """The coordinators of groups where that of the applications is."""
    host = oracle(c).leader_of(OFFSETS)
    assert host is not None
    return host.node.groups.coordinators.by_partition


@breaks(f"{T}._unprocessed: nobody coordinates the applications", **WITH)
def coordinates_no_group(c: Cluster) -> None:
    of_applications(c).clear()
    c.finish()


@breaks(f"{T}._unprocessed: an application's transaction is under way", **WITH)
def answers_no_application(c: Cluster) -> None:
    manager: Any = oracle(c).applications[0].manager
    manager.transaction = "under way"
    c.finish()


@breaks(f"{T}._unprocessed: the applications have committed of of", **WITH)
def forgets_what_applications_committed(c: Cluster) -> None:
    offsets = of_applications(c)[OFFSETS.partition].shard.store.offsets
    place = APPLICATION, TopicPartition(TOPIC, 0)
    offsets.put(place, evolve(offsets.get(place), offset=0))
    c.finish()


@breaks(f"{T}._unreplicated: :", **WITH)
def replicates_no_decision(c: Cluster) -> None:
    state = oracle(c).partitions[STATE[0]]
    assert state.state.leader is not None
    state.replicas[state.state.leader].high_watermark -= 1
    c.finish()


@breaks(f"{T}._unstable: the last stable offset of stays at of", **WITH)
def keeps_the_last_stable_offset(c: Cluster) -> None:
    name = oracle(c).outputs[0]
    host = oracle(c).leader_of(name)
    assert host is not None
    host.node.partitions[name].log.producers.opened = {0: 7}
    c.finish()


@breaks(f"{T}._unstable: the reader of stays at of", **WITH)
def shows_nothing_to_the_reader(c: Cluster) -> None:
    oracle(c).reader.readings[0].position = 0
    c.finish()
