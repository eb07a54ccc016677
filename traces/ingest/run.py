"""One run: its configuration, its dictionaries, its rows, and its missing evidence."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import lexists
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from traces.ingest.columns import joined, table
from traces.ingest.evidence import Evidence
from traces.ingest.files import FileReader, Read, first_process, uncollected
from traces.ingest.lines import END, JOURNAL, SUFFIXES, pieces_of, process_name
from traces.ingest.process_file import ProcessFile
from traces.ingest.summary import Summary
from traces.ingest.whole import Whole, join_files
from traces.model.arrow import pa, pq
from traces.model.configured import Known, context
from traces.model.context import Context, Ints
from traces.model.lacking import ALL_FILES, FILES, LOG_STARTS, READERS, SCANNED, SENDERS, Lacking
from traces.model.meta import Meta, read_meta
from traces.model.names import Names
from traces.model.output import number_of
from traces.model.problems import SHOWN, BadInput, Problem, Problems
from traces.model.schema import NONE, Op
from traces.model.stored import stored
from traces.model.table import Lazy, constant


@frozen
class Extra:
    """Fields of a call that the format does not know, as JSON."""

    process: str
    seq: int
    fields: str


@define
class Run:
    """The data of one run that its checks use."""

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
    parts: tuple[str, ...] = ()  # files with the rows, where they are not in `columns`
    ids: Callable[[set[int]], Iterable[tuple[int, str | int]]] | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        if not self.parts:
            return len(self.columns["seq"])
        return sum(pq.read_metadata(part).num_rows for part in self.parts)

    @property
    def incomplete(self) -> list[str]:
        """The files that are missing or cut short; no verdict covers the missing rows."""
        return self.evidence.reasons(ALL_FILES)

    def loaded(self) -> "Run":
        """This run with its rows in memory."""
        if not self.parts:
            return self
        rows = pa.concat_tables(pq.ParquetFile(part).read() for part in self.parts)
        columns = {name: rows[name].to_numpy() for name in rows.column_names}
        return evolve(self, columns=columns, parts=())

    def lazily(self, number: int) -> Lazy:
        """The rows, with the run's number on each; of files, each column when it is asked for."""
        size, columns = self.rows, self.columns
        files = stored(self.parts) if self.parts else None

        def load(name: str) -> Ints:
            if name == "run":
                return constant(number, size)
            return columns[name] if files is None else files[name]

        def few(name: str, rows: Ints) -> Ints:
            return files.pick(name, rows) if files and name != "run" else load(name)[rows]

        return Lazy(size, load, few=few)

    def table(self, number: int) -> Any:
        """The `ops` table, with the run's number on each row."""
        columns = self.loaded().columns
        return table({**columns, "run": np.full(len(columns["seq"]), number)})

    def recall(self, numbers: Iterable[int]) -> None:
        """Look up the ids of these numbers, if they are kept beside the rows."""
        unknown = {number for number in numbers if number < NONE} - set(self.names.ids)
        known = self.names.ids
        for number, id in self.ids(unknown) if self.ids and unknown else ():
            if known.setdefault(number, id) != id:  # what was found is then no finding
                known[number] = f"{known[number]} and {id} (two ids with one number)"


def process_files(folder: Path) -> list[Path]:
    """The process files of a run folder, by name.

    Raises `BadInput` if something has the name of one and is no file: a link to nowhere, a pipe, a
    folder. Its calls must not be missing in silence.
    """
    problems, files = Problems(), sorted(f for f in folder.iterdir() if f.name.endswith(SUFFIXES))
    settled = {process_name(f) for f in files if not f.name.endswith(JOURNAL)}
    files = [f for f in files if not (f.name.endswith(JOURNAL) and process_name(f) in settled)]
    for file in files:
        if not file.is_file() and lexists(file):  # a journal may have been settled just now
            other = "a link to nothing" if _loose(file) else "a pipe, a socket or a device"
            what = "a folder" if file.is_dir() else other
            problems.add(file.name, None, "", f"expected a regular file, found {what}")
    problems.raise_any()
    return files


def _loose(file: Path) -> bool:
    return file.is_symlink() and not file.exists()


@frozen
class RunFolder:
    """The folder of a run in trace format v1, before its files are read."""

    folder: Path
    meta: Meta
    processes: dict[str, str]  # of each file, by its name

    @property
    def known(self) -> dict[str, list[str]]:
        """The names that are known before anything is read."""
        groups = {c.group for c in self.meta.consumers.values() if c.group}
        return {
            "processes": sorted(self.processes.values()),
            "topics": sorted(self.meta.topics),
            "groups": sorted(groups | set(self.meta.share_groups)),
            "clocks": ["host"],
        }


def source(folder: Path) -> RunFolder:
    """Look at a run's folder: its configuration, and which process each file is of."""
    meta, problems = _read_meta(folder), Problems()
    processes = {path.name: first_process(path) for path in process_files(folder)}
    if not processes:
        problems.add(
            folder.name, None, "", "expected process files (.ndjson, .ndjson.gz, .parquet)"
        )
    owner: dict[str, str] = {}
    for file, process in processes.items():
        if (other := owner.setdefault(process, file)) != file:
            problems.add(file, None, "process", f"{process!r} has a file already: {other}")
    problems.raise_any()
    return RunFolder(folder, meta, processes)


def _read_meta(folder: Path) -> Meta:
    try:
        return read_meta(folder)
    except FileNotFoundError:
        message = "No such file or directory: of a recording, run `highwater record-scan` first"
        raise BadInput([Problem(str(folder / "meta.json"), None, "", message)], 1) from None


def read_trace(folder: Path) -> Run:
    """Read a run in trace format v1, all of it, into memory."""
    return read_pieces(folder, END)


def read_pieces(folder: Path, size: int) -> Run:
    """As `read_trace`, in pieces of this many bytes: whatever they are, it is the same run."""
    of = source(folder)
    names = Names.seeded(of.known)
    reader = FileReader(folder, of.meta, of.processes, names, size)
    with uncollected():
        parts = [
            one
            for file in of.processes
            for piece in pieces_of(folder / file, size)
            for one in reader.read(piece)
        ]
    summaries, store = [one.summary for one in parts], _Memory()
    files = files_of(of, summaries, size)
    for one in parts:
        if one.columns is not None:
            store.columns[one.summary.piece.file, one.summary.piece.start, ""] = one.columns
    whole = Whole(of.meta, names, files, summaries, store, map)
    whole.settle()
    run = run_of(folder, whole)
    run.columns = joined(list(store.columns.values()))
    _add_what_is_beside(run, parts)
    return run


def files_of(of: RunFolder, pieces: Sequence[Summary], size: int) -> list[ProcessFile]:
    """The files of a run whose pieces were read; if anything is wrong with them, it is refused."""
    problems = Problems()
    files = join_files(pieces, of.folder, size, problems)
    problems.raise_any()
    return files


def _denied(whole: Whole) -> Iterator[Problem]:
    """Rows of partitions that meta.json says are not there."""
    names, digest = whole.names, whole.digest
    there = (digest["topic"] != NONE) & (digest["partition"] != NONE)
    columns = [digest[name][there] for name in ("process", "topic", "partition")]
    for process, topic, partition in np.unique(np.stack(columns), axis=1).T.tolist():
        of = whole.meta.topics.get(names.topics.name(topic))
        if of is not None and of.partitions is not None and partition >= of.partitions:
            topic, said = (
                names.topics.name(topic),
                f"meta.json says {number_of(of.partitions, 'partition')}",
            )
            file = next(f.file for f in whole.files if f.name == names.processes.name(process))
            yield Problem(file, None, "partition", f"{said} of {topic}, found {topic}:{partition}")


def run_of(folder: Path, whole: Whole) -> Run:
    """A run without its rows. Rows that contradict meta.json are refused."""
    names, digest = whole.names, whole.digest
    if denied := list(_denied(whole)):
        raise BadInput(denied[:SHOWN], len(denied))
    names.files = {names.processes.number(f.name): f.file for f in whole.files}
    return Run(
        path=folder,
        meta=whole.meta,
        names=names,
        columns={},
        evidence=whole.evidence,
        context=context(
            whole.meta,
            names,
            _processing(digest),
            _known(whole.evidence),
            ended(digest),
            lives=whole.lives(),
            sizes=whole.sizes(),
            senders=whole.senders,
        ),
        calls=sum(f.calls for f in whole.files),
        warnings=[warning for f in whole.files for warning in f.warnings],
    )


def _known(evidence: Evidence) -> Known:
    return Known(
        senders=not evidence.reasons(SENDERS),
        readers=not evidence.reasons(READERS),
        consumers_whole=not evidence.reasons(FILES),
        starts=not evidence.reasons((*LOG_STARTS, "consumers.whole")),
        scanned=not evidence.reasons(SCANNED),
        lacking=evidence.lacking or Lacking(),
    )


def _add_what_is_beside(run: Run, parts: Iterable[Read]) -> None:
    for one in parts:
        process = one.summary.process
        run.extra += [Extra(process, seq, fields) for seq, fields in one.extra]
        for number, id in one.ids.items():
            run.names.know_id(number, id)


def _processing(columns: dict[str, Ints]) -> list[int]:
    """Groups that record which records they processed, not only which they were given."""
    return np.unique(columns["group"][columns["op"] == Op.PROCESS]).tolist()


def ended(columns: dict[str, Ints]) -> dict[int, int]:
    """When each process closed or crashed, of those that say so."""
    ends = np.isin(columns["op"], (Op.CLOSE, Op.CRASH)) & (columns["inv"] != NONE)
    return dict(zip(columns["process"][ends].tolist(), columns["inv"][ends].tolist(), strict=True))


@define
class _Memory:
    """Rows that all fit into memory."""

    columns: dict[tuple[str, int, str], dict[str, Ints]] = field(
        factory=dict[tuple[str, int, str], dict[str, Ints]]
    )

    def load(self, summary: Summary, names: Sequence[str] | None = None) -> dict[str, Ints]:
        return dict(self.columns[summary.piece.file, summary.piece.start, ""])

    def save(self, summary: Summary, columns: dict[str, Ints] | None, kind: str = "") -> None:
        if columns is not None:
            self.columns[summary.piece.file, summary.piece.start, kind] = columns
