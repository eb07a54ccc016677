"""The one Spark session of a command, with settings for a single machine."""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pyspark import SparkContext
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


class NoJavaError(click.ClickException):
    """Spark runs on Java, and there is none."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__("Spark needs Java 17 or later: put `java` on PATH or set JAVA_HOME")


@contextmanager
def session(memory: str = "2g") -> Generator[SparkSession]:
    """A lean local session on all cores, stopped at the end; one that is there is left alone.

    Under `spark-submit`, or with a remote (`SPARK_REMOTE`), the session is the one that they mean:
    its master and its settings are not ours to choose.
    """
    if (warm := SparkSession.getActiveSession()) is not None:
        yield warm
        return
    if _given():
        yield SparkSession.builder.appName("highwater check").getOrCreate()
        return
    if not _java():
        raise NoJavaError
    os.environ["PYSPARK_PYTHON"] = sys.executable
    _let_workers_find_us()
    settings = LEAN | {
        "spark.driver.memory": memory,
        # C1 only and the serial collector: a session of seconds has nothing to gain from more.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    }
    builder = SparkSession.builder.master("local[*]").appName("highwater check")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _errors_only_when_it_fails():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
        _end_the_jvm()


def _end_the_jvm() -> None:
    """Wait for the JVM that `stop` leaves behind, so that its CPU time counts for this process."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if gateway is None or not hasattr(gateway, "proc"):
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None  # pyright: ignore[reportPrivateUsage]


def _given() -> bool:
    """True if Spark is configured from outside: `spark-submit` starts the JVM before us."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ


def _java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java") is not None or bool(home and Path(home, "bin", "java").exists())


def _let_workers_find_us() -> None:
    """Workers are new Python processes, and a bare checkout is on no path of theirs."""
    root = str(Path(__file__).resolve().parent.parent)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])


@contextmanager
def _errors_only_when_it_fails() -> Generator[None]:
    """The JVM writes a page of warnings as it starts, which says something only if it does not."""
    with tempfile.TemporaryFile() as said:
        ours = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(ours, said.read())
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)
