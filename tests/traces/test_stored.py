"""Columns of Parquet files that are read when they are asked for, and no others."""

import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.fixture import fixture, write
from traces.engines import local
from traces.generate.small import IN_CALLS, injected
from traces.ingest.ingesting import ingest
from traces.ingest.run import read_trace
from traces.model import stored
from traces.model.arrow import pa, pq
from traces.model.problems import BadInput
from traces.model.schema import COLUMNS, NONE
from traces.verdicts.judged import Judged

KINDS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32())


def table(random: Random, rows: int) -> Any:
    """Columns of any width; of one value or many, with rows that are unknown."""
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        kind = random.choice(KINDS)
        least = 0 if pa.types.is_unsigned_integer(kind) else -3
        values: list[int | None] = [random.randint(least, 100)] * rows
        if random.random() < 0.6:
            values = [random.randint(least, 100) for _ in range(rows)]
        if random.random() < 0.2:
            values = [None if random.random() < 0.5 else value for value in values]
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def known(held: Any, name: str) -> list[int]:
    """The column as the table means it: what it does not tell is unknown."""
    return [NONE if value is None else value for value in held[name].to_pylist()]


@given(seed=st.integers(0, 10**9))
@settings(max_examples=max(20, settings().max_examples // 5))
def test_columns_are_those_of_the_files_whole_and_row_by_row(seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder:
        tables = [table(random, random.randint(0, 9)) for _ in range(random.randint(1, 3))]
        for number, one in enumerate(tables):
            pq.write_table(one, f"{folder}/{number}.parquet", row_group_size=random.randint(1, 4))
        columns = stored.stored([folder])
        assert columns.size == sum(one.num_rows for one in tables)
        for name in COLUMNS:
            expected = [value for one in tables for value in known(one, name)]
            rows = np.array(random.choices(range(columns.size), k=4) if expected else [], np.int64)
            assert columns.pick(name, rows).tolist() == [expected[row] for row in rows]
            assert columns[name].tolist() == expected
            assert columns.pick(name, rows).tolist() == [expected[row] for row in rows]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The columns that are read, each with its row group."""
    found: list[tuple[int, str]] = []

    read: Any = pq.ParquetFile.read_row_group

    def watched(file: Any, group: int, columns: list[str], **more: Any) -> Any:
        found.extend((group, name) for name in columns)
        return read(file, group, columns=columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", watched)
    return found


def test_only_what_is_asked_for_is_read(tmp_path: Path, reads: list[tuple[int, str]]) -> None:
    held = pa.table(
        {name: [5, 5, 5, 5] for name in COLUMNS} | {"seq": [0, 1, 2, 3], "inv": [1, 2, 3, 4]}
    )
    pq.write_table(held, tmp_path / "one.parquet", row_group_size=2)
    columns = stored.stored([str(tmp_path)])
    assert columns["op"].tolist() == [5] * 4  # one value, as the statistics say
    assert reads == []
    assert columns.pick("inv", np.array([3, 2, 3])).tolist() == [4, 3, 4]
    assert columns.pick("inv", np.array([2])).tolist() == [3]
    assert reads == [(1, "inv")]
    assert columns["seq"].tolist() == [0, 1, 2, 3]
    assert columns["seq"].tolist() == [0, 1, 2, 3]
    assert reads[1:] == [(0, "seq"), (1, "seq")]


FEW_FILES = """
import resource, sys

import numpy as np
from traces.model import stored

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, most))
columns = stored.stored([sys.argv[1]])
assert columns["seq"].tolist() == [1, 2] * 300
assert columns.pick("op", np.arange(600)).tolist() == [1, 2] * 300
"""


def test_no_file_stays_open(tmp_path: Path) -> None:
    """A run has as many as its ingestion made, and a process may not open as many at once. It is
    a process of its own: this one may have more open already."""
    pytest.importorskip("resource")
    held = pa.table({name: [1, 2] for name in COLUMNS})
    for number in range(300):
        pq.write_table(held, tmp_path / f"{number:03}.parquet")
    subprocess.run([sys.executable, "-c", FEW_FILES, str(tmp_path)], check=True)


def test_runs_that_do_not_know_their_number_are_numbered(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two")):
        w = fixture(number, steps=4)
        ingest(write(tmp_path / "runs" / name, w.lines, w.meta), tmp_path / "ops" / name)
    columns = stored.stored([str(tmp_path / "ops")])
    first = int(np.count_nonzero(columns["run"] == 0))
    assert 0 < first < columns.size
    assert columns["run"].tolist() == [0] * first + [1] * (columns.size - first)
    last = np.array([columns.size - 1, 0])
    assert stored.stored([str(tmp_path / "ops")]).pick("run", last).tolist() == [1, 0]


def test_what_is_no_table_of_operations_is_refused(tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_text("nonsense")
    with pytest.raises(BadInput, match="expected Parquet"):
        stored.stored([str(tmp_path)])


@pytest.mark.parametrize("name", ["lost", "skipped", "committed_beyond", "hide_what_was_committed"])
def test_verdicts_on_files_are_those_on_rows_in_memory(name: str, tmp_path: Path) -> None:
    source = write(tmp_path / "run", *injected(fixture(5, 40), IN_CALLS[name]))
    inside, beside = read_trace(source), ingest(source, tmp_path / "ops")
    assert beside.parts
    answers: list[Any] = []
    for run, ops in ((inside, inside.table(0)), (beside, beside.lazily(0))):
        one = Judged(source, run)
        one.settle(local.find(ops, {0: run.context}), strict=False)
        answers.append(one.as_json())
    assert answers[0] == answers[1]
    assert answers[0]["verdict"] == "violated"
