"""Promises asked in SQL: one query for each check, which is broken where it answers with a row.

Written from the formulas and the page of the format alone, for traces in which acks are all,
elections clean, producers idempotent, files whole and settings known; what is undecided there is
no answer. The tables are made of the lines here and by nobody else's reader.
"""

from collections.abc import Callable, Iterator, Set
from importlib import import_module
from typing import Any, cast

import duckdb
import pyarrow as pa

from tests.traces.fixture import Line
from tests.traces.sql import consumers, groups, logs, producers

QUERIES = logs.QUERIES | producers.QUERIES | consumers.QUERIES | groups.QUERIES

_COLUMNS = {
    **dict.fromkeys(
        ("n", "i", "inv", "ret", "off", "generation", "txn", "pid", "epoch"), pa.int64()
    ),
    **dict.fromkeys(("seqno", "cnt", "replica", "lepoch", "stamp", "hash"), pa.int64()),
    **dict.fromkeys(("process", "op", "outcome", "clock", "tp", "topic", "id"), pa.string()),
    **dict.fromkeys(("key", "grp", "iso", "ack", "control", "life", "instance"), pa.string()),
    **dict.fromkeys(("tid", "reason", "member", "error"), pa.string()),
    **dict.fromkeys(("auto", "apart", "tombstone", "chosen"), pa.bool_()),
}
_PARTS = "topic varchar, partition int, compact bool, retention bigint, lag bigint, stamped bool"
_ANSWERED = {"high_watermark": "mark", "log_start": "log_start", "last_stable": "last_stable"}
_DUMPED = {"high_watermark": "dump_mark", "log_start": "dump_start"}


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
                "error": get("error"),
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
            call |= {
                "member": get("member"),
                "instance": get("instance"),
                "auto": bool(get("auto")),
                "apart": bool(get("other_thread")),
            }
            for i, (op, tp, off, more) in enumerate(_reported(line)):
                topic = tp and tp.rpartition(":")[0]
                life = line.get("topic_ids", {}).get(topic)
                yield (
                    call
                    | {"i": i, "op": op, "tp": tp, "off": off, "topic": topic, "life": life}
                    | more
                )


def _reported(line: Line) -> Iterator[tuple[str, str | None, int | None, dict[str, Any]]]:
    op: str = line["op"]
    yield "call " + op, None, None, {}
    if op == "subscribe":
        for topic in line.get("topics", ()):
            yield op, f"{topic}:", None, {}
        for tp in line.get("partitions", ()):
            yield "joined", tp, None, {}
        return
    if op == "acquire" and line.get("records") == []:
        for tp in line.get("partitions", ()):
            yield "waited", tp, None, {}
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
            "chosen": r.get("chosen"),
        }
        word = "marker" if "control" in line else op
        yield word, f"{r['topic']}:{r['partition']}", r.get("offset"), more
    word = "scan_end" if op == "scan" else "dump_end" if op == "dump" else op
    if op == "list_offsets" and isinstance(line.get("query"), str):
        word = line["query"]
    asked = {"stamp": line["query"]} if isinstance(line.get("query"), int) else {}
    partitions = {**dict.fromkeys(line.get("partitions", ())), **line.get("offsets", {})}
    if op not in ("send", "poll", "process", "acquire", "acknowledge"):
        for tp, off in partitions.items():
            yield word, tp, off, asked
    for name, report in (_DUMPED if op == "dump" else _ANSWERED).items():
        for tp, off in line.get(name, {}).items():
            yield report, tp, off, {"lepoch": line.get("leader_epochs", {}).get(tp)}


VIEWS = """
create view units as select process, txn,
    bool_or(op = 'call txn_commit' and outcome = 'ok') as answered,
    bool_or(op = 'call txn_abort' and outcome = 'ok') as aborted,
    min(case when op = 'call txn_commit' then inv end) as asked
  from r where txn is not null group by process, txn;
create view proved as select distinct s.process, s.txn from r s join r d on d.id = s.id
    and d.tp = s.tp and d.op in ('poll', 'scan') and d.iso = 'read_committed'
    and d.outcome = 'ok' join units u on u.process = s.process and u.txn = s.txn
  where s.op = 'send' and s.outcome <> 'fail' and u.asked is not null
    and case when s.outcome = 'ok' then d.off = s.off
        else not exists (from r o where o.op = 'send' and o.outcome <> 'fail' and o.id = s.id
            and o.topic = s.topic and (o.process, o.txn) is distinct from (s.process, s.txn)) end;
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
create macro left_from(x) as least(head(x), (select min(off) from final e where e.tp = x));
create table acked as select * from sends where done and off is not null;
create table located as select s.*, case when s.done and s.off is not null then s.off
    when (select count(*) from sends o where o.tp = s.tp and o.id = s.id
          and (o.outcome <> 'fail' or s.outcome = 'fail')) = 1
    then (select min(d.off) from reads d where d.tp = s.tp and d.id = s.id) end as at
  from sends s;
create view moves as select *, lead(op) over own as nxt, lead(ret) over own as nret,
    lead(n) over own as nn, lead(generation) over own as ngen
  from r where op in ('assigned', 'revoked', 'lost') and outcome = 'ok' and tp is not null
  window own as (partition by process, tp order by n, i);
create view known as select tp, off, id from acked union all by name
  select tp, off, id from reads;
create view answers as select * from r where op in ('mark', 'log_start', 'last_stable')
  and outcome = 'ok' and off is not null;
create view hidden as select distinct d.tp, d.off, d.id from reads d join sends s using (tp, id)
  where not s.kept and s.outcome <> 'fail' and not coalesce((select bool_and(a.kept) from acked a
    where a.tp = d.tp and a.id = d.id and a.off = d.off), false);
create table visible as from (select tp, off, id, iso from reads r where outcome = 'ok'
    and not (iso = 'read_committed' and (tp, off, id) in (from hidden))
  union select d.tp, d.off, d.id, 'read_committed' from reads d join sends s using (tp, id)
  where d.outcome = 'ok' and s.kept and s.outcome <> 'fail'
    and (d.tp, d.off, d.id) not in (from hidden)) v
  where off >= head(v.tp) and not exists (from parts p where p.compact
    and v.tp = p.topic || ':' || p.partition and not exists (from final f
    where f.tp = v.tp and f.off = v.off));
create macro passed(x, low, high, rc) as exists (from visible v where v.tp = x
  and v.off >= low and v.off < high and (v.iso = 'read_committed' or not rc));
create table moved as select *, row_number() over (order by process, n, i) as nth from r
  where outcome = 'ok' and tp is not null
  and op in ('poll', 'seek', 'assign', 'reset', 'assigned', 'revoked', 'lost', 'committed');
create view last_moves as select s.process, s.tp, s.n, s.i, s.off, s.inv,
    max_by(m.off, (m.n, m.i)) as moved_to, max_by(m.op, (m.n, m.i)) as mop,
    coalesce(max(m.n), -1) as mn
  from r s left join r m on m.process = s.process and m.tp = s.tp and (m.n, m.i) < (s.n, s.i)
    and m.outcome = 'ok' and m.op in ('seek', 'assign', 'reset', 'assigned', 'revoked', 'lost')
  where s.op in ('seek', 'assign') and s.outcome = 'ok' and s.off is not null
  group by s.process, s.tp, s.n, s.i, s.off, s.inv;
create view sought as select m.grp, s.tp, s.off,
    (select max(d.off) + 1 from r d where d.op = 'process' and d.outcome = 'ok'
      and d.process = s.process and d.tp = s.tp and d.n > s.mn and d.n < s.n) as got,
    case when s.mop in ('seek', 'assign', 'reset') then s.moved_to end as moved,
    (select min(d.off) from r d where d.op in ('poll', 'committed') and d.outcome = 'ok'
      and d.process = s.process and d.tp = s.tp and d.n > s.mn and d.n < s.n) as begun,
    (select max(d.off) from r d where d.op = 'commit' and d.outcome = 'ok' and d.tp = s.tp
      and d.grp = m.grp and d.inv <= s.inv) as committed
  from last_moves s join (select distinct process, tp, grp from r where grp is not null) m
    using (process, tp);
create view starts as select * from r
  where op in ('earliest', 'log_start', 'delete_records', 'dump_start') and outcome = 'ok'
    and off is not null;
create view offered as select c.*, c.outcome = 'ok' as sure from r c
    where c.op = 'commit' and c.outcome <> 'fail'
  union all by name select t.* replace (e.ret as ret), u.answered as sure
    from r t join units u using (process, txn)
    join r e on e.process = t.process and e.txn = t.txn and e.op = 'call txn_commit'
    where t.op = 'txn_offsets' and t.outcome <> 'fail' and not u.aborted;
create view copies as select process, tp, replica, max(off) filter (op = 'dump_start') as low,
    max(off) filter (op = 'dump_mark') as high
  from r group by process, tp, replica having bool_or(op in ('dump', 'marker', 'dump_end'));
create view ended as select process, max(ret) as at from r
  where op in ('call close', 'call crash') group by process;
create view stays as select a.grp, a.process, min(a.inv) as since, greatest(max(e.at),
    (select max(greatest(x.inv, x.ret)) from r x where x.process = a.process)) as until
  from r a left join ended e using (process) where a.op in ('assigned', 'call assigned')
    and a.outcome = 'ok' and a.grp is not null group by a.grp, a.process;
create view told_ends as select h.grp, e.tp, e.off, e.ret from r e, shares h
  where e.op = 'latest' and e.outcome = 'ok' and e.off is not null and e.ret is not null
    and (h.iso = 'read_uncommitted' or e.iso = 'read_committed');
create view told_starts as select grp, tp, off, ret from r where op = 'committed'
  and outcome = 'ok' and off is not null and ret is not null;
create view signs as select 'polled' as kind, grp, tp, process, inv, ret from r
    where op = 'waited' and outcome = 'ok' and ret is not null
  union all select 'polled', grp, tp, process, min(inv), min(inv) from r
    where op = 'joined' and outcome = 'ok' group by grp, tp, process
  union all select 'end', grp, tp, '', ret, ret from told_ends
  union all select 'start', grp, tp, '', ret, ret from told_starts;
create table chains as select kind, grp, tp, process, min(inv) as since, max(ret) as until
  from (select *, sum(new) over (partition by kind, grp, tp, process order by inv, ret
        rows unbounded preceding) as nth
    from (select *, (inv > coalesce(max(ret) over (partition by kind, grp, tp, process
          order by inv, ret rows between unbounded preceding and 1 preceding), -1)
          + stuck(grp) // 4)::int as new from signs where stuck(grp) is not null))
  group by kind, grp, tp, process, nth;
create macro parted(g, one, two) as not exists (from stays s where s.grp = g)
  or exists (from stays s where s.grp = g and s.until >= one and s.until < two
    and not exists (from stays o where o.grp = g and o.since <= s.until and o.until > s.until));
"""


def broken(
    lines: dict[str, list[Line]], meta: dict[str, Any], asked: Set[str] = QUERIES.keys()
) -> set[str]:
    """The checks, of those asked, whose query answers with a row."""
    with duckdb.connect(config={"threads": 1}) as db:
        cast("Any", db).create_function("key_partition", _partition)
        table = pa.Table.from_pylist(list(rows(lines)), pa.schema(list(_COLUMNS.items())))
        db.register("reported", table)
        db.execute("create table r as select * from reported")
        _settings(db, meta)
        db.execute(VIEWS)
        decided = (asked & QUERIES.keys()) - _open(lines, meta)
        return {id for id in decided if _answers(db, id, QUERIES[id])}


def _open(lines: dict[str, list[Line]], meta: dict[str, Any]) -> set[str]:
    """The promises whose breach a sender that was not recorded may explain."""
    reported = [(line["op"], r["topic"]) for x in lines.values() for line in x for r in _of(line)]
    out: set[str] = set()
    for topic in {topic for op, topic in reported if op in ("send", "poll", "scan")}:
        settings = meta.get("topics", {}).get(topic, {})
        said = settings.get("senders") or meta.get("senders")
        here = ("send", topic) in reported and meta.get("complete")
        if said == "some" or (said is None and not here):
            out |= {"L5"}
            if "compact" in settings.get("cleanup_policy", ""):
                out |= {"L3", "L4", "L18", "L19", "T1", "P2"}
        if said == "some":
            out |= {"L2", "L6", "L7", "L10", "L16", "T2", "T4", "T5", "T6", "T7", "S5", "A1"}
    return out


def _of(line: Line) -> list[dict[str, Any]]:
    return line.get("records") or []


def _partition(partitioner: str, key: str, partitions: int) -> int:
    """The partition of a key by this partitioner, from another library."""
    assert partitioner == "murmur2_random"
    murmur2: Callable[[bytes], int] = import_module("aiokafka.partitioner").murmur2
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _answers(db: duckdb.DuckDBPyConnection, id: str, query: str) -> bool:
    try:
        return db.execute(f"select count(*) from ({query})").fetchone() != (0,)
    except duckdb.Error as wrong:
        raise AssertionError(f"{id}: {wrong}") from wrong


def _settings(db: duckdb.DuckDBPyConnection, meta: dict[str, Any]) -> None:
    topics = [
        (
            topic,
            p,
            "compact" in s["cleanup_policy"],
            s.get("delete_retention_ms"),
            s.get("min_compaction_lag_ms"),
            s.get("message_timestamp_type") == "LogAppendTime",
        )
        for topic, s in meta.get("topics", {}).items()
        for p in range(s["partitions"])
    ]
    consumers = [
        (
            c,
            s["group"],
            s.get("session_timeout_ms"),
            s["group_protocol"],
            s.get("commit_order") == "process_then_commit" and not s.get("auto_commit"),
        )
        for c, s in meta.get("consumers", {}).items()
    ]
    shares = [
        (g, s["delivery_limit"], s["isolation"], s["lock_ms"], s.get("stuck_ms"))
        for g, s in meta.get("share_groups", {}).items()
    ]
    timeouts = [
        (p, s["transaction_timeout_ms"])
        for p, s in meta.get("producers", {}).items()
        if "transaction_timeout_ms" in s
    ]
    hashers = [
        (p, s["partitioner"]) for p, s in meta.get("producers", {}).items() if "partitioner" in s
    ]
    for name, columns, values in (
        ("parts", _PARTS, topics),
        (
            "members",
            "name varchar, grp varchar, ms bigint, protocol varchar, waiting bool",
            consumers,
        ),
        ("timeouts", "name varchar, ms bigint", timeouts),
        ("hashers", "name varchar, partitioner varchar", hashers),
        ("shares", "grp varchar, most int, iso varchar, ms bigint, stuck bigint", shares),
    ):
        db.execute(f"create table {name} ({columns})")
        if values:
            db.executemany(f"insert into {name} values ({', '.join('?' * len(values[0]))})", values)
    db.execute("""
        create macro compacted(x) as exists (from parts p where p.topic = x and p.compact);
        create macro expired(x, y, gone, since) as gone and (select max(e.ret) from r e
            where e.tp = y and e.op = 'scan_end') - since >= (select max(p.retention) * 1000000
            from parts p where p.topic = x);
        create macro append_time(x) as exists (from parts p where p.topic = x and p.stamped);
        create macro compaction_lag(x) as (select max(p.lag) * 1000000 from parts p
            where p.topic = x);
        create macro lock(g) as (select max(ms) * 1000000 from shares h where h.grp = g);
        create macro stuck(g) as (select max(stuck) * 1000000 from shares h where h.grp = g);
        create macro hanging_after(c) as (select max(ms) * 1000000 + 20000000000 from timeouts t
            where t.name = split_part(c, '#', 1));
        create macro head(x) as coalesce((select max(off) from r e where e.tp = x
            and e.op = 'earliest' and e.outcome = 'ok'), 0);
        create macro hasher(c) as (select max(partitioner) from hashers p
            where p.name = split_part(c, '#', 1));
        create macro timed(c) as exists (from members m where m.name = split_part(c, '#', 1)
            and m.ms is not null and m.protocol = 'classic');
        create macro timeout(g) as (select case when count(m.ms) = count(*) and bool_and(m.protocol
            = 'classic') then max(m.ms) * 1000000 end from members m where m.grp = g);
        create macro waits(g) as coalesce((select bool_and(m.waiting) from members m
            where m.grp = g), false);
        create macro delivery_limit(g) as (select max(most) from shares h where h.grp = g);
        create macro committed_only(g) as exists (from shares s where s.grp = g
            and s.iso = 'read_committed');
    """)
