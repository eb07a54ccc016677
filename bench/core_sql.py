"""The core checks in SQL, as somebody would ask DuckDB who has no checker: the yardstick.

Two aggregates (by record, by offset) and a window by reader answer most of them, and each table is
made once, of the columns that it needs. They count what the checks find, but know no configuration
(a compacted topic, one whose head was deleted) and keep no witnesses; so they are asked about the
topics that are neither, the first ones.
"""

from pathlib import Path
from typing import Any

import duckdb

from traces.generate.plan import TOPICS

TABLES = """
create view r as select process, seq, idx, op, outcome, "offset" as o, id, inv, ret,
  "group" as g, generation, txn_state, isolation, flags, topic << 8 | "partition" as tp
  from read_parquet('{files}')
  where topic between 0 and {topics} - 1 and "partition" <> -1;
create temp table records as select tp, id,
    bool_or(op = 0) as sent,
    bool_or(op = 0 and (outcome = 1 or txn_state not in (0, 1, 4))) as doubtful,
    bool_or(op = 0 and txn_state = 2) as aborted,
    bool_or(op = 0 and outcome = 0 and txn_state in (0, 1, 4) and flags & 16 = 0) as kept,
    min(o) filter (op = 0 and (outcome = 0 or txn_state = 4) and txn_state in (0, 1, 4)
                   and o >= 0) as acked,
    min(o) filter (o >= 0 and (op <> 0 or outcome = 0 or txn_state = 4)) as low,
    max(o) filter (o >= 0 and (op <> 0 or outcome = 0 or txn_state = 4)) as high,
    bool_or(op <> 0) as given,
    max(o) filter (op <> 0 and outcome = 0) as delivered,
    max(o) filter (op <> 0 and outcome = 0 and flags & 1 = 1) as final,
    bool_or(op <> 0 and isolation = 1) as committed
  from r where op in (0, 1, 17) and id <> -1 group by tp, id;
create temp table visible as select tp, final as o, row_number() over
  (partition by tp order by final) as n from records where final is not null and not doubtful;
create temp table steps as select tp, process, g, generation, op, o, inv, ret, id, outcome,
    lag(o) over mine as before, lag(op) over mine as last
  from r where op in (1, 17, 7, 8, 9, 10) and (op not in (1, 17) or id <> -1)
  window mine as (partition by tp, process order by seq, idx);
"""
QUERIES = {
    "L1": """select count(*) from (select 1 from r where id <> -1 and o >= 0 and (op in (1, 17)
             or op = 0 and (outcome = 0 or txn_state = 4)) group by tp, o
             having min(id) <> max(id))""",
    "L2": "select count(*) from records where low <> high",
    "L3": """select count(*) from records join (select tp, max(delivered) as seen from records
             group by tp) using (tp) where acked <= seen and delivered is null""",
    "L4": "select count(*) from records where kept and final is null",
    "L5": "select count(*) from records where given and not sent",
    "T4": "select count(*) from records where committed and aborted",
    "C1": """select count(*) from (select * from steps where op in (1, 17) and last in (1, 17)
             and o > before + 1) s join visible a on a.tp = s.tp and a.o = s.o
             join visible b on b.tp = s.tp and b.o = s.before where a.n - b.n > 1""",
    "C2": "select count(*) from steps where op in (1, 17) and last in (1, 17) and o <= before",
    "P1": """select count(*) from (select o, lag(o) over (partition by tp, process
             order by seq, idx) as before from r where op = 0 and o >= 0
             and (outcome = 0 or txn_state = 4)) where o < before""",
    "G1": """select count(*) from (select 1 from r where op = 7 and g <> -1 and outcome = 0
             group by tp, g, generation having count(distinct process) > 1)""",
    "G5": """select count(*) from (select o, lag(o) over (partition by tp, g, generation
             order by inv) as before from r where op = 3 and outcome = 0 and generation <> -1)
             where o < before""",
    "G6": """with beyond as materialized (select tp, o, coalesce(reached, 0) as reached from (
               select tp, op, o, max(case when op <> 3 then o + (op = 1)::int end) over (
                 partition by tp, case when g = -1 then process else g end order by inv, ret
                 rows between unbounded preceding and current row) as reached
               from r where op in (1, 3, 4, 10) and outcome = 0 and o <> -1)
             where op = 3 and o > coalesce(reached, 0))
             select count(distinct (b.tp, b.o, b.reached)) from beyond b join visible v
             on v.tp = b.tp and v.o < b.o and v.o >= b.reached""",
}
# What one aggregate answers, without any order: the least that lost, doubled and aborted cost.
FEW = ("L2", "L4", "T4")
ONE_AGGREGATE = """select count(*) filter (low <> high), count(*) filter (kept and final is null),
  count(*) filter (committed and aborted) from (select
    min(o) filter (o >= 0 and (op <> 0 or outcome = 0 or txn_state = 4)) as low,
    max(o) filter (o >= 0 and (op <> 0 or outcome = 0 or txn_state = 4)) as high,
    bool_or(op = 0 and outcome = 0 and txn_state in (0, 1, 4) and flags & 16 = 0) as kept,
    max(o) filter (op <> 0 and outcome = 0 and flags & 1 = 1) as final,
    bool_or(op <> 0 and isolation = 1) as committed,
    bool_or(op = 0 and txn_state = 2) as aborted
  from r where op in (0, 1, 17) and id <> -1 group by tp, id)"""


def counts(folder: Path, threads: int) -> dict[str, int]:
    """The number of findings of each query in the Parquet files of a folder."""
    with _connected(folder, threads) as connection:
        _, *tables = TABLES.split(";")
        for table in tables:
            connection.execute(table)
        found: dict[str, Any] = {n: connection.execute(q).fetchone() for n, q in QUERIES.items()}
    return {name: int(row[0]) for name, row in found.items()}


def few(folder: Path, threads: int) -> dict[str, int]:
    """As `counts`, of a few questions that one aggregate answers."""
    with _connected(folder, threads) as connection:
        row: Any = connection.execute(ONE_AGGREGATE).fetchone()
    return dict(zip(FEW, map(int, row), strict=True))


def _connected(folder: Path, threads: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}; set preserve_insertion_order = false")
    view, *_ = TABLES.format(files=f"{folder}/**/*.parquet", topics=TOPICS).split(";")
    connection.execute(view)
    return connection
