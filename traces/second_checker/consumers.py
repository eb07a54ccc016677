"""C: what one consumer is promised inside one assignment, negated word by word."""

from traces.second_checker.base import known, must, one_partition, ops, predicate
from traces.second_checker.facts import first_visible, log_start, moves, reads_by, shaken
from traces.second_checker.history import History
from traces.second_checker.rows import Row


def successive(h: History, one: Row, two: Row) -> None:
    """Two reads of one client with no read between them, and nothing that moved its position."""
    partition = one_partition([one, two])
    must(one.process == two.process, "two clients read them")
    must(one.at < two.at, "they were read in the other order")
    if one.call == two.call:
        must(not shaken(h, two), "the partition changed hands while the call ran")
        between = [r for r in reads_by(h, partition, one.process) if one.at < r.at < two.at]
        must(not between, "another read is between them")
        return
    must(one.ok, "the call that read the first did not succeed")
    moved = not h.jepsen and (shaken(h, one) or shaken(h, two))
    must(not moved, "the partition changed hands in a call")
    moved = [m for m in moves(h, partition, one.process) if one.at < m.at < two.at]
    must(not moved, f"its position was moved in between ({', '.join(m.op for m in moved)})")
    own = [r for r in reads_by(h, partition, one.process) if r.at < two.at]
    same_call = [r for r in own if r.call == two.call]
    others = [r for r in reads_by(h, partition, one.process) if one.at < r.at < two.at and r.ok]
    must(not others and not same_call, "another read is between them")


@predicate("C1", "poll|scan poll|scan")
def nothing_skipped(h: History, rows: list[Row]) -> None:
    """Successive reads at o, o′ ⇒ no visible record strictly between."""
    ops(rows, "poll|scan", "poll|scan")
    one, two = rows
    successive(h, one, two)
    low, high = known("an offset is missing", one.offset, two.offset)
    skipped = first_visible(h, two, low + 1, high)
    must(skipped is not None, "there is no visible record between them")


@predicate("C2", "poll|scan poll|scan")
def forward(h: History, rows: list[Row]) -> None:
    """Successive reads at o, o′ ⇒ o < o′."""
    ops(rows, "poll|scan", "poll|scan")
    one, two = rows
    successive(h, one, two)
    low, high = known("an offset is missing", one.offset, two.offset)
    must(high <= low, "the reader went forward")


@predicate("C3", "seek|assign poll|scan")
def starts_where_sought(h: History, rows: list[Row]) -> None:
    """First read after seek, assign or reset to o ⇒ at o or the next visible record."""
    ops(rows, "seek|assign|reset", "poll|scan")
    partition, (base, read) = one_partition(rows), rows
    must(base.process == read.process and base.at < read.at, "another client was told")
    must(base.ok, "it was not told where to start")
    want, got = known("it was not told where to start", base.offset, read.offset)
    must(not shaken(h, read), "the partition changed hands while the call ran")
    moved = [m for m in moves(h, partition, read.process) if base.at < m.at < read.at]
    must(not moved, "it was told something else in between")
    earlier = [r for r in reads_by(h, partition, read.process) if base.at < r.at < read.at]
    must(not earlier, "it is not the first read")
    skipped = first_visible(h, read, max(want, log_start(h, partition)), got)
    must(got < want or skipped is not None, "it is the first visible record from there")


@predicate("C4", "revoked|lost|pause poll|scan")
def only_assigned(h: History, rows: list[Row]) -> None:
    """A partition is read ⇒ since assigned or resumed it was not revoked, lost or paused."""
    ops(rows, "revoked|lost|pause", "poll")
    partition, (gone, read) = one_partition(rows), rows
    must(gone.process == read.process and gone.at < read.at, "another client gave it up")
    if gone.op == "pause":
        gives = ("assign", "assigned", "revoked", "lost", "resume")
        mine = (r for r in h.rows(partition, *gives) if r.ok and r.process == read.process)
    else:
        mine = iter(moves(h, partition, read.process))
    back = [m for m in mine if gone.at < m.at < read.at]
    must(not back, "it was assigned again, or resumed, in between")
    must(not shaken(h, read), "the partition changed hands while the call ran")
