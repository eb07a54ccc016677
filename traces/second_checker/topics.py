"""Lives of topics that were deleted and made again under the same name, from the lines."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from attrs import define, field, frozen

from traces.second_checker.rows import TraceLine, lives_reported

_EVER, _NEVER = float("inf"), float("-inf")


@frozen
class _Report:
    """A call that tells something of a topic: its id, that it was used, or that it was not there.

    `since` to `until` is the time of the call, as far as it is known.
    """

    what: str  # id, use, delete, perhaps (a deletion without an answer) or create
    id: str | None
    clock: str
    since: float | None
    until: float | None


@define
class Topics:
    """The names of topics, each with what calls tell of it."""

    reports: dict[str, list[_Report]] = field(factory=lambda: defaultdict[str, list[_Report]](list))
    _absent: dict[str, list[tuple[float, float]]] = field(
        factory=dict[str, list[tuple[float, float]]]
    )

    def see(self, line: TraceLine) -> None:
        """One line of the trace."""
        answered = line["outcome"] == "ok"
        clock, since = line.get("clock", "host"), line.get("invoked_ns")
        until = line.get("returned_ns") if answered else None
        for topic, id in lives_reported(line):
            made = until if line["op"] == "create_topics" else since
            self.reports[topic].append(_Report("id", id, clock, made, until))
        for topic in line.get("topics") or ():
            if line["op"] == "delete_topics" and line["outcome"] != "fail":
                what = "perhaps" if until is None else "delete"
                self.reports[topic].append(_Report(what, None, clock, since, until))
            elif line["op"] == "create_topics" and answered and until is not None:
                self.reports[topic].append(_Report("create", None, clock, since, until))
        if line["op"] in ("send", "poll", "scan") and answered:
            used = line.get("records") or ()
            for topic in {one["topic"] for one in used if one.get("offset") is not None}:
                self.reports[topic].append(_Report("use", None, clock, since, until))

    def newest(self) -> dict[str, str]:
        """The last life of each topic that had several."""
        found = {topic: self._last(topic) for topic in self.reports}
        return {topic: life for topic, life in found.items() if life is not None}

    def _last(self, topic: str) -> str | None:
        ids = self._ids(topic)
        if len(ids) > 1:
            return max(ids, key=lambda id: max(one.since or -1 for one in ids[id]))
        absent = self._absences(topic)
        last = len(absent) - (1 if absent and absent[-1][1] == _EVER else 0)
        return self._name(topic, last) if absent and self._consistent(topic) else None

    def life(self, topic: str, clock: str, began: float, ended: float) -> str | None:
        """The life that a call of this time is about, None if nobody knows."""
        ids = self._ids(topic)
        if len(ids) > 1:
            return self._between_reports(topic, clock, began, ended)
        absent = self._absences(topic)
        if not absent or clock != self._clock(topic) or not self._consistent(topic):
            return None
        before = sum(until <= began for _, until in absent)
        after = sum(ended <= since for since, _ in absent)
        return self._name(topic, before) if before + after == len(absent) else None

    def _ids(self, topic: str) -> dict[str, list[_Report]]:
        found: dict[str, list[_Report]] = {}
        for one in self.reports.get(topic, ()):
            if one.id is not None:
                found.setdefault(one.id, []).append(one)
        return found

    def _clock(self, topic: str) -> str | None:
        """The clock of administrators, if they have one."""
        calls = [x for x in self.reports[topic] if x.what in ("delete", "perhaps", "create")]
        clocks = {one.clock for one in calls if one.since is not None}
        return clocks.pop() if len(clocks) == 1 else None

    def _counts_before(self, topic: str) -> set[int]:
        """Between which absences calls tell an id."""
        ends = [until for _, until in self._absences(topic)]
        several = (one for mine in self._ids(topic).values() for one in mine)
        return {sum(e <= one.since for e in ends) for one in several if one.since is not None}

    def _consistent(self, topic: str) -> bool:
        return len(self._counts_before(topic)) < 2

    def _name(self, topic: str, number: int) -> str:
        """The id of the life after so many absences, or a name of ours."""
        ids = self._ids(topic)
        return next(iter(ids)) if self._counts_before(topic) == {number} and ids else str(number)

    def _absences(self, topic: str) -> list[tuple[float, float]]:
        """Periods in each of which the topic was not there for a moment."""
        if topic not in self._absent:
            self._absent[topic] = list(_joined([*self._changes(topic)]))
        return self._absent[topic]

    def _changes(self, topic: str) -> Iterator[_Report]:
        """Deletions, and creations of which no recorded deletion tells already; in order."""
        mine = [x for x in self.reports.get(topic, ()) if x.since is not None]
        changes = [x for x in mine if x.what in ("delete", "perhaps", "create")]
        changes.sort(key=lambda x: x.since or 0)
        sure = [x for x in changes if x.what != "perhaps"]
        follows = {id(two) for one, two in pairwise(sure) if one.what == "delete"}
        shown = False
        for one in changes:
            uses = (x for x in mine if x.what == "use" and x.clock == one.clock)
            used = any(x.until is not None and x.until < (one.since or 0) for x in uses)
            if one.what == "create" and (id(one) in follows or not (used or shown)):
                continue
            shown |= one.what != "perhaps"
            yield one

    def _between_reports(self, topic: str, clock: str, began: float, ended: float) -> str | None:
        """An id comes back never: what lies between two calls that report it is about it."""
        ids = self._ids(topic)
        spans = {id: self._span(topic, id, clock) for id in ids}
        if {one.clock for mine in ids.values() for one in mine} == {clock}:
            order = sorted(ids, key=lambda id: max(one.since or -1 for one in ids[id]))
            spans[order[0]] = (_NEVER, spans[order[0]][1])
            spans[order[-1]] = (spans[order[-1]][0], _EVER)
        within = [id for id, (low, high) in spans.items() if low <= began and ended <= high]
        return within[-1] if within else None

    def _span(self, topic: str, id: str, clock: str) -> tuple[float, float]:
        """The time from the first return of a call that reports an id to the last such call."""
        mine = [(x.since, x.until) for x in self._ids(topic)[id] if x.clock == clock]
        known = [(a, b) for a, b in mine if a is not None and b is not None]
        low = min((until for _, until in known), default=_EVER)
        return low, max((since for since, _ in known), default=_NEVER)


def _joined(changes: list[_Report]) -> Iterator[tuple[float, float]]:
    """A deletion without an answer was done by the next change, or nobody knows when."""
    waiting: float | None = None
    for one in changes:
        assert one.since is not None
        if one.what == "perhaps":
            waiting = one.since if waiting is None else waiting
        elif one.until is not None:
            yield (one.since if waiting is None else waiting), one.until
            waiting = None
    if waiting is not None:
        yield waiting, _EVER
