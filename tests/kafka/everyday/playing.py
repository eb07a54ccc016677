"""Plays operations on one cluster, scans their runs, and has them judged."""

import time
import traceback
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from attrs import evolve, frozen

from chaos.real.kafka.cluster import KafkaNode, cluster
from chaos.real.kafka.judge import Judge
from tests.kafka.everyday.administrator import Administrator
from tests.kafka.everyday.catalogue import Operation
from tests.kafka.everyday.clients import Clients, python, scanned
from traces.record import meta

#: Nodes 3 and 4 are one rack: it can be lost while two controllers of three go on.
RACKS = {1: "a", 2: "b", 3: "c", 4: "c"}
AT_ONCE = 4
#: Reasons that say nothing of an operation: there were no such events, or no client tells that.
NOTHING, UNTOLD = "saw nothing to judge", " is missing on "
MORE = """\
broker.rack={rack}
log.dirs={folder}/data,{folder}/data-2
controlled.shutdown.enable=true
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=200
log.segment.delete.delay.ms=500
log.initial.task.delay.ms=500
group.consumer.heartbeat.interval.ms=500
group.consumer.min.heartbeat.interval.ms=500
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
offset.metadata.max.bytes=4096
"""


@frozen
class Played:
    """An operation, its run, and what came of it."""

    operation: Operation
    run: Path
    evidence: str
    failure: str
    seconds: float
    scan: str
    verdicts: dict[str, dict[str, Any]]

    def named(self, verdict: str) -> list[str]:
        return [name for name, one in self.verdicts.items() if one["verdict"] == verdict]

    def undecided(self) -> dict[str, list[str]]:
        """The checks that saw something and do not decide, by the reason."""
        found: dict[str, list[str]] = {}
        for name in self.named("not checked"):
            reason = self.verdicts[name]["reason"]
            if NOTHING not in reason and UNTOLD not in reason:
                found.setdefault(reason, []).append(name)
        return found

    def told(self) -> str:
        """For a person: what happened, and what is not as in every run."""
        lines = [f"{self.operation.name} ({self.seconds:.0f} s): {self.evidence}{self.failure}"]
        lines += [self.scan] if self.scan else []
        for verdict in ("violated", "allowed"):
            for name in self.named(verdict):
                one = self.verdicts[name]
                lines.append(f"  {verdict} {name}: {one['count']}, {one['reason']}")
                lines += [f"    {event}" for event in one["witnesses"][0]["events"]]
        lines += [f"  not checked {', '.join(n)}: {why}" for why, n in self.undecided().items()]
        return "\n".join(lines)


def more(node: KafkaNode) -> str:
    return MORE.format(rack=RACKS[node.id], folder=node.folder)


@contextmanager
def everyday_cluster(folder: Path, judge: Judge) -> Generator[Administrator]:
    """Three controllers, four brokers, three racks."""
    with cluster(folder, judge, more, only_brokers=(4,)) as up:
        yield Administrator(up, judge, folder)


def play(wanted: Iterable[Operation], administrator: Administrator, runs: Path) -> list[Played]:
    """Those that disturb nobody side by side, then the others one by one."""
    wanted = list(wanted)
    beside = [one for one in wanted if not one.alone]
    alone = [one for one in wanted if one.alone]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = list(pool.map(partial(_played, administrator, runs), beside))
    made += [_played(administrator, runs, one) for one in alone]
    verdicts = judged([one.run for one in made])
    return [evolve(one, verdicts=verdicts.get(one.run.name, {})) for one in made]


def _played(administrator: Administrator, runs: Path, one: Operation) -> Played:
    run, began = runs / one.name, time.monotonic()
    evidence = failure = ""
    try:
        evidence = one.play(administrator, Clients(run, administrator.up.bootstrap))
    except Exception:
        failure = "FAILED " + traceback.format_exc()
    ended = meta.read(run).get("complete") is True  # it has had its scan
    scan = "" if ended else scanned(run, administrator.up.bootstrap)
    return Played(one, run, evidence, failure, time.monotonic() - began, scan, {})


def judged(runs: list[Path]) -> dict[str, dict[str, Any]]:
    """The verdicts of `highwater check`, by run."""
    out = runs[0].parent / "verdicts.json"
    runs = [run for run in runs if (run / "meta.json").exists()]
    done = python("-m", "refimpl", "check", *runs, "--json", out)
    assert out.exists(), done.stdout + done.stderr
    found = orjson.loads(out.read_bytes())["runs"]
    return {Path(run["path"]).name: run["checks"] for run in found}
