"""A short campaign on Apache Kafka's own processes: both judges have much to say."""

from pathlib import Path

import pytest
from attrs import evolve

from chaos.real.campaign import campaign
from chaos.real.campaign.draw import draw
from chaos.real.campaign.plan import ClientsPlan, GroupPlan, Plan, Step, TopicPlan

pytestmark = pytest.mark.kafka
VERSION = "4.3.1"


def short() -> Plan:
    """Faults of processes and of links, and an operator's, within a minute."""
    groups = (GroupPlan("consumer-group", "consumer", 2),)
    clients = ClientsPlan(("plain", "idempotent"), groups, pause_ms=100, timeout_ms=30_000)
    steps = (
        Step(3_000, "lag", for_ms=1_500, value=1),
        Step(6_000, "pause", "long", who=1, for_ms=7_000, value=1),
        Step(18_000, "isr", "delay", for_ms=1_000, value=1),
        Step(30_000, "stop", who=2, for_ms=500, value=1),
    )
    drawn = draw(1, 1, "kafka")
    quick = {"broker.session.timeout.ms": "5000", "replica.lag.time.max.ms": "2000"}
    return evolve(
        drawn,
        minutes=0.8,
        brokers={**drawn.brokers, **quick},
        topics={"orders": TopicPlan(1, 3, {"min.insync.replicas": "2"})},
        clients=clients,
        steps=steps,
    )


def test_clients_and_brokers_are_judged_and_each_fault_has_an_effect(tmp_path: Path) -> None:
    verdict = campaign.run(short(), VERSION, tmp_path / "run")
    told = "\n".join(verdict["summary"])
    assert verdict["exit_code"] == 0, told
    for name in ("L1", "L3", "L4", "P1", "C1"):
        assert verdict["checks"][name] == "holds", told
    assert verdict["steps"]["orders:0"] > 500
    assert all(effective for _, effective, _ in verdict["effects"].values()), told
