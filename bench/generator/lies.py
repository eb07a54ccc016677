"""Lies that a generated trace may tell, and which checks have to notice each, how often.

A lie is told about one partition in one generation, and no other lie is told there or in the
generation before, so that what the checks find is the sum of what the lies say.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field, frozen

from bench.generator.chunk import Chunk, placed
from bench.generator.plan import MEMBERS, PLACES, PRODUCERS, TICK, TRANSACTIONAL, owners
from traces.checks.base import Bools
from traces.checks.partition import firsts
from traces.context import Ints
from traces.schema import NONE, Flag, Isolation, Op, Outcome, Txn

Tell = Callable[["Slot"], bool]


@frozen
class Lie:
    """How a lie is told, where it may be told, and who has to notice it."""

    name: str
    tell: Tell
    counts: dict[str, int]
    stage: str
    group: int | None
    first: int
    last: int | None
    once: bool
    rare: bool


LIES: dict[str, Lie] = {}


def lie(
    counts: str,
    *,
    stage: str = "sent",
    group: int | None = None,
    first: int = 0,
    last: int | None = None,
    once: bool = False,
    rare: bool = False,
) -> Callable[[Tell], Tell]:
    """Register a lie: `counts` names the checks that find it, each once per mention.

    A `rare` one needs something that not every partition has, and chooses before the others.
    """

    def register(tell: Tell) -> Tell:
        words = counts.split()
        found = {word: words.count(word) for word in words}
        name = tell.__name__
        LIES[name] = Lie(name, tell, found, stage, group, first, last, once, rare)
        return tell

    return register


@define
class Slot:
    """One partition in one generation, and what is done to it."""

    chunk: Chunk
    place: int
    rows: Ints  # its messages
    number: int  # of the lie, for names
    about: dict[str, int] = field(factory=dict[str, int])

    @property
    def m(self) -> dict[str, Any]:
        """All messages of the chunk."""
        return self.chunk.m

    @property
    def log(self) -> dict[str, Any]:
        """All of the log of the chunk."""
        return self.chunk.log

    def usual(self) -> Ints:
        """Messages that were simply sent and stored, away from both ends of the generation."""
        m, mine = self.m, self._middle(self.rows)
        usual: Bools = (m["outcome"] == Outcome.OK) & (m["txn"] == NONE) & m["written"]
        usual &= m["process"] < PRODUCERS
        return mine[usual[mine]]

    def _middle(self, rows: Ints) -> Ints:
        return rows[len(rows) // 6 : len(rows) - len(rows) // 6]

    def followed(self, rows: Ints) -> Ints:
        """Those of these messages after which their session stores another one in the partition."""
        process, (mine, after) = self.m["process"], self._next()
        rows = rows[np.isin(rows, mine)]
        later = after[np.searchsorted(mine, rows)]
        gone = np.flatnonzero((self.m["outcome"] == Outcome.INFO) & ~self.m["written"])
        between = (gone > rows[:, None]) & (gone < later[:, None])
        ended = np.any(between & (process[gone] == process[rows][:, None]), axis=1)
        return rows[(later != NONE) & ~ended]

    def _next(self) -> tuple[Ints, Ints]:
        """What is stored here, and what the same producer stores here next."""
        written: Ints = self.rows[self.m["written"][self.rows]]
        process: Ints = self.m["process"][written]
        order = np.argsort(process, kind="stable")
        after = np.full(len(written), NONE)
        same = process[order][1:] == process[order][:-1]
        after[order[:-1][same]] = written[order[1:][same]]
        return written, after

    def rely(self, message: int | None) -> int | None:
        """Let no other lie end the session of this message before it stores its next one here."""
        if message is not None:
            mine, after = self._next()
            until = int(after[np.searchsorted(mine, message)])
            self.chunk.relied.append((int(self.m["process"][message]), message, until))
        return message

    def _ends_nothing(self, message: int) -> bool:
        process = int(self.m["process"][message])
        return not any(
            process == one and begin < message < end for one, begin, end in self.chunk.relied
        )

    def neighbours(self) -> list[tuple[int, int]]:
        """Usual messages that follow each other in the log."""
        written: Ints = self.rows[self.m["written"][self.rows]]
        usual = np.isin(written, self.usual())
        at = np.flatnonzero(usual[:-1] & usual[1:])
        return list(zip(written[at].tolist(), written[at + 1].tolist(), strict=True))

    def one(self, rows: Ints) -> int | None:
        """Any of them; the witness of the lie."""
        if not len(rows):
            return None
        chosen = int(self.chunk.random.choice(rows))
        return chosen

    def pair(self, where: Callable[[int, int], bool] = lambda a, b: True) -> tuple[int, int] | None:
        """Any two neighbours that are so; the first is of no session that a lie relies on."""
        pairs = [p for p in self.neighbours() if where(*p) and self._ends_nothing(p[0])]
        return pairs[int(self.chunk.random.integers(len(pairs)))] if pairs else None

    def note(self, message: int) -> bool:
        """Remember whom the lie is about; its offset is known when it is stored."""
        self.about["id"] = int(self.m["id"][message])

        def settle() -> None:
            self.about["offset"] = int(self.m["offset"][message])

        self.chunk.stored.append(settle)
        return True

    def hide(self, message: int, *columns: str) -> bool:
        """Let it be missing where these say."""

        def act() -> None:
            for column in columns:
                self.log[column][self.chunk.entry[message]] = False

        self.chunk.stored.append(act)
        return self.note(message)

    def vanish(self, message: int) -> None:
        """The send was never answered, and nothing was stored."""
        self.m["outcome"][message], self.m["ret"][message] = Outcome.INFO, NONE
        self.m["written"][message] = False

    def entries(self) -> Ints:
        """The part of the log."""
        place: Ints = self.log["place"]
        return np.flatnonzero(place == self.place)

    def polled(self) -> Ints:
        """What of it the group is given."""
        polled: Bools = self.log["polled"]
        return self.entries()[polled[self.entries()]]

    def about_entry(self, entry: int) -> bool:
        """As `note`, for a place in the log."""
        self.about |= {"id": int(self.log["id"][entry]), "offset": int(self.log["offset"][entry])}
        return True

    def row(self, process: int, op: Op, inv: int, **fields: int) -> None:
        """A further row."""
        times = {"inv": int(inv), "ret": int(inv) + 500}
        self.chunk.lines.append({"process": process, "op": int(op)} | times | fields)

    def member_row(self, op: Op, inv: int, **fields: int) -> None:
        """A further row of the member that owns the partition."""
        place = np.array([self.place])
        mine = {name: int(np.ravel(v)[0]) for name, v in self.chunk.membered(place).items()}
        self.row(op=op, inv=inv, **(mine | fields))

    def taken_over(self, message: int, name: str, tid: str, end: int, epoch: int = 0) -> int:
        """Let a process of its own send it, in a transaction of its own that is committed."""
        m, cast = self.m, self.chunk.cast
        process = cast.producer(name)
        number = cast.names.transactional_ids.number(tid)
        m["process"][message], m["tid"][message], m["txn"][message] = process, number, 0
        m["pid"][message], m["pepoch"][message] = 5_000 + number, epoch
        m["txn_state"][message], m["end_inv"][message] = Txn.COMMITTED, end
        m["ret"][message] = m["inv"][message] + 1_000
        mine = self.transaction(process, number, end, epoch)
        self.row(process, Op.TXN_BEGIN, m["inv"][message] - 3_000, **mine)
        self.row(process, Op.TXN_COMMIT, end, **mine)
        return process

    def transaction(self, process: int, tid: int, end: int, epoch: int = 0) -> dict[str, int]:
        """What rows of a committed transaction say."""
        named = {"tid": tid, "pid": 5_000 + tid, "pepoch": epoch}
        return named | {"txn": 0, "txn_state": int(Txn.COMMITTED), "end_inv": end}

    def init(self, process: int, tid: str, inv: int, epoch: int = 0) -> None:
        """The process initialises its transactional id."""
        number = self.chunk.cast.names.transactional_ids.number(tid)
        named = {"tid": number, "pid": 5_000 + number, "pepoch": epoch}
        self.row(process, Op.INIT_PRODUCER, inv, **named)

    @property
    def here(self) -> dict[str, int]:
        """Topic and partition."""
        return placed(self.place)


def slots(chunk: Chunk) -> list[Ints]:
    """The messages of each place."""
    place = chunk.m["place"].astype(np.int16)
    order = np.argsort(place, kind="stable")
    return np.split(order, np.cumsum(np.bincount(place, minlength=PLACES))[:-1])


@lie("L3 L4 P2")
def lost(s: Slot) -> bool:
    """Nobody is ever given an acknowledged record, though readers passed its place."""
    v = s.rely(s.one(s.followed(s.usual())))
    return v is not None and s.hide(v, "polled", "processed", "scanned")


@lie("L4 P2")
def lost_at_the_end(s: Slot) -> bool:
    """The group was given it, the final reading lacks it."""
    v = s.rely(s.one(s.followed(s.usual())))
    return v is not None and s.hide(v, "scanned")


@lie("T1 L3 L4 P2")
def torn(s: Slot) -> bool:
    """One record of a committed transaction is missing."""
    mine = s.rows[len(s.rows) // 6 : -len(s.rows) // 6]
    v = s.rely(s.one(s.followed(mine[s.m["txn_state"][mine] == Txn.COMMITTED])))
    return v is not None and s.hide(v, "polled", "processed", "scanned")


@lie("L2")
def duplicate(s: Slot) -> bool:
    """A retry was stored a second time, right behind."""
    if (v := s.one(s.usual())) is None:
        return False
    again: dict[str, float] = {
        "place": s.place,
        "key": s.m["key"][v] + 0.25,
        "id": s.m["id"][v],
        "message": v,
    }
    s.chunk.extra.append(again)
    return s.note(v)


@lie("L1 G8", rare=True)
def inconsistent(s: Slot) -> bool:
    """The group is given another record at the offset than the final reading."""
    if (two := s.pair()) is None:
        return False
    s.vanish(two[0])

    def act() -> None:
        s.log["polled_id"][s.chunk.entry[two[1]]] = s.m["id"][two[0]]

    s.chunk.stored.append(act)
    return s.note(two[1])


@lie("L15 L1 L4 G8 P2", rare=True)
def truncated(s: Slot) -> bool:
    """The group was given an acknowledged record, and later another is in its place."""
    process = s.m["process"]
    left = set(s.followed(s.usual()).tolist())
    if (two := s.pair(lambda a, b: b in left and process[a] != process[b])) is None:
        return False
    s.rely(two[1])
    s.vanish(two[0])

    def act() -> None:
        s.log["scanned_id"][s.chunk.entry[two[1]]] = s.m["id"][two[0]]

    s.chunk.stored.append(act)
    return s.note(two[1])


@lie("L5")
def phantom(s: Slot) -> bool:
    """A record that nobody sent."""
    if (v := s.one(s.usual())) is None:
        return False
    id = s.chunk.plan.messages + 1_000 * s.chunk.number + s.number
    s.chunk.extra.append({"place": s.place, "key": s.m["key"][v] + 0.25, "id": id, "message": NONE})
    s.about["id"] = id
    return True


@lie("L6")
def denied(s: Slot) -> bool:
    """A send that certainly failed was stored."""
    if (v := s.one(s.usual())) is None:
        return False
    s.m["outcome"][v] = Outcome.FAIL
    return s.note(v)


@lie("L8 L1")
def mistold(s: Slot) -> bool:
    """The sender was told the offset of the next record."""
    if (two := s.pair()) is None:
        return False

    def act() -> None:
        s.m["acked"][two[0]] = s.m["offset"][two[1]]

    s.chunk.stored.append(act)
    return s.note(two[0])


@lie("L9", rare=True)
def overtaken(s: Slot) -> bool:
    """A send that began after another was acknowledged is stored before it."""
    process = s.m["process"]
    two = s.pair(lambda a, b: not np.any(process[a + 1 : b + 1] == process[a]))
    if two is None:
        return False
    a, b = two
    s.m["ret"][b] = s.m["inv"][b] + 10
    s.m["inv"][a] = s.m["inv"][b] + 20
    s.m["ret"][a] = s.m["inv"][a] + 5 * TICK
    return s.note(a)


@lie("L10 L9")
def foretold(s: Slot) -> bool:
    """Read before its send began; by then higher offsets had been acknowledged."""
    if (v := s.one(s.usual())) is None:
        return False
    name = f"late-{s.chunk.number}-{s.number}#0"
    s.m["process"][v] = s.chunk.cast.producer(name)
    s.m["pid"][v] = 1_000_000 + s.m["process"][v]
    s.m["inv"][v] = s.chunk.at(s.chunk.plan.windows, 2)
    s.m["ret"][v] = s.m["inv"][v] + 500

    def act() -> None:
        s.log["held"][s.chunk.entry[v]] = s.chunk.base

    s.chunk.stored.append(act)
    return s.note(v)


@lie("L12")
def older_leader(s: Slot) -> bool:
    """The final reading shows an older leader epoch behind a newer one."""
    if (v := s.one(s.usual())) is None:
        return False

    def act() -> None:
        s.log["scanned_epoch"][s.chunk.entry[v]] -= 1

    s.chunk.stored.append(act)
    return s.note(v)


@lie("P1", rare=True)
def reordered(s: Slot) -> bool:
    """Two records of one producer, in flight together, are stored the wrong way round."""
    process = s.m["process"]
    if (two := s.pair(lambda a, b: process[a] == process[b])) is None:
        return False
    a, b = two
    s.m["key"][a], s.m["key"][b] = s.m["key"][b], s.m["key"][a]
    s.m["ret"][a] = max(int(s.m["ret"][a]), int(s.m["inv"][b]) + TICK)
    return s.note(b)


@lie("P3")
def zombie(s: Slot) -> bool:
    """A producer writes after its successor was initialised."""
    if (v := s.one(s.usual())) is None:
        return False
    name, inv = f"zombie-{s.chunk.number}-{s.number}", int(s.m["inv"][v])
    old = s.taken_over(v, f"{name}#0", name, inv + 6_000)
    s.init(old, name, inv - 5_000)
    s.init(s.chunk.cast.producer(f"{name}#1"), name, inv - 2_500, epoch=1)
    return s.note(v)


@lie("P4")
def same_epoch(s: Slot) -> bool:
    """A second initialisation gets no newer epoch."""
    name = f"again-{s.chunk.number}-{s.number}"
    process = s.chunk.cast.producer(f"{name}#0")
    for step in (0, 2_000):
        s.init(process, name, s.chunk.base + step, epoch=3)
    return True


@lie("T8")
def overlapping(s: Slot) -> bool:
    """Two processes of one transactional id both commit what they wrote side by side."""
    if (two := s.pair()) is None:
        return False
    (a, b), name = two, f"twins-{s.chunk.number}-{s.number}"
    one, other = int(s.m["inv"][a]), int(s.m["inv"][b])
    first = s.taken_over(a, f"{name}#0", name, other + 3_000)
    s.init(first, name, one - 5_000)
    second = s.taken_over(b, f"{name}#1", name, other + 6_000, epoch=1)
    s.init(second, name, other - 4_500, epoch=1)
    return s.note(b)


@lie("T5 T2")
def own_read(s: Slot) -> bool:
    """A transaction reads its own record before it commits."""
    v = s.one(_nothing_open_below(s, s.usual()))
    if v is None:
        return False
    name, inv = f"own-{s.chunk.number}-{s.number}", int(s.m["inv"][v])
    process = s.taken_over(v, f"{name}#0", name, inv + 6_000)
    s.init(process, name, inv - 5_000)
    s.m["flags"][v] |= Flag.MIXED
    _reads(s, process, name, v, inv + 2_000, inv + 6_000, Isolation.READ_COMMITTED)
    return s.note(v)


def _nothing_open_below(s: Slot, rows: Ints) -> Ints:
    end = np.maximum.accumulate(s.m["end_inv"][s.rows])
    return rows[end[np.searchsorted(s.rows, rows)] <= s.m["inv"][rows]]


def _reads(
    s: Slot, process: int, tid: str, what: int, inv: int, end: int, isolation: Isolation
) -> None:
    number = s.chunk.cast.names.transactional_ids.number(tid)
    mine = s.transaction(process, number, end) | {"isolation": int(isolation)}

    def act() -> None:
        at = {"offset": int(s.m["offset"][what]), "id": int(s.m["id"][what])}
        s.row(process, Op.POLL, inv, **mine, **s.here, **at, flags=Flag.MIXED)

    s.chunk.stored.append(act)


@lie("T6", once=True)
def circle(s: Slot) -> bool:
    """Two transactions each read what the other one wrote."""
    if (two := s.pair()) is None:
        return False
    inv, name = int(s.m["inv"][two[1]]), f"circle-{s.chunk.number}-{s.number}"
    for step, (v, other) in enumerate((two, two[::-1])):
        mine = f"{name}-{step}"
        process = s.taken_over(v, f"{mine}#0", mine, inv + 7_000)
        s.init(process, mine, int(s.m["inv"][v]) - 5_000)
        s.m["flags"][v] |= Flag.MIXED
        when = inv + 4_000 + 1_000 * step
        _reads(s, process, mine, other, when, inv + 7_000, Isolation.READ_UNCOMMITTED)
    return s.note(two[0])


@lie("T10 G9")
def consumed_twice(s: Slot) -> bool:
    """Two committed transactions of one group consume one record."""
    if (v := s.one(s.usual())) is None:
        return False
    chunk, names = s.chunk, s.chunk.cast.names
    begin, end = chunk.at(chunk.plan.windows, 1), chunk.at(chunk.plan.windows, 6)
    for step in range(2):
        name = f"copy-{chunk.number}-{s.number}-{step}"
        process, tid = (
            chunk.cast.consumer(f"{name}#0", "copy"),
            names.transactional_ids.number(name),
        )
        mine = s.transaction(process, tid, end)
        s.init(process, name, begin)
        s.row(process, Op.TXN_BEGIN, begin + TICK, **mine)
        s.row(process, Op.TXN_COMMIT, end, **mine)

        def act(process: int = process, mine: dict[str, int] = mine) -> None:
            at = {"offset": int(s.m["offset"][v]), "id": int(s.m["id"][v]), "group": 2}
            isolation = int(Isolation.READ_COMMITTED)
            poll = mine | s.here | at | {"isolation": isolation}
            s.row(process, Op.POLL, begin + 2 * TICK, **poll)

        chunk.stored.append(act)
    return s.note(v)


@lie("T4 T7", rare=True)
def aborted_read(s: Slot) -> bool:
    """The group is given a record of an aborted transaction."""
    if (v := s.one(s.rows[s.m["txn_state"][s.rows] == Txn.ABORTED])) is None:
        return False

    def act() -> None:
        entry = s.chunk.entry[v]
        s.log["polled"][entry] = s.log["processed"][entry] = True
        s.log["held"][entry] = s.m["ret"][v]

    s.chunk.stored.append(act)
    return s.note(v)


@lie("T2", stage="due")
def leaked(s: Slot) -> bool:
    """The group is given a record of a transaction that has not asked to commit yet."""
    found = _early(s)
    if not found:
        return False
    entry, window = found[int(s.chunk.random.integers(len(found)))]
    s.log["window"][entry] = window
    return s.about_entry(entry)


@lie("T2 T3", stage="due")
def beyond_stable(s: Slot) -> bool:
    """As `leaked`, and the record behind it as well."""
    log, m = s.log, s.m
    for entry, window in _early(s):
        after = entry + 1
        if after >= len(log["place"]) or log["place"][after] != s.place:
            continue
        sender = log["message"][after]
        usual = sender != NONE and m["txn"][sender] == NONE and m["outcome"][sender] == Outcome.OK
        if usual and (m["ret"][sender] - s.chunk.base) // s.chunk.plan.window + 1 <= window:
            log["window"][entry] = log["window"][after] = window
            return s.about_entry(after)
    return False


def _early(s: Slot) -> list[tuple[int, int]]:
    """First records of committed transactions, and earlier polls that could bring them."""
    log, m, rows = s.log, s.m, s.entries()
    rows = rows[len(rows) // 6 : -len(rows) // 6]
    rows = rows[log["record"][rows] & (log["message"][rows] != NONE)]
    sender = log["message"][rows]
    rows = rows[(m["txn_state"][sender] == Txn.COMMITTED) & (m["process"][sender] < TRANSACTIONAL)]
    sender = log["message"][rows]
    order = np.lexsort((rows, m["txn"][sender], m["process"][sender]))
    first = order[firsts(m["process"][sender[order]], m["txn"][sender[order]])]
    rows = np.sort(rows[first])
    sender = log["message"][rows]
    ready = (m["ret"][sender] - s.chunk.base) // s.chunk.plan.window + 1
    window = np.maximum(ready, log["window"][rows - 1])
    early = (window < log["window"][rows]) & (s.chunk.at(window, 1) < m["end_inv"][sender])
    return list(zip(rows[early].tolist(), window[early].tolist(), strict=True))


@lie("C1 G8")
def skipped(s: Slot) -> bool:
    """The group is never given a record between two that it is."""
    v = s.one(s.usual())
    return v is not None and s.hide(v, "polled", "processed")


@lie("G8", group=0)
def unprocessed(s: Slot) -> bool:
    """Given, committed, and never processed."""
    v = s.one(s.usual())
    return v is not None and s.hide(v, "processed")


@lie("C2 G9", stage="due")
def gone_back(s: Slot) -> bool:
    """The next poll begins with the last record of the one before."""
    rows, log = s.polled(), s.log
    ends = np.flatnonzero(log["window"][rows[1:]] > log["window"][rows[:-1]])
    if not len(ends):
        return False
    at = int(s.chunk.random.choice(ends))
    _given_again(s, rows[at], int(rows[at + 1]))
    return s.about_entry(int(rows[at]))


def _given_again(s: Slot, what: int, before: int) -> None:
    log = s.log
    record = {n: int(log[n][what]) for n in ("offset", "epoch")} | {"id": int(log["id"][what])}
    _poll(s, record, before)


def _poll(s: Slot, record: dict[str, int], before: int) -> None:
    """One more record in a poll, before another one."""
    inv = int(s.chunk.at(s.log["window"][before], 0))
    more = {"isolation": int(Isolation.READ_COMMITTED), "order": 4 * before + 1}
    s.member_row(Op.POLL, inv, **record, **more, ret=inv + 8_000)


@lie("G9", stage="due", group=1, first=1)
def given_again(s: Slot) -> bool:
    """The new owner is given, and processes, the last record of the old one."""
    if not len(s.polled()) or s.place not in s.chunk.carried.last:
        return False
    first, record = int(s.polled()[0]), s.chunk.carried.last[s.place]
    _poll(s, record, first)
    inv = int(s.chunk.at(s.log["window"][first], 8))
    s.member_row(Op.PROCESS, inv, **record, order=4 * first + 1, ret=inv + 8_000)
    s.about |= {"id": record["id"], "offset": record["offset"]}
    return True


@lie("G10 G8", stage="due", first=1)
def resumed_late(s: Slot) -> bool:
    """The new owner begins above what was committed."""
    if len(s.polled()) < 3:
        return False
    first = int(s.polled()[0])
    s.log["polled"][first] = s.log["processed"][first] = False
    return s.about_entry(first)


@lie("C3", stage="due", last=0)
def elsewhere(s: Slot) -> bool:
    """The final reading was told to begin at the second record, and began at the first."""
    rows = s.entries()
    rows = rows[s.log["scanned"][rows]]
    s.chunk.scan_from[s.place] = s.log["offset"][rows[1]]
    return s.about_entry(int(rows[0]))


@lie("C4 G9", stage="due")
def not_assigned(s: Slot) -> bool:
    """A member is given a record after the partition was revoked from it."""
    if not len(s.polled()):
        return False
    last = int(s.polled()[-1])
    record = {n: int(s.log[n][last]) for n in ("offset", "id", "epoch")}
    inv = int(s.chunk.at(s.chunk.plan.windows, 14))
    s.member_row(Op.POLL, inv, **record, isolation=int(Isolation.READ_COMMITTED))
    return s.about_entry(last)


@lie("G1")
def two_owners(s: Slot) -> bool:
    """Another member of the group is assigned the partition in the same generation."""
    owner = int(s.chunk.owner[s.place]) - PRODUCERS
    other = owner // MEMBERS * MEMBERS + (owner + 2) % MEMBERS
    inv = int(s.chunk.at(0, 1))
    s.member_row(Op.ASSIGNED, inv, process=PRODUCERS + other, member=other)
    return True


@lie("G4", first=1)
def unfenced(s: Slot) -> bool:
    """The last owner's commit is taken although the group has moved on."""
    if s.chunk.carried.committed[s.place] == NONE:
        return False
    owner = int(owners(s.chunk.number - 1)[s.place])
    s.member_row(
        Op.COMMIT,
        int(s.chunk.at(s.chunk.plan.windows // 2, 13)),
        process=owner,
        member=owner - PRODUCERS,
        generation=s.chunk.number - 1,
        offset=int(s.chunk.carried.committed[s.place]),
    )
    return True


@lie("G5", stage="ready")
def committed_back(s: Slot) -> bool:
    """A commit lies below the one before."""
    offset = s.chunk.commits["offset"]
    mine = np.flatnonzero(s.chunk.commits["place"] == s.place)
    if len(mine) < 3 or offset[mine[0]] < 2:
        return False
    offset[mine[1]] = offset[mine[0]] - 1
    s.about["offset"] = int(offset[mine[1]])
    return True


@lie("G6", stage="ready")
def committed_beyond(s: Slot) -> bool:
    """A commit covers what will be delivered only later."""
    offset = s.chunk.commits["offset"]
    mine = np.flatnonzero(s.chunk.commits["place"] == s.place)
    far = np.flatnonzero(offset[mine[1:]] > offset[mine[:-1]] + 1)
    if not len(far):
        return False
    at = int(s.chunk.random.choice(far))
    offset[mine[at]] = offset[mine[at + 1]]
    s.about["offset"] = int(offset[mine[at]])
    return True


@lie("L11", stage="ready")
def watermark_back(s: Slot) -> bool:
    """A member is told a lower high watermark than before."""
    marks = s.chunk.marks
    mine = np.flatnonzero(marks["place"] == s.place)
    if len(mine) < 2 or marks["offset"][mine[0]] < 2:
        return False
    marks["offset"][mine[1]] = marks["offset"][mine[0]] - 1
    s.about["offset"] = int(marks["offset"][mine[1]])
    return True


@lie("C7", stage="ready")
def stale(s: Slot) -> bool:
    """An empty poll at the end tells a high watermark below what was acknowledged."""
    mine = s.rows[s.m["written"][s.rows] & (s.m["outcome"][s.rows] == Outcome.OK)]
    mine = mine[s.m["txn_state"][mine] != Txn.ABORTED]
    marks = s.chunk.marks["offset"][s.chunk.marks["place"] == s.place]
    last = int(s.m["offset"][mine].max(initial=NONE))
    if last < marks.max(initial=0):
        return False
    s.chunk.end_marks[s.place] = last
    s.about["offset"] = last
    return True


@lie("L20", stage="due")
def end_back(s: Slot) -> bool:
    """One client is told a lower end of the log than before."""
    process = s.chunk.cast.reader(f"asker-{s.chunk.number}-{s.number}#0")
    inv, end = int(s.chunk.at(s.chunk.plan.windows, 2)), int(s.chunk.carried.offset[s.place])
    for step in range(2):
        s.row(process, Op.LATEST, inv + step * TICK, **s.here, offset=end - step)
    s.about["offset"] = end - 1
    return True


@lie("L16")
def wrong_for_time(s: Slot) -> bool:
    """A query by time is answered with the second record of that time or later."""
    if (v := s.one(s.usual())) is None:
        return False
    process = s.chunk.cast.reader(f"asker-{s.chunk.number}-{s.number}#0")
    inv = s.chunk.plan.end + s.chunk.number * TICK

    def act() -> None:
        mine = s.rows[s.m["offset"][s.rows] != NONE]
        kept = (s.m["outcome"][mine] != Outcome.FAIL) & (s.m["txn_state"][mine] != Txn.ABORTED)
        late = mine[kept & (s.m["timestamp"][mine] >= s.m["timestamp"][v])]
        right, asked = int(s.m["offset"][late].min()), int(s.m["timestamp"][v])
        for step in range(2):
            answer = {"timestamp": asked, "offset": right + step}
            s.row(process, Op.LIST_OFFSETS, inv + step * 1_000, **s.here, **answer)
        s.about["offset"] = right + 1

    s.chunk.stored.append(act)
    return True
