"""A bug for each site of the oracles: state and observations as a wrong broker, controller,
coordinator or client would leave them."""

from attrs import evolve

from chaos.clients.producer import STRIDE, Sending
from chaos.sim.addresses import PROGRESS, TICK, TOPIC
from chaos.sim.hosts import ControllerHost
from refimpl.machines.log import Log, Record
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.storage.replica.memory import RecordBatch
from tests.chaos.oracle_cases import EVERYBODY, Cluster, breaks

P, W = "PartitionOracle", "ReplicationOracles"
D, E = "DeletionOracle", "ProgressOracle"
A = "AvailabilityOracle"
#: The value of a record that no producer has sent; in files a value is a number
NEW = 10**9


@breaks(f"{P}._wrote_one: EpochsAscend", f"{P}.wrote: _wrote_one()", f"{W}._written: wrote()")
def writes_in_an_older_epoch(c: Cluster) -> None:
    c.leader.log.extend((Record(2, None), Record(1, None)))
    c.observe(1, o.Written, c.leader.log.end - 1, c.leader.log.end)


@breaks(f"{P}._wrote_one: OneLeaderPerEpoch")
def writes_in_an_epoch_in_which_nobody_leads(c: Cluster) -> None:
    c.leader.log.append(5, RecordBatch((NEW,)))
    c.observe(1, o.Written, c.leader.log.end - 1, c.leader.log.end)


@breaks(f"{P}._wrote_one: LogMatching")
def writes_at_an_offset_twice(c: Cluster) -> None:
    c.observe(1, o.Written, 0, 1)


@breaks(f"{P}.copied: LogMatching", f"{W}._taken: copied()")
def copies_what_nobody_wrote(c: Cluster) -> None:
    end = c.follower.log.append(1, RecordBatch((NEW,))).first_offset
    c.taken(end=end, old=c.follower.high_watermark)


@breaks(f"{P}.moved: HighWatermarkInLog")
def sees_more_than_it_has(c: Cluster) -> None:
    c.follower.log.truncate_to(2)
    c.follower.high_watermark = 3
    c.taken(old=0)


@breaks(f"{P}.moved: HighWatermarkMonotone", f"{W}._advanced: moved()")
def moves_the_high_watermark_back(c: Cluster) -> None:
    old = c.leader.high_watermark
    c.leader.high_watermark = old - 1
    c.observe(1, o.HighWatermarkAdvanced, old, old - 1)


@breaks("ConfigurationsOracle._committed: EnoughInSync", reconfigures=True)
def commits_with_too_few_in_sync(c: Cluster) -> None:
    mark = c.leader.high_watermark
    c.observe(1, o.HighWatermarkAdvanced, mark, mark)
    c.leader.isr = frozenset((1,))
    c.observe(1, o.HighWatermarkAdvanced, mark, mark)


@breaks("ConfigurationsOracle._decided: ElrBelowMinIsr", reconfigures=True)
def has_eligible_replicas_beside_enough_in_sync(c: Cluster) -> None:
    c.decided("Elect", frozenset((1, 2)), elr=frozenset((3,)))


@breaks(f"{W}._became_leader: moved()")
def moves_the_high_watermark_back_when_elected(c: Cluster) -> None:
    c.leader.high_watermark -= 1
    c.leader.ends.clear()
    c.observe(1, o.BecameLeader, True, c.leader.high_watermark + 1)


@breaks(f"{P}.moved: AppendOnly", f"{W}._taken: moved()")
def sees_other_records(c: Cluster) -> None:
    c.follower.log = Log([Record(1, "other"), *c.follower.log.records[1:]])
    c.taken(old=0)


@breaks(f"{P}._commit: ViewsArePrefixes", f"{P}.moved: _commit()")
def sees_what_its_leader_did_not_commit(c: Cluster) -> None:
    c.append(Record(1, NEW))
    c.follower.high_watermark += 1
    c.taken(old=c.follower.high_watermark - 1)


@breaks(f"{P}._commit: _isr_holds_committed()")
def commits_what_one_in_sync_lacks(c: Cluster) -> None:
    c.leader.log.append(1, RecordBatch((NEW,)))
    c.leader.high_watermark += 1
    c.observe(1, o.HighWatermarkAdvanced, c.leader.high_watermark - 1, c.leader.high_watermark)


@breaks(f"{P}.heard: EndsAreTrue", f"{W}._heard: heard()")
def serves_an_older_epoch(c: Cluster) -> None:
    c.heard(epoch=0)


@breaks(f"{P}.heard: EndsAreTrue")
def counts_an_earlier_process(c: Cluster) -> None:
    c.heard(known=99)


@breaks(f"{P}.heard: EndsAreTrue")
def counts_who_is_behind_its_epoch(c: Cluster) -> None:
    c.follower.epoch = 0
    c.heard()


@breaks(f"{P}.heard: EndsAreTrue again")
def counts_more_than_the_follower_has(c: Cluster) -> None:
    c.leader.ends[2] = c.follower.log.end + 1
    c.heard()


@breaks(f"{P}.cut: HighWatermarkInLog")
def cuts_below_its_high_watermark(c: Cluster) -> None:
    c.oracle.decision = evolve(c.oracle.decision, isr=frozenset((1, 3)))
    c.follower.log.truncate_to(1)
    c.taken(truncated=True, end=3, old=c.follower.high_watermark)


def _cuts(c: Cluster) -> None:
    c.follower.high_watermark = 0
    c.follower.log.truncate_to(1)


@breaks(f"{P}.cut: CommittedInIsr", f"{W}._taken: cut()")
def cuts_what_is_committed(c: Cluster) -> None:
    _cuts(c)
    c.taken(truncated=True, end=3, old=0)


@breaks(f"{W}._restarted: cut()")
def begins_anew_before_what_is_committed(c: Cluster) -> None:
    _cuts(c)
    c.observe(2, o.LogRestarted, 3, 1)


@breaks(f"{W}._became_follower: cut()")
def cuts_what_is_committed_when_it_follows(c: Cluster) -> None:
    _cuts(c)
    c.observe(2, o.BecameFollower, 3)


@breaks(f"{P}.became_leader: OneLeaderPerEpoch", f"{W}._became_leader: became_leader()")
def leads_besides_the_leader(c: Cluster) -> None:
    c.follower.leader = 2
    c.observe(2, o.BecameLeader, False, c.follower.high_watermark)


@breaks(f"{P}.decided: LeaderInIsr", f"{W}._decided: decided()")
def elects_from_outside_the_isr(c: Cluster) -> None:
    c.decided("Elect", frozenset((1, 3)))


@breaks(f"{P}.decided: LeaderInIsr")
def leaves_the_dead_in_sync(c: Cluster) -> None:
    c.decided("Elect", EVERYBODY, alive=frozenset((2, 3)))


@breaks(f"{P}.decided: ElrOutsideIsr")
def leaves_a_member_of_the_isr_in_the_elr(c: Cluster) -> None:
    c.decided("Elect", EVERYBODY, elr=frozenset((1,)))


@breaks(f"{P}._elected_unclean: UncleanElection", f"{P}.decided: _elected_unclean()")
def elects_uncleanly(c: Cluster) -> None:
    c.decided("ElectUnclean", frozenset((2,)))


@breaks(f"{P}._isr_holds_committed: CommittedInIsr", f"{P}.decided: _isr_holds_committed()")
def takes_in_who_lacks_records(c: Cluster) -> None:
    _cuts(c)
    c.decided("AlterPartition", EVERYBODY)


def _waits_for_nothing(c: Cluster) -> None:
    c.oracle.written[1, c.leader.log.end] = Record(1, NEW), 1
    c.append(Record(1, NEW))
    c.leader.ends = dict.fromkeys((2, 3), c.leader.log.end)


@breaks(f"{P}.eager: Progress", f"{W}._isr_altered: eager()")
def stays_below_what_all_in_sync_have(c: Cluster) -> None:
    _waits_for_nothing(c)
    c.observe(1, o.IsrAltered, 3, False)


@breaks(f"{W}._heard: eager()")
def stays_when_it_hears_the_last_fetch(c: Cluster) -> None:
    _waits_for_nothing(c)
    c.heard()


@breaks(f"{W}._became_leader: eager()")
def stays_when_it_is_elected(c: Cluster) -> None:
    _waits_for_nothing(c)
    c.observe(1, o.BecameLeader, True, c.leader.high_watermark)


@breaks(f"{W}._written: eager()")
def alone_in_sync_stays_below_its_own_end(c: Cluster) -> None:
    c.leader.isr, c.leader.min_isr = frozenset((1,)), 1
    c.leader.log.append(1, RecordBatch((NEW,)))
    c.observe(1, o.Written, c.leader.log.end - 1, c.leader.log.end)


@breaks(f"{P}.registered: CommittedInIsr", f"{W}._registered: registered()")
def comes_back_in_sync_without_records(c: Cluster) -> None:
    _cuts(c)
    c.run.simulation.observe(0, o.Registered(2, 1, 1))


@breaks(f"{P}.acked: AckedSurvives", f"{W}._acknowledged: acked()")
def acknowledges_what_is_not_there(c: Cluster) -> None:
    c.observe(1, o.Acknowledged, -1, RecordBatch(("never",)), 0)


@breaks(f"{P}.read: ViewsArePrefixes", f"{W}._read: read()")
def serves_what_is_not_there(c: Cluster) -> None:
    c.observe(1, o.RecordsRead, 0, (Record(1, "other"),))


# The end


@breaks(f"{E}._missing: producer waits for answers")
def leaves_a_producer_without_answer(c: Cluster) -> None:
    c.producer.sending[0] = Sending(RecordBatch((0,)), c.name, 0)
    c.finish()


@breaks(f"{E}._missing_in: nobody leads", f"{E}._missing: :", f"{E}.handle: Progress")
def elects_nobody(c: Cluster) -> None:
    c.state.leader = None
    c.finish()


@breaks(f"{E}._missing_in: leader does not know that it leads in epoch")
def never_tells_the_leader(c: Cluster) -> None:
    c.state.leader_epoch += 1
    c.finish()


@breaks(f"{E}._missing_in: only are in sync")
def never_takes_a_follower_in_again(c: Cluster) -> None:
    c.state.isr = frozenset((1, 2))
    c.finish()


@breaks(f"{E}._missing_in: the high watermark stays at of")
def never_commits_the_last_record(c: Cluster) -> None:
    c.append(Record(1, NEW))
    c.finish()


@breaks(f"{E}._missing_in: replica ends at of")
def never_copies_the_last_record(c: Cluster) -> None:
    c.follower.log.truncate_to(c.leader.log.end - 1)
    c.finish()


@breaks(f"{E}._not_committed: the group has committed of", f"{E}._not_done: :")
def never_commits_the_last_offset(c: Cluster) -> None:
    c.group.committed -= 1
    c.finish()


@breaks(f"{E}._not_committed: AtLeastOnce")
def never_processes_a_record(c: Cluster) -> None:
    c.group.processed[1] = 0
    c.finish()


@breaks(f"{E}._find: AckedSurvives", f"{E}._scan: _find()", f"{E}.handle: _scan()")
def loses_an_acknowledged_record(c: Cluster) -> None:
    c.producer.acked[-1] = c.name, c.leader.log.end
    c.finish()


@breaks(f"{E}._scan: read()")
def differs_from_what_was_committed(c: Cluster) -> None:
    c.oracle.log.committed[0] = Record(1, "other")
    c.finish()


@breaks(f"{E}._no_duplicates: NoDuplicates", f"{E}._scan: _no_duplicates()", idempotence=True)
def appends_a_retry_again(c: Cluster) -> None:
    _commits(c, c.leader.log.records[-1])
    c.finish()


@breaks(
    f"{E}._in_order: InOrder",
    f"{E}._scan: _in_order()",
    idempotence=True,
    reference_clients=True,
)
def appends_a_later_batch_first(c: Cluster) -> None:
    for value in (STRIDE + 1, STRIDE):
        _commits(c, Record(1, value))
    c.finish()


def _commits(c: Cluster, record: Record) -> None:
    """One record more is with everybody, committed, read and processed."""
    c.append(record)
    c.oracle.log.commit(c.leader.log.records[-1])
    c.group.committed += 1
    c.group.processed.append(1)
    c.leader.high_watermark += 1


def _goes_on(c: Cluster) -> None:
    c.run.progress.done = False
    c.run.simulation.timeline.at(c.run.now_ms, PROGRESS, TICK)
    if found := c.run.go().violation:
        raise found


@breaks("Run._loop: EventBudget")
def goes_on_beyond_its_budget(c: Cluster) -> None:
    c.run.settings = evolve(c.run.settings, events=1)
    _goes_on(c)


@breaks("Run.go: name")
def breaks_in_an_unforeseen_way(c: Cluster) -> None:
    c.run.simulation.timeline.at(c.run.now_ms, c.producer.id, object())
    _goes_on(c)


# While faults last


def _lasts(c: Cluster) -> None:
    """All stays as it is, for as long as the cluster may take to settle and to answer."""
    simulation = c.run.simulation
    simulation.settings = evolve(simulation.settings, fault_ms=1 << 30)
    for _ in range(3):
        c.run.progress.handle(TICK)
        simulation.timeline.now += simulation.settings.settle_ms + 1
    c.run.progress.handle(TICK)


@breaks(
    f"{A}._must_be_led: Availability",
    f"{A}.look: _must_be_led()",
    f"{E}.handle: look()",
    lasting=True,
)
def nobody_takes_over(c: Cluster) -> None:
    c.brokers[0].up = False
    _lasts(c)


@breaks(f"{A}._must_answer: Availability", f"{A}.look: _must_answer()", lasting=True)
def leaves_a_producer_without_answer_for_long(c: Cluster) -> None:
    c.producer.sending[0] = Sending(RecordBatch((0,)), c.name, 0)
    _lasts(c)


# Deleting records


@breaks(f"{D}._look: LogStartMonotone", deletes=True)
def moves_its_log_start_back(c: Cluster) -> None:
    assert c.follower.log.start > 0
    c.follower.log = Log([Record(1, None), *c.follower.log.records], c.follower.log.start - 1)
    c.observe(2, o.LogRestarted, c.follower.log.end, c.follower.log.start)


@breaks(f"{D}._look: OnlyAskedIsDeleted", deletes=True)
def deletes_what_nobody_asked_for(c: Cluster) -> None:
    c.follower.log.advance_start(c.deletion.purger.asked[c.name] + 1)
    c.observe(2, o.LogRestarted, c.follower.log.end, c.follower.log.start)


@breaks(f"{D}._read: DeletedIsNotRead", deletes=True)
def serves_what_is_deleted(c: Cluster) -> None:
    c.observe(1, o.RecordsRead, c.leader.log.start - 1, ())


@breaks(f"{D}.finish: DeletedStaysDeleted", f"{E}._scan: finish()", deletes=True)
def has_not_deleted_what_it_said(c: Cluster) -> None:
    c.deletion.purger.deleted[c.name] = c.follower.log.start + 1
    c.finish()


# Adding partitions


@breaks(f"{E}._unknown: has partitions, and somebody was told that it has")
def forgets_a_partition_that_was_added(c: Cluster) -> None:
    c.run.progress.nemesis.partitions = 2
    c.finish()


@breaks(f"{E}._unknown: no broker knows that has partitions")
def tells_nobody_of_an_added_partition(c: Cluster) -> None:
    controller = c.run.progress.nemesis.controller
    assert isinstance(controller, ControllerHost)
    (one,) = controller.controller.metadata.topics[TOPIC].partitions.values()
    controller.controller.metadata.apply(one._replace(partition=TopicPartition(TOPIC, 1)))
    c.finish()
