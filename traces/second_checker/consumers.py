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


@predicate("C8", "poll|committed|seek|assign|reset mark")
def goes_on_below_the_end(h: History, rows: list[Row]) -> None:
    """Position ≤ o < high watermark, o visible, and the last three polls returned nothing."""
    ops(rows, "poll|committed|seek|assign|reset", "mark")
    partition, (base, last) = one_partition(rows), rows
    must(base.ok and base.process == last.process and base.at < last.at, "it is another reader's")
    (position,) = known("nobody knows where it stood", base.offset)
    position += base.op == "poll"
    marks = [r for r in h.rows(partition, "mark") if r.process == last.process and r.ok]
    marks = sorted((r for r in marks if r.at > base.at), key=lambda r: r.at)[-3:]
    must(len(marks) == 3 and marks[-1].at == last.at, "it polled less than three times since")
    moved = [m for m in moves(h, partition, last.process) if base.at < m.at < last.at]
    moved += [r for r in reads_by(h, partition, last.process) if r.at > base.at]
    must(not [m for m in moved if m.op != "committed"], "it read on, or was moved")
    stops = [r for r in h.rows(partition, "pause", "resume") if r.process == last.process and r.ok]
    stops = [r for r in stops if r.at < last.at]
    must(not stops or stops[-1].op == "resume", "it was paused")
    ends = [r.offset for r in marks if r.offset is not None]
    waits = any(r.line.get("isolation") != "read_uncommitted" for r in marks)
    if waits and any(h.state(s) is not None for s in h.rows(partition, "send")):
        calls = {r.call for r in marks}
        stable = [r.offset for r in h.rows(partition, "last_stable") if r.call in calls]
        must(len(stable) == 3, "nobody knows what it waited for")
        ends += [offset for offset in stable if offset is not None]
    there = first_visible(h, last, max(position, log_start(h, partition)), min(ends, default=0))
    must(there is not None, "there was nothing more for it")
    groups = {r.group for r in h.by_partition[partition] if r.process == last.process} - {None}
    others = [r for r in h.rows(partition, "poll") if r.process != last.process]
    read_on = [r for r in others if r.group in groups and (r.offset or 0) >= position]
    must(not read_on, "somebody else of its group read on")


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
