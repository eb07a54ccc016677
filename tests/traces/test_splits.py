"""Files of operations: their paths, their runs, and tables that are none of operations."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import fixture, write
from traces.ingest.ingesting import ingest
from traces.ingest.run import read_trace
from traces.model import splits
from traces.model.arrow import pa, pq
from traces.model.problems import BadInput
from traces.model.schema import OPS
from traces.model.splits import Split, SplitPlan, splits_of


def test_every_split_is_in_one_task_and_no_task_is_too_large() -> None:
    several = tuple(
        Split(f"f{n // 9}", n % 9, rows, n % 2 or None)
        for n, rows in enumerate([7, 900_000, 1_100_000, 1, 0] * 40)
    )
    plan = SplitPlan.of(several)
    found = [plan[task] for task in range(len(plan))]
    assert [split for mine in found for split in mine] == list(several)
    assert all(len(mine) == 1 or sum(s.rows for s in mine) <= 2_000_000 for mine in found)


def test_folders_of_several_runs_do_not_merge(tmp_path: Path) -> None:
    """Each of them says of all its rows that they are of run 0."""
    for number, name in enumerate(("one", "two")):
        w = fixture(number)
        ingest(write(tmp_path / "runs" / name, w.lines, w.meta), tmp_path / "ops" / name)
    one, two = (str(tmp_path / "ops" / name) for name in ("one", "two"))
    assert {split.run for split in splits_of([one])} == {None}
    for paths in ([one, two], [str(tmp_path / "ops")]):
        found = splits_of(paths)
        assert {(Path(split.uri).parent.name, split.run) for split in found} == {
            ("one", 0),
            ("two", 1),
        }
        rows = list(splits.read(found, ["run", "op"]))
        assert {int(value) for piece in rows for value in set(piece["run"].tolist())} == {0, 1}


def test_small_files_side_by_side_are_one_piece(tmp_path: Path) -> None:
    """A piece costs something whatever its rows: quick mode took 8 CPU-s for 2,000 files."""
    w = fixture(3)
    whole = read_trace(write(tmp_path / "run", w.lines, w.meta)).table(0)
    for row in range(len(whole)):
        pq.write_table(whole.slice(row, 1), tmp_path / f"{row:04}.parquet")
    pq.write_table(whole, tmp_path / "last.parquet")
    twice = pa.concat_tables([whole, whole])
    for names in (OPS.names, ["run", "flags"]):  # of one row all columns are constant
        (piece,) = splits.read(splits_of([str(tmp_path)]), names)
        found = {name: column.tolist() for name, column in piece.items()}
        assert found == twice.select(names).to_pydict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": ("Offset", pa.int64())}, "Offset: expected offset: the names of columns are"),
        ({"process": None}, "process: is missing: a table of operations has all"),
        ({"flags": None}, "flags: is missing: a table of operations has all"),
        ({"offset": ("offset", pa.float64())}, "offset: expected int64, found double"),
    ],
)
def test_other_tables_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    fields = [change.get(field.name, (field.name, field.type)) for field in OPS]
    schema = pa.schema([field for field in fields if field is not None])
    pq.write_table(schema.empty_table(), tmp_path / "part.parquet")
    with pytest.raises(BadInput, match=message):
        splits_of([str(tmp_path)])


def test_a_folder_without_parquet_and_a_place_without_anything_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected Parquet files of operations"):
        splits_of([str(tmp_path)])
    with pytest.raises(BadInput, match="there is no such file or folder"):
        splits_of([str(tmp_path / "nowhere")])
    (tmp_path / "part.parquet").write_text("nonsense")
    with pytest.raises(BadInput, match="expected Parquet"):
        splits_of([str(tmp_path)])
