"""The rules of a share group's oracle one by one, without a run."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.oracles.share_group import ShareGroupOracle
from chaos.oracles.share_log import Kept
from chaos.sim.addresses import OFFSETS, SHARE_GROUP, SHARE_STATE, TOPIC, TOPIC_ID
from chaos.sim.share_messages import SharesAcknowledged, SharesAnswered, ShareSessionOver
from refimpl.coordinator.observations import LogPruned
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.machines.share_partition import ACCEPT, REJECT, RELEASE, RENEW, DeliveryState
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.messages.share import ShareKey
from refimpl.records.schema import Uuid
from refimpl.storage.format.control import EndTxnMarker
from tests.chaos.seen import Seen, reported

HERE = TopicPartition(TOPIC, 0)
KEY = ShareKey(SHARE_GROUP, Uuid(TOPIC_ID), 0)
LIMIT, LOCK_MS = 3, 100
CONNECTIONS = {"a": 11, "b": 22}


@define
class Shared:
    """A partition of twenty records that two members share; broker 1 leads everything."""

    start: int = 0
    now: int = 0
    seen: Seen = field(init=False)
    oracle: ShareGroupOracle = field(init=False)
    partitions: dict[TopicPartition, Any] = field(init=False)
    coordinator: Any = field(init=False)
    node: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        settings = SimpleNamespace(
            share_delivery_limit=LIMIT, share_lock_ms=LOCK_MS, share_isolation="read_uncommitted"
        )
        self.seen = Seen(settings=settings)
        log = SimpleNamespace(start=self.start)
        self.partitions = {
            name: SimpleNamespace(
                name=f"{name.topic}:0",
                era=0,
                unsettled=False,
                log=SimpleNamespace(committed=[None] * 20),
                state=SimpleNamespace(leader=1),
                replicas={1: SimpleNamespace(log=log, high_watermark=20)},
                unavailable=bool,
            )
            for name in (HERE, SHARE_STATE, OFFSETS)
        }
        sessions = {
            (SHARE_GROUP, member): SimpleNamespace(connection=one)
            for member, one in CONNECTIONS.items()
        }
        self.coordinator = SimpleNamespace(state=CoordinatorState.ACTIVE)
        coordinators = SimpleNamespace(by_partition={SHARE_STATE.partition: self.coordinator})
        share = SimpleNamespace(loaded=True, start=20)
        self.node = SimpleNamespace(
            id=1,
            share_partitions=SimpleNamespace(
                sessions=SimpleNamespace(sessions=sessions),
                shared={KEY: SimpleNamespace(share=share)},
            ),
            share_coordinators=SimpleNamespace(coordinators=coordinators),
            partitions={HERE: SimpleNamespace(log=log)},
        )
        host = SimpleNamespace(node=self.node, clock=SimpleNamespace(now_ms=self.now_ms))
        simulation: Any = self.seen
        hosts: Any = [host]
        counts = Counter[str]()
        self.oracle = ShareGroupOracle(simulation, hosts, self.partitions, [TOPIC], [], counts)
        self.oracle.missing_in = lambda oracle: ""
        self.oracle.attach()

    def now_ms(self) -> int:
        return self.now

    def stored(self, *final: int, epoch: int = 1, start: int = 0) -> None:
        """The state that is committed: these records are done with."""
        deliveries = {offset: (1, int(DeliveryState.ACKNOWLEDGED)) for offset in final}
        self.oracle.log.kept[KEY] = Kept(0, epoch, start, 0, deliveries)

    def loads(self, start: int = 0, *, epoch: int = 1) -> None:
        self.seen.observe(1, o.SharesLoaded(HERE, SHARE_GROUP, epoch, start))

    def lends(self, offset: int, count: int = 1, *, to: str = "a", epoch: int = 1) -> None:
        acquired = [(offset, offset, count)]
        until_ms = self.now + LOCK_MS
        self.seen.observe(1, o.SharesAcquired(HERE, SHARE_GROUP, epoch, to, acquired, until_ms))

    def sends(self, offset: int, kind: int, *, by: str = "a") -> None:
        self.seen.observe(0, SharesAcknowledged(by, 1, HERE, {offset: kind}))

    def answers(self, offset: int, kind: int, error: str | None = None, *, to: str = "a") -> None:
        self.seen.observe(0, SharesAnswered(to, 1, HERE, {offset: kind}, error))


def loaded(**of: Any) -> Shared:
    shared = Shared(**of)
    shared.stored()
    shared.loads()
    return shared


def test_a_record_is_with_one_member_until_its_lock_is_over() -> None:
    shared = loaded()
    shared.lends(1)
    shared.now = LOCK_MS - 1
    with reported("OneHolder"):
        shared.lends(1, 2, to="b")
    shared.now = LOCK_MS
    shared.lends(1, 2, to="b")


@pytest.mark.parametrize("kind", [ACCEPT, REJECT, RELEASE])
def test_a_record_that_was_given_back_may_go_to_another_member(kind: int) -> None:
    shared = loaded()
    shared.lends(1)
    shared.sends(1, kind, by="b")  # who does not have it gives nothing back
    with reported("OneHolder"):
        shared.lends(1, 2, to="b")
    shared.sends(1, kind)
    shared.lends(1, 2, to="b")


def test_records_of_a_session_that_is_over_may_go_to_another_member() -> None:
    shared = loaded()
    shared.lends(1)
    shared.seen.observe(0, ShareSessionOver("b", 1, CONNECTIONS["b"]))
    with reported("OneHolder"):
        shared.lends(1, 2, to="b")
    shared.seen.observe(0, ShareSessionOver("a", 1, CONNECTIONS["a"]))
    shared.lends(1, 2, to="b")


def test_what_is_lent_to_a_session_that_is_over_may_go_to_another_member() -> None:
    shared = loaded()
    shared.seen.observe(0, ShareSessionOver("a", 1, CONNECTIONS["a"]))
    shared.lends(1)
    shared.lends(1, 2, to="b")
    with reported("OneHolder"):
        shared.lends(1, 3)


def test_a_lock_that_was_renewed_lasts_from_when_that_was_sent() -> None:
    shared = loaded()
    shared.lends(1)
    shared.now = 60
    shared.sends(1, RENEW)
    shared.now = 90
    shared.answers(1, RENEW)
    shared.now = 159
    with reported("OneHolder"):
        shared.lends(1, 2, to="b")
    shared.now = 160
    shared.lends(1, 2, to="b")


def test_a_lock_is_not_renewed_without_an_answer_or_by_a_refusal() -> None:
    shared = loaded()
    shared.lends(1)
    shared.now = 60
    shared.sends(1, RENEW)
    shared.answers(1, RENEW, "INVALID_RECORD_STATE")
    shared.now = LOCK_MS
    shared.lends(1, 2, to="b")


def test_an_end_that_was_answered_is_final_up_to_the_epoch_that_stored_it() -> None:
    shared = loaded()
    shared.lends(1)
    shared.sends(1, ACCEPT)
    shared.stored(1)
    shared.answers(1, ACCEPT)
    with reported("EndIsFinal"):
        shared.lends(1, 2)


def test_an_end_is_answered_once_it_is_stored() -> None:
    shared = loaded(start=2)
    for offset in (2, 3):
        with reported("AnsweredIsStored"):
            shared.answers(offset, ACCEPT)
    shared.answers(1, ACCEPT)  # it is deleted
    shared.answers(2, ACCEPT, "FENCED_STATE_EPOCH")
    shared.answers(2, RELEASE)
    shared.stored(2)
    shared.answers(2, ACCEPT)
    shared.oracle.log.kept.clear()
    with reported("AnsweredIsStored"):
        shared.answers(2, ACCEPT)


def test_delivery_counts_grow_by_one_up_to_the_limit() -> None:
    for wrong in (0, 1, 3):
        shared = loaded()
        shared.lends(1)
        shared.now = LOCK_MS
        with reported("CountsDeliveries"):
            shared.lends(1, wrong)
    shared = loaded()
    for count in (1, 2, 3):
        shared.lends(1, count)
        shared.now += LOCK_MS
    with reported("CountsDeliveries.*the limit is 3"):
        shared.lends(1, 4)
    assert shared.oracle.counts["records lent for the last time"] == 1


def test_a_leader_that_begins_takes_the_count_that_it_has_read() -> None:
    shared = loaded()
    shared.lends(1, 2)
    with reported("CountsDeliveries"):
        loaded().lends(1, LIMIT + 1)


def test_a_release_that_was_answered_has_been_counted() -> None:
    shared = loaded()
    shared.lends(1, 2)
    shared.sends(1, RELEASE)
    shared.answers(1, RELEASE)
    shared.loads()  # again, from the state
    with reported("CountsDeliveries.*after it was released with as many"):
        shared.lends(1, 2)
    shared = loaded()
    shared.lends(1, 2)
    shared.sends(1, RELEASE)
    shared.answers(1, RELEASE)
    shared.loads()
    shared.lends(1, 3)


def test_a_leader_that_was_replaced_does_not_know_of_releases() -> None:
    shared = loaded()
    shared.lends(1, 2)
    shared.sends(1, RELEASE)
    shared.answers(1, RELEASE)
    shared.loads()
    shared.stored(epoch=2)
    shared.lends(1, 2)


def test_what_is_lent_is_committed_and_there() -> None:
    shared = loaded(start=2)
    shared.lends(2)
    shared.lends(19)
    for offset in (1, 20):
        with reported("CommittedIsLent"):
            shared.lends(offset)


def test_what_a_leader_reads_is_committed() -> None:
    shared = Shared()
    with reported("ReadIsCommitted"):
        shared.loads()
    shared.stored()
    shared.loads()
    with reported("ReadIsCommitted"):
        shared.loads(epoch=2)


def test_a_start_is_not_above_records_whose_end_is_not_committed() -> None:
    shared = Shared()
    shared.oracle.records.clear()
    shared.stored(0, 1)
    for offset in (0, 1, 2):
        shared.sends(offset, ACCEPT)
    shared.loads(2)
    with reported("ReadIsCommitted.*2 is below the start"):
        shared.loads(3)


def test_nothing_is_below_the_start_without_an_end() -> None:
    shared = Shared()
    shared.stored(0, 1)
    shared.sends(0, ACCEPT)
    with reported("NothingLost.*nobody has ended 1"):
        shared.loads(2)
    shared.sends(1, RELEASE)
    with reported("NothingLost"):
        shared.loads(2)
    shared.sends(1, REJECT)
    shared.loads(2)
    deleted = Shared(start=2)
    deleted.stored(start=2)
    deleted.loads(2)


def test_a_record_that_was_lent_as_often_as_may_be_has_an_end() -> None:
    shared = loaded()
    shared.lends(0, LIMIT)
    shared.stored(0)
    shared.loads(1)


def test_after_a_permitted_loss_nothing_is_judged() -> None:
    for flag in ("era", "unsettled"):
        shared = Shared()
        setattr(shared.partitions[OFFSETS], flag, True)
        shared.loads(5)
        shared.lends(30)
        shared.answers(1, ACCEPT)
        assert shared.oracle.unfinished() == ""


def test_the_group_is_done_once_everything_is_passed() -> None:
    shared = loaded()
    assert shared.oracle.unfinished() == ""
    shared.node.share_partitions.shared[KEY].share.start = 19
    assert "stays at 19 of 20" in shared.oracle.unfinished()
    assert shared.oracle.progress() == 19
    shared.node.share_partitions.shared[KEY].share.loaded = False
    assert "stays at -1 of 20" in shared.oracle.unfinished()
    assert shared.oracle.progress() == 0


def test_the_group_is_not_done_while_nobody_coordinates_its_state() -> None:
    shared = loaded()
    shared.coordinator.state = CoordinatorState.LOADING
    assert "not active" in shared.oracle.unfinished()
    shared.partitions[SHARE_STATE].state.leader = None
    assert "not active" in shared.oracle.unfinished()


def test_a_partition_without_a_leader_is_not_passed() -> None:
    shared = loaded()
    shared.partitions[HERE].state.leader = None
    assert "stays at -1 of 20" in shared.oracle.unfinished()


def test_logs_that_are_pruned_are_counted_and_judged_if_they_are_of_the_state() -> None:
    shared = loaded()
    shared.oracle.log.kept[KEY].snapshot = 3
    shared.seen.observe(1, LogPruned(OFFSETS, 9))
    shared.seen.observe(1, LogPruned(SHARE_STATE, 3))
    assert shared.oracle.counts["logs of the share state pruned"] == 1
    with reported("NeededIsKept"):
        shared.seen.observe(1, LogPruned(SHARE_STATE, 4))


@pytest.mark.parametrize(
    ("start", "complete", "true"), [(20, 0, True), (15, 5, True), (15, 4, False)]
)
def test_the_lag_that_is_told_is_that_of_a_group_that_is_done(
    start: int, complete: int, true: bool
) -> None:
    shared = loaded()
    shared.oracle.records[HERE].ended.update(range(20))
    state = SimpleNamespace(start=start, complete=complete)
    states = SimpleNamespace(current={KEY: SimpleNamespace(state=state)})
    shared.coordinator.shard = SimpleNamespace(states=states)
    if true:
        shared.oracle.finish()
    else:
        with reported("LagIsTrue"):
            shared.oracle.finish()
    states.current.clear()
    shared.oracle.finish()


def test_nothing_that_is_hidden_is_lent() -> None:
    shared = loaded()
    shared.coordinator.shard = SimpleNamespace(states=SimpleNamespace(current={}))
    marker = SimpleNamespace(payload=EndTxnMarker(True, 0), producer_id=7, producer_epoch=0)
    shared.partitions[HERE].log.committed[3] = SimpleNamespace(value=marker)
    shared.oracle.records[HERE].ended.update(range(20))
    shared.oracle.finish()
    shared.lends(3)
    with reported("HiddenIsNotLent"):
        shared.oracle.finish()
