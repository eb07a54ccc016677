"""The checks as Spark runs them: one shuffle by partition, one numpy pass.

What concerns whole groups and transactional ids needs few rows, and has a small shuffle of its
own. Nothing here creates or stops a session: a check takes a DataFrame and answers with one.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from traces.context import Context
from traces.kernel import FINDINGS_DDL, SCOPES, kernel
from traces.schema import NONE, Op


def read_ops(spark: SparkSession, *paths: str) -> DataFrame:
    """The table of operations of one or more runs."""
    return spark.read.parquet(*paths)


def find(ops: DataFrame, contexts: Mapping[int, Context]) -> DataFrame:
    """All findings of all checks in all runs of `ops`; lazy, and few rows whatever its size."""
    branches = [_find(_rows(ops, scope), scope, contexts) for scope in SCOPES]
    return reduce(DataFrame.unionByName, branches)


def _find(rows: DataFrame, scope: str, contexts: Mapping[int, Context]) -> DataFrame:
    keys, _ = SCOPES[scope]
    return rows.repartition(*keys).mapInArrow(kernel(scope, contexts), FINDINGS_DDL)


def _rows(ops: DataFrame, scope: str) -> DataFrame:
    """The rows that a scope's checks look at."""
    if scope == "partition":
        return ops.where((F.col("topic") != NONE) & (F.col("partition") != NONE))
    if scope == "group":
        calls = _is(Op.COMMIT, Op.ASSIGNED)
        return ops.where(calls & (F.col("group") != NONE))
    calls = _is(Op.SEND, Op.INIT_PRODUCER, Op.TXN_BEGIN, Op.TXN_COMMIT)
    named = (F.col("tid") != NONE) | (F.col("pid") != NONE)
    # A producer is known by its transactional id, and by its producer id only without one.
    producer = F.when(F.col("tid") == NONE, F.col("pid")).otherwise(F.lit(NONE))
    return ops.where(calls & named).withColumn("producer", producer)


def _is(*ops: Op) -> Column:
    return F.col("op").isin([int(op) for op in ops])
