"""Promises about logs and topics, as queries."""

QUERIES = {
    "L1": """from (from acked union all by name from reads) select 1 group by tp, off
        having count(distinct id) > 1""",
    "L2": """from known k select 1 where id is not null and not exists (from acked a, reads b
            where a.tp = k.tp and a.id = k.id and b.tp = a.tp and b.off = a.off
            and b.id <> a.id) group by tp, id having count(distinct off) > 1""",
    "L3": """from acked s where s.kept and s.off >= left_from(s.tp) and not (compacted(s.topic)
            and (s.key is null or expired(s.topic, s.tp, s.tombstone, s.inv)
            or exists (from acked k where k.tp = s.tp and k.key = s.key and k.off > s.off)))
        and exists (from reads d where d.tp = s.tp and d.off >= s.off)
        and not exists (from reads d where d.tp = s.tp and d.id = s.id)""",
    "L4": """from sends s where outcome = 'ok' and kept and not (compacted(s.topic)
            and (s.key is null or expired(s.topic, s.tp, s.tombstone, s.inv)
            or exists (from acked k where k.tp = s.tp and k.key = s.key and k.off > s.off)))
        and not exists (from final f where f.tp = s.tp and f.id = s.id)
        and coalesce(off, 0) >= left_from(s.tp)""",
    "L5": """from reads d where not exists (from sends s where s.tp = d.tp and s.id = d.id)
        and id is not null""",
    "L6": """from reads d join sends s using (tp, id) select 1 group by d.process, d.n, d.i,
        id, tp having bool_and(s.outcome = 'fail')""",
    "L7": """from sends s join r d using (tp, id) select 1
        where d.op in ('poll', 'scan', 'dump') and s.hash is not null and d.hash is not null
        group by d.process, d.n, d.i, tp, id having bool_and(s.hash <> d.hash)""",
    "L8": """from acked s, reads a, reads b where a.tp = s.tp and b.tp = s.tp
        and a.id = s.id and a.off <> s.off and b.off = s.off and b.id <> s.id""",
    "L9": """from located a, located b where a.tp = b.tp and a.outcome = 'ok'
        and a.ret < b.inv and b.at < a.at""",
    "L10": """from reads d join sends s using (tp, id) select 1 group by d.process, d.n, d.i,
        id, tp having bool_and(d.ret < s.inv)""",
    "L11": """from answers a, answers b where a.op = 'mark' and b.op = a.op and a.tp = b.tp
        and a.process = b.process and a.lepoch = b.lepoch and a.n < b.n and b.off < a.off
        and a.replica is not distinct from b.replica""",
    "L12": """from r a, r b where a.tp = b.tp and a.op in ('scan', 'dump', 'marker')
        and b.op in ('scan', 'dump', 'marker') and a.off < b.off and a.lepoch > b.lepoch
        and a.process = b.process and a.replica is not distinct from b.replica""",
    "L13": """from answers a, answers b select a.process, a.n where a.op = 'log_start'
        and b.op = a.op and a.tp = b.tp and a.process = b.process and a.n < b.n
        and a.lepoch = b.lepoch and a.replica is not distinct from b.replica and b.off < a.off
        union all by name
        from answers a, answers b, reads d select a.process, a.n where a.op = 'log_start'
        and b.op = a.op and a.tp = b.tp and a.lepoch = b.lepoch
        and a.replica is not distinct from b.replica and d.process = b.process and d.n = b.n
        and d.op = 'poll' and d.outcome = 'ok' and d.tp = b.tp and d.off < a.off
        and a.ret < (select max_by(g.inv, (g.n, g.i)) from r g where g.process = d.process
            and g.tp = d.tp and g.n < d.n and g.outcome = 'ok'
            and g.op in ('assign', 'assigned', 'seek', 'reset'))""",
    "L14": """from copies a, copies b, r x where a.tp = b.tp
        and a.replica <> b.replica and x.process = a.process
        and x.tp = a.tp and x.replica = a.replica and x.op in ('dump', 'marker')
        and x.off >= greatest(a.low, b.low) and x.off < least(a.high, b.high)
        and not exists (from r y where y.process = b.process and y.tp = b.tp
            and y.replica = b.replica and y.off = x.off and y.op = x.op and (y.id, y.lepoch, y.pid,
            y.epoch, y.seqno, y.control, y.hash, y.stamp) is not distinct from (x.id, x.lepoch,
            x.pid, x.epoch, x.seqno, x.control, x.hash, x.stamp))
        and not (compacted(x.topic) and exists (from r k where k.process = a.process
            and k.tp = a.tp and k.replica = a.replica and k.key = x.key
            and k.off > x.off))""",
    "L15": """from acked s, reads a, reads b where s.tp = a.tp and a.tp = b.tp
        and a.id = s.id and a.off = s.off and b.off = s.off and b.id <> s.id and a.ret < b.inv""",
    "L16": """from r q where q.op = 'list_offsets' and q.outcome = 'ok' and q.off is not null
        and (exists (from sends s, reads d where s.tp = q.tp and d.tp = q.tp
            and d.id = s.id and d.off < q.off and s.stamp >= q.stamp and s.kept
            and s.outcome = 'ok' and s.ret < q.inv and d.off >= head(q.tp))
        or exists (from sends s, reads d where s.tp = q.tp and d.tp = q.tp
            and d.id = s.id and d.off = q.off and s.stamp < q.stamp))""",
    "L17": """from r a, r b where a.tp = b.tp and append_time(a.topic) and a.lepoch = b.lepoch
        and a.op in ('poll', 'scan', 'dump') and b.op in ('poll', 'scan', 'dump')
        and a.off < b.off and a.stamp > b.stamp""",
    "L18": """from acked s where compacted(s.topic) and s.kept and s.key is not null
        and not exists (from acked k where k.tp = s.tp and k.key = s.key and k.off > s.off)
        and exists (from r e where e.op = 'scan_end' and e.tp = s.tp and e.off > s.off)
        and not exists (from final f where f.tp = s.tp and f.id = s.id)
        and not expired(s.topic, s.tp, s.tombstone, s.inv)""",
    "L19": """from known k, final f select k.tp, k.id where compacted(f.topic)
        and f.tp = k.tp and f.id = k.id and f.off <> k.off
        union all by name
        from acked s, acked k, r e select s.tp, s.id where compacted(s.topic) and k.key = s.key
        and k.tp = s.tp and k.off > s.off and e.op = 'scan_end' and e.tp = s.tp
        and e.off > s.off and not exists (from final f where f.tp = s.tp and f.id = s.id)
        group by all having max(e.ret) - min(s.inv) < compaction_lag(any_value(s.topic))""",
    "L20": """from r a, r b where a.tp = b.tp and a.op = b.op and a.outcome = 'ok'
        and a.op in ('earliest', 'latest') and a.process = b.process and a.n < b.n
        and b.off < a.off and b.outcome = 'ok'""",
    "A1": """from reads d where life is not null
        and exists (from sends s where s.topic = d.topic and s.id = d.id)
        and not exists (from sends s where s.topic = d.topic and s.id = d.id
                        and s.life is not distinct from d.life)""",
    "A2": """from r d, r x where d.op = 'delete_records' and d.outcome = 'ok' and d.tp = x.tp
        and d.ret < x.inv and x.off < d.off and x.outcome = 'ok'
        and x.op in ('log_start', 'earliest', 'poll', 'scan')""",
}
