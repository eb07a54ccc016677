"""C5, C6: what a consumer fetches from whom, and when it may move its own position, negated."""

from traces.second_checker.base import known, must, one_place, ops, predicate
from traces.second_checker.consumers import successive
from traces.second_checker.facts import acknowledged, final, first_visible, reads
from traces.second_checker.history import History
from traces.second_checker.rows import Row, before

_PLACES = ("poll", "seek", "assign", "reset")
_MOVED = ("assigned", "revoked", "lost")


@predicate("C5", "poll mark|poll")
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


@predicate("C6", "reset / commit reset / poll|seek|assign|reset|committed reset")
def resets_have_a_cause(h: History, rows: list[Row]) -> None:
    """No_offset ⇒ nothing committed; out_of_range ⇒ not in the log; truncation ⇒ it was cut."""
    reset, place = rows[-1], one_place(rows)
    ops(rows[-1:], "reset")
    must(reset.ok and reset.offset is not None, "it did not happen")
    reason = reset.line.get("reason")
    if reason == "no_offset":
        ops(rows, "commit", "reset")
        commit = rows[0]
        must(commit.ok and before(commit, reset), "nothing was committed before")
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
    reset, source = rows[-1], _stood(h, rows[-1])
    own = [r for r in rows[:-1] if r.process == reset.process and r.at < reset.at]
    placed = [r for r in own if r.op in (*_PLACES, "committed")]
    must(placed and source is not None, "nobody knows where the client stood")
    assert source is not None
    must((placed[0].at, placed[0].offset) == (source.at, source.offset), "it has moved since")
    position = (source.offset or 0) + (source.op == "poll")
    acks = (s for s in h.rows(place, "send") if acknowledged(h, s))
    told = [r for r in [*acks, *reads(h, place)] if before(r, reset)]
    end = max((r.offset or 0 for r in told), default=-1) + 1
    must(position <= end, "the position was beyond what anybody knew")
    starts = [r for r in h.rows(place, "earliest", "log_start", "delete_records") if r.ok]
    above = [r for r in starts if before(r, reset) and (r.offset or 0) > position]
    must(not above, "the log was known to start above it")
    later = [r for r in starts if before(reset, r) and r.offset is not None]
    lowest = min((r.offset or 0 for r in [*later, *final(h, place)]), default=None)
    must(lowest is not None and lowest <= position, "the log may have started above it")


def _stood(h: History, reset: Row) -> Row | None:
    """What tells where the client was: its last move or read, or what it was answered since."""
    own = [r for r in h.by_place[reset.place] if r.process == reset.process and r.at < reset.at]
    for row in sorted(own, key=lambda r: r.at, reverse=True):
        answered = row.op == "committed" and row.ok and row.offset is not None
        told = row.op in _PLACES and row.ok and row.offset is not None
        if told or row.op in (*_MOVED, *_PLACES[1:]):
            return row if told else None
        if answered and _moved_last(own, row):
            return row
    return None


def _moved_last(own: list[Row], answer: Row) -> bool:
    """Whether a client had no position when it was answered."""
    earlier = [r for r in own if r.at < answer.at]
    told = [r for r in earlier if r.op in (*_PLACES, *_MOVED)]
    told = [r for r in told if r.op != "poll" or (r.ok and r.offset is not None)]
    last = max(told, key=lambda r: r.at, default=None)
    if last is None:
        return False
    return last.op in _MOVED or (last.op != "poll" and (not last.ok or last.offset is None))
