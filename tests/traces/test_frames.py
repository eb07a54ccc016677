"""Narrow columns of a DataFrame travel together, and are what they were."""

from typing import TYPE_CHECKING

from traces.model.arrow import pa
from traces.model.frames import Layout
from traces.model.schema import COLUMNS, NONE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("topic", "op", "offset", "flags", "process", "outcome", "id", "clock", "txn_state")
ROWS = [
    {"topic": 0, "op": 0, "offset": 2**62, "flags": -(2**15), "process": 2**31 - 1},
    {"topic": -1, "op": 127, "offset": -1, "flags": 2**15 - 1, "process": -(2**31)},
    {"topic": 7, "op": -128, "offset": None, "flags": None, "process": None},
]


def test_narrow_columns_travel_together(spark: "SparkSession") -> None:
    held = [name for name in NAMES if name not in ("id", "clock")]
    schema = pa.schema([(name, COLUMNS[name]) for name in held])
    rows = [{"outcome": 2, "txn_state": None, **row} for row in ROWS]
    table = spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))
    layout = Layout.of(table, NAMES)
    assert layout.alone == ("offset",)
    assert [sum(bits for _, bits in fields) for fields in layout.together] == [64, 40]
    (batch,) = layout.packed(table).toArrow().combine_chunks().to_batches()
    columns = layout.unpacked(batch, NAMES)
    assert tuple(columns) == NAMES
    for name, column in columns.items():
        values = [row.get(name) for row in rows]
        assert column.tolist() == [NONE if one is None else one for one in values], name


def test_wide_columns_travel_alone(spark: "SparkSession") -> None:
    """All columns of a table may have been made wide."""
    rows = pa.Table.from_pylist(ROWS, schema=pa.schema([(name, pa.int64()) for name in ROWS[0]]))
    layout = Layout.of(spark.createDataFrame(rows), NAMES)
    assert set(layout.alone) == set(ROWS[0])
    assert layout.together == ()
