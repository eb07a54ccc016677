"""The data source: the same table in a Spark job of one's own, and nothing guessed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PySparkException

from tests.traces.fixture import fixture, write
from traces.ingest.ingesting import ingest
from traces.ingest.run import read_trace
from traces.model.schema import COLUMNS, Txn

KEYS = ["process", "seq", "idx", "op", "partition"]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    w = fixture(3)
    return write(tmp_path / "run", w.lines, w.meta)


@pytest.fixture
def source(spark: Any) -> Any:
    from traces.ingest.source import OpsSource

    spark.dataSource.register(OpsSource)
    return spark.read.format("highwater")


def rows(frame: Any) -> list[tuple[int, ...]]:
    """In one order; not by orderBy, which reads the whole source twice."""
    table = frame.toArrow().sort_by([(name, "ascending") for name in KEYS])
    assert table.schema.names == list(COLUMNS)
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def of_memory(folder: Path) -> list[tuple[int, ...]]:
    table = read_trace(folder).table(0).sort_by([(name, "ascending") for name in KEYS])
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def test_a_run_is_the_table_of_its_operations(source: Any, run_folder: Path) -> None:
    assert rows(source.load(str(run_folder))) == of_memory(run_folder)


def test_pieces_leave_open_only_what_became_of_transactions(source: Any, run_folder: Path) -> None:
    """A small piece does not see where its transaction ends: nobody knows, says its row."""
    cut = source.option("splitSize", "2000").load(str(run_folder))
    assert cut.rdd.getNumPartitions() > 10
    apart, whole = np.array(rows(cut)), np.array(of_memory(run_folder))
    names = list(COLUMNS)
    open_ones = {"txn_state", "end_inv", "timestamp"}
    same = [n for n, name in enumerate(names) if name not in open_ones]
    assert np.array_equal(apart[:, same], whole[:, same])
    state = names.index("txn_state")
    differ = apart[:, state] != whole[:, state]
    assert differ.any()
    assert set(apart[differ, state].tolist()) == {int(Txn.UNKNOWN)}


def test_a_folder_of_operations_is_read_as_it_is(
    source: Any, run_folder: Path, tmp_path: Path
) -> None:
    ingest(run_folder, tmp_path / "ops", 2000)
    assert rows(source.load(str(tmp_path / "ops"))) == of_memory(run_folder)


def test_a_bad_line_ends_the_job_with_its_place(source: Any, run_folder: Path) -> None:
    (run_folder / "c0#0.ndjson").write_text('{"process": "c0#0"}\n')
    with pytest.raises(PySparkException, match=r"c0#0.ndjson: seq: is missing \(line 1 of a piece"):
        source.load(str(run_folder)).collect()


def test_the_folder_has_to_be_told(source: Any) -> None:
    with pytest.raises(PySparkException, match="expected the folder of a run"):
        source.load().collect()
