"""One run: its configuration, its dictionaries, its rows, and what is known to be missing of it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen

from traces.checks.partition import firsts
from traces.context import Context, Ints, context
from traces.ingest.columns import joined, table
from traces.ingest.evidence import Evidence
from traces.ingest.logs import (
    count_fields,
    look_for_dumps,
    look_for_whole_logs,
    tell_lives_apart,
)
from traces.ingest.process_file import (
    SUFFIXES,
    ProcessFile,
    first_process,
    process_name,
    read_process_file,
)
from traces.meta import Meta, read_meta
from traces.names import Names
from traces.problems import Problem, Problems
from traces.schema import NONE, Flag, Isolation, Op, Outcome, Txn


@frozen
class Extra:
    """Fields of a call that the format does not know, as JSON."""

    process: str
    seq: int
    fields: str


@define
class Run:
    """What the checks of one run stand on."""

    path: Path
    meta: Meta
    names: Names
    columns: dict[str, Ints]
    evidence: Evidence
    context: Context
    calls: int
    warnings: list[Problem] = field(factory=list[Problem])
    extra: list[Extra] = field(factory=list[Extra])
    jepsen: bool = False

    def table(self, number: int) -> Any:
        """The `ops` table, with the run's number on each row."""
        return table(self.columns | {"run": np.full(len(self.columns["seq"]), number)})


def process_files(folder: Path) -> list[Path]:
    """The process files of a run folder, by name."""
    return sorted(f for f in folder.iterdir() if f.is_file() and f.name.endswith(SUFFIXES))


def read_trace(folder: Path) -> Run:
    """Read a run in trace format v1."""
    meta, names, problems = read_meta(folder), Names(), Problems()
    seed(names, meta, folder)
    files = [_read(path, names, problems) for path in process_files(folder)]
    if not files:
        problems.add(
            folder.name, None, "", "expected process files (.ndjson, .ndjson.gz, .parquet)"
        )
    problems.raise_any()
    columns = joined([f.columns for f in files if f.columns is not None])
    columns = place_sends(mark_mixed(prove_transactions(columns)), meta, names)
    evidence = Evidence()
    tell_lives_apart(evidence, columns, names)
    evidence.look_at(
        columns,
        members=_processes(names, lambda name: meta.consumer(name).group is not None),
        unanswered=_processes(names, lambda name: meta.producer(name).acks == "0"),
    )
    configured = context(meta, names, _processing(columns), ended(columns))
    count_fields(evidence, columns, configured)
    evidence.settle()
    evidence.look_for_files(meta, files)
    look_for_dumps(evidence, columns, names, meta, files)
    if len(np.unique(columns["clock"])) > 1:
        evidence.missing["one_clock"] = "times of several clocks do not compare"
    _look_for_scans(evidence, meta, names, columns)
    look_for_whole_logs(evidence, columns, names, meta)
    _look_for_sizes(evidence, meta, names, columns)
    names.files = {names.processes.number(f.name): f.file for f in files}
    return Run(
        path=folder,
        meta=meta,
        names=names,
        columns=columns,
        evidence=evidence,
        context=configured,
        calls=sum(f.calls for f in files),
        warnings=[warning for f in files for warning in f.warnings],
        extra=[Extra(f.name, seq, fields) for f in files for seq, fields in f.extra],
    )


def seed(names: Names, meta: Meta, folder: Path) -> None:
    """Count what is known before anything is read."""
    names.processes.seed(sorted(_name_of(path) for path in process_files(folder)))
    names.topics.seed(sorted(meta.topics))
    groups = {c.group for c in meta.consumers.values() if c.group}
    names.groups.seed(sorted(groups | set(meta.share_groups)))
    names.clocks.seed(["host"])


def _processing(columns: dict[str, Ints]) -> list[int]:
    """Groups that tell which records they have processed, not only which they were given."""
    return np.unique(columns["group"][columns["op"] == Op.PROCESS]).tolist()


def ended(columns: dict[str, Ints]) -> dict[int, int]:
    """When each process closed or crashed, of those that say so."""
    ends = np.isin(columns["op"], (Op.CLOSE, Op.CRASH)) & (columns["inv"] != NONE)
    return dict(zip(columns["process"][ends].tolist(), columns["inv"][ends].tolist(), strict=True))


def _processes(names: Names, which: Callable[[str], bool]) -> Ints:
    """The numbers of processes that are configured so, whatever their lines say."""
    mine = names.processes
    return np.array(
        [n for n, name in zip(mine.numbers, mine.names, strict=True) if which(name)], np.int64
    )


def mark_mixed(columns: dict[str, Ints]) -> dict[str, Ints]:
    """Flag the units (transactions) that both send and read: only they can be in a cycle."""
    unit = np.where(columns["txn"] >= 0, -2 - columns["txn"], columns["seq"])
    sends = columns["op"] == Op.SEND
    reads = (columns["op"] == Op.POLL) & (columns["id"] != NONE)
    order = np.lexsort((unit, columns["process"]))
    groups = np.empty(len(unit), np.int64)
    groups[order] = np.cumsum(firsts(columns["process"][order], unit[order]))
    both = np.intersect1d(groups[sends], groups[reads])
    columns["flags"] = np.maximum(columns["flags"], 0) | Flag.MIXED * np.isin(groups, both)
    return columns


def _read(path: Path, names: Names, problems: Problems) -> ProcessFile:
    return read_process_file(path, _name_of(path), names, problems)


def _name_of(path: Path) -> str:
    return first_process(path) or process_name(path)


def prove_transactions(columns: dict[str, Ints], delivered: bool = False) -> dict[str, Ints]:
    """Decide commits that nobody answered: a record seen as committed proves the whole transaction.

    With `delivered` any successful read is proof, as in histories that do not tell isolation.
    """
    undecided = columns["txn_state"] == Txn.UNKNOWN
    sends = undecided & (columns["op"] == Op.SEND) & (columns["id"] != NONE)
    if not sends.any():
        return columns
    reads = np.isin(columns["op"], (Op.POLL, Op.SCAN)) & (columns["outcome"] == Outcome.OK)
    if not delivered:
        reads &= columns["isolation"] == Isolation.READ_COMMITTED
    keys = ("topic", "partition", "id") if delivered else ("topic", "id")
    seen = set(zip(*(columns[k][reads].tolist() for k in keys), strict=True))
    owners = list(zip(*(columns[k][sends].tolist() for k in keys), strict=True))
    hit = np.fromiter((owner in seen for owner in owners), bool, len(owners))
    unit = np.where(columns["txn"] >= 0, -2 - columns["txn"], columns["seq"])
    proved = {
        (int(p), int(u))
        for p, u in zip(columns["process"][sends][hit], unit[sends][hit], strict=True)
    }
    rows = np.flatnonzero(undecided)
    members = zip(columns["process"][rows].tolist(), unit[rows].tolist(), strict=True)
    mine = np.fromiter((member in proved for member in members), bool, len(rows))
    columns["txn_state"][rows[mine]] = Txn.PROVED
    return columns


def place_sends(columns: dict[str, Ints], meta: Meta, names: Names) -> dict[str, Ints]:
    """Copy a send whose partition its sender never learnt to each partition it may have reached."""
    lost = (columns["op"] == Op.SEND) & (columns["topic"] >= 0) & (columns["partition"] == NONE)
    if not lost.any():
        return columns
    copies = [
        {name: column[rows] for name, column in columns.items()}
        | {
            "partition": np.full(len(rows), partition),
            "offset": np.full(len(rows), NONE),  # of a partition that nobody knows
            "flags": columns["flags"][rows] | Flag.UNPLACED,
        }
        for topic in np.unique(columns["topic"][lost])
        for rows in (np.flatnonzero(lost & (columns["topic"] == topic)),)
        for partition in partitions_of(int(topic), columns, meta, names)
    ]
    return joined([columns, *copies])


def partitions_of(topic: int, columns: dict[str, Ints], meta: Meta, names: Names) -> Iterable[int]:
    """All partitions of a topic that were configured or seen."""
    configured = meta.topics.get(names.topics.name(topic))
    seen = columns["partition"][columns["topic"] == topic]
    count = max(int(seen.max(initial=NONE)) + 1, (configured and configured.partitions) or 0)
    return range(count)


def _look_for_sizes(evidence: Evidence, meta: Meta, names: Names, columns: dict[str, Ints]) -> None:
    """Find out whether it is known how many partitions there are to be read."""
    subscribed = np.unique(columns["topic"][columns["op"] == Op.SUBSCRIBE])
    unknown = [
        name
        for name in map(names.topics.name, subscribed[subscribed != NONE].tolist())
        if (topic := meta.topics.get(name)) is None or topic.partitions is None
    ]
    if unknown:
        evidence.missing["topics.partitions"] = (
            f"meta.json does not tell the partitions of {', '.join(unknown[:4])}"
        )


def _look_for_scans(evidence: Evidence, meta: Meta, names: Names, columns: dict[str, Ints]) -> None:
    """Find out whether the final reading that `complete` promises is there, for every partition."""
    ends = (columns["op"] == Op.SCAN_END) & (columns["outcome"] == Outcome.OK)
    scanned = set(
        zip(columns["topic"][ends].tolist(), columns["partition"][ends].tolist(), strict=True)
    )
    topics = {names.topics.number(name) for name in meta.topics}
    topics |= set(columns["topic"][columns["op"] == Op.SEND].tolist()) - {NONE}
    unread = [
        f"{names.topics.name(topic)}:{partition}"
        for topic in sorted(topics)
        for partition in partitions_of(topic, columns, meta, names)
        if (topic, partition) not in scanned
    ]
    if not meta.complete:
        evidence.missing["complete"] = "meta.json does not say that the run is complete"
    elif unread:
        shown = ", ".join(unread[:4]) + (" …" if len(unread) > 4 else "")
        evidence.missing["scan"] = f"there is no final scan of {shown}"
        evidence.missing["complete"] = evidence.missing["scan"]
