"""Cost of a table as a DataFrame, against the same files read by the workers themselves.

Usage: python bench/bench_frames.py [--messages N]

CPU-seconds of all processes together, of the twelve checks that every user asks first. A DataFrame
comes in a session of its user, so this one has Spark's own settings: `highwater check` reads files
only, and its session compiles less (`traces.engines.session`). It is read as Spark does, and
without a limit on the bytes of a batch, whose size Spark adds up after each row otherwise. Spark is
warm: each is done twice, and the second time counts.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measuring import conditions, spent
from traces.engines.kernel import CORE
from traces.engines.spark import find, read_ops
from traces.generate.plan import Plan
from traces.generate.write import Generated, context_in, write_parquet

SEED = 7
LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=230_000, help="a million rows")
    given = parser.parse_args()
    print(conditions())
    scratch = Path(tempfile.mkdtemp(prefix="highwater-bench-"))
    try:
        made = Generated(Plan(given.messages, SEED, anomalies={}, scenarios=False))
        write_parquet(made, scratch / "run")
        ops, contexts = str(scratch / "run" / "ops"), {0: context_in(scratch / "run")}
        print(f"{made.rows:,} rows")
        builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "4g")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        with builder.config("spark.ui.showConsoleProgress", "false").getOrCreate() as spark:
            spark.sparkContext.setLogLevel("ERROR")
            limit = spark.conf.get(LIMIT)
            for name in ("read_ops", f"DataFrame, {limit}", "DataFrame, no limit") * 2:
                spark.conf.set(LIMIT, NO_LIMIT if name.endswith("no limit") else str(limit))
                frame = read_ops(spark, ops) if name == "read_ops" else spark.read.parquet(ops)
                found, cost = spent(
                    lambda frame=frame: find(frame, contexts, CORE, limits=None).collect()
                )
                assert not [row for row in found if row["found"]]
                print(f"  {name:<26}{cost.cpu:6.2f} CPU-s{cost.wall:6.1f} s")
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
