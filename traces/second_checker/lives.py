"""Periods in which a group had members, and in which it may have been created again.

Computed once more, from the lines.
"""

from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from traces.second_checker.history import History
from traces.second_checker.rows import PartitionName, Row, TraceLine, same_clock

_CHANGES = ("subscribe", "assigned", "revoked", "lost", "close", "crash")
_ALWAYS, _NEVER = float("-inf"), float("inf")
Period = tuple[float, float]


@define
class _Membership:
    """The membership of one process in its group while its file is read."""

    since: float | None = None
    emptied: float | None = None  # when it had given up the last of its partitions
    generation: int | None = None
    member: str | None = None
    held: set[PartitionName] = field(factory=set[PartitionName])
    topics: dict[str, float] = field(factory=dict[str, float])
    periods: list[Period] = field(factory=list[Period])
    of_topics: list[tuple[str, float, float]] = field(factory=list[tuple[str, float, float]])

    def over(self, when: float) -> None:
        """It has left, or has been left out."""
        if self.since is not None:
            self.periods.append((self.since, when if self.emptied is None else self.emptied))
        self.since = self.emptied = None
        self.held = set()

    def given(self, line: TraceLine) -> None:
        """A rebalance gave it partitions, perhaps none."""
        generation, member = line.get("generation"), line.get("member")
        if self.since is not None and not self._same(generation, member):
            self.over(line["invoked_ns"])
        if self.since is None:
            self.since, self.generation = line["invoked_ns"], generation
        numbers = [n for n in (self.generation, generation) if n is not None]
        self.generation, self.member = max(numbers, default=None), member
        self.held |= set(_named(line))
        self.emptied = None
        for topic in {name.rpartition(":")[0] for name in _named(line)}:
            self.topics.setdefault(topic, line["invoked_ns"])

    def _same(self, generation: int | None, member: str | None) -> bool:
        if self.emptied is None and generation == self.generation:
            return True
        if generation is None or self.generation is None or generation <= self.generation:
            return False
        return self.member is None or self.member == member

    def gave_up(self, line: TraceLine) -> None:
        """Record that it gave up, or lost, partitions."""
        if self.since is None:
            return
        self.held -= set(_named(line))
        if line["op"] == "lost":
            self.over(line["invoked_ns"])
        elif _named(line) and not self.held:
            self.emptied = line["invoked_ns"]

    def subscribes(self, line: TraceLine) -> None:
        """Record the topics that it reads from now on. Without any it leaves the group."""
        topics: list[str] = line.get("topics") or []
        if not topics:
            self.over(line["invoked_ns"])
        for topic in [topic for topic in self.topics if topic not in topics]:
            self.of_topics.append((topic, self.topics.pop(topic), line["invoked_ns"]))
        for topic in topics:
            self.topics.setdefault(topic, line["invoked_ns"])


def _named(line: TraceLine) -> list[PartitionName]:
    partitions: list[PartitionName] = line.get("partitions") or []
    offsets: dict[PartitionName, int] = line.get("offsets") or {}
    return [*partitions, *offsets]


def _memberships(h: History, group: str) -> Iterator[_Membership]:
    for process, lines in h.by_process.items():
        one = _Membership()
        for _, line in lines:
            asked = line.get("invoked_ns")
            if asked is None or line["outcome"] != "ok" or line["op"] not in _CHANGES:
                continue
            if line["op"] in ("close", "crash"):
                one.over(max(asked, h.last_call.get(process, asked)))
            elif line.get("group") == group and line.get("returned_ns") is not None:
                _see(one, line)
                if process in h.holed:
                    one.over(line["returned_ns"])
        one.over(h.last_call.get(process, _ALWAYS))
        one.of_topics += [(topic, since, _NEVER) for topic, since in one.topics.items()]
        yield one


def _see(one: _Membership, line: TraceLine) -> None:
    if line["op"] == "assigned":
        one.given(line)
    elif line["op"] == "subscribe":
        one.subscribes(line)
    else:
        one.gave_up(line)


def present(h: History, group: str, topic: str | None) -> list[Period]:
    """Periods in which the group had members, subscribed to the topic if one is named."""
    key = ("present", group, topic)
    if key not in h.cache:
        found: list[Period] = []
        for one in _memberships(h, group):
            if topic is None:
                found += one.periods
            else:
                mine = [(a, b) for of, a, b in one.of_topics if of == topic]
                both = [(max(a, c), min(b, d)) for a, b in one.periods for c, d in mine]
                found += [(a, b) for a, b in both if a < b]
        h.cache[key] = sorted(found)
    return h.cache[key]


def deletions(h: History, group: str) -> list[Period]:
    """Periods in which an administrator recorded the deletion of the group."""
    lines = (line for several in h.by_process.values() for _, line in several)
    mine = [x for x in lines if x["op"] == "delete_groups" and x.get("group") == group]
    return [
        (x["invoked_ns"], x["returned_ns"])
        for x in mine
        if x["outcome"] == "ok" and None not in (x.get("invoked_ns"), x.get("returned_ns"))
    ]


def absences(h: History, group: str, topic: str | None) -> list[Period]:
    """When nobody was."""
    found, reached = list[Period](), _ALWAYS
    for begin, end in present(h, group, topic):
        if begin > reached:
            found.append((reached, begin))
        reached = max(reached, end)
    return [*found, (reached, _NEVER), *deletions(h, group)]


def _vague(h: History, group: str) -> bool:
    """True if some change of members has no time, or they have times of several clocks."""
    clocks: set[Any] = set()
    for lines in h.by_process.values():
        reported = [x for _, x in lines if x["outcome"] == "ok" and x["op"] in (*_CHANGES, *_ADMIN)]
        if not any(x.get("group") == group for x in reported):
            continue
        for x in reported:
            ended = x["op"] in ("close", "crash")
            if ended or x.get("group") == group:
                wanted = ("invoked_ns",) if ended else ("invoked_ns", "returned_ns")
                clocks |= {None} if any(x.get(name) is None for name in wanted) else set()
                clocks.add(x.get("clock", "host"))
    return None in clocks or len(clocks) > 1


_ADMIN = ("delete_groups",)


def _go_on(h: History, group: str, when: float) -> bool:
    """True if the generations go on at a time when those of a new group would start at one.

    The first one must also exceed the number of its members: so many joins can have made it in a
    new group.
    """
    reported: list[tuple[int, int, str]] = []
    for process, lines in h.by_process.items():
        for _, line in lines:
            if line["op"] != "assigned" or line.get("group") != group or line["outcome"] != "ok":
                continue
            times = (line.get("invoked_ns"), line.get("returned_ns"), line.get("generation"))
            if None not in times:
                reported.append((line["invoked_ns"], line["generation"], process))
    earlier = [generation for asked, generation, _ in reported if asked < when]
    later = sorted(one for one in reported if one[0] >= when)
    if not earlier or not later:
        return False
    first = later[0][1]
    members = {process for _, generation, process in later if generation == first}
    return first > max(earlier) and first > len(members)


def anew(h: History, group: str, topic: str | None) -> list[Period]:
    """When it may have been made again: nobody was there, and its generations do not go on."""
    key = ("anew", group, topic)
    if key not in h.cache:
        gone, found = deletions(h, group), list[Period]()
        for begin, end in absences(h, group, topic):
            over = any(begin <= asked and answered <= end for asked, answered in gone)
            if over or not _go_on(h, group, end):
                found.append((begin, end))
        h.cache[key] = found
    return h.cache[key]


def may_have_begun(h: History, one: Row, two: Row) -> bool:
    """True if the group may have begun to read the topic again between two calls.

    Without recorded members, at least the retention of committed offsets must be between them.
    """
    group = one.group or two.group
    if h.jepsen or group is None:
        return False
    if not _vague(h, group) and not present(h, group, None):
        first, second = sorted((one, two), key=lambda row: row.inv or 0)
        minutes = h.meta.get("group_retention") or 1
        if first.inv is None or second.ret is None or not same_clock(one, two):
            return True
        return second.ret - first.inv >= minutes * 60_000_000_000
    return may_differ(h, one, two, topic_of(one))


def may_differ(h: History, one: Row, two: Row, topic: str | None = None) -> bool:
    """True if the group may have been created again between two calls."""
    return _overlaps(h, one, two, anew, topic)


def may_be_gone(h: History, one: Row, two: Row) -> bool:
    """True if the group's offsets of the topic may have been deleted between two calls."""
    return _overlaps(h, one, two, absences, topic_of(one))


def _overlaps(
    h: History,
    one: Row,
    two: Row,
    periods: Callable[[History, str, str | None], list[Period]],
    topic: str | None,
) -> bool:
    group = one.group or two.group
    if h.jepsen or group is None:
        return False
    first, second = sorted((one, two), key=lambda row: row.inv or 0)
    if not same_clock(one, two) or first.inv is None or second.ret is None or _vague(h, group):
        return True
    since, until = first.inv, second.ret
    return any(begin < until and end > since for begin, end in periods(h, group, topic))


def stay_of(h: History, row: Row, group: str, apart: bool) -> tuple[int, int]:
    """A number for the group's time up to a row: another one after each change of its offsets.

    `apart`: or once it had no members.
    """
    moved = [r for r in h.rows(row.partition, "alter_offsets") if r.outcome != "fail"]
    moved = [r for r in moved if r.group == group]
    times = [r.inv if r.inv is not None else -1 for r in moved]
    known = apart and not h.jepsen and bool(present(h, group, None))
    ends = [end for _, end in anew(h, group, topic_of(row))] if known else []
    at = -1 if row.inv is None else row.inv
    return sum(when <= at for when in times), sum(end <= at for end in ends)


def ended_between(h: History, one: Row, two: Row) -> bool:
    """True if members came back between the beginnings of two calls."""
    group = one.group
    if h.jepsen or group is None or _vague(h, group):
        return False
    since, until = (-1 if row.inv is None else row.inv for row in (one, two))
    return any(since < end <= until for _, end in anew(h, group, None))


def is_vague(h: History, group: str) -> bool:
    """True if the times at which the group had members are unknown."""
    return not h.jepsen and _vague(h, group)


def topic_of(row: Row) -> str:
    """The topic of the partition that a row is about."""
    return row.partition.rpartition(":")[0]


def forgot(h: History, one: Row, two: Row, group: str) -> bool:
    """True if the group's commits were deleted between two calls, or have expired."""
    since, until = one.inv, two.ret
    for row in h.rows(one.partition, "delete_offsets"):
        over = row.ok and row.ret is not None and since is not None and row.ret < since
        later = row.inv is not None and until is not None and row.inv > until
        if row.group == group and row.outcome != "fail" and not over and not later:
            return True
    if since is None or until is None:
        return False
    if any(begin <= until and end >= since for begin, end in deletions(h, group)):
        return True
    minutes = h.meta.get("group_retention")
    if minutes is None:
        return False
    for begin, end in absences(h, group, topic_of(one)):
        begin = since if begin == _ALWAYS else begin
        if end > since and min(end, until) - begin >= minutes * 60_000_000_000:
            return True
    return False


def altered(h: History, one: Row, two: Row) -> bool:
    """True if an administrator may have set the group's offset between two calls."""
    first, second = sorted((one, two), key=lambda row: row.inv or 0)
    for row in h.rows(one.partition, "alter_offsets"):
        over = row.ok and row.ret is not None and first.inv is not None and row.ret < first.inv
        later = row.inv is not None and second.ret is not None and row.inv > second.ret
        if row.group == two.group and row.outcome != "fail" and not over and not later:
            return True
    return False
