"""From the folder of a run to the folder of its operations, piece by piece and in any order.

The work is done by a `map` that is passed in: this process, several of them, or Spark. Work that is
already done is not repeated.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import attrs
import numpy as np
import orjson
from attrs import frozen

from traces.ingest.evidence import Evidence
from traces.ingest.files import FileReader, Read
from traces.ingest.folder import RUN, Ops, beside, reader, state_of
from traces.ingest.history import Reading, history_meta, read_history
from traces.ingest.lines import Piece, pieces_of
from traces.ingest.run import Run, RunFolder, files_of, run_of, source
from traces.ingest.summary import Summary
from traces.ingest.whole import Map, Whole
from traces.model.context import Context, Setting
from traces.model.lacking import Lacking
from traces.model.lives import GroupLives
from traces.model.meta import read_meta
from traces.model.names import Names
from traces.model.output import write_whole
from traces.model.problems import BadInput, Problem
from traces.model.sizes import Sizes

SPLIT = 64 << 20  # bytes of a piece: about half a million rows
Tick = Callable[[int, int], None]


@frozen
class Job:
    """A piece to be read."""

    piece: Piece
    state: Mapping[str, Any]


@frozen
class PieceReader:
    """Reads pieces into the folder, wherever it is sent."""

    reader: FileReader
    ops: Ops

    def __call__(self, job: Job) -> None:
        def wanted(piece: Piece) -> bool:
            return self.ops.summary(piece, job.state) is None

        for one in self.reader.read(job.piece, wanted):
            self.ops.write(one, job.state)


def ingest(
    folder: Path,
    out: Path,
    size: int = SPLIT,
    map: Map = map,
    tick: Tick = lambda done, all: None,
) -> Run:
    """Make the table of operations of a run in trace format v1, or what is missing of it."""
    of, ops = source(folder), Ops(out)
    ops.prepare()
    known = ops.seeds(of.known)
    names = Names.seeded(known)
    jobs = _jobs(of, beside(of.meta, known, size), size)
    state = _state((folder / "meta.json").read_bytes(), [attrs.asdict(job) for job in jobs])
    if (done := _finished(out, state)) is not None:
        return done
    (out / RUN).unlink(missing_ok=True)
    todo = [job for job in jobs if _summaries(ops, job, size) is None]
    tick(len(jobs) - len(todo), len(jobs))
    work = PieceReader(FileReader(folder, of.meta, of.processes, names, size), ops)
    for n, _ in enumerate(map(work, todo), len(jobs) - len(todo) + 1):
        tick(n, len(jobs))
    summaries = [one for job in jobs for one in _summaries(ops, job, size) or ()]
    files = files_of(of, summaries, size)
    whole = Whole(of.meta, names, files, summaries, ops, map)
    whole.settle()
    ops.sweep(
        (one.piece for one in summaries),
        ((one.piece, "placed") for one in summaries if one.of_unknown_partition),
    )
    write_whole(out / "_run" / "meta.json", (folder / "meta.json").read_bytes())
    return _finish(ops, run_of(folder, whole), state)


def ingest_history(path: Path, out: Path, reading: Reading) -> Run:
    """Make the table of operations of an EDN history.

    It is one piece: which completion belongs to which invocation is known only in order.
    """
    ops = Ops(out)
    ops.prepare()
    state = _state(attrs.asdict(reading), state_of(path, reader()))
    if (done := _finished(out, state)) is not None:
        return done
    (out / RUN).unlink(missing_ok=True)
    run = read_history(path, reading)
    piece = Piece(path.name)
    ops.write(Read(Summary(piece, ""), run.columns, [], run.names.ids), {})
    ops.sweep([piece], ())
    return _finish(ops, run, state)


def is_ops(path: Path) -> bool:
    """True if this is a folder of operations, and all of them are there."""
    return (path / RUN).is_file()


def load(out: Path) -> Run:
    """The run whose operations are in this folder; its rows stay there."""
    found: dict[str, Any] = orjson.loads((out / RUN).read_bytes())
    if found.get("reader") != reader():
        message = "was made by another version: ingest the run again"
        raise BadInput([Problem(str(out / RUN), None, "reader", message)], 1)
    names, ops, path = Names(), Ops(out), Path(found["source"])
    lacking = found["lacking"] and Lacking.from_json(found["lacking"])
    names.learn(found["names"])
    names.files = dict(found["files"])
    return Run(
        path=path,
        meta=history_meta(path) if found["jepsen"] else read_meta(out / "_run"),
        names=names,
        columns={},
        evidence=Evidence(
            found["missing"], {n: (a, b) for n, (a, b) in found["counts"].items()}, lacking
        ),
        context=_context(found["context"], lacking or Lacking()),
        calls=found["calls"],
        warnings=[Problem(**warning) for warning in found["warnings"]],
        jepsen=found["jepsen"],
        parts=tuple(ops.parts()),
        ids=ops.ids,
    )


def _jobs(of: RunFolder, besides: str, size: int) -> list[Job]:
    states = {file: state_of(of.folder / file, besides) for file in of.processes}
    return [
        Job(piece, states[file])
        for file in of.processes
        for piece in pieces_of(of.folder / file, size)
    ]


def _summaries(ops: Ops, job: Job, size: int) -> list[Summary] | None:
    """The summaries of a job's pieces, None unless all were read: a compressed file has several."""
    if not job.piece.file.endswith(".gz"):
        summary = ops.summary(job.piece, job.state)
        return None if summary is None else [summary]
    several: list[Summary] = []
    while not several or not several[-1].piece.final:
        start = len(several) * size
        summary = ops.summary(Piece(job.piece.file, start, start + size), job.state)
        if summary is None:
            return None
        several.append(summary)
    return several


def _state(*things: Any) -> str:
    said = orjson.dumps([t.decode(errors="replace") if isinstance(t, bytes) else t for t in things])
    return blake2b(said, digest_size=12).hexdigest()


def _finished(out: Path, state: str) -> Run | None:
    """The run, if it was made of the same input and is still there."""
    try:
        found = orjson.loads((out / RUN).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    if (found.get("state"), found.get("reader")) != (state, reader()):
        return None
    return load(out) if Ops(out).listing() == found.get("listing") else None


def _finish(ops: Ops, run: Run, state: str) -> Run:
    """Write down what the checks need beside the rows."""
    account: dict[str, Any] = {
        "state": state,
        "reader": reader(),
        "source": str(run.path.absolute()),
        "jepsen": run.jepsen,
        "calls": run.calls,
        "listing": ops.listing(),
        "missing": run.evidence.missing,
        "counts": run.evidence.counts,
        "lacking": run.evidence.lacking and run.evidence.lacking.as_json(),
        "warnings": [attrs.asdict(warning) for warning in run.warnings],
        "files": list(run.names.files.items()),
        "names": run.names.met(),
        "context": attrs.asdict(run.context, filter=_is_setting, value_serializer=_plain),
    }
    write_whole(ops.path / RUN, orjson.dumps(account))
    return load(ops.path)


def _plain(_: Any, __: Any, value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _is_setting(field: "attrs.Attribute[Any]", _: Any) -> bool:
    """Of a context all but what is kept by itself."""
    return field.name != "lacking"


def _context(settings: Mapping[str, Any], lacking: Lacking) -> Context:
    known = {name: _setting(name, value) for name, value in settings.items()}
    return Context(**known, lacking=lacking)


def _setting(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if name in ("lives", "sizes"):
        return {"lives": GroupLives, "sizes": Sizes}[name](**cast("dict[str, Any]", value))
    setting = cast("dict[str, Any]", value)
    return Setting(*(np.array(setting[of], np.int64) for of in ("numbers", "values")))
