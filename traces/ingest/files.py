"""One process file: its pieces, read apart, and their summaries joined."""

import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
from attrs import Factory, define, field, frozen

from traces.ingest.clocks import (
    NEVER,
    contradicted,
    extremes,
    go_back,
    go_on,
    goes_back,
    lowest_return,
)
from traces.ingest.columns import Malformed
from traces.ingest.counting import counts_of
from traces.ingest.lines import Broken, Lines, Piece, process_name, readers
from traces.ingest.process_file import ProcessFile, Reader
from traces.ingest.summary import Summary
from traces.ingest.transactions import mark_mixed
from traces.ingest.validate import findings
from traces.model.columns import MutableColumns
from traces.model.configured import context
from traces.model.context import Context
from traces.model.meta import Meta
from traces.model.names import Names
from traces.model.output import number_of
from traces.model.problems import SHOWN, BadInput, Problem, Problems, shown
from traces.model.schema import NONE, Op

STUMBLES = (Malformed, LookupError, TypeError, ValueError, AttributeError, OverflowError)


@define
class Read:
    """A piece that was read: its rows, unless something is wrong with them."""

    summary: Summary
    columns: MutableColumns | None = None
    extra: list[tuple[int, str]] = field(factory=list[tuple[int, str]])
    ids: dict[int, str | int] = field(factory=dict[int, str | int])


Wanted = Callable[[Piece], bool]


@frozen
class FileReader:
    """Reads the pieces of a run's files, wherever it is sent."""

    folder: Path
    meta: Meta
    processes: Mapping[str, str]  # of each file, by its name
    names: Names  # those that are known before anything is read
    size: int
    # The settings of all that meta.json names are laid out once, and not for each piece.
    configured: Context = field(
        init=False, default=Factory(lambda self: _configured(self), takes_self=True)
    )

    def read(self, piece: Piece, wanted: Wanted = lambda _: True) -> Iterator[Read]:
        """Read a piece; a compressed file, which is one, comes as several of this size."""
        path, process = self.folder / piece.file, self.processes[piece.file]
        for lines in readers(path, piece, self.size):
            if wanted(lines.piece):
                try:
                    with uncollected():
                        one = self._read(lines, process)
                except STUMBLES:
                    one = Read(diagnose(path, lines.piece, self.size, process))
                    if not one.summary.wrong:
                        raise
                one.summary.piece = lines.piece
                yield one

    def _read(self, lines: Lines, process: str) -> Read:
        """The rows of a piece, of which all lines are as they should be."""
        piece, names = lines.piece, self.names.fresh()
        reader = Reader(names, process, self.meta.producer(process).partitioner)
        summary = Summary(piece, process)
        for number, call in lines:
            if not reader.calls:
                summary.first_line, summary.first_seq = number, call["seq"]
                reader.seq = -1 if not piece.start else summary.first_seq - 1
            reader.line = number
            reader.add(call)
        alone = not piece.start and lines.piece.final
        columns = mark_mixed(reader.finish(lines.torn != "", alone))
        if goes_back(columns):
            raise Malformed("returned_ns")
        summary.lines, summary.last, summary.torn = lines.count, lines.last, lines.torn
        summary.calls, summary.last_seq = reader.calls, reader.seq if reader.calls else NONE
        summary.gaps, summary.gap_line = reader.gaps, reader.gap_line
        summary.ended = reader.last_op in (Op.CLOSE, Op.CRASH)
        summary.vague_end = reader.vague_end
        which = summary.look_at(columns, np.array(sorted(reader.ends), dtype=np.int64))
        summary.open = [] if alone else summary.open  # the reader knew what became of them
        summary.names, summary.clocks = names.met(), extremes(columns, names)
        summary.counts, summary.absent = counts_of(columns, self.configured, which)
        return Read(summary, columns, reader.extra, names.ids)


def _configured(of: FileReader) -> Context:
    names = of.names.fresh()
    for topic in of.meta.topics:
        names.topics.number(topic)
    for process in of.processes.values():
        names.processes.number(process)
    return context(of.meta, names, ())


@contextmanager
def uncollected() -> Generator[None]:
    """Calls refer to nothing that refers to them: looking for cycles takes a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def diagnose(
    path: Path,
    piece: Piece,
    size: int,
    name: str,
    seq: int = -1,
    latest: Mapping[str, int] | None = None,
) -> Summary:
    """Read a piece again, slowly, and say which lines and fields are wrong.

    `seq` is the highest place of the lines before this piece, `latest` when the last of their
    calls was made, by clock.
    """
    summary, times = Summary(piece, name), dict(latest or {})
    for lines in readers(path, piece, size):
        if lines.piece.start == piece.start:
            for number, call in lines:
                found = _found(call, name)
                if not found:
                    found = list(_disordered(call, name, seq))
                    if not found:  # the times of a call that is elsewhere say nothing here
                        found = list(contradicted(call, times))
                        lowest_return(summary.clocks, call)
                    lowest = summary.first_seq if summary.calls else call["seq"]
                    summary.first_seq = min(lowest, call["seq"])
                    seq = summary.last_seq = max(seq, call["seq"])
                    summary.calls += 1
                summary.wrong += len(found)
                summary.problems += [(number, *one) for one in found][
                    : SHOWN - len(summary.problems)
                ]
            summary.lines = lines.count
    for clock, made in times.items():
        summary.clocks[clock] = summary.clocks.get(clock, (NEVER, NONE))[0], made
    return summary


def _found(call: Any, name: str) -> list[tuple[str, str]]:
    if isinstance(call, Broken):
        return [("", call.message)]
    return list(findings(call)) or list(_stumbled(call, name))


def _stumbled(call: dict[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """A call that reads well and that the table cannot hold all the same."""
    reader = Reader(Names(), name)
    try:
        reader.add({**call, "process": name, "seq": 0})
        reader.finish(torn=True)
    except Malformed as error:
        yield error.field, "no column of the table can hold this"
    except BadInput as error:
        yield "", str(error)
    except STUMBLES as error:
        yield "", f"cannot be read: {error}"


def _disordered(call: dict[str, Any], name: str, seq: int) -> Iterator[tuple[str, str]]:
    if call["process"] != name:
        yield "process", f"expected {name!r} as on the first line, found {shown(call['process'])}"
    if call["seq"] <= seq:
        yield "seq", f"expected more than {seq}, found {call['seq']}"


def first_process(path: Path) -> str:
    """The process that the first line names, else the one that the file's name does."""
    calls = chain.from_iterable(readers(path, Piece(path.name), 1 << 20))
    for _, call in calls:
        if type(call) is not Broken:
            named = cast("dict[str, Any]", call).get("process") if type(call) is dict else None
            return named if named and type(named) is str else process_name(path)
    return process_name(path)


Again = Callable[[Piece, int, Mapping[str, int]], Summary]


def together(pieces: Iterable[Summary], again: Again, problems: Problems) -> ProcessFile:
    """Join the summaries of a file's pieces, in their order, with line numbers of the whole file.

    `again` diagnoses a piece that goes back behind the ones before it.
    """
    above, seq, latest = 0, -1, dict[str, int]()
    file: ProcessFile | None = None
    last, torn, gap = 0, "", 0
    for summary in pieces:
        file = file or ProcessFile(summary.process, summary.piece.file, 0, True, 0)
        if summary.calls and (summary.first_seq <= seq or go_back(summary.clocks, latest)):
            summary = again(summary.piece, seq, latest)
        go_on(summary.clocks, latest)
        for line, where, message in summary.problems:
            problems.add(file.file, above + line, where, message)
        problems.count += summary.wrong - len(summary.problems)
        if summary.calls:
            before = summary.first_seq - seq - 1 if summary.piece.start else 0
            if not file.gaps and (before or summary.gaps):
                gap = above + (summary.first_line if before else summary.gap_line)
            file.gaps += before + summary.gaps
            file.calls += summary.calls
            file.cut, seq = not summary.ended, summary.last_seq
        file.vague_end |= summary.vague_end
        last = above + summary.last if summary.last else last
        torn = torn or summary.torn
        above += summary.lines
    assert file is not None
    file.torn = torn != ""
    file.warnings = list(_warnings(file, last, torn, gap))
    return file


def _warnings(file: ProcessFile, last: int, torn: str, gap: int) -> Iterator[Problem]:
    if torn:
        yield Problem(file.file, None if file.unfinished else last, "", torn)
    elif file.cut and file.calls:
        message = "the file ends without close or crash: cut off"
        yield Problem(file.file, last, "op", message)
    if file.gaps:
        yield Problem(
            file.file,
            gap,
            "seq",
            f"{number_of(file.gaps, 'line')} {'is' if file.gaps == 1 else 'are'} missing before it",
        )
