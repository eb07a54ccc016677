"""The fingerprints in Spark's own expressions: no Python worker sees a row.

For tables that are not files, on clusters where Python is slow or forbidden. It answers with the
blocks of the final reading that differ from what was acknowledged, and of what groups were given
from what was acknowledged and committed; the order of events is left to `traces.tiers.order`.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from traces.schema import NONE, Isolation, Op, Outcome, Txn
from traces.tiers.quick import SEED
from traces.tiers.sides import BLOCK_BITS, FINAL, GIVEN, KEPT, UNDONE, VISIBLE, WHOLE

PLACE = ("run", "topic", "partition")
BLOCK = (*PLACE, "block")
SUMS = ("pairs", "low", "high")


def blocks(ops: DataFrame, seed: int = SEED) -> DataFrame:
    """How many pairs of a record and its offset each side holds in each block, and their hashes.

    One pass, and one small shuffle: each task adds up what it has before anything is sent.
    """
    pair = F.xxhash64(F.lit(seed).cast("bigint"), F.col("id"), F.col("offset"))
    placed = (F.col("topic") != NONE) & (F.col("partition") != NONE)
    rows = ops.where(placed & (F.col("id") != NONE) & (F.col("offset") >= 0) & _side().isNotNull())
    block = F.shiftright("offset", BLOCK_BITS).alias("block")
    named = rows.select(*PLACE, block, _side().alias("side"), _who().alias("who"), pair.alias("h"))
    return named.groupBy(*BLOCK, "side", "who").agg(
        F.count("*").alias("pairs"),
        F.sum(F.col("h").bitwiseAND(F.lit(0xFFFFFFFF).cast("bigint"))).alias("low"),
        F.sum(F.shiftrightunsigned("h", 32)).alias("high"),
    )


def differing(ops: DataFrame, seed: int = SEED) -> DataFrame:
    """The blocks whose sums differ, and on whose account: of the final reading or of a group."""
    sums = blocks(ops, seed)
    acked = sums.where(F.col("side").isin(KEPT, UNDONE))
    readers = sums.where(F.col("side").isin(FINAL, GIVEN))
    whos = F.broadcast(readers.select(*PLACE, "side", "who").distinct())
    sides = acked.withColumnRenamed("side", "of").drop("who").join(whos, list(PLACE))
    # Readers of what is committed are not given what is not.
    committed = (F.col("who") % 2 != 0) & (F.col("side") == GIVEN) | (F.col("who") == VISIBLE)
    expected = sides.where(~committed | (F.col("of") == KEPT)).drop("of")
    negative = expected.select(*BLOCK, "side", "who", *(-F.col(n) for n in SUMS))
    both = readers.select(*BLOCK, "side", "who", *SUMS).union(negative)
    totals = both.groupBy(*BLOCK, "side", "who").agg(*(F.sum(n).alias(n) for n in SUMS))
    return totals.where((F.col("pairs") != 0) | (F.col("low") != 0) | (F.col("high") != 0))


def _is(op: Op) -> Column:
    return F.col("op") == int(op)


def _side() -> Column:
    """The side on which a row stands, NULL where on none."""
    ok, state = F.col("outcome") == int(Outcome.OK), F.col("txn_state")
    kept = state.isin(int(Txn.NOT), int(Txn.COMMITTED), int(Txn.PROVED))
    acked = _is(Op.SEND) & (ok | (state == int(Txn.PROVED)))
    return (
        F.when(acked, F.when(kept, KEPT).otherwise(UNDONE))
        .when(_is(Op.SCAN) & ok, FINAL)
        .when(_is(Op.POLL) & ok & (F.col("group") != NONE), GIVEN)
    )


def _who() -> Column:
    """On whose account: as `traces.tiers.sides.who_of`."""
    committed = F.col("isolation") == int(Isolation.READ_COMMITTED)
    return (
        F.when(_is(Op.SEND), NONE)
        .when(_is(Op.SCAN), F.when(committed, VISIBLE).otherwise(WHOLE))
        .otherwise(2 * F.col("group").cast("bigint") + committed.cast("int"))
    )
