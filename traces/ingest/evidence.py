"""Evidence that a trace lacks: missing fields, missing files, files that were cut off.

A check that needs something absent must answer *not checked*: taking evidence away must never turn
one answer into its opposite. So absence is counted here, at ingest.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from attrs import define, field, frozen

from traces.ingest.process_file import ProcessFile
from traces.ingest.vocabulary import ANSWERS
from traces.model.columns import Bools, IntColumns, calls, distinct, firsts
from traces.model.context import Ints
from traces.model.lacking import RECORDS, SENDERS, Lacking
from traces.model.meta import Meta, stem
from traces.model.schema import NONE, Flag, Op, Outcome

Of = TypeVar("Of")  # what is known of rows that are picked


def few(names: Iterable[str]) -> str:
    """The first four of these names, and a mark that there are more."""
    shown = [*names]
    return ", ".join(shown[:4]) + (" …" if len(shown) > 4 else "")


def _ok(columns: IntColumns) -> Bools:
    return columns["outcome"] == Outcome.OK


def _pending(columns: IntColumns) -> Bools:
    """Sends whose offset only reads can show; even a failed one may have been stored."""
    return columns["offset"] == NONE


def _unanswered(columns: IntColumns) -> Bools:
    """Of those, sends that may have been stored for all that their senders know."""
    return _pending(columns) & (columns["outcome"] != Outcome.FAIL)


def _open(columns: IntColumns) -> Bools:
    """Calls that may have happened for all that anybody knows."""
    return columns["outcome"] == Outcome.INFO


def _of_producers(columns: IntColumns) -> Bools:
    """Sends except those that report that they have no producer id.

    The field is required only of producers that ever report an id or epoch (`MARKED`).
    """
    return (columns["flags"] & Flag.NO_PRODUCER) == 0


def _in_session(columns: IntColumns) -> Bools:
    """Of those, sends that may have been stored."""
    return _of_producers(columns) & (columns["outcome"] != Outcome.FAIL)


def _located(columns: IntColumns) -> Bools:
    """Rows about one partition."""
    return columns["partition"] != NONE


def _given(columns: IntColumns) -> Bools:
    """Records that polls returned."""
    return columns["topic"] != NONE


@frozen
class RequiredFields(Generic[Of]):
    """Rows that must carry these fields: of these calls all, or those that `which` picks."""

    ops: tuple[Op, ...]
    fields: tuple[str, ...]
    which: Callable[[Of], Bools] | None = None


def required(
    ops: str, fields: str, which: Callable[[Of], Bools] | None = None
) -> RequiredFields[Of]:
    """Rows of these calls that must carry these fields: the names of each in one text."""
    return RequiredFields(tuple(Op[op] for op in ops.split()), tuple(fields.split()), which)


_POLLED = "POLL MARK LOG_START LAST_STABLE"
_SENT = "topic partition offset group member generation txn inv ret"
# `acked` are the sends that were answered: others may lack an offset and a return by their nature,
# and with acks=0 nobody waits for an answer, and there is no offset.
FIELDS: Mapping[str, RequiredFields[IntColumns]] = {
    "send": required("SEND", "topic partition id inv"),
    "pending": required("SEND", "offset", _pending),
    "unanswered": required("SEND", "offset", _unanswered),
    "stamped": required("SEND", "timestamp"),
    "transactional": required("SEND", "txn", lambda columns: columns["tid"] >= 0),
    "acked": required("SEND", "partition offset ret", _ok),
    "read": required("POLL SCAN", "topic partition offset id inv ret isolation"),
    "poll": required("POLL", "inv ret"),
    "scan": required("SCAN", "topic partition offset id epoch"),
    "scan_end": required("SCAN_END", "offset isolation inv"),
    "commit": required("COMMIT", "topic partition offset group generation inv ret", _ok),
    "open_commit": required("COMMIT", "topic partition offset group inv", _open),
    "process": required("PROCESS", "topic partition offset id inv"),
    "member": required("POLL PROCESS", "group"),
    "assigned": required("ASSIGNED", "topic partition group member generation inv ret"),
    "assign": required("ASSIGN SEEK", "topic offset partitions inv"),
    "rebalance": required(
        "ASSIGNED REVOKED LOST", "topic partition inv ret group generation partitions"
    ),
    "fetched": required("COMMITTED", "topic inv ret group partitions", _ok),
    "init_producer": required("INIT_PRODUCER", "tid pid pepoch inv ret", _ok),
    "begin": required("TXN_BEGIN", "txn inv tid"),
    "begun": required("TXN_BEGIN", "ret", _ok),
    "ending": required("TXN_COMMIT TXN_ABORT", "txn inv tid"),
    "committing": required("TXN_COMMIT", "ret", _ok),
    "list_offsets": required("LIST_OFFSETS EARLIEST LATEST", "topic partition offset inv ret"),
    "asked": required("LIST_OFFSETS", "timestamp"),
    "earliest": required("EARLIEST", "topic offset", _ok),
    "numbered": required("SEND", "pid pepoch", _of_producers),
    "session": required("SEND", "partition", _in_session),
    "sent_offsets": required("TXN_OFFSETS", _SENT, _ok),
    "open_offsets": required("TXN_OFFSETS", "topic partition offset group txn inv", _open),
    "reset": required("RESET", "topic partition offset inv ret"),
    "pause": required("PAUSE RESUME", "topic partition partitions inv"),
    "mark": required("MARK", "inv"),
    "stable": required("LAST_STABLE", "inv"),
    "placed_poll": required("POLL", "node high_watermark", _given),
    "watched_poll": required("POLL", "high_watermark", _given),
    "watching": required(_POLLED, "high_watermark", _ok),
    "starting": required(_POLLED, "log_start", _ok),
    "placed_mark": required("MARK", "node"),
    "placed_start": required("LOG_START", "node"),
    "settling": required(_POLLED, "last_stable", _ok),
    "polled": required("POLL", "txn"),
    "named": required("SEND", "tid", lambda columns: columns["txn"] >= 0),
    "subscribe": required("SUBSCRIBE", "topic group"),
    "static": required("ASSIGNED COMMIT", "instance group inv ret"),
    "acquired": required("ACQUIRE", "id"),
    "waited": required("WAITED", "group inv ret"),
    "joined": required("SUBSCRIBE", "group inv ret", _located),
    "shared": required("ACQUIRE ACKNOWLEDGE", "topic partition offset group detail inv ret"),
}
# Kinds of which a call that concerns nothing is one, too.
BARE = frozenset(("watching", "starting", "settling"))
# Kinds that are asked only of processes that bear a mark: by what they tell on any row of theirs,
# or (`member_of` too, and `answered` alone) by how they are configured.
MARKED: Mapping[str, str] = {
    "member": "member_of",
    "acked": "answered",
    "numbered": "numbers",
    "session": "numbers",
    "static": "static",
    "placed_poll": "nodes",
    "placed_mark": "nodes",
    "placed_start": "nodes",
    "watched_poll": "watches",
    "watching": "watches",
    "starting": "starts",
    "settling": "stability",
    "polled": "transacts",
}
TELLING: Mapping[str, Callable[[IntColumns], Bools]] = {
    "member_of": lambda c: c["group"] != NONE,
    "numbers": lambda c: calls(c, Op.SEND) & ((c["pid"] != NONE) | (c["pepoch"] != NONE)),
    "static": lambda c: c["instance"] != NONE,
    "nodes": lambda c: calls(c, Op.POLL, Op.MARK, Op.LOG_START) & (c["node"] != NONE),
    "watches": lambda c: calls(c, Op.MARK),
    "starts": lambda c: calls(c, Op.LOG_START),
    "stability": lambda c: calls(c, Op.LAST_STABLE),
    "transacts": lambda c: calls(c, Op.TXN_BEGIN),
}
MARKS = frozenset((*TELLING, "answered"))
_ENDING = (Op.TXN_BEGIN, Op.TXN_OFFSETS, Op.TXN_COMMIT, Op.TXN_ABORT)
# Calls of administrators, and what any client may tell.
_ADMIN = (
    *(Op.DELETE_GROUPS, Op.DELETE_OFFSETS, Op.ALTER_OFFSETS, Op.CREATE_PARTITIONS),
    Op.ALTER_CONFIGS,
)
_TOPICS = (Op.CREATE_TOPICS, Op.DELETE_TOPICS, Op.DESCRIBE_TOPICS)
_NEITHER = frozenset((*_ADMIN, *_TOPICS, Op.METADATA, Op.PARTITIONS, Op.CRASH, Op.CLOSE))
_OF: Mapping[str, frozenset[Op]] = {
    "producers": frozenset((Op.SEND, Op.INIT_PRODUCER, *_ENDING)),
    "consumers": frozenset(Op) - _NEITHER - {Op.SEND, Op.INIT_PRODUCER, *_ENDING},
}
SPOKEN = {
    "inv": "invoked_ns",
    "ret": "returned_ns",
    "topic": "records",
    "tid": "transactional_id",
    "pid": "producer_id",
    "pepoch": "producer_epoch",
    "node": "replica",
    "detail": "delivery_count or ack",
    "retention": "delete_retention_ms",
}


@define
class Evidence:
    """The missing evidence of one run: a reason for each need of a check, by its name."""

    missing: dict[str, str] = field(factory=dict[str, str])
    counts: dict[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]])
    lacking: Lacking | None = None  # where; None: everywhere

    def look_at(self, columns: IntColumns, members: Ints, unanswered: Ints) -> None:
        """Count absent fields in rows of several processes.

        `members` are processes that are configured to be in a group, `unanswered` producers that
        are configured not to wait for any acknowledgement.
        """
        process = columns["process"]
        apart = {mark: np.unique(process[of(columns)]) for mark, of in TELLING.items()}
        apart["member_of"] = np.union1d(apart["member_of"], members)
        apart["answered"] = np.setdiff1d(process, unanswered)
        marked = {mark: np.isin(process, of) for mark, of in apart.items()}
        counts = {need: (len(rows), total) for need, rows, total in absences(columns, marked)}
        self.add(counts, MARKS)

    def add(self, counts: Mapping[str, tuple[int, int]], marks: Collection[str]) -> None:
        """Add the counts of a piece of a process's file, which has these marks."""
        for need, (absent, total) in counts.items():
            if is_asked(need, marks):
                lacking, of = self.counts.get(need, (0, 0))
                self.counts[need] = (lacking + absent, of + total)

    def settle(self) -> None:
        """Put the counts into words."""
        for need, (lacking, total) in self.counts.items():
            if lacking:
                kind, _, name = need.partition(".")
                spoken = SPOKEN.get(name, name)
                self.missing[need] = f"{spoken} is missing on {lacking} of {total} {kind} rows"
        # Isolation, and which copy was read, decide nothing where nothing is sent in transactions.
        transactional = "transactional.txn" in self.counts or "named.tid" in self.counts
        if transactional and "read.isolation" in self.missing:
            self.missing["isolation"] = self.missing["read.isolation"]
        if "read.id" not in self.counts:
            self.missing["any_read"] = "nothing was read"
        untold = self.reasons(RECORDS)
        if transactional and "acked.offset" in self.missing:
            self.missing["copies"] = self.missing["acked.offset"]
            if "marker.pid" in self.counts:  # nobody knows which marker ended what was sent
                self.missing["ended.offset"] = self.missing["acked.offset"]
        if "pending.offset" in self.missing and untold:
            self.missing["pending.read"] = untold[0]

    def look_for_files(
        self, meta: Meta, files: Iterable[ProcessFile], done: Mapping[str, set[int]]
    ) -> None:
        """Name the processes that must have existed and of which there is no (whole) file.

        `done` are the calls of each process: who reads is a consumer, however it is configured.
        """
        files = list(files)
        absent = absent_processes(meta, [f.name for f in files])
        cut = [f.name for f in files if f.cut]
        holed = [f.name for f in files if f.gaps]
        for role, named in (("producers", meta.producers), ("consumers", meta.consumers)):
            # A process that neither map names may have been either.
            other = meta.consumers if role == "producers" else meta.producers
            gone = [name for name in absent if _is(name, named) or not _is(name, other)]
            torn, short = (
                [n for n in several if _is(n, named) or not _is(n, other) or done[n] & _OF[role]]
                for several in (holed, cut)
            )
            if gone:
                self.missing[role] = f"no file of {', '.join(sorted(gone))}"
            elif torn:
                self.missing[role] = f"lines are missing in the file of {', '.join(sorted(torn))}"
            if short:
                self.missing[f"{role}.whole"] = f"the file of {', '.join(sorted(short))} is cut off"
        senders = self.reasons(SENDERS)
        if senders and "pending.offset" in self.missing:
            self.missing.setdefault("pending.read", senders[0])

    def doubt_ends(self) -> None:
        """Somebody else than their producers ends transactions."""
        self.missing["proof"] = "meta.json says that others end transactions, too: transaction_ends"

    def ask_for_proof(self, *, unended: bool) -> None:
        """Some transactions only reads can decide; `unended`: if nobody answered an abort."""
        if unseen := self.reasons((*RECORDS, "acked.offset", "ending.inv")):
            self.missing["proof"] = unseen[0]
        elif unended:
            self.missing["proof"] = "not all ends of a transaction are told"

    def everywhere(self, needs: Iterable[str], scope: str) -> list[str]:
        """Why these needs are met of no partition, group or producer, whichever the scope is."""
        if self.lacking is None:
            return self.reasons(needs)
        missing = self.lacking.everywhere.get(scope, self.missing)
        return self.reasons(need for need in needs if need in missing)

    def reasons(self, needs: Iterable[str]) -> list[str]:
        """Why these needs are not met, each reason once; empty when they are."""
        return list(dict.fromkeys(self.missing[need] for need in needs if need in self.missing))


def is_asked(need: str, marks: Collection[str]) -> bool:
    """True if a need applies to processes with these marks."""
    mark = MARKED.get(need.partition(".")[0])
    return mark is None or mark in marks


def absences(
    columns: IntColumns, marked: Mapping[str, Bools] | None = None
) -> Iterator[tuple[str, Ints, int]]:
    """For each need, the rows that lack a field that they should have, and the number that should.

    Counts of pieces add up. They must not depend on outcomes of transactions, which are known only
    when all pieces have been counted. `marked` has for each mark the rows of processes with it;
    without it, all rows have every mark.
    """
    listed = np.where((columns["flags"] & Flag.UNLISTED) != 0, NONE, 0)
    columns = {**columns, **_reports(columns), "partitions": listed}
    concerned = (columns["flags"] & Flag.EMPTY) == 0
    for kind, one, chosen in those_present(FIELDS, columns):
        if kind not in BARE:
            chosen &= concerned
        if marked is not None and kind in MARKED:
            chosen &= marked[MARKED[kind]]
        if one.which is not None:
            chosen &= one.which(columns)
        yield from lacking(kind, one, chosen, columns.__getitem__)


def those_present(
    kinds: Mapping[str, RequiredFields[Of]], columns: IntColumns
) -> Iterator[tuple[str, RequiredFields[Of], Bools]]:
    """The kinds of which there are calls, each with the mask of their rows."""
    present = set(distinct(columns["op"]).tolist())
    for kind, one in kinds.items():
        if not present.isdisjoint(one.ops):
            yield kind, one, calls(columns, *one.ops)


def lacking(
    kind: str, one: RequiredFields[Any], chosen: Bools, column: Callable[[str], Ints]
) -> Iterator[tuple[str, Ints, int]]:
    """For each field of a kind, those of the chosen rows that lack it, and their number."""
    total = int(np.count_nonzero(chosen))
    for name in one.fields if total else ():
        yield f"{kind}.{name}", np.flatnonzero(chosen & (column(name) == NONE)), total


def _reports(columns: IntColumns) -> dict[str, Ints]:
    """For each row whether its call reports something of its partition: 0, or NONE.

    A call may also say that nothing was reported, of any partition.
    """
    out = {name: np.full(len(columns["op"]), NONE) for name in ANSWERS}
    reports = {name: columns["op"] == op for name, op in ANSWERS.items()}
    reports = {name: there for name, there in reports.items() if there.any()}
    if not reports:
        return out
    here = _alike(columns, "process", "seq", "topic", "partition")
    call = _alike(columns, "process", "seq")
    for name, there in reports.items():
        nothing = there & (columns["topic"] == NONE)
        out[name][np.isin(here, here[there]) | np.isin(call, call[nothing])] = 0
    return out


def _alike(columns: IntColumns, *names: str) -> Ints:
    """The same number for rows that are alike in these columns."""
    order = np.lexsort([columns[name] for name in reversed(names)])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(firsts(*(columns[name][order] for name in names)))
    return number


def marks(columns: IntColumns) -> list[str]:
    """The marks that rows of one process give it."""
    return [mark for mark, of in TELLING.items() if of(columns).any()]


def _is(process: str, named: Mapping[str, object]) -> bool:
    return process in named or stem(process) in named


def absent_processes(meta: Meta, present: list[str]) -> list[str]:
    """Processes that the configuration, or the numbers of the others, say must have existed."""
    have, stems = set(present), {stem(name) for name in present}
    absent = [n for n in (*meta.producers, *meta.consumers) if n not in have and n not in stems]
    absent += [name for name in meta.processes or () if name not in have]
    incarnations: dict[str, set[int]] = {}
    for name in present:
        client, _, number = name.partition("#")
        if number.isdecimal():
            incarnations.setdefault(client, set()).add(int(number))
    for client, numbers in incarnations.items():
        absent += [f"{client}#{n}" for n in range(max(numbers)) if n not in numbers]
    return list(dict.fromkeys(absent))
