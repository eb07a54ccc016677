"""Writes a run down: protocol events for TLC, client histories for the checks of traces/."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from chaos.history import History
from chaos.protocol_events import MEMBERS
from chaos.simulator import Run
from chaos.swarm import Swarm
from refimpl.events import Json

# Far beyond what any run reaches; the same for all, so that TLC can judge many in one go.
BEYOND = 1_000_000


def write_events(run: Run, folder: Path) -> Path:
    """Write the run's protocol events; answers the file."""
    assert run.world.recorder is not None
    path = folder / f"{_name(run)}.events.ndjson"
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(run.world.recorder.lines(_name(run), _bounds(run)))
    return path


def _bounds(run: Run) -> Mapping[str, Mapping[str, Json]]:
    """The specs' constants for this run.

    Restarts may lose the end of a log and anybody may be elected: what that may cost is the
    oracles' business, and whether each step is one of the spec is TLC's.
    """
    truncation: dict[str, Json] = {
        "N": 3,
        "MaxRecords": BEYOND,
        "MaxEpoch": BEYOND,
        "MaxFetch": run.swarm.fetch_limit,
        "MaxRestarts": BEYOND,
        "Rule": "kip320",
        "CheckEpochStart": True,
        "Unclean": True,
        "Lossy": "any",
        "CheckIncarnation": True,
        "LateFetches": True,
        "ResetFollowers": "always",
    }
    longest = max(len(group.processed) for group in run.world.groups)
    group: dict[str, Json] = {
        "M": MEMBERS,
        "LogEnd": (longest // 100 + 1) * 100,
        "MaxGeneration": BEYOND,
        "MaxProcessed": BEYOND,
        "CommitWhen": run.swarm.commit_when,
        "Fence": True,
        "Fifo": True,
    }
    names = [oracle.name for oracle in run.world.partitions]
    return dict.fromkeys(names, truncation) | dict.fromkeys([f"g/{n}" for n in names], group)


def write_history(run: Run, folder: Path) -> Path:
    """Write what the clients did and saw as a folder in trace format v1; answers the folder."""
    history = run.world.history
    assert history is not None
    path = folder / _name(run)
    path.mkdir(parents=True, exist_ok=True)
    for process, calls in history.calls.items():
        lines = (orjson.dumps(call, option=orjson.OPT_APPEND_NEWLINE) for call in calls)
        (path / f"{process}.ndjson").write_bytes(b"".join(lines))
    meta = orjson.dumps(_meta(run, history), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    (path / "meta.json").write_bytes(meta)
    return path


def _name(run: Run) -> str:
    return f"seed-{run.swarm.seed}"


def _meta(run: Run, history: History) -> dict[str, Any]:
    swarm = run.swarm
    return {
        "format": 1,
        "run": _name(run),
        "source": "highwater chaos, the machines of refimpl on a simulated network and disk",
        "complete": run.complete,
        # By their names a reader of the run notices a file that is not there.
        "processes": sorted(history.calls),
        "topics": {"orders": _topic(swarm)},
        "producers": {
            f"p{i}": {
                "acks": acks,
                "idempotence": swarm.idempotence,
                "max_in_flight": 1 if swarm.idempotence else swarm.max_in_flight,
                "delivery_timeout_ms": swarm.delivery_timeout_ms,
            }
            for i, acks in enumerate(swarm.acks)
        },
        "consumers": {f"c{i}": _consumer(swarm) for i in range(swarm.consumers)},
        "faults": [{"at_ns": fault.at_ms * 1_000_000, "what": str(fault)} for fault in run.script],
        "chaos": swarm.as_json(),
    }


def _topic(swarm: Swarm) -> dict[str, Any]:
    return {
        "partitions": swarm.partitions,
        "replication_factor": 3,
        "min_insync_replicas": swarm.min_isr,
        "cleanup_policy": "delete",
        "unclean_leader_election": swarm.unclean,
        "eligible_leader_replicas": swarm.elr,
        "flush_loses": swarm.lossy,
    }


def _consumer(swarm: Swarm) -> dict[str, Any]:
    order = {
        "after": "process_then_commit",
        "before": "commit_then_process",
        "polled": "auto",
    }[swarm.commit_when]
    return {
        "group": "g",
        "isolation": "read_uncommitted",
        "auto_commit": swarm.commit_when == "polled",
        "commit_order": order,
        "auto_offset_reset": "earliest",
        "group_protocol": "classic",
    }
