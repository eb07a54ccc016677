"""The bug of docs/findings/kafka-group-same-epoch.md, met by simulated members.

Two members join shortly after each other, so that the first one is told to give something up twice
in one member epoch; then a commit of what it gave up first is of the epoch that it still has. By
the rule of Kafka 4.2 and 4.3 that is taken, while another member has the partition.
"""

from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.faults.script import Fault, Script
from chaos.recording import write_events
from chaos.sim.settings import Settings
from chaos.simulator import Run, build
from properties.mutants.catalogue import applied, catalogue
from properties.tla.tracecheck import validate_all
from properties.tla.tracefile import read_traces

BUG = "commit_of_an_equal_epoch_is_not_looked_at"
SEEDS = 30
SETTINGS: dict[str, Any] = {
    **{"transactions": False, "share_members": 0, "static_members": False, "reconfigures": False},
    "group_protocol": "consumer",
    "server_assignor": "range",
    "consumers": 3,
    "partitions": 6,
    "member_session_ms": 600,
    "assignment_interval_ms": 0,
    "commit_when": "polled",
    "commit_ms": 40,
    "work_ms": 10,
    "produce_ms": 15,
    "read_limit": 2,
    "acks": ("all",),
    "files": False,
    "store": False,
    "unclean": False,
    "lossy": False,
    # Requests overtake each other, and copies of them come late
    "delay_ms": 1,
    "jitter_ms": 20,
    "drop": 0.0,
    "duplicate": 0.3,
    "stray": 0.3,
    "request_timeout_ms": 400,
    "session_ms": 2000,
    "heartbeat_ms": 400,
}
JOINS: Script = tuple(
    Fault(at_ms, "member_leave", who=who, for_ms=for_ms)
    for left_ms in (600, 2600, 4600)
    for at_ms, who, for_ms in ((left_ms, 2, 500), (left_ms + 1, 3, 800))
)


def go(seed: int) -> Run:
    return build(Settings.draw(seed, **SETTINGS), JOINS, events=True).go()


def _fenced(run: Run) -> bool:
    """True if a commit was accepted for a partition of another member."""
    return run.violation is not None and run.violation.oracle == "CommitFenced"


def test_a_partition_that_was_given_up_is_not_committed_in_the_epoch_that_goes_on() -> None:
    refused = 0
    for seed in range(SEEDS // 2):
        run = go(seed)
        assert not _fenced(run), f"seed {seed}: {run.violation}"
        refused += run.simulation.counts["commits refused: STALE_MEMBER_EPOCH"]
    assert refused > 0


@pytest.mark.java
def test_the_rule_of_kafka_is_found_and_tlc_names_the_commit(tmp_path: Path) -> None:
    """The recording is a behaviour of the spec with Kafka's rule, and of ours up to that commit."""
    with applied(catalogue()[BUG]):
        runs = (go(seed) for seed in range(SEEDS))
        run = next(filter(_fenced, runs))
    rows = [orjson.loads(line) for line in write_events(run, tmp_path).read_bytes().splitlines()]
    header, *steps = [row for row in rows if row["subject"] == "g"]
    as_kafka = {**header["constants"], "CommitBy": "kip1251"}
    for name, head in (("ours", header), ("kafka", {**header, "constants": as_kafka})):
        lines = [orjson.dumps({**row, "run": name}) + b"\n" for row in (head, *steps)]
        (tmp_path / f"{name}.ndjson").write_bytes(b"".join(lines))
    ours, kafka = validate_all(read_traces([tmp_path / "ours.ndjson", tmp_path / "kafka.ndjson"]))
    assert kafka.accepted
    assert not ours.accepted
    assert ours.trace.events[ours.event - 1].action == "TakeCommit"
    assert ours.event == len(steps)
