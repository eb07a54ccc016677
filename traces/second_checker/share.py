"""S: share groups, which lend each record to one member, negated word by word."""

from typing import Any

from traces.second_checker.base import known, must, nobody_else, one_partition, ops, predicate
from traces.second_checker.facts import shares, visible
from traces.second_checker.history import ABORTED, History, Settings
from traces.second_checker.rows import PartitionName, Row, same_clock

_MS = 1_000_000
_FINAL = ("accept", "reject")
_NEVER = float("inf")


def _settings(h: History, group: str | None) -> Settings:
    named: dict[str, Settings] = h.meta.get("share_groups") or {}
    return named.get(group or "") or {}


def _about(h: History, row: Row, *words: str) -> list[Row]:
    """The calls of the row's group about its record."""
    assert row.offset is not None
    return [r for r in h.at(row.partition, row.offset, *words) if r.group == row.group]


def _deliveries(h: History, row: Row) -> list[Row]:
    """All deliveries of the row's record to its group, in the order of their returns."""
    found = [r for r in _about(h, row, "acquire") if r.ok]
    return sorted(found, key=lambda r: (r.ret if r.ret is not None else -1, r.process, r.at))


def _spell(h: History, one: Row) -> list[Row]:
    """The holder's acknowledgements of its record until it acquired it again."""
    mine = [r for r in _about(h, one, "acquire", "acknowledge") if r.process == one.process]
    later = sorted((r for r in mine if r.at > one.at), key=lambda r: r.at)
    again = next((i for i, r in enumerate(later) if r.op == "acquire" and r.ok), len(later))
    return [r for r in later[:again] if r.op == "acknowledge"]


def _ended(h: History, one: Row) -> Row | None:
    """The acknowledgement that ended a delivery."""
    return next((r for r in _spell(h, one) if r.record.get("ack") != "renew"), None)


def _expires(h: History, one: Row) -> float:
    """When the lock of a delivery ends, counted from its last renewal."""
    lock = _settings(h, one.group).get("lock_ms")
    since, ended = [one.inv or 0], _ended(h, one)
    for row in _spell(h, one):
        if row is ended:
            break
        since += [row.inv or 0] if row.ok else []
    return _NEVER if lock is None else max(since) + lock * _MS


def _one_record(rows: list[Row]) -> None:
    one_partition(rows)
    must(rows[0].group is not None and len({r.group for r in rows}) == 1, "the groups differ")
    must(rows[0].offset is not None and len({r.offset for r in rows}) == 1, "the offsets differ")


def _successive(h: History, one: Row, two: Row) -> None:
    must(one.ok and two.ok, "one of them was not given")
    deliveries = [(r.process, r.at) for r in _deliveries(h, one)]
    ranks = [deliveries.index((r.process, r.at)) for r in (one, two)]
    must(ranks[1] == ranks[0] + 1, "they are not successive deliveries")


@predicate("S1", "acquire acquire")
def held_by_one(h: History, rows: list[Row]) -> None:
    """[acquired, acknowledged or lock expired] of one (group, o) are disjoint."""
    ops(rows, *("acquire", "acquire", "acknowledge")[: len(rows)])
    _one_record(rows)
    one, two = rows[:2]
    _successive(h, one, two)
    (given,) = known("a time is missing", two.ret)
    ended = _ended(h, one)
    must(given < _expires(h, one), "the lock had expired")
    must(ended is None or given < (ended.inv or 0), "it had been given back")


def _not_moved_back(h: History, row: Row, since: int, until: int) -> None:
    """No administrator may have set the group's start offset to the record, or below it."""
    for commit in h.rows(row.partition, "commit"):
        if commit.group != row.group or commit.outcome == "fail":
            continue
        late = not commit.ok or commit.ret is None or commit.ret >= since
        below = (commit.offset or 0) <= (row.offset or 0)
        must(
            not (late and below and (commit.inv or 0) <= until), "the start may have been set back"
        )


@predicate("S2", "acknowledge acquire")
def final_is_final(h: History, rows: list[Row]) -> None:
    """Accepted or rejected ≺ acquired: not the same (group, o)."""
    ops(rows, "acknowledge", "acquire")
    _one_record(rows)
    ack, given = rows
    must(ack.ok and given.ok and ack.record.get("ack") in _FINAL, "it was not final")
    returned, again = known("a time is missing", ack.ret, given.inv)
    must(same_clock(ack, given) and returned < again, "it was given before")
    _not_moved_back(h, given, ack.inv or 0, given.ret or 0)


@predicate("S3", "acquire / acquire acquire")
def counted(h: History, rows: list[Row]) -> None:
    """Counts of one (group, o) grow from 1, and none is above the limit."""
    _one_record(rows)
    one, two = rows[0], rows[-1]
    (count,) = known("a count is missing", two.record.get("delivery_count"))
    if len(rows) == 1:
        ops(rows, "acquire")
        limit = _settings(h, one.group).get("delivery_limit")
        must(count < 1 or (limit is not None and count > limit), "the count is within its limits")
        return
    ops([one, two], "acquire", "acquire")
    _successive(h, one, two)
    (first,) = known("a count is missing", one.record.get("delivery_count"))
    returned, again = known("a time is missing", one.ret, two.inv)
    must(returned < again and count <= first, "the count grew")
    ended = _ended(h, one)
    done = ended is not None and ended.ok and (ended.ret or 0) < again
    final = done and ended is not None and ended.record.get("ack") in _FINAL
    must(not final, "the delivery before it was final")
    _not_moved_back(h, two, one.inv or 0, two.ret or 0)


@predicate("S4", "scan")
def disposed_of(h: History, rows: list[Row]) -> None:
    """O between the first and the last delivered: accepted, rejected or given up at the end."""
    row = rows[-1]
    partition = one_partition(rows)
    (own,) = known("an offset is missing", row.offset)
    must(own in visible(h, partition, early=True), "no reader must be given it")
    groups = {r.group for r in h.rows(partition, "acquire") if r.ok}
    left = [group for group in groups if _left(h, partition, group, own)]
    must(left, "it was disposed of")


def _left(h: History, partition: PartitionName, group: str | None, offset: int) -> bool:
    given = [r for r in h.rows(partition, "acquire") if r.ok and r.group == group]
    reach = [r.offset for r in given if r.offset is not None]
    if not min(reach) <= offset <= max(reach):
        return False
    acks = [r for r in h.rows(partition, "acknowledge") if r.group == group and r.offset == offset]
    done = any(r.ok and r.record.get("ack") in _FINAL for r in acks)
    limit: Any = _settings(h, group).get("delivery_limit")
    most = max((r.record.get("delivery_count", 0) for r in given if r.offset == offset), default=0)
    return not done and not (limit is not None and most >= limit)


@predicate("S5", "committed committed|acquire / acquire send")
def start_grows(h: History, rows: list[Row]) -> None:
    """Start offsets do not decrease, nothing below is given; committed ones only, if so set."""
    one_partition(rows)
    one, two = rows
    if two.op == "send":
        _undecided(h, one, two)
        return
    ops(rows, "committed", "committed|acquire")
    must(one.ok and two.ok and one.group == two.group, "the groups differ")
    must(shares(h, one.group), "it is no share group")
    returned, asked = known("a time is missing", one.ret, two.inv)
    must(same_clock(one, two) and returned < asked, "the second may have been asked first")
    start, below = known("an offset is missing", one.offset, two.offset)
    must(below < start, "it is not below")
    _not_moved_back(h, two, one.inv or 0, two.ret or 0)


def _undecided(h: History, given: Row, sent: Row) -> None:
    """The record of a transaction that was aborted, or that nobody had asked to commit."""
    ops([given], "acquire")
    must(given.ok and given.id == sent.id, "the records differ")
    nobody_else(h, sent)
    isolation = _settings(h, given.group).get("isolation")
    must(isolation == "read_committed", "the group does not ask for what is committed")
    for attempt in h.of(given.partition, given.id, "send"):
        must(h.state(attempt) is not None, "an attempt to send it needs no commit")
        asked = h.commit_asked(attempt)
        early = asked is not None and asked[0] is not None and (given.ret or 0) < asked[0]
        must(h.state(attempt) == ABORTED or early, "a transaction had been asked to commit")


@predicate("S6", "waited committed scan")
def not_stuck(h: History, rows: list[Row]) -> None:
    """Members poll from a to b, o waits, nobody holds any ⇒ b − a ≤ lock_ms + stuck_ms."""
    ops(rows, "waited", "committed", "scan")
    partition, (last, start, there) = one_partition(rows), rows
    must(last.ok and start.ok and last.group == start.group, "the groups differ")
    settings = _settings(h, last.group)
    lock, stated = known("a limit is missing", settings.get("lock_ms"), settings.get("stuck_ms"))
    (until,) = known("a time is missing", last.ret)
    since, apart = until - (lock + stated) * _MS, stated * _MS // 4
    _nobody_holds(h, last, since, until, lock * _MS)
    _all_poll(h, last, since, until, apart)
    mine = [r for r in h.rows(partition, "committed") if r.ok and r.group == last.group]
    starts = [r for r in mine if r.offset is not None and r.ret is not None]
    _without_gap("did the coordinators answer", [r.ret for r in starts], since, until, apart)
    ends = [r for r in h.rows(partition, "latest") if r.ok and r.ret is not None]
    if settings.get("isolation") != "read_uncommitted":
        ends = [r for r in ends if r.line.get("isolation") == "read_committed"]
    _without_gap("did the leader answer", [r.ret for r in ends], since, until, apart)
    (own,) = known("an offset is missing", there.offset)
    reported = [r.offset or 0 for r in ends if (r.ret or 0) <= since]
    must(own < max(reported, default=0), "no answer shows that it is committed")
    begin = [r.offset or 0 for r in starts if since <= (r.ret or 0) <= until]
    must(own >= max(begin, default=0), "it lies below the group's start")
    must(own in visible(h, partition, early=True), "no reader must be given it")
    acks = [r for r in h.at(partition, own, "acknowledge") if r.group == last.group]
    ended = [r for r in acks if r.outcome != "fail" and r.record.get("ack") in _FINAL]
    ended = [r for r in ended if (r.inv or 0) <= until]
    must(not ended, "it was accepted or rejected, or may have been")
    given = [r for r in h.at(partition, own, "acquire") if r.ok and r.group == last.group]
    given = [r for r in given if (r.inv or 0) <= until]
    counts: list[int] = [r.record.get("delivery_count", 0) for r in given]
    most: Any = settings.get("delivery_limit")
    must(most is None or max(counts, default=0) < most, "it was given up")


def _nobody_holds(h: History, last: Row, since: int, until: int, lock: int) -> None:
    """No record of the partition is held at any time from since to until."""
    for row in h.rows(last.partition, "acquire", "acknowledge"):
        renews = row.op == "acknowledge" and row.record.get("ack") == "renew"
        taken = row.ok if row.op == "acquire" else renews and row.outcome != "fail"
        if row.group != last.group or not taken:
            continue
        over = _NEVER if row.ret is None else row.ret + lock
        ended = _ended(h, row) if row.op == "acquire" else None
        if ended is not None and ended.ok and ended.ret is not None:
            over = ended.ret
        must((row.inv or 0) > until or over <= since, "a member held a record")


def _all_poll(h: History, last: Row, since: int, until: int, apart: int) -> None:
    """Each member is one all the time, and polls without a gap that is longer."""
    joins = [r for r in h.rows(last.partition, "joined") if r.ok and r.group == last.group]
    members = {r.process for r in joins}
    must(last.process in members, "it is no member")
    for process in members:
        own = [r for r in joins if r.process == process]
        left = h.ended.get(process)
        gone = _NEVER if left is None else left
        came = min(r.inv or 0 for r in own)
        if came >= until or gone <= since:
            continue
        moves = [r.inv or 0 for r in own] + [r.ret or 0 for r in own]
        must(max(moves) <= since and gone >= until, "a member came or left")
        polls = [r for r in h.rows(last.partition, "waited") if r.ok and r.process == process]
        times = [(r.inv or 0, r.ret) for r in polls if r.ret is not None]
        _covered("did every member poll", [(came, came), *times], since, until, apart)


def _without_gap(what: str, times: list[int | None], since: int, until: int, apart: int) -> None:
    points = [(time, time) for time in times if time is not None]
    _covered(what, points, since, until, apart)


def _covered(what: str, times: list[tuple[int, int]], since: int, until: int, apart: int) -> None:
    """From since to until no moment lies in a longer gap between these times."""
    chains: list[tuple[int, int]] = []
    for begin, end in sorted(times):
        if chains and begin <= chains[-1][1] + apart:
            chains[-1] = chains[-1][0], max(chains[-1][1], end)
        else:
            chains.append((begin, end))
    must(any(begin <= since and end >= until for begin, end in chains), f"not always {what}")
