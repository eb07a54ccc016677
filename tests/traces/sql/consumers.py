"""Promises about what consumers are given, as queries."""

QUERIES = {
    "C1": """from (from moved select *, lead(op) over w as nop, lead(off) over w as noff
              window w as (partition by process, tp order by nth)) d
        where op = 'poll' and nop = 'poll' and noff > off + 1
        and passed(d.tp, d.off + 1, d.noff, d.iso = 'read_committed')
        union all by name
        from (from final select *, lead(off) over (partition by process, tp order by n, i)
              as noff) d select d.process, d.n
        where passed(d.tp, d.off + 1, d.noff, d.iso = 'read_committed')""",
    "C2": """from (from reads select *, lag(off) over own as before, lag(n) over own as prior
              window own as (partition by process, tp order by n, i)) d
        where d.off <= d.before and not exists (from r m where m.process = d.process
              and m.tp = d.tp and m.n between d.prior and d.n
              and m.op in ('assigned', 'revoked', 'lost', 'seek', 'assign', 'reset'))""",
    "C3": """from (from moved select *, lead(op) over w as nop, lead(off) over w as noff,
              lead(iso) over w as niso window w as (partition by process, tp order by nth)) d
        select d.process, d.n where op in ('seek', 'assign', 'reset') and off is not null
        and nop = 'poll'
        and (d.noff < d.off or passed(d.tp, d.off, d.noff, d.niso = 'read_committed'))
        union all by name
        from r a, final f select a.process, a.n where a.op = 'assign' and a.off is not null
        and a.process = f.process and a.tp = f.tp and a.n = (select max(n) from r x
            where x.op = 'assign' and x.process = a.process and x.tp = a.tp and x.n < f.n)
        and (f.n, f.i) = (select min((n, i)) from final g where g.process = a.process
            and g.tp = a.tp and g.n > a.n)
        and (f.off < a.off or passed(f.tp, a.off, f.off, f.iso = 'read_committed'))""",
    "C4": """from reads d where d.op = 'poll' and ((select arg_max(g.op, (g.n, g.i)) from r g
            where g.process = d.process and g.tp = d.tp and g.n < d.n
            and g.op in ('assigned', 'assign', 'revoked', 'lost')) in ('revoked', 'lost')
        or (select arg_max(g.op, (g.n, g.i)) from r g where g.process = d.process
            and g.tp = d.tp and g.n < d.n and g.op in ('pause', 'resume', 'assigned'))
            = 'pause')""",
    "C5": """from (from moved select *, lead(op) over w as nop, lead(off) over w as noff,
              lead(replica) over w as other
              window w as (partition by process, tp order by nth)) d
        select d.process, d.n where op = 'poll' and nop = 'poll' and other <> replica
        and (d.noff <= d.off or passed(d.tp, d.off + 1, d.noff, d.iso = 'read_committed'))""",
    "C6": """from r x where x.op = 'reset' and x.outcome = 'ok' and (x.reason = 'truncation'
        or (x.reason = 'no_offset' and exists (from r c where c.op = 'commit' and c.outcome = 'ok'
            and c.tp = x.tp and c.ret < x.inv and c.grp = coalesce(x.grp, (select arg_max(
            g.grp, (g.n, g.i)) from r g where g.process = x.process and g.tp = x.tp
            and g.n <= x.n and g.grp is not null))))
        or (x.reason = 'out_of_range' and exists (from (select b.off + (b.op = 'poll')::int as own
              from r b where b.process = x.process and b.tp = x.tp and b.n < x.n
              and b.op in ('poll', 'seek', 'assign', 'reset', 'assigned', 'revoked', 'lost')
              and (b.op <> 'poll' or b.outcome = 'ok')
              order by b.n desc, b.i desc limit 1) p
            where p.own is not null
            and p.own <= (select coalesce(max(k.off), -1) + 1 from (from acked union all by name
                          from reads) k where k.tp = x.tp and k.ret < x.inv)
            and not exists (from starts t where t.tp = x.tp and t.ret < x.inv
                            and t.off > p.own)
            and x.off <= p.own)))""",
    "C7": """from answers m, acked s where m.op = 'mark' and s.tp = m.tp and s.kept
        and s.outcome = 'ok' and s.ret < m.inv and s.off >= m.off
        and not exists (from reads d where d.process = m.process and d.n = m.n
            and d.tp = m.tp)""",
    "C8": """from (from answers m select *, row_number() over (partition by process, tp
              order by n desc) as back where op = 'mark') m
        where back = 3 and not exists (from r x where x.process = m.process and x.tp = m.tp
            and x.op in ('poll', 'assign', 'seek', 'reset', 'assigned', 'revoked', 'lost', 'pause',
            'resume') and x.n >= m.n and x.n <= (select max(n) from answers l
                where l.op = 'mark' and l.process = m.process and l.tp = m.tp))
        and coalesce((select arg_max(x.op, (x.n, x.i)) from r x where x.process = m.process
            and x.tp = m.tp and x.n < m.n and x.op in ('assigned', 'revoked', 'lost', 'pause',
            'resume')), '') not in ('revoked', 'lost', 'pause')
        and passed(m.tp, (select arg_max(x.off + (x.op = 'poll')::int, (x.n, x.i)) from r x
            where x.process = m.process and x.tp = m.tp and x.n < m.n and x.off is not null
            and x.outcome = 'ok' and x.op in ('poll', 'committed', 'seek', 'assign', 'reset')),
            (select min(e.off) from answers e where e.process = m.process and e.tp = m.tp
            and e.n >= m.n and (e.op = 'mark' or (e.op = 'last_stable'
                and m.iso = 'read_committed'))), m.iso = 'read_committed')
        and not exists (from reads x where x.tp = m.tp and x.process <> m.process
            and x.op = 'poll' and x.off >= (select arg_max(y.off + (y.op = 'poll')::int, (y.n, y.i))
                from r y where y.process = m.process and y.tp = m.tp and y.n < m.n
                and y.off is not null and y.outcome = 'ok'
                and y.op in ('poll', 'committed', 'seek', 'assign', 'reset'))
            and x.grp in (select y.grp from r y where y.process = m.process and y.tp = m.tp
                and y.grp is not null))""",
}
