"""Whether partitions were read as far as a run says: from its digest, or from all of its rows."""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from traces.columns import Bools, IntColumns, firsts
from traces.ingest.evidence import Evidence
from traces.meta import Meta, ShareGroup
from traces.names import Names
from traces.schema import NONE, Op, Outcome


def partitions_of(topic: int, columns: IntColumns, meta: Meta, names: Names) -> range:
    """All partitions of a topic that were configured or seen."""
    configured = meta.topics.get(names.topics.name(topic))
    seen = columns["partition"][columns["topic"] == topic]
    count = max(int(seen.max(initial=NONE)) + 1, (configured and configured.partitions) or 0)
    return range(count)


def look_for_sizes(evidence: Evidence, meta: Meta, names: Names, columns: IntColumns) -> None:
    """Find out whether it is known how many partitions there are, and how often to deliver."""
    subscribed = set(columns["topic"][columns["op"] == Op.SUBSCRIBE].tolist()) - {NONE}
    unknown = [
        name
        for name in map(names.topics.name, sorted(subscribed))
        if (topic := meta.topics.get(name)) is None or topic.partitions is None
    ]
    if unknown:
        evidence.missing["topics.partitions"] = (
            f"meta.json does not tell the partitions of {', '.join(unknown[:4])}"
        )
    sharing = set(columns["group"][columns["op"] == Op.ACQUIRE].tolist()) - {NONE}
    groups = map(names.groups.name, sorted(sharing))
    unlimited = [g for g in groups if meta.share_groups.get(g, ShareGroup()).delivery_limit is None]
    if unlimited:
        evidence.missing["share_groups.delivery_limit"] = (
            f"meta.json does not tell the delivery_limit of {', '.join(unlimited[:4])}"
        )


def look_for_scans(
    evidence: Evidence, meta: Meta, names: Names, columns: IntColumns, unfinished: Sequence[str]
) -> None:
    """Find out whether the final scan that `complete` promises is there, for every partition.

    Whatever meta.json says, a run is not over as long as somebody may still write.
    """
    ends = (columns["op"] == Op.SCAN_END) & (columns["outcome"] == Outcome.OK)
    scanned = _distinct(columns, ends)
    topics = {names.topics.number(name) for name in meta.topics}
    topics |= set(columns["topic"][columns["op"] == Op.SEND].tolist()) - {NONE}
    lacking = (
        f"{names.topics.name(topic)}:{partition}"
        for topic in sorted(topics)
        for partition in partitions_of(topic, columns, meta, names)
        if (topic, partition) not in scanned
    )
    unread = list(islice(lacking, 5))  # whatever number of partitions somebody wrote down
    if unfinished:
        evidence.missing["complete"] = f"the recording of {_few([*unfinished])} is not over"
    elif not meta.complete:
        evidence.missing["complete"] = "meta.json does not say that the run is complete"
    elif unread:
        evidence.missing["scan"] = f"there is no final scan of {_few(unread)}"
        evidence.missing["complete"] = evidence.missing["scan"]
    elif early := _early(columns, names):
        evidence.missing["final"] = f"records were sent after the final scan of {_few(early)}"
    hollow = _hollow(columns, names) if evidence.reasons(["complete", "final"]) else []
    if hollow:
        evidence.missing["emptied"] = (
            f"no scan that found {_few(hollow)} empty is known to be final"
        )
    if endless := _endless(columns, names):
        evidence.missing["scan_end"] = f"no scan tells where it ended of {_few(endless)}"
    if "numbered.pid" in evidence.counts:  # of dumps no scan is asked
        reasons = {f"numbered.{n}": evidence.missing.get(n) for n in ("complete", "scan")}
        evidence.missing |= {need: why for need, why in reasons.items() if why}


def _hollow(columns: IntColumns, names: Names) -> list[str]:
    """Partitions of which scans returned nothing, though records were sent or read."""

    def partitions(*ops: Op) -> set[tuple[int, ...]]:
        return _distinct(columns, np.isin(columns["op"], ops) & (columns["partition"] != NONE))

    hollow = partitions(Op.SCAN_END) & (partitions(Op.SEND, Op.POLL) - partitions(Op.SCAN))
    return [f"{names.topics.name(topic)}:{partition}" for topic, partition in sorted(hollow)]


def _distinct(
    columns: IntColumns, rows: Bools, names: Sequence[str] = ("topic", "partition")
) -> set[tuple[int, ...]]:
    """The partitions of these rows, or whatever else is named, each once."""
    keys = [columns[name][rows] for name in names]
    changes = firsts(*keys)  # calls return many rows of the same
    return set(zip(*(key[changes].tolist() for key in keys), strict=True))


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _endless(columns: IntColumns, names: Names) -> list[str]:
    """Partitions of which a process scanned records, and never tells how far it came."""

    def scanners(op: Op) -> set[tuple[int, ...]]:
        of = (columns["op"] == op) & (columns["partition"] != NONE)
        return _distinct(columns, of, ("topic", "partition", "process"))

    untold = {key[:2] for key in scanners(Op.SCAN) - scanners(Op.SCAN_END)}
    return [f"{names.topics.name(topic)}:{partition}" for topic, partition in sorted(untold)]


def _early(columns: IntColumns, names: Names) -> list[str]:
    """Partitions that somebody sent to when a process had asked for the last of them.

    A scan is final if it was made after all clients had stopped, whatever meta.json says. Only
    times of one clock are compared, and the last of each process is all that is known here.
    """
    timed = (columns["inv"] != NONE) & (columns["partition"] != NONE)
    sent = timed & (columns["op"] == Op.SEND) & (columns["outcome"] != Outcome.FAIL)
    latest: dict[tuple[int, ...], int] = {}
    keys = [columns[name] for name in ("clock", "topic", "partition")]
    for row in np.flatnonzero(sent).tolist():
        key = tuple(int(of[row]) for of in keys)
        latest[key] = max(latest.get(key, NONE), int(columns["inv"][row]))
    scans: dict[tuple[int, ...], int] = {}
    for row in np.flatnonzero(timed & (columns["op"] == Op.SCAN_END)).tolist():
        key = (*(int(of[row]) for of in keys), int(columns["process"][row]))
        scans[key] = max(scans.get(key, NONE), int(columns["inv"][row]))
    early = {key[1:3] for key, inv in scans.items() if inv < latest.get(key[:3], NONE)}
    return [f"{names.topics.name(topic)}:{partition}" for topic, partition in sorted(early)]
