"""Cost of the table of operations of NDJSON, and the memory that a task takes for it.

Usage: python bench/bench_ingest.py [--rows N …] [--split-size BYTES] [--engines local,spark]

A trace that keeps every promise is generated (highwater generate), as files of its clients: four
rows for a message. CPU seconds are those of all processes together. Reading the same bytes line by
line with orjson alone, in the same run, is the yardstick.
"""

import argparse
import shutil
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson

from bench.measuring import conditions, timed
from traces.engines.session import session
from traces.generate.lines import write_lines
from traces.generate.schedule import plan_of
from traces.generate.write import Generated
from traces.ingest.ingesting import SPLIT, ingest, load
from traces.ingest.maps import in_spark, processes


def write(rows: int, folder: Path) -> None:
    """A valid trace of about this many rows, as files of its clients."""
    write_lines(Generated(plan_of(rows, anomalies=0)), folder)


def made_up(rows: int, folder: Path) -> int:
    """Write it in a process of its own, so that what that needs is not counted; how many rows."""
    child = get_context("spawn").Process(target=write, args=(rows, folder))
    child.start()
    child.join()
    return orjson.loads((folder / "truth.json").read_bytes())["rows"]


def yardstick(folder: Path) -> None:
    for path in folder.glob("*.ndjson"):
        with path.open("rb") as lines:
            for line in lines:
                orjson.loads(line)


def measure(folder: Path, rows: int, out: Path, size: int, engines: list[str]) -> None:
    size_of_all = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{rows:,} rows, {size_of_all / 1e6:,.0f} MB of NDJSON")
    timed("orjson alone", rows, lambda: yardstick(folder))
    timed("ingest, one process", rows, lambda: ingest(folder, out / "one", size))
    assert load(out / "one").rows == rows
    if "local" in engines:

        def local() -> None:
            with processes() as over:
                ingest(folder, out / "local", size, over)

        timed("ingest, all cores", rows, local)
    if "spark" in engines:
        with session(memory="1g") as spark:
            warm: Any = spark.range(10).mapInArrow(lambda batches: batches, "id bigint")
            warm.collect()
            over = in_spark(spark)
            timed("ingest, Spark (warm)", rows, lambda: ingest(folder, out / "spark", size, over))
    timed("again, nothing to do", rows, lambda: ingest(folder, out / "one", size))
    table = sum(path.stat().st_size for path in (out / "one").glob("part-*.parquet"))
    print(f"  {table / rows:.2f} B per row in Parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--split-size", type=int, default=SPLIT)
    parser.add_argument("--engines", default="local,spark")
    given = parser.parse_args()
    print(conditions())
    for rows in given.rows:
        scratch = Path(tempfile.mkdtemp(prefix="highwater-bench-"))
        try:
            made = made_up(rows, scratch / "run")
            measure(scratch / "run", made, scratch, given.split_size, given.engines.split(","))
        finally:
            shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
