"""What a trace does not say: missing fields, missing files, files that were cut off.

A check that needs something absent must answer *not checked*: the law is that taking evidence
away never turns one answer into its opposite. So absence is counted here, at ingest.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from attrs import define, field

from traces.checks.base import Bools
from traces.context import Ints
from traces.ingest.process_file import ProcessFile
from traces.meta import Meta, stem
from traces.schema import NONE, Flag, Op, Outcome

Columns = Mapping[str, Ints]


def _ops(columns: Columns, *ops: Op) -> Bools:
    return np.isin(columns["op"], ops)


def _sends(columns: Columns) -> Bools:
    return _ops(columns, Op.SEND)


def _acked(columns: Columns) -> Bools:
    """Sends that were answered; with acks=0 nobody waits for an answer, and there is no offset."""
    asked = columns["unanswered"] == 0
    return _ops(columns, Op.SEND) & (columns["outcome"] == Outcome.OK) & asked


def _transactional(columns: Columns) -> Bools:
    return _ops(columns, Op.SEND) & (columns["tid"] >= 0)


def _reads(columns: Columns) -> Bools:
    return _ops(columns, Op.POLL, Op.SCAN)


def _polls(columns: Columns) -> Bools:
    return _ops(columns, Op.POLL)


def _scans(columns: Columns) -> Bools:
    return _ops(columns, Op.SCAN)


def _commits(columns: Columns) -> Bools:
    return _ops(columns, Op.COMMIT) & (columns["outcome"] == Outcome.OK)


def _processed(columns: Columns) -> Bools:
    return _ops(columns, Op.PROCESS)


def _members(columns: Columns) -> Bools:
    """Polls and processing by members of a group (marked beforehand: see `Evidence.members`)."""
    return _ops(columns, Op.POLL, Op.PROCESS) & (columns["member_of"] != 0)


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


def _listed(columns: Columns) -> Bools:
    return _ops(columns, Op.LIST_OFFSETS, Op.EARLIEST, Op.LATEST)


def _numbered(columns: Columns) -> Bools:
    """Sends of producers that ever tell their producer id (marked beforehand)."""
    return _ops(columns, Op.SEND) & (columns["numbers"] != 0)


def _sent_offsets(columns: Columns) -> Bools:
    return _ops(columns, Op.TXN_OFFSETS) & (columns["outcome"] == Outcome.OK)


def _dumps(columns: Columns) -> Bools:
    return _ops(columns, Op.DUMP)


def _markers(columns: Columns) -> Bools:
    return _ops(columns, Op.MARKER)


def _resets(columns: Columns) -> Bools:
    return _ops(columns, Op.RESET)


def _paused(columns: Columns) -> Bools:
    return _ops(columns, Op.PAUSE, Op.RESUME)


def _marks(columns: Columns) -> Bools:
    return _ops(columns, Op.MARK)


def _subscribed(columns: Columns) -> Bools:
    return _ops(columns, Op.SUBSCRIBE)


def _static(columns: Columns) -> Bools:
    """Joins and commits of members that ever tell their instance (marked beforehand)."""
    return _ops(columns, Op.ASSIGNED, Op.COMMIT) & (columns["static"] != 0)


def _shared(columns: Columns) -> Bools:
    return _ops(columns, Op.ACQUIRE, Op.ACKNOWLEDGE)


# Which rows must carry which fields. `acked` are the sends that were answered: others may
# lack an offset and a return by their nature.
FIELDS: Mapping[str, tuple[Callable[[Columns], Bools], tuple[str, ...]]] = {
    "send": (_sends, ("topic", "partition", "id", "inv")),
    "stamped": (_sends, ("timestamp",)),
    "transactional": (_transactional, ("txn",)),
    "acked": (_acked, ("partition", "offset", "ret")),
    "read": (_reads, ("topic", "partition", "offset", "id", "inv", "ret", "isolation")),
    "poll": (_polls, ("inv", "ret")),
    "scan": (_scans, ("epoch",)),
    "commit": (_commits, ("topic", "partition", "offset", "group", "generation", "inv", "ret")),
    "process": (_processed, ("topic", "partition", "offset", "id", "inv")),
    "member": (_members, ("group",)),
    "assigned": (_assigned, ("topic", "partition", "group", "generation", "ret")),
    "assign": (_assigns, ("topic", "offset")),
    "rebalance": (_rebalanced, ("topic", "partition", "inv")),
    "fetched": (_fetched, ("topic", "inv", "group")),
    "init_producer": (_inits, ("tid", "pid", "pepoch", "inv", "ret")),
    "begin": (_begun, ("txn", "inv", "ret", "tid")),
    "ending": (_ended, ("txn", "inv", "tid")),
    "list_offsets": (_listed, ("topic", "partition", "offset", "inv", "ret")),
    "asked": (_asked, ("timestamp",)),
    "numbered": (_numbered, ("pid", "pepoch")),
    "sent_offsets": (_sent_offsets, ("topic", "partition", "offset", "group", "txn")),
    "dump": (_dumps, ("topic", "partition", "offset", "node", "pid")),
    "marker": (_markers, ("topic", "partition", "offset", "node", "pid")),
    "reset": (_resets, ("topic", "partition", "offset", "inv", "ret")),
    "pause": (_paused, ("topic", "partition")),
    "mark": (_marks, ("topic", "partition", "offset", "inv")),
    "subscribe": (_subscribed, ("topic", "group")),
    "static": (_static, ("instance", "group", "inv", "ret")),
    "shared": (_shared, ("topic", "partition", "offset", "group", "detail", "inv", "ret")),
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
}


@define
class Evidence:
    """What is missing of one run, as reasons, by the name of what a check may need."""

    missing: dict[str, str] = field(factory=dict[str, str])
    counts: dict[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]])

    def look_at(self, columns: Columns, members: Ints, unanswered: Ints) -> None:
        """Count absent fields.

        `members` are processes that are configured to be in a group, `unanswered` producers that
        are configured not to wait for any acknowledgement.
        """
        named = columns["process"][columns["group"] != NONE]
        member_of = np.isin(columns["process"], np.concatenate([named, members]))
        silent = np.isin(columns["process"], unanswered)
        marks = {
            "member_of": member_of.astype(np.int64),
            "unanswered": silent.astype(np.int64),
            "numbers": _ever(columns, "pid", Op.SEND),
            "static": _ever(columns, "instance", Op.ASSIGNED, Op.COMMIT),
        }
        columns = {**columns, **marks}
        for kind, (select, names) in FIELDS.items():
            chosen = select(columns) & ((columns["flags"] & Flag.EMPTY) == 0)
            total = int(np.count_nonzero(chosen))
            if not total:
                continue
            for name in names:
                absent = int(np.count_nonzero(columns[name][chosen] == NONE))
                lacking, of = self.counts.get(f"{kind}.{name}", (0, 0))
                self.counts[f"{kind}.{name}"] = (lacking + absent, of + total)

    def settle(self) -> None:
        """Put the counts into words."""
        for need, (lacking, total) in self.counts.items():
            if lacking:
                kind, _, name = need.partition(".")
                spoken = SPOKEN.get(name, name)
                self.missing[need] = f"{spoken} is missing on {lacking} of {total} {kind} rows"
        # Isolation decides nothing where there are no transactions.
        if self.counts.get("transactional.txn") and "read.isolation" in self.missing:
            self.missing["isolation"] = self.missing["read.isolation"]

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


def _ever(columns: Columns, name: str, *ops: Op) -> Ints:
    """Rows of processes that tell this field on any of these calls."""
    telling = columns["process"][_ops(columns, *ops) & (columns[name] != NONE)]
    return np.isin(columns["process"], telling).astype(np.int64)


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
