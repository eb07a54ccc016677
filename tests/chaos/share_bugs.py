"""Bugs of share groups: one for each place where their oracles speak."""

from typing import Any

from attrs import evolve

from chaos.oracles.share_group import ShareGroupOracle
from chaos.oracles.share_log import Kept
from chaos.sim.addresses import SHARE_GROUP, SHARE_STATE, TOPIC_ID
from chaos.sim.share_messages import SharesAnswered
from refimpl.coordinator.observations import LogPruned
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.machines.replica_log import Record
from refimpl.machines.share_partition import ACCEPT
from refimpl.messages import observations as o
from refimpl.messages.share import ShareKey
from refimpl.records import share_groups as r
from refimpl.records.coordinators import SHARE_RECORDS, CoordinatorRecord
from refimpl.records.schema import Uuid
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.replica.memory import BatchedValue, RecordBatch
from tests.chaos.oracle_bugs import E
from tests.chaos.oracle_cases import Cluster, breaks

G, L = "ShareGroupOracle", "ShareStateLog"
WITH: dict[str, Any] = {"share_members": 1}
KEY = ShareKey(SHARE_GROUP, Uuid(TOPIC_ID), 0)
MEMBER = "s0#0"


def oracle(c: Cluster) -> ShareGroupOracle:
    """The oracle of this run."""
    assert c.run.shares is not None
    return c.run.shares


def coordinator(c: Cluster) -> Any:
    """The share coordinator."""
    leader = oracle(c).partitions[SHARE_STATE].state.leader
    assert leader is not None
    node = oracle(c).brokers[leader - 1].node
    return node.share_coordinators.coordinators.by_partition[SHARE_STATE.partition]


def shared(c: Cluster) -> Any:
    """The share partition at its leader."""
    (one,) = oracle(c).brokers[0].node.share_partitions.shared.values()
    return one.share


def fresh(c: Cluster) -> int:
    """The offset of a record that is committed just now."""
    c.oracle.log.commit(Record(1, "late"))
    return len(c.oracle.log.committed) - 1


def lends(c: Cluster, offset: int, count: int) -> None:
    """The leader gives a record to the member."""
    acquired = [(offset, offset, count)]
    where = c.name, SHARE_GROUP, c.leader.epoch
    c.run.simulation.observe(1, o.SharesAcquired(*where, MEMBER, acquired, 1 << 30))


def loads(c: Cluster, leader_epoch: int, start: int) -> None:
    """The leader has read the state."""
    c.run.simulation.observe(1, o.SharesLoaded(c.name, SHARE_GROUP, leader_epoch, start))


# What leaders give


@breaks(f"{G}._acquired: CommittedIsLent", **WITH)
def gives_what_is_not_committed(c: Cluster) -> None:
    lends(c, len(c.oracle.log.committed), 1)


@breaks(f"{G}._lends: OneHolder", f"{G}._acquired: _lends()", **WITH)
def gives_what_somebody_holds(c: Cluster) -> None:
    offset = fresh(c)
    lends(c, offset, 1)
    lends(c, offset, 2)


@breaks(f"{G}._lends: EndIsFinal", **WITH)
def gives_what_was_accepted(c: Cluster) -> None:
    lends(c, 0, oracle(c).lendings[1, c.name].holdings[0].count + 1)


@breaks(f"{G}._lends: CountsDeliveries", **WITH)
def gives_more_often_than_may_be(c: Cluster) -> None:
    lends(c, fresh(c), 4)


@breaks(f"{G}._lends: CountsDeliveries again", **WITH)
def counts_no_delivery_after_a_release(c: Cluster) -> None:
    offset = fresh(c)
    oracle(c).records[c.name].released[offset] = 2
    lends(c, offset, 2)


@breaks(f"{G}._ends_below: NothingLost", f"{G}._loaded: _ends_below()", **WITH)
def begins_behind_a_record(c: Cluster) -> None:
    start = kept(c).start = fresh(c) + 1
    loads(c, kept(c).leader_epoch, start)


@breaks(f"{G}._is_committed: ReadIsCommitted", f"{G}._loaded: _is_committed()", **WITH)
def reads_in_an_epoch_that_is_not_committed(c: Cluster) -> None:
    loads(c, kept(c).leader_epoch + 1, kept(c).start)


@breaks(f"{G}._is_committed: ReadIsCommitted again", **WITH)
def reads_a_start_that_is_not_committed(c: Cluster) -> None:
    offset = fresh(c)
    oracle(c).records[c.name].ended.add(offset)
    loads(c, kept(c).leader_epoch, offset + 1)


@breaks(f"{G}.finish: _ends_below()", **WITH)
def ends_behind_a_record(c: Cluster) -> None:
    of = oracle(c).records[c.name]
    of.passed = 0
    of.ended.discard(0)
    oracle(c).finish()


@breaks(f"{G}.finish: HiddenIsNotLent", **WITH)
def gives_a_marker(c: Cluster) -> None:
    marker = EndTxnMarker(True, 0)
    batch = RecordBatch((marker,), 7, 0, transactional=True, marker=marker)
    c.oracle.log.commit(Record(1, BatchedValue(batch, 0)))
    oracle(c).records[c.name].lent.add(len(c.oracle.log.committed) - 1)
    oracle(c).finish()


# What members and operators are told


@breaks(f"{G}._answered: AnsweredIsStored", **WITH)
def answers_what_is_not_stored(c: Cluster) -> None:
    types = {fresh(c): ACCEPT}
    c.run.simulation.observe(0, SharesAnswered(MEMBER, 1, c.name, types, None))


def counts_less(c: Cluster) -> None:
    """The stored number of records that are done with is lower."""
    states = coordinator(c).shard.states
    stored = states.get(KEY)
    states.put(KEY, evolve(stored, state=evolve(stored.state, complete=-99)))


@breaks(f"{G}._describes: LagIsTrue", f"{G}.finish: _describes()", **WITH)
def tells_a_lag_where_there_is_none(c: Cluster) -> None:
    counts_less(c)
    oracle(c).finish()


@breaks(f"{E}._scan: finish() again again", **WITH)
def tells_a_lag_in_the_end(c: Cluster) -> None:
    counts_less(c)
    c.finish()


# The state log


def kept(c: Cluster) -> Kept:
    """The state as the log has it."""
    return oracle(c).log.kept[KEY]


def writes(c: Cluster, record: CoordinatorRecord) -> None:
    """The share coordinator writes a record, and it is committed."""
    state = oracle(c).partitions[SHARE_STATE]
    state.log.commit(Record(1, BatchedValue(RecordBatch((record,)), 0)))
    leader = state.state.leader
    assert leader is not None
    mark = state.replicas[leader].high_watermark
    c.run.simulation.observe(leader, o.HighWatermarkAdvanced(SHARE_STATE, mark, mark))


def update(c: Cluster, key: ShareKey = KEY, **of: Any) -> CoordinatorRecord:
    """An update that changes nothing else."""
    known = kept(c)
    value: dict[str, Any] = {
        **{"snapshot_epoch": 0, "leader_epoch": known.leader_epoch, "start_offset": known.start},
        **{"state_batches": ()},
        **of,
    }
    return CoordinatorRecord(SHARE_RECORDS[1], r.ShareUpdateKey(*key), r.ShareUpdateValue(**value))


@breaks(f"{L}._judge: StateSurvives", **WITH)
def updates_what_is_not_there(c: Cluster) -> None:
    writes(c, update(c, KEY._replace(partition=7)))


@breaks(f"{L}._judge: CountWithinLimit", **WITH)
def stores_too_many_deliveries(c: Cluster) -> None:
    at = kept(c).start + 99
    writes(c, update(c, state_batches=(r.StateBatch(at, at, 0, 4),)))


@breaks(
    f"{L}._ascends: StartAscends",
    f"{L}._judge: _ascends()",
    f"{L}.keep_up: _judge()",
    f"{G}._advanced: keep_up()",
    **WITH,
)
def stores_a_lower_start(c: Cluster) -> None:
    writes(c, update(c, start_offset=kept(c).start - 1))


@breaks(f"{L}._ascends: LeaderFenced", **WITH)
def lets_an_old_leader_write(c: Cluster) -> None:
    writes(c, update(c, leader_epoch=kept(c).leader_epoch - 1))


@breaks(f"{L}._ascends: StateSurvives", **WITH)
def takes_a_snapshot_without_a_record(c: Cluster) -> None:
    known = kept(c)
    known.deliveries[known.start + 99] = 1, 2
    value = r.ShareSnapshotValue(
        snapshot_epoch=9,
        state_epoch=known.state_epoch,
        leader_epoch=known.leader_epoch,
        start_offset=known.start,
        create_timestamp=0,
        write_timestamp=0,
        state_batches=(),
    )
    writes(c, CoordinatorRecord(SHARE_RECORDS[0], r.ShareSnapshotKey(*KEY), value))


@breaks(
    f"{L}.pruned: NeededIsKept",
    f"{G}._pruned: pruned()",
    **WITH,
)
def deletes_a_snapshot_that_is_needed(c: Cluster) -> None:
    start = kept(c).snapshot + 1
    c.run.simulation.observe(1, LogPruned(SHARE_STATE, start))


# What does not go on


@breaks(f"{G}.unfinished: the share coordinator is not active", **WITH)
def loads_for_ever(c: Cluster) -> None:
    coordinator(c).state = CoordinatorState.LOADING
    c.finish()


@breaks(f"{G}.unfinished: : the share group stays at of", **WITH)
def gives_no_last_record(c: Cluster) -> None:
    shared(c).start -= 1
    c.finish()


@breaks(f"{G}.unfinished: the share group's state:", **WITH)
def replicates_no_state(c: Cluster) -> None:
    state = oracle(c).partitions[SHARE_STATE]
    assert state.state.leader is not None
    state.replicas[state.state.leader].high_watermark -= 1
    c.finish()
