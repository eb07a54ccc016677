"""The table of operations as a data source of Spark, for jobs of one's own.

    spark.dataSource.register(OpsSource)
    ops = spark.read.format("highwater").load("runs/orders-17")

A folder that `highwater ingest` made is read as it is. Of a run in trace format v1 each partition
reads a piece by itself, so what only the whole run can tell is left open, and never guessed: a
transaction that began or ended in another piece is undecided (`txn_state` 3), a commit that nobody
answered is not proved by readers, a send whose partition nobody knows is in no partition, and a
topic that was made again is not told apart from the one before. The checks need the whole run.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from traces.ingest.columns import table
from traces.ingest.files import FileReader
from traces.ingest.ingesting import SPLIT, is_ops
from traces.ingest.lines import Piece, pieces_of
from traces.ingest.run import source
from traces.model.arrow import pq
from traces.model.names import Names
from traces.model.problems import BadInput, Problems
from traces.model.schema import COLUMNS

_SQL = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}
OPS_DDL = ", ".join(f"`{name}` {_SQL[str(type)]}" for name, type in COLUMNS.items())


class OpsSource(DataSource):
    """`format("highwater")`: the operations of one run; `splitSize` is the bytes of a piece."""

    @classmethod
    def name(cls) -> str:
        """The name of this format, for `spark.read.format`."""
        return "highwater"

    def schema(self) -> str:
        """The columns of the table (`traces.model.schema`)."""
        return OPS_DDL

    def reader(self, schema: Any) -> DataSourceReader:
        """A reader of the run at `path`."""
        path = self.options.get("path")
        if not path:
            raise ValueError('expected the folder of a run: load("runs/orders-17")')
        return _reader(Path(path), int(self.options.get("splitSize", SPLIT)))


def _reader(path: Path, size: int) -> DataSourceReader:
    if is_ops(path):
        return _OfFiles(path)
    of = source(path)
    names = Names.seeded(of.known)
    pieces = [_Lines(piece) for file in of.processes for piece in pieces_of(path / file, size)]
    return _OfRun(FileReader(path, of.meta, of.processes, names, size), pieces)


class _Group(InputPartition):
    """A row group of a file."""

    def __init__(self, file: str, group: int) -> None:
        self.file, self.group = file, group


class _Lines(InputPartition):
    """A piece of a process file."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece


@frozen
class _OfFiles(DataSourceReader):
    """Rows that are there already."""

    path: Path

    def partitions(self) -> Sequence[InputPartition]:
        files = sorted(str(file) for file in self.path.glob("part-*.parquet"))
        counts = [(file, pq.read_metadata(file).num_row_groups) for file in files]
        return [_Group(file, group) for file, count in counts for group in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Group)
        with pq.ParquetFile(partition.file) as file:
            yield from file.read_row_group(partition.group).to_batches()


@frozen
class _OfRun(DataSourceReader):
    """Rows that are read from the lines of a run."""

    reader: FileReader
    pieces: list[_Lines]

    def partitions(self) -> Sequence[InputPartition]:
        return self.pieces

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Lines)
        for one in self.reader.read(partition.piece):
            if one.columns is None:
                raise _refusal(partition.piece.file, one.summary.problems, one.summary.wrong)
            rows = one.columns
            yield from table({**rows, "run": 0 * rows["seq"]}).to_batches()


def _refusal(file: str, found: list[tuple[int, str, str]], count: int) -> BadInput:
    """The error for a bad piece; its lines are counted from its own start."""
    problems = Problems()
    for line, where, message in found:
        problems.add(file, None, where, f"{message} (line {line} of a piece)")
    return BadInput(problems.first, count)
