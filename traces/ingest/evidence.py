"""What a trace does not say: missing fields, missing files, files that were cut off.

A check that needs something absent must answer *not checked*: the law is that taking evidence
away never turns one answer into its opposite. So absence is counted here, at ingest.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from attrs import define, field

from traces.columns import Bools, calls, firsts
from traces.context import Ints
from traces.ingest.process_file import ProcessFile
from traces.meta import Meta, stem
from traces.schema import NONE, Flag, Op, Outcome

Columns = Mapping[str, Ints]


def _ops(columns: Columns, *ops: Op) -> Bools:
    return calls(columns, *ops)


def _sends(columns: Columns) -> Bools:
    return _ops(columns, Op.SEND)


def _acked(columns: Columns) -> Bools:
    """Sends that were answered; with acks=0 nobody waits for an answer, and there is no offset."""
    return _ops(columns, Op.SEND) & (columns["outcome"] == Outcome.OK)


def _pending(columns: Columns) -> Bools:
    """Sends of which only reads can tell where they were stored; a failed one may have been."""
    return _ops(columns, Op.SEND) & (columns["offset"] == NONE)


def _unanswered(columns: Columns) -> Bools:
    """Of those, sends that may have been stored for all that their senders know."""
    return _pending(columns) & (columns["outcome"] != Outcome.FAIL)


def _transactional(columns: Columns) -> Bools:
    return _ops(columns, Op.SEND) & (columns["tid"] >= 0)


def _reads(columns: Columns) -> Bools:
    return _ops(columns, Op.POLL, Op.SCAN)


def _polls(columns: Columns) -> Bools:
    return _ops(columns, Op.POLL)


def _scans(columns: Columns) -> Bools:
    return _ops(columns, Op.SCAN)


def _scan_ends(columns: Columns) -> Bools:
    return _ops(columns, Op.SCAN_END)


def _commits(columns: Columns) -> Bools:
    return _ops(columns, Op.COMMIT) & (columns["outcome"] == Outcome.OK)


def _processed(columns: Columns) -> Bools:
    return _ops(columns, Op.PROCESS)


def _members(columns: Columns) -> Bools:
    """Polls and processing by members of a group."""
    return _ops(columns, Op.POLL, Op.PROCESS)


def _assigned(columns: Columns) -> Bools:
    return _ops(columns, Op.ASSIGNED)


def _rebalanced(columns: Columns) -> Bools:
    return _ops(columns, Op.ASSIGNED, Op.REVOKED, Op.LOST)


def _inits(columns: Columns) -> Bools:
    return _ops(columns, Op.INIT_PRODUCER) & (columns["outcome"] == Outcome.OK)


def _begun(columns: Columns) -> Bools:
    return _ops(columns, Op.TXN_BEGIN) & (columns["outcome"] == Outcome.OK)


def _ended(columns: Columns) -> Bools:
    return _ops(columns, Op.TXN_COMMIT, Op.TXN_ABORT)


def _assigns(columns: Columns) -> Bools:
    return _ops(columns, Op.ASSIGN, Op.SEEK) & (columns["outcome"] == Outcome.OK)


def _fetched(columns: Columns) -> Bools:
    return _ops(columns, Op.COMMITTED) & (columns["outcome"] == Outcome.OK)


def _asked(columns: Columns) -> Bools:
    return _ops(columns, Op.LIST_OFFSETS)


def _earliest(columns: Columns) -> Bools:
    return _ops(columns, Op.EARLIEST) & (columns["outcome"] == Outcome.OK)


def _listed(columns: Columns) -> Bools:
    return _ops(columns, Op.LIST_OFFSETS, Op.EARLIEST, Op.LATEST)


def _numbered(columns: Columns) -> Bools:
    """Sends of producers that ever tell their producer id, but for those that have none."""
    return _ops(columns, Op.SEND) & ((columns["flags"] & Flag.NO_PRODUCER) == 0)


def _sent_offsets(columns: Columns) -> Bools:
    return _ops(columns, Op.TXN_OFFSETS) & (columns["outcome"] == Outcome.OK)


def _resets(columns: Columns) -> Bools:
    return _ops(columns, Op.RESET)


def _paused(columns: Columns) -> Bools:
    return _ops(columns, Op.PAUSE, Op.RESUME)


def _marks(columns: Columns) -> Bools:
    return _ops(columns, Op.MARK)


def _stable(columns: Columns) -> Bools:
    return _ops(columns, Op.LAST_STABLE)


def _answered(columns: Columns) -> Bools:
    """Polls that returned, with records or with nothing but what brokers report."""
    rows = _ops(columns, Op.POLL, Op.MARK, Op.LOG_START, Op.LAST_STABLE)
    dumps = columns["process"][_ops(columns, Op.DUMP, Op.MARKER, Op.DUMP_END)]
    return rows & (columns["outcome"] == Outcome.OK) & ~np.isin(columns["process"], dumps)


def _log_starts(columns: Columns) -> Bools:
    return _ops(columns, Op.LOG_START)


def _given(columns: Columns) -> Bools:
    """Records that polls returned."""
    return _ops(columns, Op.POLL) & (columns["topic"] != NONE)


def _committed_txns(columns: Columns) -> Bools:
    return _ops(columns, Op.TXN_COMMIT) & (columns["outcome"] == Outcome.OK)


def _subscribed(columns: Columns) -> Bools:
    return _ops(columns, Op.SUBSCRIBE)


def _static(columns: Columns) -> Bools:
    """Joins and commits of members that ever tell their instance."""
    return _ops(columns, Op.ASSIGNED, Op.COMMIT)


def _shared(columns: Columns) -> Bools:
    return _ops(columns, Op.ACQUIRE, Op.ACKNOWLEDGE)


_REBALANCE = ("topic", "partition", "inv", "ret", "group", "generation", "partitions")
_SENT = ("topic", "partition", "offset", "group", "member", "generation", "txn", "inv", "ret")
# Which rows must carry which fields. `acked` are the sends that were answered: others may
# lack an offset and a return by their nature.
FIELDS: Mapping[str, tuple[Callable[[Columns], Bools], tuple[str, ...]]] = {
    "send": (_sends, ("topic", "partition", "id", "inv")),
    "pending": (_pending, ("offset",)),
    "unanswered": (_unanswered, ("offset",)),
    "stamped": (_sends, ("timestamp",)),
    "transactional": (_transactional, ("txn",)),
    "acked": (_acked, ("partition", "offset", "ret")),
    "read": (_reads, ("topic", "partition", "offset", "id", "inv", "ret", "isolation")),
    "poll": (_polls, ("inv", "ret")),
    "scan": (_scans, ("topic", "partition", "offset", "id", "epoch")),
    "scan_end": (_scan_ends, ("offset",)),
    "commit": (_commits, ("topic", "partition", "offset", "group", "generation", "inv", "ret")),
    "process": (_processed, ("topic", "partition", "offset", "id", "inv")),
    "member": (_members, ("group",)),
    "assigned": (_assigned, ("topic", "partition", "group", "member", "generation", "inv", "ret")),
    "assign": (_assigns, ("topic", "offset", "partitions")),
    "rebalance": (_rebalanced, _REBALANCE),
    "fetched": (_fetched, ("topic", "inv", "ret", "group", "partitions")),
    "init_producer": (_inits, ("tid", "pid", "pepoch", "inv", "ret")),
    "begin": (_begun, ("txn", "inv", "ret", "tid")),
    "ending": (_ended, ("txn", "inv", "tid")),
    "committing": (_committed_txns, ("ret",)),
    "list_offsets": (_listed, ("topic", "partition", "offset", "inv", "ret")),
    "asked": (_asked, ("timestamp",)),
    "earliest": (_earliest, ("topic", "offset")),
    "numbered": (_numbered, ("pid", "pepoch")),
    "sent_offsets": (_sent_offsets, _SENT),
    "reset": (_resets, ("topic", "partition", "offset", "inv", "ret")),
    "pause": (_paused, ("topic", "partition", "partitions")),
    "mark": (_marks, ("topic", "partition", "offset", "inv")),
    "stable": (_stable, ("inv",)),
    "placed_poll": (_given, ("node", "high_watermark")),
    "watched_poll": (_given, ("high_watermark",)),
    "watching": (_answered, ("high_watermark",)),
    "starting": (_answered, ("log_start",)),
    "placed_mark": (_marks, ("node",)),
    "placed_start": (_log_starts, ("node",)),
    "stable_poll": (_given, ("last_stable",)),
    "subscribe": (_subscribed, ("topic", "group")),
    "static": (_static, ("instance", "group", "inv", "ret")),
    "shared": (_shared, ("topic", "partition", "offset", "group", "detail", "inv", "ret")),
}
# Kinds of which a call that concerns nothing is one, too.
BARE = frozenset(("watching", "starting"))
# Kinds that are asked only of processes that bear a mark: by what they tell on any row of theirs,
# or (`member_of` too, and `answered` alone) by how they are configured.
MARKED: Mapping[str, str] = {
    "member": "member_of",
    "acked": "answered",
    "numbered": "numbers",
    "static": "static",
    "placed_poll": "places",
    "placed_mark": "places",
    "placed_start": "places",
    "watched_poll": "watches",
    "watching": "watches",
    "starting": "starts",
    "stable_poll": "stability",
}
TELLING: Mapping[str, Callable[[Columns], Bools]] = {
    "member_of": lambda c: c["group"] != NONE,
    "numbers": lambda c: _ops(c, Op.SEND) & (c["pid"] != NONE),
    "static": lambda c: _ops(c, Op.ASSIGNED, Op.COMMIT) & (c["instance"] != NONE),
    "places": lambda c: _ops(c, Op.POLL, Op.MARK, Op.LOG_START) & (c["node"] != NONE),
    "watches": lambda c: _ops(c, Op.MARK),
    "starts": lambda c: _ops(c, Op.LOG_START),
    "stability": lambda c: _ops(c, Op.LAST_STABLE),
}
# What is missing if a producer may have sent what nobody tells.
SENDERS = ("producers", "producers.whole", "send.topic", "send.id")
MARKS = frozenset((*TELLING, "answered"))
SPOKEN = {
    "inv": "invoked_ns",
    "ret": "returned_ns",
    "topic": "records",
    "tid": "transactional_id",
    "pid": "producer_id",
    "pepoch": "producer_epoch",
    "node": "replica",
    "detail": "delivery_count or ack",
}


@define
class Evidence:
    """What is missing of one run, as reasons, by the name of what a check may need."""

    missing: dict[str, str] = field(factory=dict[str, str])
    counts: dict[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]])

    def look_at(self, columns: Columns, members: Ints, unanswered: Ints) -> None:
        """Count absent fields in rows of several processes.

        `members` are processes that are configured to be in a group, `unanswered` producers that
        are configured not to wait for any acknowledgement.
        """
        process = columns["process"]
        apart = {mark: np.unique(process[of(columns)]) for mark, of in TELLING.items()}
        apart["member_of"] = np.union1d(apart["member_of"], members)
        apart["answered"] = np.setdiff1d(process, unanswered)
        self.add(count(columns, {mark: np.isin(process, of) for mark, of in apart.items()}), MARKS)

    def add(self, counts: Mapping[str, tuple[int, int]], marks: Iterable[str]) -> None:
        """Add what was counted in a piece of a process's file, which bears these marks."""
        for need, (absent, total) in counts.items():
            mark = MARKED.get(need.partition(".")[0])
            if mark is None or mark in marks:
                lacking, of = self.counts.get(need, (0, 0))
                self.counts[need] = (lacking + absent, of + total)

    def settle(self, *, unproved: bool = False) -> None:
        """Put the counts into words; `unproved`: some transactions only reads can decide."""
        for need, (lacking, total) in self.counts.items():
            if lacking:
                kind, _, name = need.partition(".")
                spoken = SPOKEN.get(name, name)
                self.missing[need] = f"{spoken} is missing on {lacking} of {total} {kind} rows"
        # Isolation decides nothing where there are no transactions.
        if self.counts.get("transactional.txn") and "read.isolation" in self.missing:
            self.missing["isolation"] = self.missing["read.isolation"]
        untold = self.reasons(["read.id", "read.offset", "read.topic"])
        if unproved and untold:
            self.missing["proof"] = untold[0]
        if "pending.offset" in self.missing and untold:
            self.missing["pending.read"] = untold[0]

    def look_for_files(self, meta: Meta, files: Iterable[ProcessFile]) -> None:
        """Name the processes that must have existed and of which there is no (whole) file."""
        files = list(files)
        absent = absent_processes(meta, [f.name for f in files])
        cut = [f.name for f in files if f.cut]
        holed = [f.name for f in files if f.gaps]
        for role, named in (("producers", meta.producers), ("consumers", meta.consumers)):
            # A process that neither map names may have been either.
            other = meta.consumers if role == "producers" else meta.producers
            gone = [name for name in absent if _is(name, named) or not _is(name, other)]
            torn = [name for name in holed if _is(name, named) or not _is(name, other)]
            short = [name for name in cut if _is(name, named) or not _is(name, other)]
            if gone:
                self.missing[role] = f"no file of {', '.join(sorted(gone))}"
            elif torn:
                self.missing[role] = f"lines are missing in the file of {', '.join(sorted(torn))}"
            if short:
                self.missing[f"{role}.whole"] = f"the file of {', '.join(sorted(short))} is cut off"

    def reasons(self, needs: Iterable[str]) -> list[str]:
        """Why these needs are not met; empty when they are."""
        return [self.missing[need] for need in needs if need in self.missing]


def count(
    columns: Columns, marked: Mapping[str, Bools] | None = None
) -> dict[str, tuple[int, int]]:
    """How many rows lack a field that they should have, and how many rows those are.

    Counts of pieces add up. What became of transactions must not matter here: that is found out
    when all pieces have been counted. Without `marked`, which says of each row whether its process
    bears a mark, all do.
    """
    counts: dict[str, tuple[int, int]] = {}
    listed = np.where((columns["flags"] & Flag.UNLISTED) != 0, NONE, 0)
    columns = {**columns, **_reports(columns), "partitions": listed}
    for kind, (select, names) in FIELDS.items():
        chosen = select(columns) & (((columns["flags"] & Flag.EMPTY) == 0) | (kind in BARE))
        if marked is not None and kind in MARKED:
            chosen &= marked[MARKED[kind]]
        total = int(np.count_nonzero(chosen))
        for name in names if total else ():
            absent = int(np.count_nonzero(columns[name][chosen] == NONE))
            counts[f"{kind}.{name}"] = absent, total
    return counts


def _reports(columns: Columns) -> dict[str, Ints]:
    """For each row whether its call reports something of its partition: 0, or NONE.

    A call may also say that nothing was reported, of any partition.
    """
    told = {
        "high_watermark": Op.MARK,
        "log_start": Op.LOG_START,
        "last_stable": Op.LAST_STABLE,
    }
    out: dict[str, Ints] = {}
    for name, op in told.items():
        there = columns["op"] == op
        out[name] = np.full(len(there), NONE)
        if not there.any():
            continue
        nothing = there & (columns["topic"] == NONE)
        here = _alike(columns, "process", "seq", "topic", "partition")
        call = _alike(columns, "process", "seq")
        out[name][np.isin(here, here[there]) | np.isin(call, call[nothing])] = 0
    return out


def _alike(columns: Columns, *names: str) -> Ints:
    """The same number for rows that are alike in these columns."""
    order = np.lexsort([columns[name] for name in reversed(names)])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(firsts(*(columns[name][order] for name in names)))
    return number


def marks(columns: Columns) -> list[str]:
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
