"""T6: transactions that read from each other in a circle, found again by walking every edge."""

from collections import defaultdict
from collections.abc import Iterable

from traces.second_checker.base import must, ops, predicate
from traces.second_checker.history import History
from traces.second_checker.rows import Row

Unit = tuple[str, str, int]


@predicate("T6", "send poll|scan")
def no_circle(h: History, rows: list[Row]) -> None:
    """No cycle of edges T1 → T2 where T1 sent what T2 read; in a history, or returned before."""
    must(len(rows) >= 2 and len(rows) % 2 == 0, "pairs of a send and a read were expected")
    for sent, read in zip(rows[::2], rows[1::2], strict=True):
        ops([sent, read], "send", "poll|scan")
        must(
            sent.id == read.id and sent.partition == read.partition,
            "what was read is not what was sent",
        )
        must(sent.unit != read.unit, "a transaction that reads its own is no circle")
    edges = _edges(h)
    for sent, read in zip(rows[::2], rows[1::2], strict=True):
        must(read.unit in edges[sent.unit], "another attempt may have stored what was read")
    reached = _reached(edges, rows[1].unit, _times(h) if h.jepsen else {})
    must(rows[0].unit in reached, "the way does not lead back")


def _edges(h: History) -> dict[Unit, set[Unit]]:
    """The units that read from each unit, over all partitions.

    A record that several attempts may have stored is left out: the unit read from is unknown.
    """
    if "edges" not in h.cache:
        edges: dict[Unit, set[Unit]] = defaultdict(set)
        for (partition, id), rows in h.by_id.items():
            attempts = h.of(partition, id, "send")
            possible = [s for s in attempts if s.outcome != "fail"] or attempts
            for sent in possible if len(possible) == 1 else ():
                edges[sent.unit] |= {r.unit for r in rows if r.op in ("poll", "scan")}
        h.cache["edges"] = edges
    return h.cache["edges"]


def _times(h: History) -> dict[Unit, tuple[int | None, int | None]]:
    rows: Iterable[Row] = (row for rows in h.by_id.values() for row in rows)
    return {row.unit: (row.inv, row.ret) for row in rows}


def _reached(
    edges: dict[Unit, set[Unit]], start: Unit, times: dict[Unit, tuple[int | None, int | None]]
) -> set[Unit]:
    """Every unit that can be reached, where *returned before it began* may be an edge, too."""
    reached, todo = {start}, [start]
    by_begin = sorted((inv, unit) for unit, (inv, _) in times.items() if inv is not None)
    while todo:
        unit = todo.pop()
        after = set(edges.get(unit, ()))
        returned = times.get(unit, (None, None))[1]
        if returned is not None:
            while by_begin and by_begin[-1][0] > returned:
                after.add(by_begin.pop()[1])
        new = after - reached
        reached |= new
        todo += new
    return reached
