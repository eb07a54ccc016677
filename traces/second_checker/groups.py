"""G: what a group promises about owners and commits, negated word by word."""

from traces.second_checker.base import known, must, one_partition, ops, predicate
from traces.second_checker.facts import (
    final,
    first_visible,
    log_start,
    moves,
    over_before_the_end,
    reads_by,
    same_instance,
    shares,
    visible,
)
from traces.second_checker.history import History
from traces.second_checker.lives import (
    altered,
    ended_between,
    forgot,
    is_vague,
    may_differ,
    may_have_begun,
    stay_of,
)
from traces.second_checker.rows import PartitionName, Row, before, same_clock


def _one_generation(h: History, group: str | None) -> None:
    """Only a group of the classic protocol has generations; in KIP-848 they are its members'."""
    protocols = {str(member.get("group_protocol")).lower() for member in h.members(group or "")}
    must(h.jepsen or protocols != {"consumer"}, "its members' epochs are their own")


_ANEW = "the group may have been made again in between"


def _one_group(rows: list[Row]) -> None:
    must(rows[0].group is not None and len({r.group for r in rows}) == 1, "the groups differ")


@predicate("G1", "assigned assigned")
def one_owner(h: History, rows: list[Row]) -> None:
    """Assigned to two members in one (group, generation) ⇒ the same member."""
    ops(rows, "assigned", "assigned")
    one_partition(rows)
    _one_group(rows)
    one, two = rows
    must(one.ok and two.ok, "an assignment did not happen")
    _one_generation(h, one.group)
    must(one.generation is not None and one.generation == two.generation, "the generations differ")
    must(one.process != two.process, "it is one member")
    must(not same_instance(one, two), "it is one static member that came back")
    must(not may_differ(h, one, two), _ANEW)


@predicate("G4", "assigned commit")
def old_refused(h: History, rows: list[Row]) -> None:
    """Assigned in generation g′ ≺ commit of generation g < g′ ⇒ not ok."""
    ops(rows, "assigned", "commit")
    _one_group(rows)
    joined, commit = rows
    _one_generation(h, commit.group)
    must(joined.ok and commit.ok, "one of them did not happen")
    must(not commit.line.get("auto"), "the time of an automatic commit is that of its report")
    must(before(joined, commit), "the commit had begun when the newer generation was there")
    new, old = known("a generation is missing", joined.generation, commit.generation)
    must(new > old, "the generation of the commit is not older")
    _not_anew(h, joined, commit)


def _not_anew(h: History, joined: Row, commit: Row) -> None:
    """The committer was in its generation before the newer one, or the group is the same."""
    own: list[Row] = []
    for n, line in h.by_process[commit.process]:
        mine = line["op"] == "assigned" and line["outcome"] == "ok" and n < commit.n
        mine = mine and line.get("group") == commit.group
        if mine and line.get("generation") == commit.generation:
            own.append(Row(line, {}, "assigned", "", n, 0))
    if not own:
        must(not ended_between(h, joined, commit), _ANEW)
        must(not may_differ(h, joined, commit), _ANEW)
        return
    must(not ended_between(h, joined, own[-1]), _ANEW)
    known = own[-1].inv is not None and joined.ret is not None and same_clock(own[-1], joined)
    if not known or (own[-1].inv or 0) > (joined.ret or 0):
        must(not may_differ(h, joined, commit), _ANEW)


@predicate("G5", "commit commit")
def commits_forward(h: History, rows: list[Row]) -> None:
    """Commits of one (group, generation, partition) in order ⇒ offsets do not decrease."""
    ops(rows, "commit", "commit")
    partition, (one, two) = one_partition(rows), rows
    _one_group(rows)
    must(one.ok and two.ok, "a commit did not succeed")
    must(one.generation is not None and one.generation == two.generation, "the generations differ")
    own = one.process == two.process
    must(one.at < two.at if own else before(one, two), "the second was not made after the first")
    first, second = known("an offset is missing", one.offset, two.offset)
    must(second < first, "the offset did not go back")
    must(not (ended_between(h, one, two) if own else may_differ(h, one, two)), _ANEW)
    moved = (m for m in h.rows(partition, "seek", "reset") if m.process == two.process)
    moved = [m for m in moved if m.at < two.at and not (own and m.at < one.at)]
    must(not moved, "the application had moved back")


@predicate("G6", "commit")
def within_position(h: History, rows: list[Row]) -> None:
    """Committed c ⇒ no visible record at or above the group's position lies below c."""
    ops(rows[:1], "commit")
    commit, partition = rows[0], rows[0].partition
    must(commit.ok and commit.group is not None, "the commit did not succeed")
    must(not shares(h, commit.group), "a share group commits nothing")
    members = {r.process for r in h.by_partition[partition] if r.group == commit.group}
    reached: list[int] = []
    for row in h.rows(partition, "poll", "committed", "seek", "assign", "reset"):
        if row.process not in members or not row.ok or row.offset is None:
            continue
        if not _surely_after(row, commit):
            reached.append(row.offset + (row.op == "poll"))
    position = max(reached, default=log_start(h, partition))
    (offset,) = known("no offset was committed", commit.offset)
    ahead = first_visible(h, commit, position, offset)
    must(ahead is not None, "everything visible below it had been given to the group")


def _surely_after(row: Row, commit: Row) -> bool:
    known = row.inv is not None and commit.ret is not None and same_clock(row, commit)
    return known and (row.inv or 0) > (commit.ret or 0)


@predicate("G8", "poll|scan commit|committed")
def committed_is_processed(h: History, rows: list[Row]) -> None:
    """o below a committed offset, visible, not passed by a seek ⇒ processed by a member."""
    ops(rows, "poll|scan", "commit|committed")
    partition, (record, commit) = one_partition(rows), rows
    group = commit.group
    must(group is not None and commit.ok, "nothing was committed")
    must(not shares(h, group), "a share group commits nothing")
    own, reach = known("an offset is missing", record.offset, commit.offset)
    must(own < reach, "it is not below what was committed")
    processes = any(
        r.group == group for rows in h.by_partition.values() for r in rows if r.op == "process"
    )
    done = h.of(partition, record.id, "process" if processes else "poll")
    must(not [r for r in done if r.ok and r.group == group], "a member of the group processed it")
    given = [r for r in h.rows(partition, "poll") if r.ok and r.group == group and r.id is not None]
    there = [r for r in final(h, partition) if r.offset == own or r.id == record.id]
    held = any(r.id == record.id for r in there)
    was_given = any(r.id == record.id for r in given)
    must(held or (was_given and not there), "the final scan does not hold it")
    seen = visible(h, partition, over_before_the_end(h, commit))
    must(own in seen, "no reader must be given it")
    must(not _sought_past(h, partition, group, own, processes), "a member went past it by a seek")
    first = min((r.offset for r in given if r.offset is not None), default=None)
    below = (first is not None and first <= own) or _began_by(h, partition, group, own)
    must(below, "the group may have begun above it")
    _in_one_stay(h, partition, group or "", own, given)


def _in_one_stay(
    h: History, partition: PartitionName, group: str, own: int, given: list[Row]
) -> None:
    """The group read below the record and committed above it while nothing set its offsets."""
    reported = [r for r in h.rows(partition, "commit", "committed") if r.ok and r.group == group]
    rows = [*given, *(r for r in reported if r.offset is not None)]
    apart = _resets(h, group) != {"earliest"}
    must(not (apart and is_vague(h, group)), "nobody knows when the group had members")
    stays: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        stays.setdefault(stay_of(h, row, group, apart), []).append(row)
    for mine in stays.values() if len(stays) > 1 else ():
        low = min(r.offset or 0 for r in mine)
        if low <= own < max((r.offset or 0 for r in mine if r.op != "poll"), default=-1):
            return
    must(len(stays) < 2, "the group may have begun above it when it was made again")


def _resets(h: History, group: str) -> set[str]:
    return {str(member.get("auto_offset_reset")).lower() for member in h.members(group)}


def _sought_past(
    h: History, partition: PartitionName, group: str | None, offset: int, processes: bool
) -> bool:
    """True if a member sought above this offset before it had got past it."""
    rows = h.by_partition[partition]
    members = {row.process for row in rows if row.group == group}
    done = "process" if processes else "poll"
    for process in sorted(members):
        since: list[Row] = []  # of this process, from its last move on
        for row in (r for r in rows if r.process == process and r.ok):
            if row.op in ("seek", "assign") and row.offset is not None:
                low = _got_past(since, done)
                low = _committed_before(h, partition, group, row) if low is None else low
                if low <= offset < row.offset:
                    return True
            moved = row.op in (*_EXACT, "assigned", "revoked", "lost")
            since = [row] if moved else [*since, row]
    return False


_EXACT = ("seek", "assign", "reset")


def _got_past(since: list[Row], done: str) -> int | None:
    """Up to which offset a process had got since its last move, the first of these rows."""
    mine = [row for row in since if row.offset is not None]
    finished = [row.offset for row in mine if row.op == done and row.offset is not None]
    if finished:
        return max(finished) + 1
    if mine and mine[0] is since[0] and mine[0].op in _EXACT:
        return mine[0].offset
    begun = [row.offset for row in mine if row.op in ("poll", "committed")]
    return min((at for at in begun if at is not None), default=None)


def _committed_before(h: History, partition: PartitionName, group: str | None, row: Row) -> int:
    mine = [r for r in h.rows(partition, "commit") if r.ok and r.group == group]
    known = [r.offset for r in mine if r.offset is not None and (r.inv or 0) <= (row.inv or 0)]
    return max(known, default=0)


def _began_by(h: History, partition: PartitionName, group: str | None, offset: int) -> bool:
    """True if the group's first request for its offsets shows that it began no higher than here."""
    rows = (r for r in h.rows(partition, "committed") if r.ok and r.group == group)
    asked = sorted(((r.inv, r.offset) for r in rows if r.inv is not None), key=lambda x: x[0])
    if not asked:
        return False
    began = asked[0][1]
    if began is None and _resets(h, group or "") == {"earliest"}:
        began = log_start(h, partition)
    answered = [at for _, at in asked if at is not None]
    began = min(answered, default=None) if began is None else began
    return began is not None and began <= offset


@predicate("G9", "poll poll")
def delivered_once(h: History, rows: list[Row]) -> None:
    """A group is given (o, v) at most once."""
    ops(rows, "poll", "poll")
    one_partition(rows)
    _one_group(rows)
    one, two = rows
    must(one.ok and two.ok, "a poll did not succeed")
    must(one is not two and (one.process, one.at) != (two.process, two.at), "it is one delivery")
    must(None not in (one.id, one.offset), "nobody knows which record it is, or where")
    must(one.id == two.id and one.offset == two.offset, "the records differ")
    if {str(m.get("commit_order")) for m in h.members(one.group or "")} == {"commit_then_process"}:
        twice = [r for r in h.of(one.partition, one.id, "process") if r.ok and r.group == one.group]
        anew = may_have_begun(h, one, two) or altered(h, one, two)
        must(len(twice) < 2 or not anew, _ANEW)


@predicate("G13", "poll commit process")
def processed_first(h: History, rows: list[Row]) -> None:
    """Given o, then committed c > o by the same process ⇒ o was processed before."""
    ops(rows, "poll", "commit", "process")
    one_partition(rows)
    _one_group(rows)
    given, commit, done = rows
    must(all(row.ok for row in rows), "one of them did not happen")
    must(len({row.process for row in rows}) == 1, "they are of several processes")
    must(given.at < commit.at < done.at, "they were made in another order")
    must(not commit.line.get("auto"), "its client committed by itself")
    apart = commit.line.get("other_thread") or done.line.get("other_thread")
    must(not apart, "one of them was called by another thread than the one that polls")
    timed = None not in (commit.ret, done.inv) and same_clock(commit, done)
    must(not timed or before(commit, done), "they overlap, so several threads may have made them")
    habits = {member.get("commit_order") for member in h.members(done.group or "")}
    must(habits == {"process_then_commit"}, "it is not declared that commits wait for processing")
    must(not shares(h, done.group), "a share group commits nothing")
    must((given.id, given.offset) == (done.id, done.offset), "the records differ")
    own, upto = known("an offset is missing", done.offset, commit.offset)
    must(own < upto, "the commit does not cover it")
    for row in h.of(done.partition, done.id, "process", "poll"):
        same = row.offset == own and row.group == done.group
        if row.op == "process" and same:
            mine = row.process == done.process and row.at >= done.at
            must(mine, "it was processed before, or elsewhere, too")
        again = row.op == "poll" and same and row.ok and row.process == done.process
        must(not (again and commit.at < row.at < done.at), "it was given again after the commit")


@predicate("G10", "commit|committed|assigned|alter_offsets poll")
def goes_on(h: History, rows: list[Row]) -> None:
    """First read after assignment ⇒ no visible record from the committed offset up to it.

    And not below that offset, unless the member was told to begin there.
    """
    ops(rows, "commit|committed|assigned|alter_offsets", "poll")
    partition, (base, read) = one_partition(rows), rows
    must(read.group is not None, "its reader belongs to no group")
    had, got = known("nothing was committed", base.offset, read.offset)
    ends = ("assigned", "revoked", "lost", "seek", "assign", "reset", "forget")
    own = [m for m in moves(h, partition, read.process) if m.at < read.at and m.op in ends]
    since = own[-1].at if own and not h.jepsen else (-1, -1)
    must(
        not own or h.jepsen or own[-1].op not in ("seek", "assign", "reset"),
        "it was told where to start",
    )
    earlier = [r for r in reads_by(h, partition, read.process) if since < r.at < read.at]
    must(not [r for r in earlier if r.op == "poll"], "it is not the first read of its time with it")
    if got < had:
        _not_below(h, base, read, own[-1] if own else None)
        return
    start = _could_start_at(h, read)
    must(start is not None, "nothing was committed by then")
    assert start is not None
    skipped = first_visible(h, read, start.offset or 0, got)
    must(skipped is not None, "it may have begun there, and missed nothing")
    earliest = _resets(h, read.group or "") == {"earliest"}
    must(earliest or not may_have_begun(h, start, read), _ANEW)


def _not_below(h: History, commit: Row, read: Row, given: Row | None) -> None:
    """A commit ≺ an assignment, and nothing that may have set the group's offset after is lower."""
    must(given is not None and given.op == "assigned", "nobody was given the partition")
    assert given is not None
    must(commit.op == "commit" and commit.ok and commit.group == read.group, "it is no commit")
    must(before(commit, given), "the commit was not over when the partition was given")
    answers = [r for r in h.rows(read.partition, "committed") if r.process == read.process and r.ok]
    answers = [r for r in answers if given.at < r.at < read.at]
    must(
        not answers or (answers[-1].offset or -1) > (read.offset or 0), "it was told to begin there"
    )
    gone = may_have_begun(h, commit, read) or forgot(h, commit, read, read.group or "")
    must(answers or not (gone or altered(h, commit, read)), _ANEW)
    for row in h.rows(read.partition, "commit", "txn_offsets"):
        mine = row.group == read.group and row.outcome != "fail" and row.offset is not None
        later = row.process == read.process and row.line["seq"] >= read.line["seq"]
        replaced = row.op == "commit" and not row.line.get("auto") and before(row, commit)
        if mine and not later and not replaced and not before(read, row):
            must((row.offset or 0) > (read.offset or 0), "a commit that may be later is lower")


def _could_start_at(h: History, read: Row) -> Row | None:
    """The row of the highest offset that the member may start at, of all possible commits."""
    partition, found = read.partition, list[Row]()
    for row in h.rows(partition, "commit", "alter_offsets"):
        own = row.process == read.process and row.line["seq"] >= read.line["seq"]
        failed = row.line["outcome"] == "fail"
        if row.group != read.group or failed or own or before(read, row):
            continue
        if row.offset is not None:
            found.append(row)
    found.sort(key=lambda row: -1 if row.inv is None else row.inv)
    asked = [r for r in h.rows(partition, "committed") if r.process == read.process and r.ok]
    found = [r for r in asked[-1:] if r.at < read.at and r.offset is not None] + found
    return max(found, key=lambda row: row.offset or 0, default=None)
