"""The moments at which a coordinator's log is loaded beside it: a share of each kind."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from chaos.oracles.loaded import LoadedOracle
from chaos.sim.addresses import OFFSETS
from refimpl.coordinator.observations import CoordinatorOperation
from refimpl.coordinator.operation import Performed, TimerKey
from tests.chaos.seen import Seen


def test_timers_of_different_kinds_and_refusals_are_kinds_of_their_own() -> None:
    nobody = SimpleNamespace(coordinators=SimpleNamespace(by_partition={}, topic=OFFSETS.topic))
    node = SimpleNamespace(groups=nobody, transactions=nobody, share_coordinators=nobody)
    broker = SimpleNamespace(node=node, clock=SimpleNamespace(now_ms=lambda: 0))
    simulation: Any = Seen(settings=SimpleNamespace(seed=0, reconfigures=False))
    brokers: Any = [broker]
    oracle = LoadedOracle(simulation, brokers, Counter())
    oracle.attach()
    session, expiry = TimerKey("session", "g", "m"), TimerKey("expiry", "g")
    for about, error in ((session, None), (expiry, None), (session, None), (session, "REFUSED")):
        done = Performed("g", about, error, None, None, (), 0)
        simulation.observe(1, CoordinatorOperation(OFFSETS, done))
    assert [times for _, times in oracle.seen.values()] == [2, 1, 1]
