"""Recordings of groups: TLC follows what coordinators did, and refuses what a broken one did."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.recording import write_events
from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.catalogue import applied, catalogue
from properties.tla.tracecheck import coverage, validate_all
from properties.tla.tracefile import read_traces

Line = dict[str, Any]
CLASSIC: dict[str, Any] = {
    **{
        "group_protocol": "classic",
        "files": False,
        "store": False,
        "transactions": False,
        "share_members": 0,
    },
}
CONSUMER: dict[str, Any] = {**CLASSIC, "group_protocol": "consumer"}
SEEDS = (2, 3, 9)


def recording(folder: Path, seed: int, fixed: dict[str, Any], name: str = "") -> list[Line]:
    """The header and steps of the group of a run, written down under a name of their own."""
    run = build(Settings.draw(seed, **fixed), events=True).go()
    rows = [
        orjson.loads(line) for line in write_events(run, folder / "whole").read_bytes().splitlines()
    ]
    name = name or f"{fixed['group_protocol']} {seed}"
    rows = [{**row, "run": name} for row in rows if row["subject"] == "g"]
    write(folder / f"{name.replace(' ', '-')}.events.ndjson", rows)
    return rows


def write(file: Path, rows: list[Line]) -> None:
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def left_out(action: str) -> Callable[[list[Line]], None]:
    def damage(rows: list[Line]) -> None:
        rows.remove(next(row for row in rows if row.get("action") == action))

    return damage


def a_record_more_is_loaded(rows: list[Line]) -> None:
    last = [row for row in rows if row.get("action") == "Load"][-1]
    last["after"]["committed"][0] += 1


def a_refused_commit_is_taken(rows: list[Line]) -> None:
    row = next(row for row in rows if row.get("action") == "RefuseCommit")
    row["action"] = "TakeCommit"
    params = row["params"]
    row["params"] = {**params, "p": 1, "offset": 1}
    row["params"].pop("those", None)


DAMAGES: dict[str, list[Callable[[list[Line]], None]]] = {
    "classic": [
        *map(left_out, ("AskId", "JoinPending", "SyncLeader", "Expire", "TakeCommit")),
        a_record_more_is_loaded,
        a_refused_commit_is_taken,
    ],
    "consumer": [
        *map(left_out, ("Join", "Fence", "ComputeTarget", "TakeCommit")),
        a_record_more_is_loaded,
        a_refused_commit_is_taken,
    ],
}
TAKEN = {
    "ClassicCoordinator": {
        *("AskId", "JoinPending", "Join", "RefuseJoin", "Leave", "Expire", "JoinTimer"),
        *("SyncLeader", "Sync", "RefuseSync", "Heartbeat", "TakeCommit", "RefuseCommit"),
        *("Replicate", "Load"),
    },
    "ConsumerCoordinator": {
        *("Join", "Rejoin", "Fence", "Leave", "ComputeTarget", "Heartbeat", "RefuseHeartbeat"),
        *("ChangeTopics", "TakeCommit", "RefuseCommit", "Replicate", "Load"),
    },
}


@pytest.mark.java
def test_tlc_follows_what_coordinators_did_and_refuses_what_none_did(tmp_path: Path) -> None:
    refused: set[str] = set()
    for fixed in (CLASSIC, CONSUMER):
        runs = [recording(tmp_path, seed, fixed) for seed in SEEDS]
        name = f"{fixed['group_protocol']} with added partitions"
        grows = {"adds_partitions": True, "fault_ms": 2500, "faults": ("elect",)}
        recording(tmp_path, 0, {**fixed, **grows}, name)
        for number, damage in enumerate(DAMAGES[fixed["group_protocol"]]):
            name = f"{fixed['group_protocol']} damaged {number}"
            rows = [{**row, "run": name} for row in deepcopy(max(runs, key=len))]
            damage(rows)
            write(tmp_path / f"{name.replace(' ', '-')}.events.ndjson", rows)
            refused.add(name)
    verdicts = validate_all(read_traces(sorted(tmp_path.glob("*.events.ndjson"))))
    assert {one.trace.run for one in verdicts if not one.accepted} == refused
    for spec, actions in TAKEN.items():
        met = coverage(one for one in verdicts if one.accepted and one.trace.spec == spec)
        assert actions <= met.keys(), actions - met.keys()


THREE: dict[str, Any] = {**CONSUMER, "consumers": 3, "partitions": 3}
BUGS: list[tuple[str, dict[str, Any], int, str]] = [
    ("commit_of_any_epoch", THREE, 5, "TakeCommit"),
    ("every_partition_is_free", THREE, 0, "Join"),
    ("pending_partitions_are_free", THREE, 2, "Heartbeat"),
    ("any_generation_will_do", CLASSIC, 3, "Heartbeat"),
    ("the_generation_stays", CLASSIC, 3, "JoinTimer"),
]
"""Known bugs, a seed in which each is met, and the step in which it is."""


@pytest.mark.java
def test_tlc_names_the_step_in_which_a_broken_coordinator_leaves_the_protocol(
    tmp_path: Path,
) -> None:
    for bug, fixed, seed, _ in BUGS:
        with applied(catalogue()[bug]):
            recording(tmp_path, seed, fixed, bug)
    verdicts = validate_all(read_traces(sorted(tmp_path.glob("*.events.ndjson"))))
    refused = {
        one.trace.run: one.trace.events[one.event - 1].action
        for one in verdicts
        if not one.accepted
    }
    assert refused == {bug: action for bug, _, _, action in BUGS}
