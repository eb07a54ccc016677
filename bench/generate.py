"""Makes a trace of any size, with lies whose number and place are known.

Usage: python bench/generate.py FOLDER [--rows N] [--seed S] [--lies K] [--scenes] [--ndjson]

FOLDER gets `ops/*.parquet` (or, with --ndjson, one file per process in trace format v1),
`meta.json`, and `truth.json`: how often each check has to find something, and where each lie is.
"""

import argparse
import sys
import time
from pathlib import Path

import psutil

from bench.generator.lines import write_lines
from bench.generator.plan import ROWS_PER_MESSAGE, Plan
from bench.generator.schedule import NoPlace
from bench.generator.write import Generated, write_parquet


def plan_of(rows: int, seed: int = 7, lies: int = 2, scenes: bool | None = None) -> Plan:
    """A trace of about this many rows; with scenes if it has lies, unless that is told."""
    told = lies > 0 if scenes is None else scenes
    return Plan(messages=int(rows / ROWS_PER_MESSAGE), seed=seed, lies=lies, scenes=told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--lies", type=int, default=2, help="of each kind")
    scenes = "topics on which rare things are done, as there are wherever lies are told"
    parser.add_argument("--scenes", action=argparse.BooleanOptionalAction, help=scenes)
    parser.add_argument("--ndjson", action="store_true", help="trace format v1, not Parquet")
    given = parser.parse_args()
    if given.folder.exists():
        sys.exit(f"{given.folder} is there already")
    made = Generated(plan_of(int(given.rows), given.seed, given.lies, given.scenes))
    begun = time.perf_counter()
    try:
        (write_lines if given.ndjson else write_parquet)(made, given.folder)
    except NoPlace as error:
        sys.exit(str(error))
    size = sum(f.stat().st_size for f in given.folder.rglob("*") if f.is_file())
    process = psutil.Process()
    cpu = sum(process.cpu_times()[:2])
    print(
        f"{made.rows:,} rows, seed {given.seed}, {len(made.told)} lies, "
        f"{size / 1e6:,.0f} MB = {size / made.rows:.1f} B per row, "
        f"{cpu:.0f} CPU-s, {time.perf_counter() - begun:.0f} s, "
        f"{process.memory_info().rss / 1e6:,.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
