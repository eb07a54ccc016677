"""G2, G3, G11, G12: how partitions change hands inside a group, negated."""

from traces.second_checker.base import known, must, one_partition, ops, predicate
from traces.second_checker.history import History
from traces.second_checker.rows import PartitionName, Row, TraceLine, before, same_clock

_MS = 1_000_000
_OWNS = ("assigned", "revoked", "lost")


@predicate("G2", "assigned revoked assigned poll")
def no_overlap(h: History, rows: list[Row]) -> None:
    """The old owner's revocation returned before the new owner's first poll did."""
    ops(rows, "assigned", "revoked", "assigned", "poll")
    partition, (had, gave, got, first) = one_partition(rows), rows
    must(len({r.group for r in (had, gave, got)}) == 1 and had.group is not None, "groups differ")
    must(had.process == gave.process != got.process == first.process, "it is no hand-over")
    must(
        _next(h, partition, had) is gave or _same(_next(h, partition, had), gave),
        "another move between",
    )
    following = _next(h, partition, got)
    must(first.at > got.at and (following is None or first.at < following.at), "not its own read")
    must(before(had, got), "the old owner was not there before")
    returned, read = known("a time is missing", gave.ret, first.ret)
    must(same_clock(gave, first) and returned > read, "it had been given up")
    must(_timeout_known(h, had), "nobody knows the time-out")


def _timeout_known(h: History, row: Row) -> bool:
    """True if the old owner's session timeout is known, which in KIP-848 is the broker's."""
    settings = h.consumer(row.process)
    protocol = str(settings.get("group_protocol")).lower()
    return protocol == "classic" and settings.get("session_timeout_ms") is not None


def _next(h: History, partition: PartitionName, row: Row) -> Row | None:
    """The next row about the partition of the same member."""
    mine = [r for r in h.rows(partition, *_OWNS) if r.process == row.process and r.at > row.at]
    return min((r for r in mine if r.ok), key=lambda r: r.at, default=None)


def _same(one: Row | None, two: Row) -> bool:
    return one is not None and (one.process, one.at) == (two.process, two.at)


@predicate("G3", "subscribe assigned")
def covered(h: History, rows: list[Row]) -> None:
    """A generation that lasts: the partitions of the subscription are those of its members."""
    ops(rows[:2], "subscribe", "assigned")
    (asked, assigned), group = rows[:2], rows[1].group
    must(
        asked.ok and assigned.ok and group is not None and asked.group == group, "the groups differ"
    )
    (generation,) = known("a generation is missing", assigned.generation)
    topic = asked.partition.rpartition(":")[0]
    for line in _lines(h, group):
        if line["op"] == "subscribe" and line["outcome"] == "ok" and line.get("topics"):
            must(topic in line["topics"], "not every member subscribed to it")
    _lasts(h, group, generation, assigned)
    count = h.topic(topic).get("partitions") or 0
    free = [n for n in range(count) if not _owned(h, f"{topic}:{n}", group, generation, assigned)]
    must(free, "every partition had an owner")


def _lines(h: History, group: str | None) -> list[TraceLine]:
    """The calls in the name of a group."""
    mine = (line for several in h.by_process.values() for _, line in several)
    return [line for line in mine if line.get("group") == group]


def _lasts(h: History, group: str | None, generation: int, assigned: Row) -> None:
    """Require that the group did not change for a session timeout after the last assignment."""
    settings = [one.get("session_timeout_ms") for one in h.members(group or "")]
    protocols = {str(one.get("group_protocol")).lower() for one in h.members(group or "")}
    must(protocols == {"classic"} and None not in settings, "nobody knows the time-out")
    timeout = max(int(one or 0) for one in settings) * _MS
    assigned_at, _ = known("a time is missing", assigned.ret, assigned.inv)
    moves = [line for line in _lines(h, group) if line["op"] in _OWNS and line["outcome"] == "ok"]
    moves = [line for line in moves if line.get("generation") is not None]
    for line in moves:
        own, began = line["generation"], line.get("invoked_ns")
        if line["op"] == "assigned":
            returned = line.get("returned_ns") or 0
            must(own != generation or returned <= assigned_at, "another member was told later")
        later = own > generation or (own == generation and line["op"] != "assigned")
        must(not later or (began or 0) > assigned_at + timeout, "the generation did not last")
    ended = [h.ended.get(process) for process in {line["process"] for line in moves}]
    ends = [when for when in ended if when is not None]
    must(not any(assigned_at < when <= assigned_at + timeout for when in ends), "a member left")
    times = ends + [t for line in _lines(h, group) for t in _times(line)]
    must(max(times, default=0) > assigned_at + timeout, "the recording ended before")


def _times(line: TraceLine) -> list[int]:
    return [line[name] for name in ("invoked_ns", "returned_ns") if line.get(name) is not None]


def _owned(
    h: History, partition: PartitionName, group: str | None, generation: int, assigned: Row
) -> bool:
    """True if a member owns the partition in that generation."""
    for row in h.rows(partition, "assigned"):
        if not row.ok or row.group != group or row.generation is None:
            continue
        following = _next(h, partition, row)
        until = None if following is None else following.generation
        if row.generation > generation or (until is not None and until < generation):
            continue
        left = h.ended.get(row.process)
        if following is not None or left is None or assigned.ret is None or left > assigned.ret:
            return True
    return False


@predicate("G11", "assigned assigned commit")
def static_member_fenced(h: History, rows: list[Row]) -> None:
    """A member of instance i assigned ≺ commit of another of i, assigned before ⇒ not ok."""
    ops(rows, "assigned", "assigned", "commit")
    own, joined, commit = rows
    must(all(row.ok for row in rows), "one of them did not happen")
    names = {row.line.get("instance") for row in rows}
    must(len(names) == 1 and None not in names, "the instances differ")
    must(len({row.group for row in rows}) == 1, "the groups differ")
    must(own.process == commit.process != joined.process, "it is one member")
    must(not commit.line.get("auto"), "the time of an automatic commit is that of its report")
    must(before(own, joined) and before(joined, commit), "they were not one after another")
    for n, line in h.by_process[own.process]:
        again = line["op"] == "assigned" and line["outcome"] == "ok" and own.n < n < commit.n
        must(not again, "the member had joined again")


@predicate("G12", "assigned assigned txn_offsets txn_offsets")
def owners_in_turn(h: History, rows: list[Row]) -> None:
    """M, then m′ given p; m′ sent its offsets in epoch e′ ≺ m did in epoch e < e′ ⇒ not ok."""
    ops(rows, "assigned", "assigned", "txn_offsets", "txn_offsets")
    partition, (given, taken, other, late) = one_partition(rows), rows
    must(all(row.ok for row in rows), "one of them did not happen")
    must(late.group is not None and len({row.group for row in rows}) == 1, "the groups differ")
    mine, its = late.line.get("member"), other.line.get("member")
    must(mine is not None and given.line.get("member") == mine, "another member was given it")
    must(its is not None and taken.line.get("member") == its, "the other had not been given it")
    must(its != mine, "both commits are of one member")
    in_turn = before(given, taken) and before(taken, other) and before(other, late)
    must(in_turn, "they were not one after another")
    new, old = known("an epoch is missing", other.generation, late.generation)
    must(new > old, "the epoch of the later one is not older")
    for row in h.rows(partition, "assigned"):
        own = row.ok and row.group == late.group and row.line.get("member") == mine
        again = own and not before(row, taken) and not before(late, row)
        must(not again, "the member had been given the partition again")
