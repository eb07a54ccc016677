"""Whatever `highwater check` is given, as a run."""

from pathlib import Path

from traces.ingest.history import Reading, read_history
from traces.ingest.ingesting import ingest, is_ops, load
from traces.ingest.lines import JOURNAL
from traces.ingest.maps import processes
from traces.ingest.run import Run, process_files, read_trace

LARGE = 200 << 20  # bytes of a trace whose rows are not held in memory
_COMPRESSED = 8  # how much larger compressed lines are, about


def read_input(path: Path, reading: Reading, scratch: Path) -> Run:
    """A history, the folder of a run, or the folder that `highwater ingest` made of either.

    The rows of a large run go to `scratch`.
    """
    if path.suffix == ".edn":
        return read_history(path, reading)
    if is_ops(path):
        return load(path)
    if _size(path) <= LARGE:
        return read_trace(path)
    with processes() as over:
        return ingest(path, scratch, map=over)


def _size(folder: Path) -> int:
    factor = {".gz": _COMPRESSED, ".parquet": _COMPRESSED, JOURNAL: _COMPRESSED // 2}
    return sum(f.stat().st_size * factor.get(f.suffix, 1) for f in process_files(folder))
