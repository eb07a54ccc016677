"""Evidence about logs that a trace lacks: fields that only some topics need, and dumps.

As `evidence`, whose counts these are. It is a module of its own because the configuration decides
here which rows must have a field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import numpy as np
from attrs import frozen

from traces.ingest.evidence import Evidence, few
from traces.ingest.locations import Locations
from traces.ingest.process_file import ProcessFile
from traces.ingest.vocabulary import ANSWERS
from traces.model.columns import Bools, IntColumns, calls
from traces.model.context import UNSET, Context, Ints
from traces.model.lacking import PARTITION
from traces.model.meta import Meta, stem
from traces.model.names import Names
from traces.model.schema import DUMPS, NONE, Flag, Op, Outcome

PARTS = ("process", "node", "topic", "partition")  # one log in one dump


@frozen
class Of:
    """Rows, with the configuration of their topics and clients."""

    columns: IntColumns
    context: Context

    def calls(self, *ops: Op) -> Bools:
        """The rows of these calls that are about a topic."""
        return calls(self.columns, *ops) & (self.columns["flags"] & Flag.EMPTY == 0)

    @property
    def compacted(self) -> Bools:
        """Rows of compacted topics."""
        return self.context.compacted[self.columns["topic"]] == 1

    @property
    def unclear(self) -> Bools:
        """Rows of topics whose cleanup policy is unknown."""
        return self.context.compacted[self.columns["topic"]] == UNSET

    @property
    def stamped(self) -> Bools:
        """Rows of topics whose leader stamps the records."""
        return self.context.append_time[self.columns["topic"]] == 1

    @property
    def has_partition(self) -> Bools:
        """Rows of producers whose partitioner is known."""
        return self.context.partitioner[self.columns["process"]] >= 0

    @property
    def left(self) -> Bools:
        """Keyed rows whose partition was left to the producer, as they say."""
        return (self.columns["key"] != NONE) & (self.columns["flags"] & Flag.LEFT != 0)

    @property
    def sequenced(self) -> Bools:
        """Dumped records of idempotent producers: one of the three fields requires the others."""
        known = [self.columns[name] != NONE for name in ("pid", "pepoch", "sequence")]
        has_producer = self.columns["flags"] & Flag.NO_PRODUCER == 0
        return self.calls(Op.DUMP) & has_producer & (known[0] | known[1] | known[2])

    @property
    def untold(self) -> Bools:
        """Rows of calls that name no record, and do not say that there is none."""
        return (self.columns["topic"] == NONE) & (self.columns["flags"] & Flag.EMPTY == 0)

    @property
    def ok(self) -> Bools:
        """Rows of calls that certainly happened."""
        return self.columns["outcome"] == Outcome.OK


Which = Callable[[Of], Bools]
FIELDS: Mapping[str, tuple[Which, tuple[str, ...]]] = {
    "sent": (lambda of: of.calls(Op.SEND), ("hash",)),
    "given": (lambda of: of.calls(Op.POLL, Op.SCAN), ("hash",)),
    "dump": (
        lambda of: of.calls(Op.DUMP, Op.MARKER),
        ("topic", "partition", "offset", "node", "hash", "epoch", "timestamp"),
    ),
    "copied": (lambda of: of.calls(Op.DUMP), ("id",)),
    # A line of a dump that names no records may be one of which they are missing.
    "dumped": (lambda of: of.calls(*DUMPS), ("topic",)),
    "sequenced": (lambda of: of.sequenced, ("pid", "pepoch", "sequence")),
    "marker": (lambda of: of.calls(Op.MARKER), ("pid", "pepoch", "detail")),
    "compacted_dump": (lambda of: of.calls(Op.DUMP) & of.compacted, ("key", "tombstone")),
    "stamped_log": (
        lambda of: of.calls(Op.POLL, Op.SCAN, Op.DUMP) & of.stamped,
        ("timestamp", "epoch"),
    ),
    "mark": (lambda of: of.calls(Op.MARK), ("epoch",)),
    "log_start": (lambda of: of.calls(Op.LOG_START), ("epoch", "ret")),
    # What gives a consumer its position; without it nobody knows when a record was asked for.
    "moved": (
        lambda of: of.calls(Op.ASSIGN, Op.ASSIGNED, Op.SEEK, Op.RESET) & of.ok,
        ("topic", "inv"),
    ),
    "deleted": (lambda of: of.calls(Op.DELETE_RECORDS) & of.ok, ("topic", "offset", "ret")),
    "compacted": (lambda of: of.calls(Op.SEND) & of.compacted, ("key", "tombstone", "inv")),
    # A call that does not tell its records may have read those of a compacted topic.
    "compacted_read": (
        lambda of: of.calls(Op.POLL, Op.SCAN) & (of.compacted | of.untold),
        ("id",),
    ),
    # What tells whether somebody was answered before the final scan began.
    "compacted_call": (
        lambda of: (
            of.calls(Op.POLL, Op.SCAN, Op.SCAN_END, Op.COMMIT, Op.COMMITTED) & of.compacted & of.ok
        ),
        ("inv", "ret"),
    ),
    # Records that are tombstones, or may be.
    "compacted_dead": (
        lambda of: of.calls(Op.SEND) & of.compacted & (of.columns["flags"] & Flag.VALUED == 0),
        ("retention",),
    ),
    "compacted_acked": (lambda of: of.calls(Op.SEND) & of.compacted & of.ok, ("offset",)),
    "unclear": (lambda of: of.calls(Op.SEND) & of.unclear, ("key",)),
    "compacted_end": (lambda of: of.calls(Op.SCAN_END) & of.compacted, ("ret",)),
    "keyed": (
        lambda of: of.calls(Op.SEND) & of.has_partition & of.ok,
        ("key", "partition", "partitions", "chosen"),
    ),
    "left": (lambda of: of.calls(Op.SEND) & of.left & of.ok, ("partitioner",)),
}


def absences_of_logs(columns: IntColumns, context: Context) -> Iterator[tuple[str, Ints, int]]:
    """Of each need the rows that lack a field, and how many should have it."""
    valued = (columns["flags"] & (Flag.TOMBSTONE | Flag.VALUED)) != 0
    sizes = np.where(context.partitions[columns["topic"]] > 0, 1, NONE)
    unchosen = (columns["flags"] & (Flag.CHOSEN | Flag.LEFT) == 0) & (columns["key"] != NONE)
    derived = {"tombstone": np.where(valued, 1, NONE), "partitions": sizes}
    derived["retention"] = context.delete_retention[columns["topic"]]
    derived["chosen"] = np.where(unchosen, NONE, 1)
    derived["partitioner"] = context.partitioner[columns["process"]]
    of = Of({**columns, **derived}, context)
    for kind, (which, names) in FIELDS.items():
        chosen = which(of)
        total = int(np.count_nonzero(chosen))
        for name in names if total else ():
            yield f"{kind}.{name}", np.flatnonzero(chosen & (of.columns[name] == NONE)), total


def look_for_dumps(
    evidence: Evidence, locations: Locations, names: Names, meta: Meta, files: Iterable[ProcessFile]
) -> None:
    """Note dumps that lack a log start, an end or a high watermark, and dumps that are missing."""
    columns = locations.digest
    _look_for_silence(evidence, locations, names, meta)
    held = _parts(columns, *DUMPS)
    for need, op, words in (
        ("dumps.end", Op.DUMP_END, "where it ends"),
        ("dumps.high_watermark", Op.DUMP_MARK, "its high watermark"),
        ("dumps.log_start", Op.DUMP_START, "its log start"),
    ):
        lacking = sorted(held - _parts(columns, op))
        if lacking:
            process, _, topic, partition = lacking[0]
            log = f"{names.topics.name(topic)}:{partition} of {names.processes.name(process)}"
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            evidence.missing[need] = f"the dump of {log}{more} does not tell {words}"
            locations.put(need, PARTITION, {(part[2], part[3]) for part in lacking})
    named = {*meta.producers, *meta.consumers}
    broken = [f.name for f in files if (f.cut or f.gaps) and not {f.name, stem(f.name)} & named]
    gone = [n for n in meta.processes or () if not {n, stem(n)} & named]
    gone = sorted(set(gone) - {f.name for f in files})
    if gone:
        evidence.missing["dumps"] = f"no file of {', '.join(gone)}"
    elif broken:
        evidence.missing["dumps"] = f"the file of {', '.join(sorted(broken))} is not whole"


def _look_for_silence(evidence: Evidence, locations: Locations, names: Names, meta: Meta) -> None:
    """Note reports of brokers that polling clients leave out, some of them or all."""
    columns = locations.digest
    polling = _processes(columns, Op.POLL, *ANSWERS.values())
    for need, op, words in (
        ("marks", Op.MARK, "no high watermark"),
        ("log_starts", Op.LOG_START, "no log start"),
    ):
        telling = _processes(columns, op)
        if polling and not telling:
            evidence.missing[f"{need}.any"] = f"the polls tell {words}"
        _look_among(evidence, locations, need, telling, polling - telling, names, words)
    given = _parts(columns, Op.POLL)
    telling = {part[0] for part in given if part[1] != NONE}
    silent = {part[0] for part in given} - telling
    where = (evidence, locations, "replicas", telling, silent, names)
    _look_among(*where, "not which replica answered")
    parts = _parts(columns, Op.LOG_START)
    telling = {part[0] for part in parts if part[1] != NONE}
    racks = {meta.consumer(names.processes.name(part[0])).rack for part in parts}
    if racks != {""}:  # leaders need not be told: there is one in an epoch
        silent = {part[0] for part in parts} - telling
        where = (evidence, locations, "answering", telling, silent, names)
        _look_among(*where, "not which replica answered")


def _look_among(
    evidence: Evidence,
    locations: Locations,
    need: str,
    telling: set[int],
    silent: set[int],
    names: Names,
    words: str,
) -> None:
    if telling and silent:
        if (keys := locations.partitions_of_processes(silent)) is not None:
            locations.put(need, PARTITION, keys)
        shown = few(map(names.processes.name, sorted(silent)))
        evidence.missing[need] = f"the polls of {shown} tell {words}"


def look_for_whole_logs(evidence: Evidence, locations: Locations, names: Names, meta: Meta) -> None:
    """Note partitions that were not read to the end, by final scans or by the dump of a replica.

    Also note compacted topics of which records sent or read may be unknown: such a record may have
    replaced one that is gone, or be at a higher offset.
    """
    columns = locations.digest
    configured = (
        (names.topics.number(name), partition)
        for name, topic in meta.topics.items()
        for partition in range(topic.partitions or 0)
    )
    every, dumped = chain(_partitions(columns), configured), _partitions(columns, Op.DUMP_END)
    if "complete" in evidence.missing and not all(one in dumped for one in every):
        evidence.missing["log.whole"] = evidence.missing["complete"]
    compacts = any("compact" in (topic.cleanup_policy or "") for topic in meta.topics.values())
    if compacts and (untold := evidence.reasons(["compacted_read.id", "consumers.whole"])):
        evidence.missing["compacted.read"] = untold[0]
    keyless, sends = evidence.counts.get("unclear.key", (0, 0))
    if keyless < sends:
        evidence.missing["policy"] = "nobody tells the cleanup_policy of a topic with keys"
    nameless = max(evidence.counts.get(f"send.{name}", (0, 0))[0] for name in ("topic", "id"))
    if compacts and (untold := evidence.reasons(["producers", "producers.whole"])):
        evidence.missing["compacted.whole"] = untold[0]
    elif compacts and nameless:
        evidence.missing["compacted.whole"] = f"the topic or id of {nameless} sends is not told"
    elif compacts and {"pending.read", "unanswered.offset"} <= evidence.missing.keys():
        evidence.missing["compacted.whole"] = evidence.missing["pending.read"]
    named = [
        (names.topics.number(name), topic.cleanup_policy) for name, topic in meta.topics.items()
    ]
    compacted = [topic for topic, policy in named if "compact" in (policy or "")]
    for need in ("compacted.read", "compacted.whole"):
        locations.put(need, PARTITION, locations.partitions_of_topics(compacted))
    reported = [topic for topic, policy in named if policy is not None]
    unclear = np.setdiff1d(columns["topic"], [*reported, NONE]).tolist()
    locations.put("policy", PARTITION, locations.partitions_of_topics(unclear))


def _processes(columns: IntColumns, *ops: Op) -> set[int]:
    return set(columns["process"][calls(columns, *ops)].tolist())


def _partitions(columns: IntColumns, *ops: Op) -> set[tuple[int, ...]]:
    return {part[2:] for part in _parts(columns, *(ops or tuple(Op)))}


def _parts(columns: IntColumns, *ops: Op) -> set[tuple[int, ...]]:
    rows = calls(columns, *ops) & (columns["partition"] != NONE)
    found = np.unique(np.stack([columns[name][rows] for name in PARTS], axis=1), axis=0)
    return {tuple(row) for row in found.tolist()}
