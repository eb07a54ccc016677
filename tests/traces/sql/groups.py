"""Promises about consumer groups and share groups, as queries."""

QUERIES = {
    "G1": """from r a, r b where a.op = 'assigned' and a.outcome = 'ok' and b.op = 'assigned'
        and b.outcome = 'ok' and a.grp = b.grp and a.tp = b.tp and a.generation = b.generation
        and a.process <> b.process and a.inv <= b.inv and not parted(a.grp, a.inv, b.ret)
        and (a.instance is null or a.instance is distinct from b.instance)""",
    "G2": """from moves a, moves b, r p where a.op = 'assigned' and a.nxt = 'revoked'
        and b.op = 'assigned' and a.grp = b.grp and a.tp = b.tp and a.process <> b.process
        and a.ret < b.inv and p.op = 'poll' and p.process = b.process and p.tp = b.tp
        and p.n > b.n and (b.nn is null or p.n < b.nn) and a.nret > p.ret
        and timed(a.process)""",
    "G3": """from (from r select grp, generation, max(ret) as since where op = 'assigned'
              and outcome = 'ok' and generation is not null group by grp, generation) t,
        (from r select grp, topic where op = 'subscribe' and outcome = 'ok' group by grp, topic
         having count(distinct (process, n)) = (select count(*) from r c where c.grp = r.grp
         and c.op = 'call subscribe' and c.outcome = 'ok')) s, parts k
        where s.grp = t.grp and k.topic = s.topic and timeout(t.grp) is not null
        and least((select min(inv) from r m where m.grp = t.grp and m.outcome = 'ok'
                   and ((m.op = 'assigned' and m.generation > t.generation)
                   or (m.op in ('revoked', 'lost') and m.generation >= t.generation))),
                  (select min(e.at) from ended e where e.at > t.since
                   and e.process in (select process from moves m where m.grp = t.grp)),
                  greatest((select max(greatest(inv, ret)) from r m where m.grp = t.grp),
                           (select max(e.at) from ended e where e.process in
                            (select process from moves m where m.grp = t.grp))))
            > t.since + timeout(t.grp)
        and not exists (from moves m where m.op = 'assigned' and m.grp = t.grp
            and m.tp = k.topic || ':' || k.partition and m.generation <= t.generation
            and (m.nxt is null or m.ngen >= t.generation)
            and (m.nxt is not null or not exists (from ended e where e.process = m.process
                 and e.at <= t.since)))""",
    "G4": """from r a, r c where a.op = 'assigned' and c.op = 'commit' and a.grp = c.grp
        and a.generation > c.generation and a.ret < c.inv and a.outcome = 'ok'
        and c.outcome = 'ok' and not c.auto and (not parted(a.grp, a.inv, c.ret)
        or exists (from r o where o.op = 'assigned' and o.process = c.process and o.n < c.n
            and o.grp = c.grp and o.generation = c.generation and o.inv <= a.ret))""",
    "G5": """from r a, r b where a.op = 'commit' and b.op = 'commit' and a.grp = b.grp
        and a.tp = b.tp and a.generation = b.generation and b.off < a.off
        and a.outcome = 'ok' and b.outcome = 'ok'
        and ((a.process = b.process and a.n < b.n) or a.ret < b.inv)
        and not parted(a.grp, a.inv, b.ret)
        and not exists (from r s where s.op in ('seek', 'reset') and s.tp = a.tp
                        and s.process = b.process)""",
    "G6": """from r c where c.op = 'commit' and c.outcome = 'ok' and c.grp is not null and exists (
            from (select coalesce(max(case when g.op = 'poll' then g.off + 1 else g.off end), 0)
                  as own from r g where g.tp = c.tp and g.outcome = 'ok' and g.inv < c.ret
                  and g.grp = c.grp and g.op in ('poll', 'committed', 'seek', 'assign', 'reset')) p
            where passed(c.tp, p.own, c.off, true))""",
    "G7": """from r q where q.op = 'committed' and q.outcome = 'ok'
        and delivery_limit(q.grp) is null
        and not exists (from r t where t.op = 'txn_offsets' and t.grp = q.grp)
        and not exists (from offered c where c.grp = q.grp and c.tp = q.tp
            and c.off is not distinct from q.off and c.inv <= q.ret and not exists (
                from offered l where l.grp = q.grp and l.tp = q.tp and l.sure
                and l.inv > c.ret and l.ret < q.inv) and not exists (
                from r d where d.op = 'call delete_groups' and d.outcome = 'ok'
                and d.grp = q.grp and d.inv > c.ret and d.ret < q.inv))
        and (q.off is not null or exists (from offered l where l.grp = q.grp
            and l.tp = q.tp and l.sure and l.ret < q.inv and not parted(q.grp, l.inv, q.ret)))""",
    "G8": """from (from r k select grp, tp, max(off) as upto where op in ('commit', 'committed')
              and outcome = 'ok' and grp is not null and delivery_limit(k.grp) is null
              group by grp, tp) c, visible v
        where v.tp = c.tp and v.off < c.upto and v.iso = 'read_committed'
        and exists (from r x where x.op = 'process' and x.grp = c.grp)
        and not exists (from r x where x.op = 'process' and x.grp = c.grp and x.tp = v.tp
            and x.off = v.off and x.id = v.id)
        and not exists (from sought s where s.grp = c.grp and s.tp = v.tp and v.off < s.off
            and v.off >= coalesce(s.got, s.moved, s.begun, s.committed, 0))""",
    "G9": """from reads select 1 where op = 'poll' and outcome = 'ok' and grp is not null
        and off is not null
        group by grp, tp, off, id having count(*) > 1""",
    "G10": """from reads d where d.op = 'poll' and d.outcome = 'ok' and d.grp is not null
        and not exists (from reads e where e.op = 'poll' and e.process = d.process
            and e.tp = d.tp and (e.n, e.i) < (d.n, d.i) and e.n > coalesce((select max(g.n)
                from r g where g.process = d.process and g.tp = d.tp and g.n < d.n
                and g.op in ('assigned', 'revoked', 'lost', 'seek', 'assign')), -1))
        and coalesce((select arg_max(g.op, (g.n, g.i)) from r g where g.process = d.process
            and g.tp = d.tp and g.n < d.n and g.op in ('committed', 'assigned', 'seek',
            'assign', 'reset')), '') not in ('seek', 'assign', 'reset')
        and (passed(d.tp, greatest((select arg_max_null(case when g.op = 'committed' then g.off
            end, (g.n, g.i)) from r g where g.process = d.process and g.tp = d.tp
            and g.n < d.n and g.op in ('committed', 'assigned')),
            (select max(c.off) from offered c where c.grp = d.grp and c.tp = d.tp
            and c.inv <= d.ret and not (c.process = d.process and c.n >= d.n))),
            d.off, d.iso = 'read_committed')
        or exists (from r a, r k where a.op = 'assigned' and a.outcome = 'ok' and a.tp = d.tp
            and a.process = d.process and a.n < d.n and not exists (from r g
                where g.process = d.process and g.tp = d.tp and g.n > a.n and g.n < d.n
                and (g.op in ('assigned', 'seek', 'assign', 'reset') or (g.op = 'committed'
                    and g.outcome = 'ok' and coalesce(g.off, -1) <= d.off)))
            and k.op = 'commit' and k.outcome = 'ok' and not k.auto and k.grp = d.grp
            and k.tp = d.tp and k.ret < a.inv and k.off > d.off and not exists (from r x
                where x.op in ('commit', 'txn_offsets') and x.outcome <> 'fail'
                and x.grp = d.grp and x.tp = d.tp and x.off <= d.off
                and not (x.process = d.process and x.n >= d.n)
                and not (x.op = 'commit' and not x.auto and x.ret < k.inv)
                and x.inv <= d.ret)))""",
    "G13": """from r q, r k, r d where q.op = 'poll' and k.op = 'commit' and d.op = 'process'
        and q.outcome = 'ok' and k.outcome = 'ok' and d.outcome = 'ok' and not k.auto
        and q.process = k.process and k.process = d.process and q.tp = k.tp and k.tp = d.tp
        and q.grp = k.grp and k.grp = d.grp and q.id = d.id and q.off = d.off
        and q.n < k.n and k.n < d.n and k.off > d.off and waits(d.grp)
        and not coalesce(k.clock = d.clock and k.ret >= d.inv, false)
        and not k.apart and not d.apart
        and not exists (from r e where e.op = 'process' and e.grp = d.grp and e.tp = d.tp
            and e.id = d.id and e.off = d.off and (e.process <> d.process or e.n < d.n))
        and not exists (from r e where e.op = 'poll' and e.outcome = 'ok' and e.tp = d.tp
            and e.process = d.process and e.id = d.id and e.off = d.off
            and e.n > k.n and e.n < d.n)""",
    "G11": """from moves a, moves b, r c where a.op = 'assigned' and b.op = 'assigned'
        and c.op = 'commit' and c.outcome = 'ok' and not c.auto and c.process = a.process
        and a.instance = b.instance and c.instance = a.instance and a.process <> b.process
        and a.grp = b.grp and a.ret < b.inv and b.ret < c.inv and not exists (from r m
        where m.op = 'assigned' and m.process = a.process and m.n > a.n and m.n < c.n)""",
    "G12": """from r t, r s, r a, r b where t.op = 'txn_offsets' and s.op = t.op and s.grp = t.grp
        and s.tp = t.tp and s.member <> t.member and s.generation > t.generation
        and s.outcome = 'ok' and t.outcome = 'ok' and s.ret < t.inv
        and a.op = 'assigned' and a.outcome = 'ok' and a.grp = t.grp and a.tp = t.tp
        and a.member = t.member and a.inv <= t.ret and not exists (from r g
            where g.op = 'assigned' and g.grp = t.grp and g.tp = t.tp
            and g.member = t.member and g.inv <= t.ret and g.ret > a.ret)
        and b.op = 'assigned' and b.outcome = 'ok' and b.grp = t.grp and b.tp = t.tp
        and b.member = s.member and b.inv > a.ret and b.ret < s.inv""",
    "S1": """from r a, r b where a.op = 'acquire' and b.op = 'acquire' and a.grp = b.grp
        and a.tp = b.tp and a.off = b.off and (a.process, a.n) <> (b.process, b.n)
        and a.outcome = 'ok' and b.outcome = 'ok' and a.ret <= b.ret
        and b.ret < a.inv + lock(a.grp) and not exists (from r k where k.op = 'acknowledge'
            and k.process = a.process and k.tp = a.tp and k.off = a.off and k.n > a.n
            and k.inv < b.ret)""",
    "S2": """from r k, r a where k.op = 'acknowledge' and a.op = 'acquire' and k.grp = a.grp
        and k.tp = a.tp and k.off = a.off and k.ack in ('accept', 'reject')
        and k.outcome = 'ok' and a.outcome = 'ok' and k.ret < a.inv""",
    "S3": """from (from r select *, lag(cnt) over own as before, lag(ret) over own as since,
              lag(process) over own as holder, lag(n) over own as at
              where op = 'acquire' and outcome = 'ok'
              window own as (partition by grp, tp, off order by ret)) d
        where cnt < 1 or cnt > delivery_limit(d.grp) or (cnt <= before and since < inv
        and not exists (from r k where k.op = 'acknowledge' and k.process = d.holder
            and k.tp = d.tp and k.off = d.off and k.n > d.at and k.outcome = 'ok'
            and k.ret < d.inv and k.ack in ('accept', 'reject')))""",
    "S4": """from (from r select grp, tp, min(off) as low, max(off) as high
              where op = 'acquire' and outcome = 'ok' group by grp, tp) g, visible v
        where v.tp = g.tp and v.off between g.low and g.high
        and v.iso = 'read_committed'
        and not exists (from r k where k.op = 'acknowledge' and k.grp = g.grp
            and k.tp = v.tp and k.off = v.off and k.ack in ('accept', 'reject')
            and k.outcome = 'ok')
        and not exists (from r k where k.op = 'acquire' and k.grp = g.grp and k.tp = v.tp
            and k.off = v.off and k.cnt >= delivery_limit(g.grp))""",
    "S5": """from r a, r b select a.process, a.n where a.op = 'committed' and a.outcome = 'ok'
        and b.outcome = 'ok' and b.op in ('committed', 'acquire') and a.grp = b.grp
        and a.tp = b.tp
        and b.off < a.off and a.ret < b.inv and delivery_limit(a.grp) is not null
        union all by name
        from r a select process, n where op = 'acquire' and outcome = 'ok' and committed_only(a.grp)
        and exists (from sends s where s.tp = a.tp and s.id = a.id)
        and not exists (from sends s where s.tp = a.tp and s.id = a.id
                        and s.state <> 'aborted' and (s.state = 'none' or a.ret >= s.asked))""",
    "S6": """from (from r select *, ret - lock(grp) - stuck(grp) as since
              where op = 'waited' and outcome = 'ok' and stuck(grp) is not null) w
        where not exists (from r k where k.grp = w.grp and k.tp = w.tp and k.inv <= w.ret
            and ((k.op = 'acquire' and k.off is not null and k.outcome = 'ok')
              or (k.op = 'acknowledge' and k.ack = 'renew' and k.outcome <> 'fail'))
            and w.since < coalesce(case when k.op = 'acquire' then
                (select case when min_by(e.outcome, e.n) = 'ok' then min_by(e.ret, e.n) end
                 from r e where e.op = 'acknowledge' and e.process = k.process and e.tp = k.tp
                 and e.off = k.off and e.n > k.n and e.ack <> 'renew') end,
              k.ret + lock(k.grp), w.ret))
        and exists (from r j where j.op = 'joined' and j.grp = w.grp and j.tp = w.tp
            and j.process = w.process and j.outcome = 'ok')
        and not exists (from (from r j select process, min(inv) as came, max(ret) as there,
                coalesce((select max(inv) from r e where e.process = j.process
                  and e.op in ('call close', 'call crash')), w.ret) as gone
              where j.op = 'joined' and j.grp = w.grp and j.tp = w.tp and j.outcome = 'ok'
              group by process) m
            where m.came < w.ret and m.gone > w.since and (m.there > w.since or m.gone < w.ret
              or not exists (from chains c where c.kind = 'polled' and c.grp = w.grp
                and c.tp = w.tp and c.process = m.process
                and c.since <= w.since and c.until >= w.ret)))
        and (select count(distinct kind) from chains c where c.grp = w.grp and c.tp = w.tp
            and c.kind <> 'polled' and c.since <= w.since and c.until >= w.ret) = 2
        and exists (from visible v where v.tp = w.tp and v.iso = 'read_committed'
            and v.off < (select max(off) from told_ends e where e.grp = w.grp and e.tp = w.tp
              and e.ret <= w.since)
            and v.off >= (select max(off) from told_starts s where s.grp = w.grp and s.tp = w.tp
              and s.ret between w.since and w.ret)
            and exists (from final f where f.tp = v.tp and f.off = v.off)
            and not exists (from r k where k.grp = w.grp and k.tp = v.tp and k.off = v.off
              and k.inv <= w.ret
              and ((k.op = 'acknowledge' and k.ack in ('accept', 'reject') and k.outcome <> 'fail')
                or (k.op = 'acquire' and k.cnt >= delivery_limit(k.grp)))))""",
}
