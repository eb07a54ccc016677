"""A short campaign on our own broker processes, and what is left of one that is interrupted."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from attrs import evolve
from click.testing import CliRunner

from chaos.cli import chaos
from chaos.real.campaign import campaign, command
from chaos.real.campaign.draw import draw
from chaos.real.campaign.plan import ClientsPlan, GroupPlan, Plan, Step, TopicPlan
from tests.refimpl.edge.patience import PATIENCE_S, until

SEED = 3
JUDGED = ("L1", "L3", "L4", "P1", "G1", "C1")


def small() -> Plan:
    """One fault of each sort, in seconds."""
    groups = (
        GroupPlan("classic-group", "classic", 2, static=True, assignor="range"),
        GroupPlan("consumer-group", "consumer", 1),
    )
    clients = ClientsPlan(("plain", "idempotent"), groups, pause_ms=20, timeout_ms=30_000)
    steps = (
        Step(500, "crash", "short", who=0, for_ms=100, value=1),
        Step(900, "requests", "drop-response Produce", who=0, for_ms=200, value=1),
        Step(1_500, "pause", "short", who=2, for_ms=300, value=1),
        Step(2_000, "transaction_version", "transaction.version", for_ms=500, value=1),
        Step(2_500, "member_leave", who=1, value=1, group="classic-group"),
        Step(3_000, "stop", who=1, for_ms=100, value=1),
    )
    drawn = draw(SEED, 0.2, "highwater")
    brokers = {**drawn.brokers, "broker.session.timeout.ms": "3000"}
    topics = {"orders": TopicPlan(2, 3, {"min.insync.replicas": "2"})}
    return evolve(drawn, minutes=0.1, brokers=brokers, topics=topics, clients=clients, steps=steps)


def test_our_brokers_keep_their_promises_and_each_is_judged(tmp_path: Path) -> None:
    verdict = campaign.run(small(), "", tmp_path / "run")
    told = "\n".join(verdict["summary"])
    assert verdict["exit_code"] == 0, told
    checks = verdict["checks"]
    assert {name: checks[name] for name in JUDGED} == dict.fromkeys(JUDGED, "holds"), told
    assert all(effective for _, effective, _ in verdict["effects"].values()), told
    assert verdict["counts"]["acknowledged"] > 100
    faults = orjson.loads((tmp_path / "run" / "run" / "meta.json").read_bytes())["faults"]
    assert [one["kind"] for one in faults] == [step.kind for step in small().steps]
    assert "kill -9" in (tmp_path / "run" / "report.txt").read_text("utf-8")
    assert (tmp_path / "run" / "report.html").exists()


#: What every Python process runs first: a leader that waits for nobody.
BUG = """\
from refimpl.machines.replica import Replica
Replica.maximal_isr = property(lambda self: frozenset({self.id}))
"""


def test_a_loss_is_found_and_the_fault_that_matters_is_among_those_that_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BUG)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    steps = (
        *(Step(2_000, "pause", "short", who, for_ms=2_400, value=1) for who in (2, 3)),
        Step(3_200, "crash", "long", who=1, for_ms=5_000, value=1),
    )
    plan = small()
    topics = {"orders": TopicPlan(3, 3, {"min.insync.replicas": "2"})}
    clients = evolve(plan.clients, producers=("plain",))
    plan = evolve(plan, minutes=0.15, topics=topics, clients=clients, steps=steps)
    verdict = campaign.run(plan, "", tmp_path / "run")
    told = "\n".join(verdict["summary"])
    assert verdict["exit_code"] == 1, told
    assert {"L1", "L4"} & {name for name, one in verdict["checks"].items() if one == "violated"}
    assert "found that nothing explains" in told
    assert (tmp_path / "run" / "cluster").is_dir()


def test_a_campaign_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = list[int]()

    def run(plan: Plan, _: str, folder: Path) -> dict[str, Any]:
        played.append(plan.seed)
        if plan.seed == 2 and len(played) == 2:
            raise KeyboardInterrupt
        verdict: dict[str, Any] = {
            "seed": plan.seed,
            "exit_code": 0,
            "said": "well",
            "finds": [],
            "effects": {},
        }
        verdict |= {"minutes": plan.minutes, "summary": [f"seed {plan.seed}: well"]}
        folder.mkdir(parents=True)
        (folder / campaign.VERDICT).write_bytes(orjson.dumps(verdict))
        return verdict

    def ended(_: Path) -> None:
        raise SystemExit(command.INTERRUPTED)  # and not the process of all these tests

    monkeypatch.setattr(campaign, "run", run)
    monkeypatch.setattr(command, "_interrupted", ended)
    given = ["real", "--seeds", "1-3", "--target", "highwater", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(chaos, given).exit_code == command.INTERRUPTED
    done = CliRunner().invoke(chaos, given)
    assert done.exit_code == 0, done.output
    assert played == [1, 2, 2, 3]
    assert "3 seeds, 9 minutes: 3 well" in done.output


def test_an_interrupted_run_leaves_no_process_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = evolve(small(), minutes=5.0)
    (tmp_path / "plan.json").write_bytes(plan.as_json())
    arguments = ("chaos", "real", "--replay", tmp_path / "plan.json", "--out", out)
    program = [sys.executable, "-m", "refimpl", *map(str, arguments)]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(program, stdout=said, stderr=said, start_new_session=True)
    folder = out / f"highwater-{SEED}"
    try:
        until(lambda: any((folder / "run").glob("idempotent#0.journal")))
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 4
        # As Ctrl-C, which is ignored where a shell without job control runs the tests behind it.
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 130, (tmp_path / "said").read_text()
        gone, alive = psutil.wait_procs(children, PATIENCE_S)
        assert alive == []
        assert gone
    finally:
        if process.poll() is None:  # it did not end, and neither would its brokers
            for one in psutil.Process(process.pid).children(recursive=True):
                one.kill()
        process.kill()
        process.wait()
    assert not (folder / campaign.VERDICT).exists()
    assert any((folder / "run").iterdir())
