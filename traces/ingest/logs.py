"""Evidence about logs that a trace lacks: fields that only some topics need, and dumps.

As `evidence`, whose counts these are. It is a module of its own because the configuration decides
here which rows must have a field.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain

import numpy as np
from attrs import frozen

from traces.ingest.evidence import Evidence, RequiredFields, few, lacking, required, those_present
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

    @cached_property
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
        """Records of idempotent producers: one of the three fields requires the others."""
        known = [self.columns[name] != NONE for name in ("pid", "pepoch", "sequence")]
        has_producer = self.columns["flags"] & Flag.NO_PRODUCER == 0
        return has_producer & (known[0] | known[1] | known[2])

    @property
    def untold(self) -> Bools:
        """Rows of calls that name no record, and do not say that there is none."""
        return (self.columns["topic"] == NONE) & (self.columns["flags"] & Flag.EMPTY == 0)

    @property
    def ok(self) -> Bools:
        """Rows of calls that certainly happened."""
        return self.columns["outcome"] == Outcome.OK

    def column(self, name: str) -> Ints:
        """A field of each row, or of its topic or client, that may be NONE."""
        columns, context = self.columns, self.context
        if name == "tombstone":
            return np.where(columns["flags"] & (Flag.TOMBSTONE | Flag.VALUED), 1, NONE)
        if name == "partitions":
            return np.where(context.partitions[columns["topic"]] > 0, 1, NONE)
        if name == "retention":
            return context.delete_retention[columns["topic"]]
        if name == "chosen":
            chosen = columns["flags"] & (Flag.CHOSEN | Flag.LEFT)
            return np.where((chosen == 0) & (columns["key"] != NONE), NONE, 1)
        if name == "partitioner":
            return context.partitioner[columns["process"]]
        return columns[name]


FIELDS: Mapping[str, RequiredFields[Of]] = {
    "sent": required("SEND", "hash"),
    "given": required("POLL SCAN", "hash"),
    "dump": required("DUMP MARKER", "topic partition offset node hash epoch timestamp"),
    "copied": required("DUMP", "id"),
    # A line of a dump that names no records may be one of which they are missing.
    "dumped": required(" ".join(op.name for op in DUMPS), "topic"),
    "sequenced": required("DUMP", "pid pepoch sequence", lambda of: of.sequenced),
    "marker": required("MARKER", "pid pepoch detail"),
    "compacted_dump": required("DUMP", "key tombstone", lambda of: of.compacted),
    "stamped_log": required("POLL SCAN DUMP", "timestamp epoch", lambda of: of.stamped),
    "mark": required("MARK", "epoch"),
    "log_start": required("LOG_START", "epoch ret"),
    # What gives a consumer its position; without it nobody knows when a record was asked for.
    "moved": required("ASSIGN ASSIGNED SEEK RESET", "topic inv", lambda of: of.ok),
    "deleted": required("DELETE_RECORDS", "topic offset ret", lambda of: of.ok),
    "compacted": required("SEND", "key tombstone inv", lambda of: of.compacted),
    # A call that does not tell its records may have read those of a compacted topic.
    "compacted_read": required("POLL SCAN", "id", lambda of: of.compacted | of.untold),
    # What tells whether somebody was answered before the final scan began.
    "compacted_call": required(
        "POLL SCAN SCAN_END COMMIT COMMITTED", "inv ret", lambda of: of.compacted & of.ok
    ),
    # Records that are tombstones, or may be.
    "compacted_dead": required(
        "SEND", "retention", lambda of: of.compacted & (of.columns["flags"] & Flag.VALUED == 0)
    ),
    "compacted_acked": required("SEND", "offset", lambda of: of.compacted & of.ok),
    "unclear": required("SEND", "key", lambda of: of.unclear),
    "compacted_end": required("SCAN_END", "ret", lambda of: of.compacted),
    "keyed": required(
        "SEND", "key partition partitions chosen", lambda of: of.has_partition & of.ok
    ),
    "left": required("SEND", "partitioner", lambda of: of.left & of.ok),
}


def absences_of_logs(columns: IntColumns, context: Context) -> Iterator[tuple[str, Ints, int]]:
    """Of each need the rows that lack a field, and how many should have it."""
    of = Of(columns, context)
    concerned = (columns["flags"] & Flag.EMPTY) == 0
    for kind, one, chosen in those_present(FIELDS, columns):
        chosen &= concerned if one.which is None else concerned & one.which(of)
        yield from lacking(kind, one, chosen, of.column)


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
