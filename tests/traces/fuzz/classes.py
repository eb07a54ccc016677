"""The classes of anomalies of a Jepsen history, word by word as its README defines them.

Written from `data/histories/README.md` alone, by plain loops over all pairs: slow, and nothing in
it is taken from a checker. A history is complete, its topics are not compacted and its consumers
assign partitions themselves.
"""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

from attrs import define, frozen

from tests.traces.fuzz.operations import Operation


@frozen
class Send:
    of: Operation
    key: int
    acked_at: int | None
    value: Any


@frozen
class Read:
    of: Operation
    key: int
    offset: int
    value: Any


def before(a: Operation, b: Operation) -> bool:
    return a.ret < b.inv


@define
class Definitions:
    """One history, and a predicate for each class."""

    operations: list[Operation]
    subscribed: bool = False

    @property
    def sends(self) -> list[Send]:
        return [
            Send(o, s[1], s[2], s[3]) for o in self.operations for s in o.steps if s[0] == "send"
        ]

    @property
    def reads(self) -> list[Read]:
        return [
            Read(o, key, offset, value)
            for o in self.operations
            for s in o.steps
            if s[0] == "poll"
            for key, several in s[1].items()
            for offset, value in several
        ]

    @property
    def keys(self) -> set[int]:
        values = (
            key for o in self.operations for n in ("hw", "committed") for key in o.more.get(n, ())
        )
        return {x.key for x in [*self.sends, *self.reads]} | set(values)

    def delivered(self, key: int, value: Any) -> bool:
        return any(r.of.kind == "ok" for r in self.reads if (r.key, r.value) == (key, value))

    def happened(self, o: Operation) -> bool:
        """It ended ok, or ended info and a value that it sent was delivered."""
        if o.kind != "info":
            return o.kind == "ok"
        return any(self.delivered(s.key, s.value) for s in self.sends if s.of is o)

    def acknowledged(self) -> list[Send]:
        return [s for s in self.sends if s.acked_at is not None and self.happened(s.of)]

    def offset(self, send: Send) -> int | None:
        """From the acknowledgement, else from the reads of its value."""
        if send.acked_at is not None and self.happened(send.of):
            return send.acked_at
        mine = [r.offset for r in self.reads if (r.key, r.value) == (send.key, send.value)]
        return min(mine, default=None)

    def log(self, key: int) -> set[tuple[int, Any]]:
        """(offset, value) over acknowledgements of committed sends and reads."""
        acks = {(s.acked_at, s.value) for s in self.acknowledged() if s.key == key}
        reads = {(r.offset, r.value) for r in self.reads if r.key == key}
        return {(o, v) for o, v in acks | reads if o is not None}

    def visible(self, key: int) -> set[int]:
        failed = {s.value for s in self.sends if s.key == key and s.of.kind == "fail"}
        return {o for o, v in self.log(key) if v not in failed}

    def contradicted(self, key: int) -> set[tuple[int, Any]]:
        """Acknowledged offsets where only other values are read."""
        reads = {(r.offset, r.value) for r in self.reads if r.key == key}
        return {
            (s.acked_at, s.value)
            for s in self.acknowledged()
            if s.key == key and s.acked_at is not None
            if s.acked_at in {o for o, _ in reads} and (s.acked_at, s.value) not in reads
        }

    def classes(self) -> set[str]:
        """All classes that hold."""
        found = {name for name, holds in self._all() if holds}
        return found - ({"G1c-realtime"} if "G1c" in found else set())

    def _all(self) -> Iterator[tuple[str, bool]]:
        for key in self.keys:
            yield from self._log(key)
            yield from self._producers(key)
            yield from self._consumers(key)
            yield from self._groups(key)
        yield from self._transactions()

    def _log(self, key: int) -> Iterator[tuple[str, bool]]:
        log, reads = self.log(key), [r for r in self.reads if r.key == key]
        sends = [s for s in self.sends if s.key == key]
        yield "inconsistent-offsets", any(a[0] == b[0] and a[1] != b[1] for a in log for b in log)
        left = log - self.contradicted(key)
        yield "duplicate", any(a[1] == b[1] and a[0] != b[0] for a in left for b in left)
        yield (
            "ack-read-mismatch",
            any(v in {r.value for r in reads} for _, v in self.contradicted(key)),
        )
        frontier = max((r.offset for r in reads if r.of.kind == "ok"), default=-1)
        for send in sends:
            own, given = self.offset(send), self.delivered(key, send.value)
            if self.happened(send.of) and own is not None and own <= frontier:
                yield "lost-write", not given
            if send.of.kind == "ok":
                yield "unseen", not given
            mine = [r for r in reads if r.value == send.value]
            yield "G1a", send.of.kind == "fail" and bool(mine)
            if send in self.acknowledged():
                early = [r for r in mine if r.offset == send.acked_at]
                late = [r for r in reads if r.offset == send.acked_at and r.value != send.value]
                yield (
                    "truncated-after-ack",
                    any(before(a.of, b.of) for a, b in product(early, late)),
                )
        known = {s.value for s in sends}
        yield "phantom-read", any(r.value not in known for r in reads)
        for a, b in product(sends, sends):
            one, two = self.offset(a), self.offset(b)
            if a.of.kind == "ok" and before(a.of, b.of) and None not in (one, two):
                yield "append-order-realtime", (two or 0) < (one or 0)
        yield from self._watermarks(key)

    def _watermarks(self, key: int) -> Iterator[tuple[str, bool]]:
        for process in {o.process for o in self.operations}:
            mine = [o for o in self.operations if o.process == process and o.kind == "ok"]
            marks = [o.more["hw"][key] for o in mine if key in o.more.get("hw", {})]
            yield "hw-regression", any(b < a for a, b in pairwise(marks))
        for o in self.operations:
            if key not in o.more.get("hw", {}) or o.kind != "ok":
                continue
            if any(r.of is o for r in self.reads if r.key == key):
                continue
            acks = [
                s.acked_at or 0 for s in self.acknowledged() if s.key == key and before(s.of, o)
            ]
            yield "stale-read", any(o.more["hw"][key] <= offset for offset in acks)

    def _producers(self, key: int) -> Iterator[tuple[str, bool]]:
        for process in {o.process for o in self.operations}:
            last = None
            for o in [o for o in self.operations if o.process == process]:
                mine = [self.offset(s) for s in self.sends if s.of is o and s.key == key]
                known = [offset for offset in mine if offset is not None]
                yield "int-nonmonotonic-send", any(b < a for a, b in pairwise(known))
                if known:
                    yield "nonmonotonic-send", last is not None and known[0] < last
                    last = known[-1]
        for a, b in product(self.sends, self.sends):
            epochs: list[Any] = [s.of.more.get("producer-epoch") for s in (a, b)]
            if None in epochs or a.of.kind != "ok" or b.of.kind != "ok":
                continue
            yield "fencing-violation", before(a.of, b.of) and epochs[1] < epochs[0]

    def _consumers(self, key: int) -> Iterator[tuple[str, bool]]:
        visible = self.visible(key)

        def skipped(a: int, b: int) -> bool:
            return any(a < o < b for o in visible)

        for process in {o.process for o in self.operations}:
            position = None
            for o in [o for o in self.operations if o.process == process]:
                if o.f == "assign":
                    sought = o.more.get("seek-to-beginning?") is True
                    if o.kind != "fail" and (sought or key not in o.listed):
                        position = None
                    continue
                mine = [r.offset for r in self.reads if r.of is o and r.key == key]
                if not mine:
                    continue
                if position is not None and not self.subscribed:
                    yield "poll-skip", skipped(position, mine[0])
                    yield "nonmonotonic-poll", mine[0] <= position
                if o.kind == "ok":
                    position = mine[-1]
                shaken = {k for entry in o.more.get("rebalance-log", ()) for k in entry["keys"]}
                if key not in shaken:
                    yield "int-poll-skip", any(skipped(a, b) for a, b in pairwise(mine))
                    yield "int-nonmonotonic-poll", any(b <= a for a, b in pairwise(mine))

    def _groups(self, key: int) -> Iterator[tuple[str, bool]]:
        commits = [
            o for o in self.operations if o.kind == "ok" and key in o.more.get("committed", {})
        ]
        for a, b in product(commits, commits):
            own = a.process == b.process and self.operations.index(a) < self.operations.index(b)
            after = a.process != b.process and before(a, b)
            if a is not b and (own or after):
                lower = b.more["committed"][key] < a.more["committed"][key]
                yield "offset-commit-regression", lower
        members = {o.process for o in self.operations if "group" in o.more}
        mine = [r for r in self.reads if r.key == key and r.of.process in members]
        for o in commits:
            reached = [r.offset + 1 for r in mine if r.of.kind == "ok" and r.of.inv <= o.ret]
            position, committed = max(reached, default=0), o.more["committed"][key]
            ahead = any(position <= v < committed for v in self.visible(key))
            yield "commit-beyond-position", ahead

    def _transactions(self) -> Iterator[tuple[str, bool]]:
        writer = {(s.key, s.value): s.of for s in self.sends}
        edges = {(writer[r.key, r.value], r.of) for r in self.reads if (r.key, r.value) in writer}
        yield "precommitted-read", any(a is b for a, b in edges)
        for r in self.reads:
            sent = writer.get((r.key, r.value))
            if sent is None or sent.f != "txn" or sent.kind == "fail":
                continue
            requested = sent.more.get("end-txn-time", sent.inv)
            committed_only = r.of.more.get("isolation") == "read_committed"
            yield "read-uncommitted-leak", committed_only and r.of.ret < requested
        wr = {(id(a), id(b)) for a, b in edges if a is not b}
        rt = {(id(a), id(b)) for a in self.operations for b in self.operations if before(a, b)}
        yield "G1c", _cycle_through(wr, wr)
        yield "G1c-realtime", _cycle_through(wr, wr | rt)


def _cycle_through(some: set[tuple[int, int]], edges: set[tuple[int, int]]) -> bool:
    """True if a cycle of edges includes one of `some`."""
    after: dict[int, set[int]] = {}
    for a, b in edges:
        after.setdefault(a, set()).add(b)
    for a, b in some:
        seen, todo = {b}, [b]
        while todo:
            for c in after.get(todo.pop(), ()):
                if c not in seen:
                    seen.add(c)
                    todo.append(c)
        if a in seen:
            return True
    return False
