"""`meta.json` of a recorded run: what stands there stays, what the recorder knows is put in."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from traces.record.process import clock_domain, now
from traces.record.topic_settings import with_earlier
from traces.record.versions import version

if TYPE_CHECKING:  # what reads journals needs more than an application has
    from traces.record.cluster import Cluster
    from traces.record.contents import FileHeader

FILE = "meta.json"
RECORDER = "highwater recorder"
LIBRARIES = ("confluent-kafka ", "kafka-python ", "aiokafka ", "kafka-clients ", "franz-go ")


class BadMetaError(Exception):
    """There is a `meta.json`, and it is not one."""


def read(run: Path) -> dict[str, Any]:
    """The object in `meta.json`, or an empty one if there is no file."""
    file = run / FILE
    if not file.exists():
        return {}
    try:
        found: Any = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise BadMetaError(f"{FILE}:{error.lineno}: expected JSON: {error.msg}") from error
    if not isinstance(found, dict):
        raise BadMetaError(f"{FILE}: expected an object")
    return found  # pyright: ignore[reportUnknownVariableType]


def merged(
    before: Mapping[str, Any],
    run: str,
    processes: Iterable["FileHeader"],
    names: Iterable[str],
    cluster: "Cluster",
    complete: bool,
    committers: Mapping[str, str] | None = None,
    altered: Mapping[str, Iterable[dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """The new `meta.json`. Hand-written faults, notes and settings survive.

    `altered` are the settings that topics had before those of the cluster, by recorded clients.
    """
    processes = list(processes)
    clients = sorted({process.client for process in processes if process.client})
    meta: dict[str, Any] = {"format": 1, "run": run, **before}
    # Whoever made the other files is still named; what we said last time is said anew.
    others = [one for one in str(before.get("source", "")).split("; ") if one and not _ours(one)]
    meta |= {
        "source": "; ".join([*others, f"{RECORDER} {version('highwatermark')}", *clients]),
        "complete": complete,
        "topics": _settings(before.get("topics", {}), cluster.topics, altered or {}),
        "internal_topics": _settings(before.get("internal_topics", {}), cluster.internal, {}),
        "processes": sorted(names),
    }
    if cluster.group_retention is not None:
        meta["group_retention"] = cluster.group_retention
    for role in ("producer", "consumer"):
        mine = [process for process in processes if process.role == role]
        meta[f"{role}s"] = {**before.get(f"{role}s", {}), **_by_client(mine)}
    if committers:
        meta["groups"] = _groups(before.get("groups", {}), committers)
    meta.setdefault("faults", [])
    return meta


def _groups(before: Mapping[str, Any], committers: Mapping[str, str]) -> dict[str, Any]:
    """The committers of each group; `some` stays `some`."""
    groups = dict(before)
    for group, who in committers.items():
        said = groups.get(group, {})
        worse = "some" if said.get("committers") == "some" else who
        groups[group] = {**said, "committers": worse}
    return groups


def _settings(
    before: Mapping[str, Any],
    reported: Mapping[str, dict[str, Any]],
    altered: Mapping[str, Iterable[dict[str, Any]]],
) -> dict[str, Any]:
    """The settings that the cluster tells of topics; one that was another before is kept, too.

    It was another at a scan before this one, or by what recorded administrators did.
    """
    topics: dict[str, Any] = dict(before)
    for name, settings in reported.items():
        old: dict[str, Any] = before.get(name) or {}
        other = {n: v for n, v in settings.items() if n in old and n not in FACTS and old[n] != v}
        earlier: list[Any] = list(old.get("earlier") or [])
        if other:
            changed = {n: old[n] for n in sorted(other)}
            earlier.append(changed | {"until_ns": now(), "clock": clock_domain()})
        earlier = with_earlier(earlier, altered.get(name, ()))
        topics[name] = settings | ({"earlier": earlier} if earlier else {})
    return topics


#: What is counted when it is asked for, and no setting that permits anything.
FACTS = ("partitions", "replication_factor", "senders")


def _ours(source: str) -> bool:
    return source.startswith((RECORDER, *LIBRARIES))


def _by_client(processes: Iterable["FileHeader"]) -> dict[str, Any]:
    """One entry for all incarnations of a client that were configured alike."""
    clients: dict[str, list[FileHeader]] = {}
    for process in processes:
        clients.setdefault(process.name.partition("#")[0], []).append(process)
    configured: dict[str, Any] = {}
    for client, incarnations in clients.items():
        alike = all(one.configured == incarnations[0].configured for one in incarnations)
        if alike:
            configured[client] = incarnations[0].configured
        else:
            configured |= {one.name: one.configured for one in incarnations}
    return configured


def write(run: Path, meta: Mapping[str, Any]) -> None:
    """Replace `meta.json` as a whole."""
    partial = run / f"{FILE}.part"
    partial.write_bytes(orjson.dumps(meta, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    partial.replace(run / FILE)
