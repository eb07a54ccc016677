"""Real clients against brokers that are broken meanwhile: what is recorded, and what is found."""

import time
from pathlib import Path
from typing import Any

import pytest

import traces
from chaos.real.live import run as live
from chaos.real.live.run import PARTITIONS, RunPlan, record
from properties.mutants.catalogue import applied, catalogue
from properties.tla.specs import SpecTree
from properties.tla.tracecheck import TraceVerdict, validate_all
from properties.tla.tracefile import read_traces
from refimpl.machines.replica import Replica
from traces.record.confluent_consumer import ConfluentConsumer

PATIENT_MS = 60_000
"""So long that no request times out on a slow machine: librdkafka then infers acknowledgements, and
what has no offset is not checked."""


def recorded(folder: Path, plan: RunPlan, *faults: object) -> tuple[Any, list[TraceVerdict]]:
    """The checks' verdicts on the clients' trace, and TLC's on the brokers'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "FAULTS", faults)
        record(plan, folder / "runs", folder / "events")
    verdicts = traces.check(traces.load(folder / "runs" / plan.name))
    return verdicts, list(validate_all(read_traces([folder / "events"]), SpecTree()))


def test_a_run_under_faults_keeps_its_promises_and_is_a_behaviour_of_the_spec(
    tmp_path: Path,
) -> None:
    plan = RunPlan(1, faults=3, timeout_ms=PATIENT_MS)
    verdicts, steps = recorded(
        tmp_path, plan, live.kill_leader, live.cut_follower, live.slow_follower
    )
    assert verdicts.verdict != "violated", verdicts.as_json()
    assert [verdicts[name].verdict for name in ("L1", "L3", "L4", "P1")] == ["holds"] * 4
    assert [one.why for one in steps if not one.accepted] == []
    taken = {event.action for one in steps for event in one.taken}
    assert {"Fence", "Restart", "ExpandIsr", "ShrinkIsr", "Fetch", "Write"} <= taken
    assert {"Join", "SyncLeader", "TakeCommit", "Leave", "Load", "Replicate"} <= taken


def test_with_acks_1_the_loss_is_seen_and_allowed(tmp_path: Path) -> None:
    verdicts, steps = recorded(
        tmp_path, RunPlan(2, safe=False, faults=1, timeout_ms=PATIENT_MS), live.cut_then_kill
    )
    assert verdicts["L4"].verdict == "allowed"
    assert all(one.accepted for one in steps)
    group = {event.action for one in steps[PARTITIONS:] for event in one.taken}
    assert {"Join", "TakeCommit", "Leave", "Load"} <= group


def test_a_coordinator_that_keeps_its_generation_is_refused_at_that_step(tmp_path: Path) -> None:
    with applied(catalogue()["the_generation_stays"]):
        _, steps = recorded(tmp_path, RunPlan(1, faults=1, timeout_ms=PATIENT_MS), live.kill_leader)
    *of_partitions, group = steps
    assert all(one.accepted for one in of_partitions)
    assert not group.accepted
    assert group.why == "generation: the spec has 1, the event 0"


def test_commits_that_were_lost_are_made_again(tmp_path: Path) -> None:
    def lost(*_: Any, **__: Any) -> None: ...

    def lose_commits(run: live.Running) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ConfluentConsumer, "commit", lost)
            run.write(5)
            run.writer.flush()
            until = time.monotonic() + 180
            while sum(run.members.have_read().values()) < run.acknowledged.total():
                run.members.work()
                assert time.monotonic() < until, "the group does not read"

    verdicts, _ = recorded(tmp_path, RunPlan(1, faults=1, timeout_ms=PATIENT_MS), lose_commits)
    assert verdicts.verdict != "violated", verdicts.as_json()


def test_a_leader_that_waits_for_nobody_is_found_by_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replica, "maximal_isr", property(lambda self: frozenset({self.id})))
    verdicts, steps = recorded(
        tmp_path, RunPlan(1, faults=1, idempotence=False, timeout_ms=PATIENT_MS), live.cut_then_kill
    )
    assert verdicts["L4"].verdict == "violated"
    assert any(not one.accepted and "AdvanceHighWatermark" in one.why for one in steps)
