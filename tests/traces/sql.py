"""Promises asked in SQL: one query for each check, which is broken where it answers with a row.

Written from the formulas and the page of the format alone, for traces in which acks are all,
elections clean, producers idempotent, files whole and settings known; what is undecided there is
no answer. The tables are made of the lines here and by nobody else's reader.
"""

from collections.abc import Iterator, Set
from typing import Any

import duckdb
import pyarrow as pa

from tests.traces.world import Line

_COLUMNS = {
    **dict.fromkeys(
        ("n", "i", "inv", "ret", "off", "generation", "txn", "pid", "epoch"), pa.int64()
    ),
    **dict.fromkeys(("seqno", "cnt", "replica", "lepoch", "stamp", "hash"), pa.int64()),
    **dict.fromkeys(("process", "op", "outcome", "clock", "place", "topic", "id"), pa.string()),
    **dict.fromkeys(("key", "grp", "iso", "ack", "control", "life", "instance"), pa.string()),
    **dict.fromkeys(("tid", "reason"), pa.string()),
    **dict.fromkeys(("auto", "tombstone"), pa.bool_()),
}
_REPORTS = {"high_watermark": "mark", "log_start": "log_start", "last_stable": "last_stable"}


def rows(lines: dict[str, list[Line]]) -> Iterator[dict[str, Any]]:
    """A row for each record of a call, each partition that it names or reports of, and itself."""
    for process, mine in lines.items():
        for n, line in enumerate(mine):
            get = line.get
            call = {
                "process": process,
                "n": n,
                "outcome": line["outcome"],
                "tid": get("transactional_id"),
            }
            call |= {
                "inv": get("invoked_ns"),
                "ret": get("returned_ns"),
                "clock": get("clock", "host"),
            }
            call |= {"grp": get("group"), "generation": get("generation"), "txn": get("txn")}
            call |= {
                "pid": get("producer_id"),
                "epoch": get("producer_epoch"),
                "iso": get("isolation"),
            }
            call |= {"replica": get("replica"), "control": get("control"), "reason": get("reason")}
            call |= {"instance": get("instance"), "auto": bool(get("auto"))}
            for i, (op, place, off, more) in enumerate(_told(line)):
                topic = place and place.rpartition(":")[0]
                life = line.get("topic_ids", {}).get(topic)
                yield (
                    call
                    | {"i": i, "op": op, "place": place, "off": off, "topic": topic, "life": life}
                    | more
                )


def _told(line: Line) -> Iterator[tuple[str, str | None, int | None, dict[str, Any]]]:
    op: str = line["op"]
    yield "call " + op, None, None, {}
    if op == "subscribe":
        for topic in line.get("topics", ()):
            yield op, f"{topic}:", None, {}
        return
    for r in line.get("records", ()):
        more = {"id": str(r["id"]) if "id" in r else None, "key": r.get("key"), "ack": r.get("ack")}
        more |= {
            "cnt": r.get("delivery_count"),
            "seqno": r.get("sequence"),
            "lepoch": r.get("epoch"),
        }
        more |= {
            "stamp": r.get("timestamp"),
            "hash": r.get("hash"),
            "tombstone": r.get("tombstone"),
        }
        word = "marker" if "control" in line else op
        yield word, f"{r['topic']}:{r['partition']}", r.get("offset"), more
    word = "scan_end" if op == "scan" else "dump_end" if op == "dump" else op
    if op == "list_offsets" and isinstance(line.get("query"), str):
        word = line["query"]
    places = {**dict.fromkeys(line.get("partitions", ())), **line.get("offsets", {})}
    if op not in ("send", "poll", "process", "acquire", "acknowledge"):
        for place, off in places.items():
            yield word, place, off, {}
    for name, report in _REPORTS.items():
        for place, off in line.get(name, {}).items():
            yield report, place, off, {"lepoch": line.get("leader_epochs", {}).get(place)}


VIEWS = """
create view units as select process, txn,
    bool_or(op = 'call txn_commit' and outcome = 'ok') as answered,
    bool_or(op = 'call txn_abort' and outcome = 'ok') as aborted,
    min(case when op = 'call txn_commit' then inv end) as asked
  from r where txn is not null group by process, txn;
create view proved as select distinct s.process, s.txn from r s join r d on d.id = s.id
    and d.place = s.place and d.op in ('poll', 'scan') and d.iso = 'read_committed'
    and d.outcome = 'ok' where s.op = 'send' and s.txn is not null;
create table sends as select r.*, case when r.txn is null and r.tid is null then 'none'
    when u.answered then 'committed' when u.aborted then 'aborted'
    when p.txn is not null then 'committed' else 'unknown' end as state, u.asked
  from r left join units u using (process, txn) left join proved p using (process, txn)
  where r.op = 'send';
alter table sends add column done bool;
alter table sends add column kept bool;
update sends set done = outcome = 'ok' or (outcome = 'info' and state = 'committed'),
    kept = state in ('none', 'committed');
create table reads as select * from r where op in ('poll', 'scan') and off is not null;
create table final as select * from reads where op = 'scan' and outcome = 'ok';
create table acked as select * from sends where done and off is not null;
create table placed as select s.*, case when s.done and s.off is not null then s.off
    when (select count(*) from sends o where o.place = s.place and o.id = s.id
          and (o.outcome <> 'fail' or s.outcome = 'fail')) = 1
    then (select min(d.off) from reads d where d.place = s.place and d.id = s.id) end as at
  from sends s;
create view moves as select *, lead(op) over own as nxt, lead(ret) over own as nret,
    lead(n) over own as nn, lead(generation) over own as ngen
  from r where op in ('assigned', 'revoked', 'lost') and outcome = 'ok' and place is not null
  window own as (partition by process, place order by n, i);
create view starts as select * from r
  where op in ('earliest', 'log_start', 'delete_records') and outcome = 'ok' and off is not null;
create view ended as select process, max(ret) as at from r
  where op in ('call close', 'call crash') group by process;
"""
QUERIES = {
    "L1": """from (from acked union all by name from reads) select 1 group by place, off
        having count(distinct id) > 1""",
    "L4": """from sends s where outcome = 'ok' and kept and not (compacted(s.topic)
            and (s.key is null or expired(s.topic, s.place, s.tombstone, s.inv)
            or exists (from acked k where k.place = s.place and k.key = s.key and k.off > s.off)))
        and not exists (from final f where f.place = s.place and f.id = s.id)
        and coalesce(off, 0) >= coalesce((select max(off) from starts t where t.place = s.place
        and t.op = 'earliest'), 0)""",
    "L5": """from reads d where not exists (from sends s where s.place = d.place and s.id = d.id)
        and id is not null""",
    "L6": """from reads d join sends s using (place, id) select 1 group by d.process, d.n, d.i,
        id, place having bool_and(s.outcome = 'fail')""",
    "L9": """from placed a, placed b where a.place = b.place and a.outcome = 'ok'
        and a.ret < b.inv and b.at < a.at""",
    "L10": """from reads d join sends s using (place, id) select 1 group by d.process, d.n, d.i,
        id, place having bool_and(d.ret < s.inv)""",
    "L12": """from r a, r b where a.place = b.place and a.op in ('scan', 'dump', 'marker')
        and b.op in ('scan', 'dump', 'marker') and a.off < b.off and a.lepoch > b.lepoch
        and a.process = b.process and a.replica is not distinct from b.replica""",
    "L15": """from acked s, reads a, reads b where s.place = a.place and a.place = b.place
        and a.id = s.id and a.off = s.off and b.off = s.off and b.id <> s.id and a.ret < b.inv""",
    "L20": """from r a, r b where a.place = b.place and a.op = b.op and a.outcome = 'ok'
        and a.op in ('earliest', 'latest') and a.process = b.process and a.n < b.n
        and b.off < a.off and b.outcome = 'ok'""",
    "P1": """from placed a, placed b where a.place = b.place and a.process = b.process
        and (a.n, a.i) < (b.n, b.i) and b.at < a.at""",
    "P2": """from sends a, sends b select a.process, a.n
        where a.place = b.place and a.process = b.process
        and a.pid = b.pid and a.epoch = b.epoch and (a.n, a.i) < (b.n, b.i)
        and a.outcome <> 'fail' and a.kept and not compacted(a.topic)
        and not exists (from final f where f.place = a.place and f.id = a.id)
        and exists (from final f where f.place = b.place and f.id = b.id)
        and (b.done or (select count(*) from sends o where o.place = b.place and o.id = b.id
                        and (o.outcome <> 'fail' or b.outcome = 'fail')) = 1)
        union all by name
        from (from r select *, lag(seqno) over own as prior, min(off) over (partition by
              place, replica) as head where op in ('dump', 'marker') and not compacted(r.topic)
              window own as (partition by place, replica, pid, epoch
                             order by seqno is null, off)) d select process, n
        where seqno is not null and not (prior is null and head > 0)
        and (seqno - coalesce(prior, -1) + 2147483648) % 2147483648 between 2 and 1073741823""",
    "P3": """from r a, sends b where a.op = 'call init_producer' and a.tid = b.tid
        and a.process <> b.process and b.outcome = 'ok' and a.outcome = 'ok' and a.ret < b.inv
        and a.inv > (select max(ret) from r i where i.op = 'call init_producer'
                     and i.process = b.process and i.n < b.n)""",
    "P4": """from r a, r b where a.op = 'call init_producer' and b.op = a.op and a.tid = b.tid
        and a.pid = b.pid and a.ret < b.inv and b.epoch <= a.epoch
        and a.outcome = 'ok' and b.outcome = 'ok'""",
    "P5": """from reads d join (from sends select place, id group by place, id
              having count(distinct (process, pid, epoch)) > 1) s using (place, id)
        select 1 group by place, id having count(distinct d.off) > 1""",
    "T2": """from reads d where d.iso = 'read_committed'
        and exists (from sends s where s.place = d.place and s.id = d.id)
        and not exists (from sends s where s.place = d.place and s.id = d.id
                        and (s.state = 'none' or (s.state <> 'aborted' and d.ret >= s.asked)))
        and exists (from sends s where s.place = d.place and s.id = d.id
                    and s.state <> 'aborted')""",
    "T4": """from reads d where d.iso = 'read_committed'
        and exists (from sends s where s.place = d.place and s.id = d.id)
        and not exists (from sends s where s.place = d.place and s.id = d.id
                        and s.state <> 'aborted')""",
    "C6": """from r x where x.op = 'reset' and x.outcome = 'ok' and (x.reason = 'truncation'
        or (x.reason = 'no_offset' and exists (from r c where c.op = 'commit' and c.outcome = 'ok'
            and c.place = x.place and c.ret < x.inv and c.grp = coalesce(x.grp, (select arg_max(
            g.grp, (g.n, g.i)) from r g where g.process = x.process and g.place = x.place
            and g.n <= x.n and g.grp is not null))))
        or (x.reason = 'out_of_range' and exists (from (select b.off + (b.op = 'poll')::int as own
              from r b where b.process = x.process and b.place = x.place and b.n < x.n
              and b.op in ('poll', 'seek', 'assign', 'reset', 'assigned', 'revoked', 'lost')
              and (b.op <> 'poll' or b.outcome = 'ok')
              order by b.n desc, b.i desc limit 1) p
            where p.own is not null
            and p.own <= (select coalesce(max(k.off), -1) + 1 from (from acked union all by name
                          from reads) k where k.place = x.place and k.ret < x.inv)
            and not exists (from starts t where t.place = x.place and t.ret < x.inv
                            and t.off > p.own)
            and (exists (from starts t where t.place = x.place and t.inv > x.ret and t.off <= p.own)
                 or exists (from final f where f.place = x.place and f.off <= p.own)))))""",
    "C2": """from (from reads select *, lag(off) over own as before, lag(n) over own as prior
              window own as (partition by process, place order by n, i)) d
        where d.off <= d.before and not exists (from r m where m.process = d.process
              and m.place = d.place and m.n between d.prior and d.n
              and m.op in ('assigned', 'revoked', 'lost', 'seek', 'assign', 'reset'))""",
    "G1": """from r select 1 where op = 'assigned' and outcome = 'ok' and grp is not null
        group by place, grp, generation having count(distinct process) > 1
        and count(distinct instance) <> 1""",
    "G2": """from moves a, moves b, r p where a.op = 'assigned' and a.nxt = 'revoked'
        and b.op = 'assigned' and a.grp = b.grp and a.place = b.place and a.process <> b.process
        and a.ret < b.inv and p.op = 'poll' and p.process = b.process and p.place = b.place
        and p.n > b.n and (b.nn is null or p.n < b.nn) and a.nret > p.ret
        and timed(a.process)""",
    "G4": """from r a, r c where a.op = 'assigned' and c.op = 'commit' and a.grp = c.grp
        and a.generation > c.generation and a.ret < c.inv and a.outcome = 'ok'
        and c.outcome = 'ok' and not c.auto""",
    "G5": """from r a, r b where a.op = 'commit' and b.op = 'commit' and a.grp = b.grp
        and a.place = b.place and a.generation = b.generation and b.off < a.off
        and a.outcome = 'ok' and b.outcome = 'ok'
        and ((a.process = b.process and a.n < b.n) or a.ret < b.inv)
        and not exists (from r s where s.op in ('seek', 'reset') and s.place = a.place
                        and s.process = b.process)""",
    "G3": """from (from r select grp, generation, max(ret) as told where op = 'assigned'
              and outcome = 'ok' and generation is not null group by grp, generation) t,
        (from r select grp, topic where op = 'subscribe' and outcome = 'ok' group by grp, topic
         having count(distinct (process, n)) = (select count(*) from r c where c.grp = r.grp
         and c.op = 'call subscribe' and c.outcome = 'ok')) s, parts k
        where s.grp = t.grp and k.topic = s.topic and timeout(t.grp) is not null
        and least((select min(inv) from r m where m.grp = t.grp and m.outcome = 'ok'
                   and ((m.op = 'assigned' and m.generation > t.generation)
                   or (m.op in ('revoked', 'lost') and m.generation >= t.generation))),
                  (select min(e.at) from ended e where e.at > t.told
                   and e.process in (select process from moves m where m.grp = t.grp)),
                  greatest((select max(greatest(inv, ret)) from r m where m.grp = t.grp),
                           (select max(e.at) from ended e where e.process in
                            (select process from moves m where m.grp = t.grp))))
            > t.told + timeout(t.grp)
        and not exists (from moves m where m.op = 'assigned' and m.grp = t.grp
            and m.place = k.topic || ':' || k.partition and m.generation <= t.generation
            and (m.nxt is null or m.ngen >= t.generation)
            and (m.nxt is not null or not exists (from ended e where e.process = m.process
                 and e.at <= t.told)))""",
    "G11": """from moves a, moves b, r c where a.op = 'assigned' and b.op = 'assigned'
        and c.op = 'commit' and c.outcome = 'ok' and not c.auto and c.process = a.process
        and a.instance = b.instance and c.instance = a.instance and a.process <> b.process
        and a.grp = b.grp and a.ret < b.inv and b.ret < c.inv and not exists (from r m
        where m.op = 'assigned' and m.process = a.process and m.n > a.n and m.n < c.n)""",
    "S2": """from r k, r a where k.op = 'acknowledge' and a.op = 'acquire' and k.grp = a.grp
        and k.place = a.place and k.off = a.off and k.ack in ('accept', 'reject')
        and k.outcome = 'ok' and a.outcome = 'ok' and k.ret < a.inv""",
    "S3": """from (from r select *, lag(cnt) over own as before, lag(ret) over own as since,
              lag(process) over own as holder, lag(n) over own as at
              where op = 'acquire' and outcome = 'ok'
              window own as (partition by grp, place, off order by ret)) d
        where cnt < 1 or cnt > delivery_limit(d.grp) or (cnt <= before and since < inv
        and not exists (from r k where k.op = 'acknowledge' and k.process = d.holder
            and k.place = d.place and k.off = d.off and k.n > d.at and k.outcome = 'ok'
            and k.ret < d.inv and k.ack in ('accept', 'reject')))""",
    "S5": """from r a, r b select a.process, a.n where a.op = 'committed' and a.outcome = 'ok'
        and b.outcome = 'ok' and b.op in ('committed', 'acquire') and a.grp = b.grp
        and a.place = b.place
        and b.off < a.off and a.ret < b.inv and delivery_limit(a.grp) is not null
        union all by name
        from r a select process, n where op = 'acquire' and outcome = 'ok' and committed_only(a.grp)
        and exists (from sends s where s.place = a.place and s.id = a.id)
        and not exists (from sends s where s.place = a.place and s.id = a.id
                        and s.state <> 'aborted' and (s.state = 'none' or a.ret >= s.asked))""",
    "A1": """from reads d where life is not null
        and exists (from sends s where s.topic = d.topic and s.id = d.id)
        and not exists (from sends s where s.topic = d.topic and s.id = d.id
                        and s.life is not distinct from d.life)""",
    "A2": """from r d, r x where d.op = 'delete_records' and d.outcome = 'ok' and d.place = x.place
        and d.ret < x.inv and x.off < d.off and x.outcome = 'ok'
        and x.op in ('log_start', 'earliest', 'poll', 'scan')""",
}


def broken(
    lines: dict[str, list[Line]], meta: dict[str, Any], asked: Set[str] = QUERIES.keys()
) -> set[str]:
    """The checks, of those asked, whose query answers with a row."""
    with duckdb.connect(config={"threads": 1}) as db:
        table = pa.Table.from_pylist(list(rows(lines)), pa.schema(list(_COLUMNS.items())))
        db.register("told", table)
        db.execute("create table r as select * from told")
        _settings(db, meta)
        db.execute(VIEWS)
        return {id for id in asked & QUERIES.keys() if _answers(db, id, QUERIES[id])}


def _answers(db: duckdb.DuckDBPyConnection, id: str, query: str) -> bool:
    try:
        return db.execute(f"select count(*) from ({query})").fetchone() != (0,)
    except duckdb.Error as wrong:
        raise AssertionError(f"{id}: {wrong}") from wrong


def _settings(db: duckdb.DuckDBPyConnection, meta: dict[str, Any]) -> None:
    topics = [
        (topic, p, "compact" in s["cleanup_policy"], s.get("delete_retention_ms"))
        for topic, s in meta.get("topics", {}).items()
        for p in range(s["partitions"])
    ]
    consumers = [
        (c, s["group"], s.get("session_timeout_ms"), s["group_protocol"])
        for c, s in meta.get("consumers", {}).items()
    ]
    shares = [
        (g, s["delivery_limit"], s["isolation"]) for g, s in meta.get("share_groups", {}).items()
    ]
    for name, columns, values in (
        ("parts", "topic varchar, partition int, compact bool, retention bigint", topics),
        ("members", "name varchar, grp varchar, ms bigint, protocol varchar", consumers),
        ("shares", "grp varchar, most int, iso varchar", shares),
    ):
        db.execute(f"create table {name} ({columns})")
        if values:
            db.executemany(f"insert into {name} values ({', '.join('?' * len(values[0]))})", values)
    db.execute("""
        create macro compacted(x) as exists (from parts p where p.topic = x and p.compact);
        create macro expired(x, y, gone, since) as gone and (select max(e.ret) from r e
            where e.place = y and e.op = 'scan_end') - since >= (select max(p.retention) * 1000000
            from parts p where p.topic = x);
        create macro timed(c) as exists (from members m where m.name = split_part(c, '#', 1)
            and m.ms is not null and m.protocol = 'classic');
        create macro timeout(g) as (select case when count(m.ms) = count(*) and bool_and(m.protocol
            = 'classic') then max(m.ms) * 1000000 end from members m where m.grp = g);
        create macro delivery_limit(g) as (select max(most) from shares h where h.grp = g);
        create macro committed_only(g) as exists (from shares s where s.grp = g
            and s.iso = 'read_committed');
    """)
