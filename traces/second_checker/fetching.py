"""C5, C6: what a consumer fetches from whom, and when it may move its own position, negated."""

from traces.second_checker.base import known, must, one_partition, ops, predicate
from traces.second_checker.consumers import successive
from traces.second_checker.facts import acknowledged, first_visible, reads
from traces.second_checker.history import History
from traces.second_checker.lives import forgot, may_be_gone
from traces.second_checker.rows import Row, before

_POSITIONS = ("poll", "seek", "assign", "reset")
_MOVED = ("assigned", "revoked", "lost")


@predicate("C5", "poll poll")
def on_with_another_replica(h: History, rows: list[Row]) -> None:
    """No step back and no skip where the replica changes."""
    one, two = rows
    one_partition(rows)
    first, second = known("an offset is missing", one.offset, two.offset)
    (replica,) = known("nobody knows which replica answered", one.line.get("replica"))
    successive(h, one, two)
    must(two.line.get("replica") not in (None, replica), "the replica did not change")
    skipped = first_visible(h, two, first + 1, second)
    must(second <= first or skipped is not None, "the reader went on")


@predicate("C6", "reset / commit reset / poll|seek|assign|reset|committed reset")
def resets_have_a_cause(h: History, rows: list[Row]) -> None:
    """No_offset ⇒ nothing committed; out_of_range ⇒ not in the log; truncation ⇒ it was cut."""
    reset, partition = rows[-1], one_partition(rows)
    ops(rows[-1:], "reset")
    must(reset.ok and reset.offset is not None, "it did not happen")
    reason = reset.line.get("reason")
    if reason == "no_offset":
        ops(rows, "commit", "reset")
        commit = rows[0]
        must(commit.ok and before(commit, reset), "nothing was committed before")
        must(commit.group == _group(h, reset) is not None, "another group committed it")
        gone = forgot(h, commit, reset, commit.group or "")
        must(not gone, "what was committed has been deleted, or has expired")
        must(not may_be_gone(h, commit, reset), "the group may have been made again in between")
    elif reason == "out_of_range":
        _out_of_range(h, partition, rows)
    else:
        must(reason == "truncation", "the reason is not known")


def _group(h: History, row: Row) -> str | None:
    """The group that a client named last for this partition."""
    mine = [r for r in h.by_partition[row.partition] if r.process == row.process and r.at <= row.at]
    groups = [r.group for r in sorted(mine, key=lambda r: r.at) if r.group is not None]
    return groups[-1] if groups else None


def _out_of_range(h: History, partition: str, rows: list[Row]) -> None:
    """Require a position among known records, with no known log start above it."""
    reset, source = rows[-1], _stood(h, rows[-1])
    own = [r for r in rows[:-1] if r.process == reset.process and r.at < reset.at]
    positions = [r for r in own if r.op in (*_POSITIONS, "committed")]
    must(positions and source is not None, "nobody knows where the client stood")
    assert source is not None
    must((positions[0].at, positions[0].offset) == (source.at, source.offset), "it has moved since")
    position = (source.offset or 0) + (source.op == "poll")
    acks = (s for s in h.rows(partition, "send") if acknowledged(h, s))
    seen = [r for r in [*acks, *reads(h, partition)] if before(r, reset)]
    end = max((r.offset or 0 for r in seen), default=-1) + 1
    must(position <= end, "the position was beyond what anybody knew")
    starts = [r for r in h.rows(partition, "earliest", "log_start", "delete_records") if r.ok]
    starts += h.rows(partition, "dump_start")
    above = [r for r in starts if before(r, reset) and (r.offset or 0) > position]
    must(not above, "the log was known to start above it")
    must((reset.offset or 0) <= position, "the log may have started above it")


def _stood(h: History, reset: Row) -> Row | None:
    """The row that gives the client's position: its last move or read, or an answer since."""
    own = [
        r for r in h.by_partition[reset.partition] if r.process == reset.process and r.at < reset.at
    ]
    for row in sorted(own, key=lambda r: r.at, reverse=True):
        answered = row.op == "committed" and row.ok and row.offset is not None
        moves_to = row.op in _POSITIONS and row.ok and row.offset is not None
        if moves_to or row.op in (*_MOVED, *_POSITIONS[1:]):
            return row if moves_to else None
        if answered and _moved_last(own, row):
            return row
    return None


def _moved_last(own: list[Row], answer: Row) -> bool:
    """True if a client had no position when it was answered."""
    earlier = [r for r in own if r.at < answer.at]
    moves = [r for r in earlier if r.op in (*_POSITIONS, *_MOVED)]
    moves = [r for r in moves if r.op != "poll" or (r.ok and r.offset is not None)]
    last = max(moves, key=lambda r: r.at, default=None)
    if last is None:
        return False
    return last.op in _MOVED or (last.op != "poll" and (not last.ok or last.offset is None))
