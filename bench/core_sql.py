"""The core checks in SQL, as somebody would ask DuckDB who has no checker: the yardstick.

They count what the checks find, but know no configuration (a compacted topic, one whose head was
deleted) and keep no witnesses; so they are asked about the topics that are neither, the first ones.
"""

from pathlib import Path
from typing import Any

import duckdb

from bench.generator.plan import TOPICS

VIEWS = """
create temp table r as select process, seq, idx, op, outcome, "offset", id, inv, ret, "group",
  generation, txn_state, isolation, flags, topic::bigint << 32 | "partition" as tp
  from read_parquet('{files}')
  where topic between 0 and {topics} - 1 and "partition" <> -1;
create view sends as select *, outcome = 0 or txn_state = 4 as done, txn_state in (0, 1, 4) as kept
  from r where op = 0 and id <> -1;
create view acked as select * from sends where done and "offset" >= 0;
create view reads as select * from r where op in (1, 17) and id <> -1 and "offset" >= 0;
create view log as select tp, id, "offset" from acked union all select tp, id, "offset" from reads;
create temp table visible as select tp, "offset", row_number() over
  (partition by tp order by "offset") as n
  from (select distinct tp, "offset" from reads where flags & 1 = 1
  and not exists (select 1 from sends s where s.tp = reads.tp and s.id = reads.id
                  and (s.outcome = 1 or not s.kept)));
create view steps as select tp, process, "offset" as o, op,
    lag("offset") over w as before, lag(op) over w as last
  from r where op in (1, 17, 7, 8, 9, 10) and (op not in (1, 17) or id <> -1)
  window w as (partition by tp, process order by seq, idx);
create view positions as select tp, "group" as g, op, "offset" as o, max(case when op <> 3 then
    "offset" + (op = 1)::int end) over (partition by tp, process_group order by inv, ret
    rows between unbounded preceding and current row) as reached
  from (select *, case when "group" = -1 then process else "group" end as process_group from r)
  where op in (1, 3, 4, 10) and outcome = 0 and "offset" <> -1;
"""
QUERIES = {
    "L1": """select count(*) from (select 1 from log group by tp, "offset"
             having min(id) <> max(id))""",
    "L2": """select count(*) from (select 1 from log group by tp, id
             having min("offset") <> max("offset"))""",
    "L3": """select count(*) from acked a join
             (select tp, max("offset") as seen from reads where outcome = 0 group by tp) f
             using (tp) where a.kept and a."offset" <= f.seen and not exists
             (select 1 from reads d where d.tp = a.tp and d.id = a.id and d.outcome = 0)""",
    "L4": """select count(*) from sends s where outcome = 0 and kept and flags & 16 = 0
             and not exists (select 1 from reads d where d.tp = s.tp and d.id = s.id
             and d.outcome = 0 and d.flags & 1 = 1)""",
    "L5": """select count(distinct (tp, id)) from reads d where not exists
             (select 1 from sends s where s.tp = d.tp and s.id = d.id)""",
    "T4": """select count(distinct (d.tp, d.id)) from reads d join sends s using (tp, id)
             where d.isolation = 1 and s.txn_state = 2""",
    "C1": """select count(*) from (select * from steps where op in (1, 17) and last in (1, 17)
             and o > before + 1) s join visible a on a.tp = s.tp and a."offset" = s.o
             join visible b on b.tp = s.tp and b."offset" = s.before where a.n - b.n > 1""",
    "C2": "select count(*) from steps where op in (1, 17) and last in (1, 17) and o <= before",
    "P1": """select count(*) from (select "offset" as o, lag("offset") over
             (partition by tp, process order by seq, idx) as before from acked) where o < before""",
    "G1": """select count(*) from (select 1 from r where op = 7 and "group" <> -1 and outcome = 0
             group by tp, "group", generation having count(distinct process) > 1)""",
    "G5": """select count(*) from (select "offset" as o, lag("offset") over
             (partition by tp, "group", generation order by inv) as before from r
             where op = 3 and outcome = 0 and generation <> -1) where o < before""",
    "G6": """with beyond as materialized (select tp, o, coalesce(reached, 0) as reached
             from positions where op = 3 and o > coalesce(reached, 0))
             select count(distinct (b.tp, b.o, b.reached)) from beyond b join visible v
             on v.tp = b.tp and v."offset" < b.o and v."offset" >= b.reached""",
}


def counts(folder: Path, threads: int) -> dict[str, int]:
    """How much each query finds in the Parquet files of a folder."""
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {threads}; set preserve_insertion_order = false")
        connection.execute(VIEWS.format(files=f"{folder}/**/*.parquet", topics=TOPICS))
        found: dict[str, Any] = {n: connection.execute(q).fetchone() for n, q in QUERIES.items()}
    return {name: int(row[0]) for name, row in found.items()}
