"""The one Spark session of a command, with settings for a single machine."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

# Measured: without these a session costs 8-10 CPU-seconds more before it does anything.
LEAN = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session(memory: str = "2g") -> Iterator[SparkSession]:
    """A lean local session on all cores, stopped at the end."""
    cores = os.cpu_count() or 1
    os.environ["PYSPARK_PYTHON"] = sys.executable
    _let_workers_find_us()
    settings = LEAN | {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": str(2 * cores),
    }
    builder = SparkSession.builder.master("local[*]").appName("highwater check")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _let_workers_find_us() -> None:
    """Workers are new Python processes, and a bare checkout is on no path of theirs."""
    root = str(Path(__file__).resolve().parent.parent)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
