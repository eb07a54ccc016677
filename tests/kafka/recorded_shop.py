"""Applications in another language, recorded on one real cluster, and what is judged of them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import field, frozen

from chaos.real.kafka.cluster import KafkaCluster, cluster
from chaos.real.kafka.judge import Judge

ROOT = Path(__file__).parents[2]
COUNT = 2_000
SAFE = {"min.insync.replicas": "2"}
SEED = os.environ.get("HIGHWATER_SEED", "7")
FROZEN_S = 1.2
#: Every run of a producer and of group members shows these, whatever became of them.
ALWAYS = (
    "L1",
    "L2",
    "L3",
    "L4",
    "L5",
    "L6",
    "L8",
    "L9",
    "L10",
    "L12",
    "L15",
    "P1",
    "P6",
    "C1",
    "C2",
)
TRANSACTED = {"T1", "T2", "T3", "T4", "T7", "T8", "P3", "P4", "P7"}
MEMBERS = ("C3", "C4", "G1", "G4", "G5", "G6", "G8", "G10")

Verdicts = dict[str, dict[str, Any]]
#: A run by its name: an application is recorded in this folder.
Runs = Mapping[str, Callable[[KafkaCluster, Path], None]]


@frozen
class Recordings:
    """All runs of this suite, recorded on one cluster and judged in one session."""

    folder: Path
    scans: dict[str, "subprocess.CompletedProcess[str]"] = field(factory=dict[str, Any])
    verdicts: dict[str, Verdicts] = field(factory=dict[str, Verdicts])

    def lines(self, run: str, process: str) -> list[dict[str, Any]]:
        file = self.folder / run / f"{process}.ndjson"
        return [orjson.loads(line) for line in file.read_bytes().splitlines()]

    def violated(self, run: str) -> dict[str, Any]:
        found = self.verdicts[run].items()
        return {check: v for check, v in found if v["verdict"] not in ("holds", "not checked")}

    def held(self, run: str) -> set[str]:
        return {check for check, v in self.verdicts[run].items() if v["verdict"] == "holds"}


def ended(process: "subprocess.Popen[str]", *expected: int) -> None:
    _, complaints = process.communicate(timeout=180)
    assert process.returncode in (expected or (0,)), complaints


def kill_the_leader(up: KafkaCluster, run: Path, producer: "subprocess.Popen[str]") -> None:
    """Followers stop inside the ISR; the leader goes on to acknowledge alone, and is killed."""
    leader = up.partitions(run.name)[0].leader
    followers = [node for node in up.nodes.values() if node.id != leader]
    while not any(file.stat().st_size for file in run.glob("*.journal")):
        time.sleep(0.05)
    time.sleep(1)
    for node in followers:
        node.freeze()
    time.sleep(FROZEN_S)
    up.nodes[leader].kill()
    for node in followers:
        node.thaw()
    up.wait_for_another_leader(run.name, leader)
    ended(producer)
    up.nodes[leader].start()
    up.wait_until_healed(run.name)


def recorded_and_judged(judge: Judge, folders: pytest.TempPathFactory, runs: Runs) -> Recordings:
    """All runs, or those that `HIGHWATER_ONLY` names, one after the other on one cluster."""
    found = Recordings(Path(os.environ.get("HIGHWATER_RUNS") or folders.mktemp("runs")))
    only = os.environ.get("HIGHWATER_ONLY", " ".join(runs)).split()
    with cluster(folders.mktemp("cluster"), judge) as up:
        for name in only:
            (found.folder / name).mkdir()
            runs[name](up, found.folder / name)
            command = [sys.executable, "-m", "refimpl", "record-scan", found.folder / name]
            scan = [*command, "--bootstrap", up.bootstrap]
            found.scans[name] = subprocess.run(scan, cwd=ROOT, capture_output=True, text=True)
    judged = found.folder.with_suffix(".json")
    check = [sys.executable, "-m", "refimpl", "check", found.folder, "--json", judged]
    subprocess.run(check, cwd=ROOT, capture_output=True)
    for run in orjson.loads(judged.read_bytes())["runs"]:
        found.verdicts[Path(run["path"]).name] = run["checks"]
    return found


def unprocessed(recordings: Recordings, run: str) -> set[tuple[str, int]]:
    """Records below the last commit that no line of any process says are processed."""
    committed: dict[str, int] = {}
    stored, processed = set[tuple[str, int]](), set[tuple[str, int]]()
    for file in (recordings.folder / run).glob("*.ndjson"):
        for line in map(orjson.loads, file.read_bytes().splitlines()):
            records = line.get("records", ())
            named = {
                (f"{r['topic']}:{r['partition']}", r["offset"]) for r in records if "offset" in r
            }
            if line["op"] == "commit" and line["outcome"] == "ok":
                for partition, offset in line["offsets"].items():
                    committed[partition] = max(committed.get(partition, 0), offset)
            elif line["op"] == "process":
                processed |= named
            elif line["op"] == "scan":
                stored |= named
    return {one for one in stored - processed if one[1] < committed.get(one[0], 0)}


def assert_that_scans_reached_every_end(recordings: Recordings) -> None:
    for name, scan in recordings.scans.items():
        assert scan.returncode == 0, f"{name}: {scan.stdout}{scan.stderr}"


def assert_that_the_loss_is_allowed_and_counted(recordings: Recordings) -> None:
    """Of the run `leader-kill`."""
    loss = recordings.verdicts["leader-kill"]["L4"]
    scans = recordings.lines("leader-kill", "scan-ru#0")
    stored = {r["id"] for line in scans if line["op"] == "scan" for r in line["records"]}
    sends = [x for x in recordings.lines("leader-kill", "producer#0") if x["op"] == "send"]
    acked = {s["records"][0]["id"] for s in sends if s["outcome"] == "ok"}
    assert loss["verdict"] == "allowed", loss
    assert loss["count"] == len(acked - stored) > 0
