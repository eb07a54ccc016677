"""Promises about producers and their transactions, as queries."""

QUERIES = {
    "P1": """from located a, located b where a.tp = b.tp and a.process = b.process
        and (a.n, a.i) < (b.n, b.i) and b.at < a.at""",
    "P2": """from sends a, sends b select a.process, a.n
        where a.tp = b.tp and a.process = b.process
        and a.pid = b.pid and a.epoch = b.epoch and (a.n, a.i) < (b.n, b.i)
        and a.outcome <> 'fail' and a.kept and not compacted(a.topic)
        and not exists (from final f where f.tp = a.tp and f.id = a.id)
        and exists (from final f where f.tp = b.tp and f.id = b.id)
        and (b.done or (select count(*) from sends o where o.tp = b.tp and o.id = b.id
                        and (o.outcome <> 'fail' or b.outcome = 'fail')) = 1)
        union all by name
        from (from r select *, lag(seqno) over own as prior, min(off) over (partition by
              tp, replica) as head where op in ('dump', 'marker') and not compacted(r.topic)
              window own as (partition by tp, replica, pid, epoch
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
    "P5": """from reads d join (from sends select tp, id group by tp, id
              having count(distinct (process, pid, epoch)) > 1) s using (tp, id)
        select 1 group by tp, id having count(distinct d.off) > 1""",
    "P6": """from sends s where s.outcome = 'ok' and hasher(s.process) is not null
        and s.key is not null and s.chosen = false and not exists (from range(
            (select coalesce(max(split_part(e.tp, ':', -1)::int), 0) + 1 from sends e
             where e.process = s.process and e.topic = s.topic and e.n < s.n),
            (select count(*) from parts p where p.topic = s.topic) + 1) g(number)
          where s.tp = s.topic || ':' || key_partition(hasher(s.process), s.key, g.number::int))
        """,
    "P7": """from r e join r b using (process, txn), r i where e.op = 'call txn_commit'
        and b.op = 'call txn_begin' and e.outcome <> 'ok' and e.ret is not null
        and e.error in ('PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', '_FENCED')
        and i.op = 'call init_producer' and i.outcome = 'ok' and i.process = e.process
        and i.n = (select max(n) from r j where j.op = i.op and j.outcome = 'ok'
                   and j.process = e.process and j.n < e.n)
        and coalesce(e.ret - b.inv < (select max(ms) * 1000000 from timeouts t
                                      where t.name = split_part(e.process, '#', 1)), true)
        and not exists (from r o where o.op = i.op and o.tid = e.tid and o.process <> e.process
            and not coalesce(o.ret < i.inv, false) and not coalesce(o.inv > e.ret, false))""",
    "T1": """from sends s where s.state = 'committed' and s.outcome <> 'fail'
        and not compacted(s.topic) and coalesce(s.off, 0) >= left_from(s.tp)
        and not exists (from final f where f.tp = s.tp and f.id = s.id)""",
    "T2": """from reads d where d.iso = 'read_committed'
        and exists (from sends s where s.tp = d.tp and s.id = d.id)
        and not exists (from sends s where s.tp = d.tp and s.id = d.id
                        and (s.state = 'none' or (s.state <> 'aborted' and d.ret >= s.asked)))
        and exists (from sends s where s.tp = d.tp and s.id = d.id
                    and s.state <> 'aborted')""",
    "T3": """from reads d, located s where d.iso = 'read_committed' and s.state = 'committed'
        and s.tp = d.tp and s.at < d.off and d.ret < s.asked""",
    "T4": """from reads d where d.iso = 'read_committed'
        and exists (from sends s where s.tp = d.tp and s.id = d.id)
        and not exists (from sends s where s.tp = d.tp and s.id = d.id
                        and s.state <> 'aborted')""",
    "T5": """from reads d, sends s where d.process = s.process and d.txn = s.txn
        and d.tp = s.tp and d.id = s.id""",
    "T6": """with recursive edges as (from sends s join reads d using (tp, id)
            select distinct s.process || '/' || s.txn as a, d.process || '/' || d.txn as b
            where s.txn is not null and d.txn is not null and d.op = 'poll'
            and (s.process, s.txn) <> (d.process, d.txn)),
        paths as (from edges union from paths p join edges e on p.b = e.a select p.a, e.b)
        from paths where a = b""",
    "T7": """from r x, r m, units u select x.process, x.n where x.op = 'dump'
        and m.op = 'marker' and m.tp = x.tp
        and m.process = x.process and m.replica is not distinct from x.replica and m.pid = x.pid
        and m.epoch = x.epoch and m.off = (select min(k.off) from r k where k.op = 'marker'
            and k.process = x.process and k.tp = x.tp and k.pid = x.pid
            and k.replica is not distinct from x.replica and k.off > x.off)
        and exists (from sends s where s.process = u.process and s.txn = u.txn
            and s.tp = x.tp and s.id = x.id)
        and ((u.answered and m.control = 'abort') or (u.aborted and m.control = 'commit'))
        union all by name
        from reads d, sends s select d.process, d.n where d.iso = 'read_committed'
        and d.tp = s.tp and d.id = s.id and s.state = 'aborted' and d.outcome = 'ok'
        and (select count(*) from sends o where o.tp = s.tp and o.id = s.id) = 1
        union all by name
        from reads d, sends s, units u select d.process, d.n where d.iso = 'read_uncommitted'
        and d.op = 'scan' and d.tp = s.tp and d.id = s.id and s.process = u.process
        and s.txn = u.txn and u.answered and d.outcome = 'ok'
        and (select count(*) from sends o where o.tp = s.tp and o.id = s.id) = 1
        and exists (from r e where e.op = 'scan_end' and e.iso = 'read_committed'
            and e.tp = s.tp and e.off > d.off)
        and not exists (from reads c where c.iso = 'read_committed' and c.op = 'scan'
            and c.tp = d.tp and c.off = d.off)""",
    "T8": """from r a, r b, r c, r d where a.op = 'call txn_begin' and b.op = 'call txn_commit'
        and c.op = a.op and d.op = b.op and a.process = b.process and a.txn = b.txn
        and c.process = d.process and c.txn = d.txn and a.tid = c.tid
        and (a.process, a.txn) <> (c.process, c.txn) and b.outcome = 'ok' and d.outcome = 'ok'
        and a.outcome = 'ok' and c.outcome = 'ok' and a.ret < d.inv and c.ret < b.inv""",
    "T9": """from r t join units u using (process, txn), r q select q.process, q.n
        where t.op = 'txn_offsets' and t.outcome = 'ok' and u.aborted and q.op = 'committed'
        and q.outcome = 'ok' and q.grp = t.grp and q.tp = t.tp and q.off = t.off
        and not exists (from offered o where o.grp = q.grp and o.tp = q.tp
            and o.off = q.off and o.inv <= q.ret)
        union all by name
        from offered t, r q select q.process, q.n where t.op = 'txn_offsets' and t.ret < q.inv
        and q.op = 'committed' and q.outcome = 'ok' and q.grp = t.grp and q.tp = t.tp
        and coalesce(q.off, -1) < t.off and not exists (from offered o where o.grp = q.grp
            and o.tp = q.tp and o.off is not distinct from q.off and o.ret > t.inv)""",
    "T10": """from reads a join units u using (process, txn),
        reads b join units w using (process, txn)
        where a.op = 'poll' and b.op = 'poll' and u.answered and w.answered
        and (a.process, a.txn) < (b.process, b.txn) and a.grp = b.grp and a.tp = b.tp
        and a.off = b.off and a.outcome = 'ok' and b.outcome = 'ok'""",
    "T11": """from located s, r m where m.tp = s.tp and (m.op = 'last_stable'
        or m.op = 'scan_end' and m.iso = 'read_committed')
        and m.outcome = 'ok' and s.txn is not null and s.outcome = 'ok' and s.at >= m.off
        and m.inv > s.ret + hanging_after(s.process)""",
}
