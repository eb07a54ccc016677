"""Promises about logs and topics, as queries."""

QUERIES = {
    "L1": """from (from acked union all by name from reads) select 1 group by place, off
        having count(distinct id) > 1""",
    "L2": """from known k select 1 where id is not null and not exists (from acked a, reads b
            where a.place = k.place and a.id = k.id and b.place = a.place and b.off = a.off
            and b.id <> a.id) group by place, id having count(distinct off) > 1""",
    "L3": """from acked s where s.kept and s.off >= head(s.place) and not (compacted(s.topic)
            and (s.key is null or expired(s.topic, s.place, s.tombstone, s.inv)
            or exists (from acked k where k.place = s.place and k.key = s.key and k.off > s.off)))
        and exists (from reads d where d.place = s.place and d.off >= s.off)
        and not exists (from reads d where d.place = s.place and d.id = s.id)""",
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
    "L7": """from sends s join r d using (place, id) select 1
        where d.op in ('poll', 'scan', 'dump') and s.hash is not null and d.hash is not null
        group by d.process, d.n, d.i, place, id having bool_and(s.hash <> d.hash)""",
    "L8": """from acked s, reads a, reads b where a.place = s.place and b.place = s.place
        and a.id = s.id and a.off <> s.off and b.off = s.off and b.id <> s.id""",
    "L9": """from placed a, placed b where a.place = b.place and a.outcome = 'ok'
        and a.ret < b.inv and b.at < a.at""",
    "L10": """from reads d join sends s using (place, id) select 1 group by d.process, d.n, d.i,
        id, place having bool_and(d.ret < s.inv)""",
    "L11": """from answers a, answers b where a.op = 'mark' and b.op = a.op and a.place = b.place
        and a.process = b.process and a.lepoch = b.lepoch and a.n < b.n and b.off < a.off
        and a.replica is not distinct from b.replica""",
    "L12": """from r a, r b where a.place = b.place and a.op in ('scan', 'dump', 'marker')
        and b.op in ('scan', 'dump', 'marker') and a.off < b.off and a.lepoch > b.lepoch
        and a.process = b.process and a.replica is not distinct from b.replica""",
    "L13": """from answers a, answers b select a.process, a.n where a.op = 'log_start'
        and b.op = a.op and a.place = b.place and a.process = b.process and a.n < b.n
        and a.lepoch = b.lepoch and a.replica is not distinct from b.replica and b.off < a.off
        union all by name
        from answers a, answers b, reads d select a.process, a.n where a.op = 'log_start'
        and b.op = a.op and a.place = b.place and a.lepoch = b.lepoch
        and a.replica is not distinct from b.replica and d.process = b.process and d.n = b.n
        and d.op = 'poll' and d.outcome = 'ok' and d.place = b.place and d.off < a.off
        and a.ret < (select max_by(g.inv, (g.n, g.i)) from r g where g.process = d.process
            and g.place = d.place and g.n < d.n and g.outcome = 'ok'
            and g.op in ('assign', 'assigned', 'seek', 'reset'))""",
    "L14": """from copies a, copies b, r x where a.place = b.place
        and a.replica <> b.replica and x.process = a.process
        and x.place = a.place and x.replica = a.replica and x.op in ('dump', 'marker')
        and x.off >= greatest(a.low, b.low) and x.off < least(a.high, b.high)
        and not exists (from r y where y.process = b.process and y.place = b.place
            and y.replica = b.replica and y.off = x.off and y.op = x.op and (y.id, y.lepoch, y.pid,
            y.epoch, y.seqno, y.control, y.hash, y.stamp) is not distinct from (x.id, x.lepoch,
            x.pid, x.epoch, x.seqno, x.control, x.hash, x.stamp))
        and not (compacted(x.topic) and exists (from r k where k.process = a.process
            and k.place = a.place and k.replica = a.replica and k.key = x.key
            and k.off > x.off))""",
    "L15": """from acked s, reads a, reads b where s.place = a.place and a.place = b.place
        and a.id = s.id and a.off = s.off and b.off = s.off and b.id <> s.id and a.ret < b.inv""",
    "L16": """from r q where q.op = 'list_offsets' and q.outcome = 'ok' and q.off is not null
        and (exists (from sends s, reads d where s.place = q.place and d.place = q.place
            and d.id = s.id and d.off < q.off and s.stamp >= q.stamp and s.kept
            and s.outcome = 'ok' and s.ret < q.inv and d.off >= head(q.place))
        or exists (from sends s, reads d where s.place = q.place and d.place = q.place
            and d.id = s.id and d.off = q.off and s.stamp < q.stamp))""",
    "L17": """from r a, r b where a.place = b.place and append_time(a.topic) and a.lepoch = b.lepoch
        and a.op in ('poll', 'scan', 'dump') and b.op in ('poll', 'scan', 'dump')
        and a.off < b.off and a.stamp > b.stamp""",
    "L18": """from acked s where compacted(s.topic) and s.kept and s.key is not null
        and not exists (from acked k where k.place = s.place and k.key = s.key and k.off > s.off)
        and exists (from r e where e.op = 'scan_end' and e.place = s.place and e.off > s.off)
        and not exists (from final f where f.place = s.place and f.id = s.id)
        and not expired(s.topic, s.place, s.tombstone, s.inv)""",
    "L19": """from known k, final f select k.place, k.id where compacted(f.topic)
        and f.place = k.place and f.id = k.id and f.off <> k.off
        union all by name
        from acked s, acked k, r e select s.place, s.id where compacted(s.topic) and k.key = s.key
        and k.place = s.place and k.off > s.off and e.op = 'scan_end' and e.place = s.place
        and e.off > s.off and not exists (from final f where f.place = s.place and f.id = s.id)
        group by all having max(e.ret) - min(s.inv) < compaction_lag(any_value(s.topic))""",
    "L20": """from r a, r b where a.place = b.place and a.op = b.op and a.outcome = 'ok'
        and a.op in ('earliest', 'latest') and a.process = b.process and a.n < b.n
        and b.off < a.off and b.outcome = 'ok'""",
    "A1": """from reads d where life is not null
        and exists (from sends s where s.topic = d.topic and s.id = d.id)
        and not exists (from sends s where s.topic = d.topic and s.id = d.id
                        and s.life is not distinct from d.life)""",
    "A2": """from r d, r x where d.op = 'delete_records' and d.outcome = 'ok' and d.place = x.place
        and d.ret < x.inv and x.off < d.off and x.outcome = 'ok'
        and x.op in ('log_start', 'earliest', 'poll', 'scan')""",
}
