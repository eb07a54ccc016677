"""The rules by which a run ends, one by one: what is missing, and what the last reading shows."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.clients.producer import STRIDE
from chaos.oracles.progress import AFTER_MS, ProgressOracle
from chaos.oracles.violation import Violation
from refimpl.machines.log import Log, Record

CALM_MS = 1_000
HEALED_MS = 5_000


def values(*numbers: int) -> list[Record]:
    return [Record(1, SimpleNamespace(payload=number)) for number in numbers]


def _nothing(*_: object) -> None:
    pass


def _one(_: object) -> int:
    return 1


@define
class Cluster:
    """One partition of three replicas, all of them well, and a group that has read it."""

    settings: dict[str, Any] = field(factory=dict[str, Any])
    records: tuple[int, ...] = (0, 1, 2)
    loss_allowed: bool = False
    oracle: ProgressOracle = field(init=False)
    partition: Any = field(init=False)
    group: Any = field(init=False)
    producer: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        end = len(self.records)
        replicas = {
            id: SimpleNamespace(
                id=id, leads=id == 1, epoch=1, log=Log(values(*self.records)), high_watermark=end
            )
            for id in (1, 2, 3)
        }
        self.partition = SimpleNamespace(
            name="t:0",
            state=SimpleNamespace(leader=1, leader_epoch=1, isr=frozenset(replicas)),
            replicas=replicas,
            log=SimpleNamespace(committed=[*self.records], loss_allowed=self.loss_allowed),
            era=self.loss_allowed,
            unavailable=lambda: False,
            read=_nothing,
        )
        self.group = SimpleNamespace(reached=end, processed=[True] * end)
        self.producer = SimpleNamespace(number=0, sending=[], acked={}, stopped=False)
        known: dict[str, Any] = {
            **{"idempotence": False, "reference_clients": False},
            **{"files": False, "clocks": False},
            **{"commit_when": "before", "several_subscriptions": False, "calm_ms": CALM_MS},
        }
        timeline = SimpleNamespace(now=HEALED_MS + AFTER_MS, at=self._again)
        simulation = SimpleNamespace(
            settings=SimpleNamespace(**(known | self.settings)),
            timeline=timeline,
            counts=Counter[str](),
            history=None,
        )
        nemesis = SimpleNamespace(
            move_back=lambda: None,
            partitions=1,
            controller=SimpleNamespace(partitions_of=_one),
        )
        offsets = SimpleNamespace(unavailable=lambda: True)
        group = SimpleNamespace(offsets=offsets, partitions=[self.group])
        made: Any = (simulation, nemesis, [self.partition], group, [self.producer], [])
        self.oracle = ProgressOracle(*made)
        self.oracle.healed_at = HEALED_MS
        self.looks = 0

    looks: int = field(default=0, init=False)

    def _again(self, *_: Any) -> None:
        self.looks += 1

    def look(self, after_ms: int = AFTER_MS) -> bool:
        """Look so long after the healing; true if the run is over."""
        self.oracle.simulation.timeline.now = HEALED_MS + after_ms
        self.oracle.handle(None)
        return self.oracle.done

    def acked(self, value: int, offset: int) -> None:
        self.producer.acked[value] = (SimpleNamespace(partition=0), offset)


def late(cluster: Cluster) -> str:
    """The complaint when it has been calm for long enough."""
    assert not cluster.look(), "there is still time"
    with pytest.raises(Violation) as found:
        cluster.look(AFTER_MS + CALM_MS + 1)
    return str(found.value)


def test_a_run_ends_when_all_is_well() -> None:
    cluster = Cluster()
    assert cluster.look()
    assert cluster.producer.stopped
    assert cluster.looks == 0


def test_nothing_is_looked_at_before_clients_have_gone_on_for_a_while() -> None:
    cluster = Cluster()
    assert not cluster.look(AFTER_MS - 1)
    assert cluster.looks == 1


def test_a_partition_that_is_not_well_holds_the_run_up_though_the_group_is_done() -> None:
    cluster = Cluster()
    cluster.partition.replicas[2].log = Log(values(0))
    assert "replica 2 ends at 1 of 3" in late(cluster)


def test_a_group_that_has_not_committed_everything_holds_the_run_up() -> None:
    cluster = Cluster()
    cluster.oracle.group.offsets = cluster.partition
    cluster.group.reached = 2
    assert "the group has committed 2 of 3" in late(cluster)


@pytest.mark.parametrize(
    ("value", "offset", "gone"),
    [(1, 1, False), (1, 2, True), (7, 0, True), (7, 1, True), (7, 3, True)],
)
def test_an_acknowledged_record_is_where_it_was_acknowledged(
    value: int, offset: int, gone: bool
) -> None:
    cluster = Cluster()
    cluster.acked(value, offset)
    if not gone:
        assert cluster.look()
        return
    with pytest.raises(Violation, match=rf"t:0: {value} at {offset} is gone"):
        cluster.look()


def test_an_acknowledged_record_below_the_log_start_was_deleted() -> None:
    cluster = Cluster()
    for replica in cluster.partition.replicas.values():
        replica.log = Log(values(1, 2), start=1)
    cluster.acked(0, 0)
    cluster.acked(1, 1)
    assert cluster.look()
    assert not cluster.oracle.simulation.counts


def test_a_loss_that_is_allowed_is_counted() -> None:
    cluster = Cluster(loss_allowed=True)
    cluster.acked(7, 1)
    assert cluster.look()
    assert cluster.oracle.simulation.counts["acknowledged records lost, as allowed"] == 1


def test_a_loss_is_allowed_only_after_what_allows_it() -> None:
    """Such as an unclean election: the settings alone lose nothing."""
    cluster = Cluster(loss_allowed=True)
    cluster.partition.era = 0
    cluster.acked(7, 1)
    with pytest.raises(Violation, match="AckedSurvives"):
        cluster.look()


TWICE = (0, 1, 1)
BACK = (1, 0)


@pytest.mark.parametrize(
    ("settings", "loss_allowed", "noticed"),
    [
        ({}, False, True),
        ({}, True, True),
        ({"reference_clients": True}, False, True),
        ({"reference_clients": True}, True, False),
        ({"reference_clients": True, "files": True}, False, True),
        ({"reference_clients": True, "files": True, "clocks": True}, False, False),
        ({"reference_clients": True, "clocks": True}, False, True),
        ({"files": True, "clocks": True}, False, True),
        ({"idempotence": False}, False, False),
    ],
)
def test_an_idempotent_record_is_there_once(
    settings: dict[str, Any], loss_allowed: bool, noticed: bool
) -> None:
    """But for five batches in flight and a leader that may have forgotten."""
    cluster = Cluster({"idempotence": True, **settings}, TWICE, loss_allowed)
    if not noticed:
        assert cluster.look()
        return
    with pytest.raises(Violation, match="NoDuplicates"):
        cluster.look()


@pytest.mark.parametrize(
    ("settings", "loss_allowed", "noticed"),
    [
        ({"reference_clients": True}, False, True),
        ({"reference_clients": True}, True, False),
        ({}, False, False),
    ],
)
def test_our_idempotent_producers_keep_their_order(
    settings: dict[str, Any], loss_allowed: bool, noticed: bool
) -> None:
    cluster = Cluster({"idempotence": True, **settings}, BACK, loss_allowed)
    if not noticed:
        assert cluster.look()
        return
    with pytest.raises(Violation, match=r"InOrder.*0 is behind 1"):
        cluster.look()


def test_the_order_of_different_producers_is_nobodys() -> None:
    settings = {"idempotence": True, "reference_clients": True}
    assert Cluster(settings, (STRIDE, 0, STRIDE + 1, 1)).look()
