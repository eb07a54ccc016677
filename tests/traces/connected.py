"""Judges a generated trace in a session of Spark Connect, and prints what was found.

A process of its own: where an ordinary session runs, Spark refuses to start a connected one.
"""

import sys
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import SparkSession

from traces.engines.cutting import Limits
from traces.engines.precheck import spark as prechecks
from traces.engines.spark import find, read_ops
from traces.generate.write import context_in

CUT = Limits(rows=2_000, block=1_500, boundary=10_000)


def main(run: Path) -> None:
    contexts, ops = {0: context_in(run)}, str(run / "ops")
    configured = SparkSession.builder.remote("local[2]")
    session = configured.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    out: dict[str, Any] = {"session": type(session).__module__}
    for name, given in (
        ("files", read_ops(session, ops)),
        ("frame", session.read.parquet(ops)),
    ):
        for mode, found in (
            ("exact", find(given, contexts)),
            ("cut", find(given, contexts, limits=CUT)),
            ("quick", prechecks.find(given, contexts)),
        ):
            out[f"{name} {mode}"] = [row.asDict(recursive=True) for row in found.collect()]
    sys.stdout.buffer.write(orjson.dumps(out))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
