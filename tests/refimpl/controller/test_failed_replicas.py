"""A log fails on a broker that lives: the controller hears of it, and another replica leads
(KIP-112, KIP-858)."""

import pytest

from properties.mutants.catalogue import Edit, Mutant, applied
from refimpl.controller.state import ControllerConfig
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from tests.refimpl.controller.asking import Asking

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def heartbeat(asking: Asking, broker: int, *offline: TopicPartition) -> None:
    epoch = asking.controller.registry.epochs[broker]
    body = c.BrokerHeartbeatRequest(broker, epoch, 0, False, offline=offline)
    assert asking.ask(body, broker) == c.BrokerHeartbeatResponse(None, False)


def decision(asking: Asking, number: int = 0) -> LeaderAndIsr:
    return asking.partition("t", number).decision


def test_another_replica_leads_where_the_log_failed_and_only_there() -> None:
    asking = Asking()
    asking.create("t", (1, 2, 3), (1, 2, 3))
    before = decision(asking)
    heartbeat(asking, 1, T0)
    assert (decision(asking).leader, decision(asking).isr) == (2, {2, 3})
    assert decision(asking).leader_epoch == before.leader_epoch + 1
    assert (decision(asking, 1).leader, decision(asking, 1).isr) == (1, {1, 2, 3})
    assert 1 in asking.controller.registry.alive


def test_what_is_said_with_every_heartbeat_is_decided_once() -> None:
    asking = Asking()
    asking.create("t", (1, 2, 3))
    heartbeat(asking, 1, T0)
    before = decision(asking)
    heartbeat(asking, 1, T0)
    heartbeat(asking, 1, T0, TopicPartition("t", 9), TopicPartition("unknown", 0))
    assert decision(asking) == before


def test_a_follower_whose_log_failed_leaves_the_isr_and_does_not_come_back() -> None:
    asking = Asking()
    asking.create("t", (1, 2, 3))
    heartbeat(asking, 3, T0)
    assert (decision(asking).leader, decision(asking).isr) == (1, {1, 2})
    assert asking.alter_isr("t", 1, 2, 3).error == "INELIGIBLE_REPLICA"
    asking.register(3, 2)
    assert asking.alter_isr("t", 1, 2, 3).error is None


def test_nobody_leads_where_the_last_log_has_failed_until_its_broker_starts_again() -> None:
    asking = Asking(ControllerConfig(eligible_leader_replicas=False))
    asking.create("t", (1, 2))
    asking.alter_isr("t", 1)
    heartbeat(asking, 1, T0)
    assert decision(asking).leader is None
    heartbeat(asking, 1, T0)
    asking.controller.decisions.find_leaders()
    assert asking.move("t", 1, 3) is None
    assert decision(asking).leader is None
    asking.register(1, 2)
    assert decision(asking).leader == 1


def test_with_elr_a_log_that_failed_leads_again_only_if_somebody_accepts_the_loss() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    asking.alter_isr("t", 1)
    heartbeat(asking, 1, T0)
    in_good_order = asking.controller.registry.epochs[1]
    asking.ask(c.BrokerRegistrationRequest(1, 2, in_good_order), 1)
    assert decision(asking).leader is None
    (answer,) = asking.ask(c.ElectLeadersRequest(c.UNCLEAN, (T0,))).partitions
    assert (answer.error, decision(asking).leader) == (None, 1)


def test_an_election_passes_over_a_replica_whose_log_has_failed() -> None:
    asking = Asking()
    asking.create("t", (1, 2, 3))
    heartbeat(asking, 2, T0)
    asking.controller.vanish(1)
    assert decision(asking).leader == 3
    assert asking.move("t", 2, 3) is None
    assert decision(asking).leader == 3


BUGS = {
    "nobody listens": Edit(
        "refimpl.controller.controller:Controller._heartbeat",
        "self.decisions.replicas_failed(broker, body.offline)",
        "pass",
    ),
    "only the leader is taken out": Edit(
        "refimpl.controller.decisions:Decisions.replicas_failed",
        "one is not None",
        "one is not None and one.state.leader == broker",
    ),
    "it is forgotten at once": Edit(
        "refimpl.machines.controller:PartitionState.fail_replica",
        "self.offline = self.offline | {broker}",
        "",
    ),
    "it is never forgotten": Edit(
        "refimpl.machines.controller:PartitionState.register",
        "self.offline = self.offline - {broker}",
        "",
    ),
    "a reassignment asks the registry who could lead": Edit(
        "refimpl.controller.decisions:Decisions._reassign",
        "state.active",
        "self.state.registry.active",
    ),
    "it may lack nothing": Edit(
        "refimpl.machines.controller:PartitionState.register", "failed or crashed", "crashed"
    ),
    "nobody else leads": Edit(
        "refimpl.controller.decisions:Decisions.replicas_failed",
        "self._fence(name, one, broker)",
        "",
    ),
}
RULES = [
    test_another_replica_leads_where_the_log_failed_and_only_there,
    test_what_is_said_with_every_heartbeat_is_decided_once,
    test_a_follower_whose_log_failed_leaves_the_isr_and_does_not_come_back,
    test_nobody_leads_where_the_last_log_has_failed_until_its_broker_starts_again,
    test_with_elr_a_log_that_failed_leads_again_only_if_somebody_accepts_the_loss,
    test_an_election_passes_over_a_replica_whose_log_has_failed,
]


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_breaks_one_of_these_rules(bug: str) -> None:
    def broken(rule: object) -> bool:
        assert callable(rule)
        try:
            rule()
        except Exception:  # an assertion, or a refusal that nobody expects
            return True
        return False

    with applied(Mutant("scratch", bug, (BUGS[bug],), ())):
        assert any(map(broken, RULES))
    assert not any(map(broken, RULES))
