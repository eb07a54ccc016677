"""The rules of oracles one by one, at their boundaries, without a run."""

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.oracles.availability import AvailabilityOracle
from chaos.oracles.commit_delay import CommitDelay
from chaos.oracles.configurations import ConfigurationsOracle
from chaos.oracles.deletion import DeletionOracle
from chaos.oracles.told import ToldOracle
from chaos.sim.addresses import CONTROLLER, GROUP, OFFSETS, RECEIPTS, STATE, TOPIC
from chaos.sim.hosts import ControllerHost, Handled
from refimpl.coordinator.observations import LogPruned
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import group as m
from refimpl.messages import observations as o
from refimpl.messages.broker import MetadataRequest, MetadataResponse, Request, Response
from refimpl.messages.broker import TopicPartition as Name
from refimpl.messages.cluster import PartitionRegistration
from refimpl.messages.controller import UpdateMetadataRequest
from tests.chaos.seen import Seen, reported

HERE = Name(TOPIC, 0)


# How long the group's log takes


def test_a_log_that_is_committed_when_its_leader_begins_is_waited_for_by_nobody() -> None:
    delay = CommitDelay(1000)
    delay.appended(0, 5)
    delay.begins(10, 7, 7)
    assert not delay.uncommitted
    delay.begins(20, 8, 7)
    assert [*delay.uncommitted] == [(8, 20)]


def test_a_write_is_slow_after_half_a_session_and_for_a_whole_one() -> None:
    delay = CommitDelay(1000)
    assert not delay.is_slow(0)
    delay.appended(100, 5)
    assert not delay.is_slow(600)
    assert delay.is_slow(601)
    delay.advanced(602, 5)
    assert delay.is_slow(1602)
    assert not delay.is_slow(1603)


def test_a_commit_counts_for_the_writes_below_it_alone() -> None:
    delay = CommitDelay(1000)
    delay.appended(100, 5)
    delay.appended(300, 6)
    delay.advanced(500, 5)
    assert not delay.is_slow(800)
    assert delay.is_slow(801)


# What clients are told


def _registered(name: Name, epoch: int, leader: int | None = 1) -> PartitionRegistration:
    return PartitionRegistration(
        name, b"id", LeaderAndIsr(1, leader, frozenset((1, 2)), epoch), (1, 2)
    )


def _news(*changes: Any, controller: int = 1, full: bool = True) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(1, 1, changes, full, controller)


@define
class Broker:
    """A broker that hears of decisions and answers; an oracle compares."""

    seen: Seen = field(factory=Seen)

    def __attrs_post_init__(self) -> None:
        simulation: Any = self.seen
        ToldOracle(simulation).attach()

    def handles(self, asked: Any, *answers: Any, process: int = 1, ignored: bool = False) -> None:
        outputs = [Response(1, 6, 7, one) for one in answers]
        noted = [o.Ignored("an update")] if ignored else []
        self.seen.observe(1, Handled(process, Request(6, 1, 7, asked), [*noted, *outputs]))

    def tells(self, leader: int = 1) -> None:
        """It tells a client who leads the partition."""
        told = SimpleNamespace(partition=HERE, leader=leader, leader_epoch=1, isr=frozenset((1, 2)))
        answer: Any = (told,)
        self.handles(MetadataRequest(), MetadataResponse(answer, {}))


def test_only_news_of_the_newest_controller_count() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 1), controller=2))
    broker.handles(_news(_registered(HERE, 2, leader=2), controller=1))
    broker.tells()


def test_a_newer_controller_is_heard_once_it_tells_everything() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 1)))
    broker.handles(_news(_registered(HERE, 2, leader=2), controller=2, full=False))
    broker.tells()
    broker.handles(_news(_registered(HERE, 2, leader=2), controller=2))
    broker.tells(2)
    with reported("ToldAsHeard"):
        broker.tells()


def test_an_older_decision_does_not_replace_a_newer_one() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 2, leader=2)))
    broker.handles(_news(_registered(HERE, 1), full=False))
    broker.tells(2)


def test_a_decision_of_the_same_partition_epoch_is_taken() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 2, leader=2)))
    broker.handles(_news(_registered(HERE, 2, leader=1), full=False))
    broker.tells()


def test_an_update_that_the_broker_ignored_does_not_count() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 1)))
    broker.handles(_news(_registered(HERE, 2, leader=2), full=False), ignored=True)
    broker.tells()


def test_topics_of_operators_are_not_compared() -> None:
    broker = Broker()
    broker.handles(_news(_registered(Name("theirs", 0), 1)))
    broker.handles(MetadataRequest(), MetadataResponse((), {}))


def test_who_asks_for_some_topics_is_told_of_those() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 1)))
    broker.handles(MetadataRequest(("another",)), MetadataResponse((), {}))
    with reported("ToldAsHeard"):
        broker.handles(MetadataRequest((TOPIC,)), MetadataResponse((), {}))


def test_another_process_has_heard_nothing_yet() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 1)))
    broker.handles(MetadataRequest(), MetadataResponse((), {}), process=2)


def test_a_coordinator_that_is_named_leads_the_partition() -> None:
    broker = Broker()
    broker.handles(_news(_registered(OFFSETS, 1)))
    for node, right in ((1, True), (2, False)):
        found = m.FoundCoordinator(GROUP, None, node)
        asked = m.FindCoordinatorRequest(m.GROUP, (GROUP,))
        if right:
            broker.handles(asked, m.FindCoordinatorResponse((found,)))
        else:
            with reported("ToldAsHeard"):
                broker.handles(asked, m.FindCoordinatorResponse((found,)))


def test_a_coordinator_of_a_partition_that_nobody_told_of_is_wrong() -> None:
    broker = Broker()
    found = m.FoundCoordinator(GROUP, None, 1)
    with reported("ToldAsHeard"):
        asked = m.FindCoordinatorRequest(m.GROUP, (GROUP,))
        broker.handles(asked, m.FindCoordinatorResponse((found,)))


def test_an_answer_to_another_request_is_not_compared_with_this_one() -> None:
    broker = Broker()
    broker.handles(_news(_registered(HERE, 1)))
    late = Response(1, 6, 8, MetadataResponse((), {}))
    broker.seen.observe(1, Handled(1, Request(6, 1, 7, MetadataRequest()), [late]))


# Configurations


@define
class Configured:
    """A broker and a controller, with min.insync.replicas as it is set."""

    min_isr: dict[str, str] = field(factory=dict[str, str])
    default: int = 2
    replicas: tuple[int, ...] = (1, 2, 3)
    name: Name = HERE
    seen: Seen = field(init=False)
    metadata: Any = field(init=False)
    host: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.seen = Seen(settings=SimpleNamespace(min_isr=self.default))
        known = SimpleNamespace(replicas=self.replicas)
        self.metadata = SimpleNamespace(
            partitions={self.name: known},
            topic_config=lambda topic, key: self.min_isr.get(topic),  # pyright: ignore
            controller_epoch=1,
            metadata_version=1,
        )
        node = SimpleNamespace(metadata=self.metadata, partitions=dict[Name, Any]())
        self.host = SimpleNamespace(node=node, nodes=[node])
        controller = ControllerHost.__new__(ControllerHost)
        controller.controller = SimpleNamespace(metadata=self.metadata)  # pyright: ignore
        simulation: Any = self.seen
        ConfigurationsOracle(simulation, controller, [self.host]).attach()

    def commits(self, *isr: int) -> None:
        replica = SimpleNamespace(isr=frozenset(isr))
        self.host.node.partitions[self.name] = SimpleNamespace(replica=replica)
        self.seen.observe(1, o.HighWatermarkAdvanced(self.name, 0, 1))

    def decided(self, isr: tuple[int, ...], elr: tuple[int, ...]) -> None:
        decision = LeaderAndIsr(1, isr[0], frozenset(isr), 1)
        decided = o.Decided(
            self.name, "ShrinkIsr", 1, 0, decision, frozenset(elr), frozenset((1, 2, 3))
        )
        self.seen.observe(0, decided)


def test_a_leader_commits_with_as_many_in_sync_as_are_needed() -> None:
    cluster = Configured()
    cluster.commits(1, 2)
    cluster.commits(1, 2)
    with reported("EnoughInSync"):
        cluster.commits(1)


def test_the_first_commit_after_news_is_not_judged() -> None:
    cluster = Configured()
    cluster.commits(1)
    cluster.metadata.metadata_version = 2
    cluster.commits(1)
    with reported("EnoughInSync"):
        cluster.commits(1)


def test_a_topic_of_its_own_needs_what_is_set_for_it() -> None:
    cluster = Configured({TOPIC: "3"})
    cluster.commits(1, 2)
    with reported("EnoughInSync"):
        cluster.commits(1, 2)


def test_nobody_needs_more_in_sync_than_there_are_replicas() -> None:
    cluster = Configured({TOPIC: "3"}, replicas=(1, 2))
    cluster.commits(1, 2)
    cluster.commits(1, 2)
    with reported("EnoughInSync"):
        cluster.commits(1)


def test_the_topic_with_one_replica_needs_one() -> None:
    cluster = Configured(name=Name(RECEIPTS, 0), replicas=(1,))
    cluster.commits(1)
    cluster.commits(1)


def test_receipts_with_more_replicas_need_one_in_sync_all_the_same() -> None:
    cluster = Configured(name=Name(RECEIPTS, 0))
    cluster.commits(1)
    cluster.commits(1)


def test_replicas_are_eligible_only_while_too_few_are_in_sync() -> None:
    cluster = Configured()
    cluster.decided((1,), (2,))
    cluster.decided((1, 2), ())
    with reported("ElrBelowMinIsr"):
        cluster.decided((1, 2), (3,))


# Availability


@define
class Calm:
    """Three brokers and a client with nothing wrong between them, unless a test says so."""

    leader: int | None = 1
    isr: frozenset[int] = frozenset((1, 2, 3))
    elr: frozenset[int] = frozenset[int]()
    era: int = 0
    unheard: frozenset[int] = frozenset[int]()
    min_isr: int = 2
    waiting_since: int = 0
    acks: str = "all"
    cut: frozenset[tuple[int, int]] = frozenset[tuple[int, int]]()
    clients: tuple[int, ...] = (6,)
    oracle: AvailabilityOracle = field(init=False)
    seen: Seen = field(init=False)

    def __attrs_post_init__(self) -> None:
        cut = {pair for broker in self.unheard for pair in ((broker, CONTROLLER), (0, broker))}
        cut |= self.cut
        network = SimpleNamespace(
            drop=0.0,
            stray=0.0,
            jitter_ms=5,
            slow=dict[int, int](),
            lag=set[int](),
            cut=cut,
            reaches=lambda a, b: (a, b) not in cut and (b, a) not in cut,  # pyright: ignore
        )
        settings = SimpleNamespace(settle_ms=1000, jitter_ms=5, min_isr=self.min_isr)
        self.seen = Seen(settings=settings, network=network)
        hosts: Any = [
            SimpleNamespace(id=one, up=True, paused_until=0, nodes=[None]) for one in (1, 2, 3)
        ]
        state = SimpleNamespace(leader=self.leader, isr=self.isr, elr=self.elr)
        partition: Any = SimpleNamespace(name="t:0", state=state, era=self.era)
        sending = SimpleNamespace(partition=HERE, first_at=self.waiting_since)
        producer: Any = SimpleNamespace(number=1, acks=self.acks, sending={1: sending})
        simulation: Any = self.seen
        self.oracle = AvailabilityOracle(
            simulation, hosts, self.clients, {HERE: partition}, [producer]
        )
        self.oracle.look()

    def at(self, now: int) -> None:
        self.seen.timeline.now = now
        self.oracle.look()


def test_nothing_is_demanded_before_the_cluster_has_settled() -> None:
    calm = Calm(leader=2, unheard=frozenset((2,)), acks="1")
    calm.at(1000)
    with reported("1, 3. may lead"):
        calm.at(1001)


def test_an_eligible_replica_outside_the_isr_may_lead() -> None:
    calm = Calm(None, frozenset[int](), frozenset((3,)))
    with reported("Availability.*.3. may lead"):
        calm.at(1001)


def test_nobody_has_to_lead_where_nobody_may() -> None:
    Calm(None, frozenset((2,)), unheard=frozenset((2,))).at(1001)


def test_a_send_is_answered_within_the_settling_time_after_it_or_after_the_fault() -> None:
    calm = Calm(waiting_since=1500)
    calm.at(2500)
    with reported("waits for an answer since 1500"):
        calm.at(2501)
    calm = Calm(waiting_since=3)
    calm.at(2000)
    with reported("waits for an answer since 3"):
        calm.at(2001)


def test_a_send_needs_as_many_brokers_in_touch_as_have_to_be_in_sync() -> None:
    with reported("waits for an answer"):
        Calm(cut=frozenset(((1, 3),))).at(5000)
    Calm(cut=frozenset(((1, 3), (1, 2)))).at(5000)


def test_a_send_of_another_kind_or_of_a_client_that_is_cut_off_may_wait() -> None:
    Calm(acks="1").at(5000)
    Calm(cut=frozenset(((1, 6),)), clients=(7, 6)).at(5000)
    with reported("waits for an answer"):
        Calm().at(5000)


def test_after_a_permitted_loss_any_request_may_be_refused() -> None:
    Calm(era=2).at(5000)


def test_another_process_begins_the_settling_time_anew() -> None:
    calm = Calm(leader=2, unheard=frozenset((2,)), acks="1")
    calm.seen.timeline.now = 900
    hosts: Any = calm.oracle.brokers
    hosts[0].nodes.append(None)
    calm.oracle.look()
    calm.at(1900)
    with reported("may lead"):
        calm.at(1901)


# Deletions


@define
class Purged:
    """A partition of which records were to be deleted."""

    era: int = 0
    committed: int = 10
    asked: int = 5
    unavailable: bool = False
    start: int = 0
    seen: Seen = field(factory=Seen)
    oracle: DeletionOracle = field(init=False)

    def __attrs_post_init__(self) -> None:
        replica = SimpleNamespace(id=1, log=SimpleNamespace(start=self.start))
        log = SimpleNamespace(committed=[None] * self.committed)
        partition: Any = SimpleNamespace(
            name="t:0",
            era=self.era,
            log=log,
            replicas={1: replica},
            unavailable=lambda: self.unavailable,  # pyright: ignore
        )
        purger: Any = SimpleNamespace(asked={HERE: self.asked}, deleted={HERE: self.asked})
        self.oracle = DeletionOracle({HERE: partition}, purger)
        simulation: Any = self.seen
        self.oracle.attach(simulation)

    def begins_at(self, start: int, seen: Any = None) -> None:
        """The log begins there when the replica makes a step."""
        self.oracle.partitions[HERE].replicas[1].log.start = start  # pyright: ignore
        self.seen.observe(1, seen or o.Written(HERE, 0, 0))


CUT, COPIED = o.AnswerTaken(HERE, 1, True, 5, 5), o.AnswerTaken(HERE, 1, False, 5, 5)
ANEW = o.LogRestarted(HERE, 5, 3)


def test_a_log_begins_no_earlier_than_it_did() -> None:
    for seen in (CUT, COPIED, ANEW):
        purged = Purged()
        purged.begins_at(4)
        purged.begins_at(4)
        with reported("LogStartMonotone"):
            purged.begins_at(3, seen)


@pytest.mark.parametrize(("seen", "may"), [(CUT, True), (ANEW, True), (COPIED, False)])
def test_after_a_permitted_loss_a_log_that_is_cut_may_begin_earlier(seen: Any, may: bool) -> None:
    purged = Purged(era=1)
    purged.begins_at(4)
    if may:
        purged.begins_at(3, seen)
    else:
        with reported("LogStartMonotone"):
            purged.begins_at(3, seen)


def test_no_more_goes_than_was_asked_and_is_committed() -> None:
    Purged().begins_at(5)
    for purged, start in ((Purged(), 6), (Purged(committed=3), 4)):
        with reported("OnlyAskedIsDeleted"):
            purged.begins_at(start)


def test_after_a_permitted_loss_no_more_goes_than_was_asked() -> None:
    Purged(era=1, committed=3).begins_at(5)
    with reported("OnlyAskedIsDeleted"):
        Purged(era=1, committed=3).begins_at(6)


def test_a_coordinator_may_delete_up_to_the_furthest_that_it_said() -> None:
    purged = Purged(asked=0)
    for start in (4, 2):
        purged.seen.observe(1, LogPruned(HERE, start))
    purged.begins_at(4)


def test_what_lies_below_the_log_start_is_not_read() -> None:
    purged = Purged()
    purged.begins_at(4)
    purged.seen.observe(1, o.RecordsRead(HERE, 4, ()))
    with reported("DeletedIsNotRead"):
        purged.seen.observe(1, o.RecordsRead(HERE, 3, ()))
    purged.seen.observe(1, o.Deleted(HERE))
    purged.seen.observe(1, o.RecordsRead(HERE, 0, ()))


def test_in_the_end_what_was_deleted_is_nowhere() -> None:
    Purged(start=5).oracle.finish()
    with reported("DeletedStaysDeleted"):
        Purged(start=4).oracle.finish()
    Purged(start=4, unavailable=True).oracle.finish()
    Purged(start=4, era=1).oracle.finish()


@pytest.mark.parametrize(
    ("name", "value"), [("drop", 0.1), ("stray", 0.1), ("jitter_ms", 6), ("slow", {1: 5})]
)
def test_nothing_is_demanded_of_a_network_that_loses_or_delays(name: str, value: Any) -> None:
    calm = Calm()
    setattr(calm.seen.network, name, value)
    calm.oracle.look()
    calm.at(5000)


def test_transactional_ids_have_a_coordinator_in_their_own_topic() -> None:
    broker = Broker()
    broker.handles(_news(_registered(STATE[0], 1, leader=2)))
    asked = m.FindCoordinatorRequest(m.TRANSACTION, ("tid",))
    broker.handles(asked, m.FindCoordinatorResponse((m.FoundCoordinator("tid", None, 2),)))
    with reported("ToldAsHeard"):
        broker.handles(asked, m.FindCoordinatorResponse((m.FoundCoordinator("tid", None, 1),)))
