"""Writes a run down: protocol events for TLC, client histories for the checks of traces/."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from chaos.faults.script import Fault
from chaos.sim.addresses import SHARE_GROUP
from chaos.sim.history import History
from chaos.sim.settings import Settings
from chaos.simulator import Run
from refimpl.events import Json, as_set

# Far beyond what any run reaches; the same for all, so that TLC can judge many in one go.
BEYOND = 1_000_000
REPLICATION: Mapping[str, Json] = {
    "N": 3,
    "MaxRecords": BEYOND,
    "MaxEpoch": BEYOND,
    "MaxPartitionEpoch": BEYOND,
    "MaxRestarts": BEYOND,
    "LateFetches": True,
    "Unclean": True,
    "Lossy": "any",
    "MaximalIsr": True,
    "RaiseOnRefusal": True,
    "AsKafka": as_set(()),
    "Dropped": "none",
}
"""The constants of the spec Replication for any run of three replicas: none bounds it."""


def write_events(run: Run, folder: Path) -> Path:
    """Write the run's protocol events; answers the file."""
    assert run.recorder is not None
    path = folder / f"{_name(run)}.events.ndjson"
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(run.recorder.lines(_name(run), _bounds(run)))
    return path


def _bounds(run: Run) -> Mapping[str, Mapping[str, Json]]:
    """The specs' constants for this run.

    Restarts may lose the end of a log and any replica may be elected. Oracles judge the losses; TLC
    judges each step.
    """
    recorder = run.recorder
    assert recorder is not None
    partitions = {one.trace.subject: REPLICATION for one in recorder.replication.values()}
    return {**partitions, recorder.group.group_id: recorder.group.constants(BEYOND)}


def write_history(run: Run, folder: Path) -> Path:
    """Write the clients' history as a folder in trace format v1; returns the folder."""
    history = run.simulation.history
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
    return f"seed-{run.settings.seed}"


def _meta(run: Run, history: History) -> dict[str, Any]:
    settings = run.settings
    return {
        "format": 1,
        "run": _name(run),
        "source": "highwater chaos, the machines of refimpl on a simulated network and disk",
        "complete": run.complete,
        # By their names a reader of the run notices a file that is not there.
        "processes": sorted(history.calls),
        "topics": {"orders": _topic(settings, len(run.partitions))},
        # A coordinator's state is as safe as any record, and lost as easily.
        "internal_topics": {"__consumer_offsets": _topic(settings, 1)},
        "producers": {
            f"p{i}": {
                "acks": acks,
                "idempotence": settings.idempotence,
                "max_in_flight": 1 if settings.idempotence else settings.max_in_flight,
                "delivery_timeout_ms": settings.delivery_timeout_ms,
            }
            for i, acks in enumerate(settings.acks)
        },
        "consumers": {f"c{i}": _consumer(settings) for i in range(settings.consumers)},
        "share_groups": _share_groups(settings),
        "faults": [_fault(fault) for fault in run.script],
        "chaos": settings.as_json(),
    }


def _share_groups(settings: Settings) -> dict[str, Any]:
    if not settings.share_members:
        return {}
    return {
        SHARE_GROUP: {
            "lock_ms": settings.share_lock_ms,
            "delivery_limit": settings.share_delivery_limit,
            "isolation": settings.share_isolation,
        }
    }


def _fault(fault: Fault) -> dict[str, Any]:
    """A fault, and when it was undone, if it lasts."""
    told: dict[str, Any] = {"at_ns": fault.at_ms * 1_000_000, "what": str(fault)}
    if fault.for_ms:
        told["until_ns"] = (fault.at_ms + fault.for_ms) * 1_000_000
    return told


def _topic(settings: Settings, partitions: int) -> dict[str, Any]:
    return {
        "partitions": partitions,
        "replication_factor": 3,
        "min_insync_replicas": 1 if settings.reconfigures else settings.min_isr,
        "cleanup_policy": "delete",
        "unclean_leader_election": settings.unclean,
        "eligible_leader_replicas": settings.elr,
        "flush_loses": settings.lossy,
    }


def _copies(settings: Settings) -> bool:
    """True if messages may arrive twice or late, or are sent again very soon."""
    noise = "noise" in settings.faults or settings.duplicate or settings.stray
    return bool(noise) or settings.commit_ms < 50


def _consumer(settings: Settings) -> dict[str, Any]:
    order = {
        "after": "process_then_commit",
        "before": "commit_then_process",
        "polled": "auto",
    }[settings.commit_when]
    classic = settings.group_protocol == "classic"
    return {
        "group": "g",
        "isolation": "read_uncommitted",
        "auto_commit": settings.commit_when == "polled",
        "commit_order": order,
        "auto_offset_reset": "earliest",
        "group_protocol": settings.group_protocol,
        # The network keeps no order, as one connection would, and may deliver copies.
        "late_requests": _copies(settings),
        # Without a rack it reads from leaders only (KIP-392).
        "rack": "any" if settings.follower_reads else "",
        # Of a consumer group the brokers know it, and no client
        **({"session_timeout_ms": settings.member_session_ms} if classic else {}),
    }
