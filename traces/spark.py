"""The checks as Spark runs them: one shuffle by partition, one numpy pass.

Nothing here creates or stops a session: a check takes a DataFrame and answers with one.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from traces.context import Context
from traces.kernel import FINDINGS_DDL, partition_kernel

BY_PARTITION = ("run", "topic", "partition")


def read_ops(spark: SparkSession, *paths: str) -> DataFrame:
    """The table of operations of one or more runs."""
    return spark.read.parquet(*paths)


def find(ops: DataFrame, contexts: Mapping[int, Context]) -> DataFrame:
    """All findings of all checks in all runs of `ops`; lazy, and few rows whatever its size."""
    placed = ops.where((F.col("topic") >= 0) & (F.col("partition") >= 0))
    branches = [
        placed.repartition(*BY_PARTITION).mapInArrow(partition_kernel(contexts), FINDINGS_DDL),
    ]
    return reduce(DataFrame.unionByName, branches)
