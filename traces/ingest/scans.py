"""Find partitions that were not read as far as a run says: from its digest, or all its rows."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from traces.ingest.evidence import Evidence, few
from traces.ingest.locations import Locations
from traces.model.columns import Bools, IntColumns, firsts
from traces.model.lacking import GROUP, PARTITION, SCANNED, Key
from traces.model.meta import Meta
from traces.model.names import Names
from traces.model.schema import NONE, Op, Outcome


def partitions_of(topic: int, columns: IntColumns, meta: Meta, names: Names) -> range:
    """All partitions of a topic that were configured or seen."""
    configured = meta.topics.get(names.topics.name(topic))
    seen = columns["partition"][columns["topic"] == topic]
    count = max(int(seen.max(initial=NONE)) + 1, (configured and configured.partitions) or 0)
    return range(count)


def look_for_sizes(evidence: Evidence, locations: Locations, meta: Meta, names: Names) -> None:
    """Find out whether it is known how many partitions there are."""
    columns = locations.digest
    subscribed = set(columns["topic"][columns["op"] == Op.SUBSCRIBE].tolist()) - {NONE}
    unknown = [
        name
        for name in map(names.topics.name, sorted(subscribed))
        if (topic := meta.topics.get(name)) is None or topic.partitions is None
    ]
    if unknown:
        evidence.missing["topics.partitions"] = (
            f"meta.json does not tell the partitions of {few(unknown)}"
        )
        numbers = [names.topics.number(name) for name in unknown]
        locations.put("topics.partitions", GROUP, locations.groups_of_topics(numbers))


def look_for_scans(
    evidence: Evidence, locations: Locations, meta: Meta, names: Names, unfinished: Sequence[str]
) -> None:
    """Find out whether the final scan that `complete` promises is there, for every partition.

    Whatever meta.json has, a run is not over as long as a process may still write.
    """
    columns = locations.digest
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
        evidence.missing["complete"] = f"the recording of {few([*unfinished])} is not over"
    elif not meta.complete:
        evidence.missing["complete"] = "meta.json does not say that the run is complete"
    elif unread:
        evidence.missing["scan"] = f"there is no final scan of {few(unread)}"
        evidence.missing["complete"] = evidence.missing["scan"]
        for need in ("scan", "complete"):
            locations.put(need, PARTITION, locations.located - scanned)
    if meta.complete and not unfinished and (early := _early(columns)):
        named = _named(early, names)
        evidence.missing["final"] = f"records were sent after the final scan of {few(named)}"
        locations.put("final", PARTITION, early)
    unsure = locations.union(SCANNED, evidence.missing)
    hollow = _hollow(columns) if unsure is None else _hollow(columns) & unsure
    if hollow:
        evidence.missing["emptied"] = (
            f"no scan that found {few(_named(hollow, names))} empty is known to be final"
        )
        locations.put("emptied", PARTITION, hollow)
    if endless := _endless(columns):
        named = _named(endless, names)
        evidence.missing["scan_end"] = f"no scan tells where it ended of {few(named)}"
        locations.put("scan_end", PARTITION, endless)
    if "numbered.pid" in evidence.counts:  # of dumps no scan is asked
        reasons = {f"numbered.{n}": evidence.missing.get(n) for n in ("complete", "scan")}
        evidence.missing |= {need: why for need, why in reasons.items() if why}
        for need in reasons:
            if (keys := locations.of(need.removeprefix("numbered."))) is not None:
                locations.put(need, PARTITION, keys)


def _named(partitions: Iterable[Key], names: Names) -> list[str]:
    return [f"{names.topics.name(topic)}:{partition}" for topic, partition in sorted(partitions)]


def _hollow(columns: IntColumns) -> set[Key]:
    """Partitions of which scans returned nothing, though records were sent or read."""

    def partitions(*ops: Op) -> set[Key]:
        return _distinct(columns, np.isin(columns["op"], ops) & (columns["partition"] != NONE))

    return partitions(Op.SCAN_END) & (partitions(Op.SEND, Op.POLL) - partitions(Op.SCAN))


def _distinct(
    columns: IntColumns, rows: Bools, names: Sequence[str] = ("topic", "partition")
) -> set[Any]:
    """The partitions of these rows, or whatever else is named, each once."""
    keys = [columns[name][rows] for name in names]
    changes = firsts(*keys)  # calls return many rows of the same
    return set(zip(*(key[changes].tolist() for key in keys), strict=True))


def _endless(columns: IntColumns) -> set[Key]:
    """Partitions of which a process scanned records without recording the end of the scan."""

    def scanners(op: Op) -> set[Any]:
        of = (columns["op"] == op) & (columns["partition"] != NONE)
        return _distinct(columns, of, ("topic", "partition", "process"))

    return {key[:2] for key in scanners(Op.SCAN) - scanners(Op.SCAN_END)}


def _early(columns: IntColumns) -> set[Key]:
    """Partitions that were still sent to after a process had begun its last scan of them.

    A scan is final if it was made after all clients had stopped, whatever meta.json has. Only times
    of one clock are compared, and only the last of each process is known here.
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
    return {(key[1], key[2]) for key, inv in scans.items() if inv < latest.get(key[:3], NONE)}
