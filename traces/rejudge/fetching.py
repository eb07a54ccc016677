"""C5, C6: what a consumer fetches from whom, and when it may move its own position, negated."""

from traces.rejudge.base import known, must, one_place, ops, predicate
from traces.rejudge.consumers import successive
from traces.rejudge.facts import acknowledged, first_visible, reads
from traces.rejudge.history import History
from traces.rejudge.rows import Row


@predicate("C5")
def below_the_replicas_mark(h: History, rows: list[Row]) -> None:
    """O read from replica r ⇒ o < hw of r; no step back and no skip where r changes."""
    one, two = rows
    one_place(rows)
    first, second = known("an offset is missing", one.offset, two.offset)
    (replica,) = known("nobody knows which replica answered", one.line.get("replica"))
    if two.op == "mark":
        must(one.call == two.call, "another call reported it")
        must(first >= second, "it is below the high watermark")
        return
    successive(h, one, two)
    must(two.line.get("replica") not in (None, replica), "the replica did not change")
    skipped = first_visible(h, one.place, first + 1, second)
    must(second <= first or skipped is not None, "the reader went on")


@predicate("C6")
def resets_have_a_cause(h: History, rows: list[Row]) -> None:
    """No_offset ⇒ nothing committed; out_of_range ⇒ not in the log; truncation ⇒ it was cut."""
    reset, place = rows[-1], one_place(rows)
    ops(rows[-1:], "reset")
    must(reset.ok and reset.offset is not None, "it did not happen")
    reason = reset.line.get("reason")
    if reason == "no_offset":
        ops(rows, "commit", "reset")
        commit = rows[0]
        returned, asked = known("a time is missing", commit.ret, reset.inv)
        must(commit.ok and returned < asked, "nothing was committed before")
        must(commit.group == _group(h, reset) is not None, "another group committed it")
    elif reason == "out_of_range":
        _out_of_range(h, place, rows)
    else:
        must(reason == "truncation", "the reason is not known")


def _group(h: History, row: Row) -> str | None:
    """The group of a client, as it told it last about this partition."""
    mine = [r for r in h.by_place[row.place] if r.process == row.process and r.at <= row.at]
    told = [r.group for r in sorted(mine, key=lambda r: r.at) if r.group is not None]
    return told[-1] if told else None


def _out_of_range(h: History, place: str, rows: list[Row]) -> None:
    """The position was where records were known, and no log start above it had been told."""
    reset = rows[-1]
    own = [r for r in rows[:-1] if r.process == reset.process and r.at < reset.at]
    placed = [r for r in own if r.op in ("poll", "seek", "assign", "reset", "committed")]
    if not placed:
        return  # nobody knows the position: the finding says so, and nothing more
    position = (placed[0].offset or 0) + (placed[0].op == "poll")
    acks = (s for s in h.rows(place, "send") if acknowledged(h, s))
    told = [r for r in [*acks, *reads(h, place)] if _over(r, reset)]
    end = max((r.offset or 0 for r in told), default=-1) + 1
    must(position <= end, "the position was beyond what anybody knew")
    starts = h.rows(place, "earliest", "log_start", "delete_records")
    above = [r for r in starts if r.ok and _over(r, reset) and (r.offset or 0) > position]
    must(not above, "the log was known to start above it")


def _over(row: Row, reset: Row) -> bool:
    return row.ret is not None and reset.inv is not None and row.ret < reset.inv
