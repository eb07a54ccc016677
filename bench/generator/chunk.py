"""One generation: what is sent, how it is stored, who reads it when."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field

from bench.generator.plan import (
    BATCH,
    HOT,
    PARTITIONS,
    PLACES,
    PRODUCERS,
    START,
    TICK,
    TOPICS,
    TRANSACTIONAL,
    Cast,
    Plan,
    epochs,
    owners,
)
from bench.generator.rows import Block
from traces.checks.partition import firsts
from traces.context import Ints
from traces.schema import NONE, Flag, Isolation, Op, Outcome, Txn

Hook = Callable[[], None]


@define
class Carried:
    """What one chunk leaves to the next."""

    offset: Ints = field(factory=lambda: np.zeros(PLACES, np.int64))
    committed: Ints = field(factory=lambda: np.full(PLACES, NONE))
    sequence: Ints = field(factory=lambda: np.zeros(PRODUCERS * PLACES, np.int64))
    txn: Ints = field(factory=lambda: np.zeros(PRODUCERS, np.int64))
    pepoch: Ints = field(factory=lambda: np.zeros(PRODUCERS, np.int64))
    last: dict[int, dict[str, int]] = field(factory=dict[int, dict[str, int]])


@define(slots=False)
class Chunk:
    """One generation while it is made; the lies change it between the steps."""

    plan: Plan
    cast: Cast
    carried: Carried
    number: int
    random: np.random.Generator
    m: dict[str, Any] = field(factory=dict[str, Any])  # messages, in the order in which they begin
    log: dict[str, Any] = field(factory=dict[str, Any])  # what is stored, by place and offset
    extra: list[dict[str, float]] = field(factory=list[dict[str, float]])  # records nobody sent
    marks: dict[str, Any] = field(factory=dict[str, Any])
    commits: dict[str, Any] = field(factory=dict[str, Any])
    lines: list[dict[str, int]] = field(factory=list[dict[str, int]])  # further single rows
    scan_from: Ints = field(factory=lambda: np.zeros(PLACES, np.int64))
    # Producers whose sessions lies are told about, from one message to another.
    relied: list[tuple[int, int, int]] = field(factory=list[tuple[int, int, int]])
    stored: list[Hook] = field(factory=list[Hook])
    due: list[Hook] = field(factory=list[Hook])
    ready: list[Hook] = field(factory=list[Hook])

    @property
    def base(self) -> int:
        """When the chunk begins."""
        return START + self.number * self.plan.span

    @property
    def owner(self) -> Ints:
        """Which process owns each place."""
        return owners(self.number)

    def at(self, window: Any, step: int) -> Any:
        """The time of a step of a consumer's round."""
        return self.base + window * self.plan.window + step * TICK

    def send(self) -> None:
        """The calls of the producers, each at its tick."""
        size = min(self.plan.size, self.plan.messages - self.number * self.plan.size)
        random, m = self.random, self.m
        index = np.arange(size)
        m["id"] = self.number * self.plan.size + index
        m["inv"] = self.base + self.plan.window // 2 + index * TICK
        m["key"] = index.astype(np.float64)
        m["process"] = random.integers(0, PRODUCERS, size)
        m["place"] = random.integers(0, PLACES, size)
        in_txn = m["process"] < TRANSACTIONAL
        m["place"][~in_txn & (random.random(size) < HOT)] = 0
        dice = random.random(size)
        fail, info = ~in_txn & (dice < 0.0005), ~in_txn & (dice >= 0.0005) & (dice < 0.001)
        m["outcome"] = np.select([fail, info], [Outcome.FAIL, Outcome.INFO], Outcome.OK)
        m["written"] = ~fail & ~(info & (random.random(size) < 0.5))
        m["ret"] = m["inv"] + random.integers(10 * TICK, 100 * TICK, size)
        m["ret"][info] = NONE
        m["end_inv"], m["txn"] = np.full(size, NONE), np.full(size, NONE)
        m["txn_state"], m["flags"] = np.zeros(size, np.int64), np.zeros(size, np.int64)
        m["timestamp"] = m["inv"] // 1_000_000
        m["pid"] = 1_000 + m["process"]
        m["pepoch"] = self.carried.pepoch[m["process"]]
        m["tid"] = np.where(in_txn, m["process"], NONE)
        self._transactions(np.flatnonzero(in_txn))

    def _transactions(self, rows: Ints) -> None:
        """A producer's messages in batches; each batch goes to one partition of each topic."""
        m, random = self.m, self.random
        process = m["process"][rows]
        order = np.argsort(process.astype(np.int16), kind="stable")
        rows, process = rows[order], process[order]
        starts = np.flatnonzero(firsts(process))
        counts = np.diff(np.r_[starts, len(process)])
        rank = np.arange(len(rows)) - np.repeat(starts, counts)
        m["txn"][rows] = self.carried.txn[process] + rank // BATCH
        m["ret"][rows] = m["inv"][rows] + random.integers(1_000, 4_000, len(rows))
        new = firsts(process, rank // BATCH)
        which = np.cumsum(new) - 1
        last = rows[np.r_[np.flatnonzero(new)[1:] - 1, len(rows) - 1]] if len(rows) else rows
        aborted = random.random(len(last)) < 0.03
        m["txn_state"][rows] = np.where(aborted, Txn.ABORTED, Txn.COMMITTED)[which]
        m["end_inv"][rows] = m["inv"][last[which]] + 6_000
        base = random.integers(0, PARTITIONS, len(last))[which]
        m["place"][rows] = base + PARTITIONS * random.integers(0, TOPICS, len(rows))
        self.carried.txn[process[starts]] += -(-counts // BATCH)

    def _sessions(self) -> None:
        """A producer that gives a send up goes on in a new epoch, by itself (KIP-360)."""
        m = self.m
        gone = np.flatnonzero((m["outcome"] == Outcome.INFO) & ~m["written"])
        for row in gone[m["process"][gone] < PRODUCERS].tolist():
            later = m["process"][row + 1 :] == m["process"][row]
            m["pepoch"][row + 1 :][later] += 1
        self.carried.pepoch = self.carried.pepoch + np.bincount(
            m["process"][gone][m["process"][gone] < PRODUCERS], minlength=PRODUCERS
        )

    def store(self) -> None:
        """Give everything its offset: records, what nobody sent, and the markers between them."""
        self._sessions()
        m = self.m
        written = np.flatnonzero(m["written"])
        parts = {"place": m["place"][written], "key": m["key"][written], "message": written}
        markers = self._markers()
        extra = {
            name: np.array([line[name] for line in self.extra], np.float64)
            for name in ("place", "key", "id", "message")
        }
        place = np.concatenate([parts["place"], markers["place"], extra["place"].astype(np.int64)])
        key = np.concatenate([parts["key"], markers["key"], extra["key"]])
        none = np.full(len(markers["place"]), NONE)
        message = np.concatenate([written, none, extra["message"].astype(np.int64)])
        id = np.concatenate([m["id"][written], none, extra["id"].astype(np.int64)])
        order = np.lexsort((key, place))
        log = self.log
        log["place"], log["message"], log["id"] = place[order], message[order], id[order]
        counts = np.bincount(place, minlength=PLACES)
        starts = np.cumsum(counts) - counts
        log["offset"] = (
            np.arange(len(order)) - starts[log["place"]] + self.carried.offset[log["place"]]
        )
        self.carried.offset = self.carried.offset + counts
        log["record"] = log["id"] != NONE
        log["aborted"] = m["txn_state"][log["message"]] == Txn.ABORTED
        log["aborted"] &= log["record"] & (log["message"] != NONE)
        at: Ints = m["inv"][log["message"]] + TICK * 100
        answered: Ints = np.where(m["ret"][log["message"]] == NONE, at, m["ret"][log["message"]])
        held = np.maximum(answered, m["end_inv"][log["message"]] + 2_000)
        sure = log["record"] & ~log["aborted"] & (log["message"] != NONE)
        log["held"] = np.where(sure, held, self.base)
        for name in ("polled", "processed"):
            log[name] = log["record"] & ~log["aborted"]
        log["scanned"] = log["record"].copy()
        log["polled_id"], log["scanned_id"] = log["id"].copy(), log["id"].copy()
        log["epoch"] = epochs(self.number)[log["place"]]
        log["scanned_epoch"] = log["epoch"].copy()
        m["offset"] = np.full(len(m["id"]), NONE)
        sent = (log["message"] != NONE) & (log["id"] == m["id"][log["message"]])
        first = np.flatnonzero(sent)[::-1]  # of a record stored twice the first place counts
        m["offset"][log["message"][first]] = log["offset"][first]
        self.entry = np.full(len(m["id"]), NONE)
        self.entry[log["message"][first]] = first
        m["acked"] = np.where(m["outcome"] == Outcome.OK, m["offset"], NONE)
        for hook in self.stored:
            hook()

    def _markers(self) -> dict[str, Any]:
        """One marker at the end of each transaction in each partition that it wrote to."""
        m = self.m
        rows = np.flatnonzero(m["txn"] != NONE)
        wide = np.stack([m["process"][rows], m["txn"][rows], m["place"][rows]])
        packed = (wide[0] << 48) | (wide[1] << 8) | wide[2]
        _, one = np.unique(packed, return_index=True)
        rows = rows[one]
        key = (m["end_inv"][rows] - m["inv"][0]) / TICK
        return {"place": m["place"][rows], "key": key}

    def schedule(self) -> None:
        """When a consumer gets each record: at the first poll when all below it is stable."""
        log, span = self.log, self.plan.span
        held = np.maximum.accumulate(log["held"] - self.base + log["place"] * span)
        log["window"] = (held - log["place"] * span) // self.plan.window + 1
        for hook in self.due:
            hook()
        self._commits()
        self._marks()
        for hook in self.ready:
            hook()

    def _commits(self) -> None:
        """Every eighth round a member commits its positions."""
        log, last = self.log, self.plan.windows
        given = np.flatnonzero(log["polled"])
        starts = np.searchsorted(log["place"][given], np.arange(PLACES + 1))
        places: list[Ints] = []
        windows: list[Ints] = []
        offsets: list[Ints] = []
        for place in range(PLACES):
            mine = given[starts[place] : starts[place + 1]]
            rounds = np.arange(1 + int(self.owner[place]) % 8, last, 8)
            upto = np.searchsorted(log["window"][mine], rounds, side="right") - 1
            known = upto >= 0
            upto, rounds = upto[known], rounds[known]
            position = np.r_[log["offset"][mine[upto]], log["offset"][mine[-1:]]] + 1
            if not len(mine):
                position = self.carried.committed[place : place + 1]
                position = position[position != NONE]
            offsets.append(position)
            windows.append(np.r_[rounds, last][len(rounds) + 1 - len(position) :])
            places.append(np.full(len(position), place))
        self.commits["place"] = np.concatenate(places)
        self.commits["window"] = np.concatenate(windows)
        self.commits["offset"] = np.concatenate(offsets)

    def _marks(self) -> None:
        """Every eighth round a poll tells the high watermark of the partitions it brings."""
        log = self.log
        told = (log["window"] % 8 == 3) & (log["window"] < self.plan.windows - 4)
        rows = np.flatnonzero(log["polled"] & told)
        next_one = firsts(log["place"][rows], log["window"][rows])
        rows = rows[np.r_[np.flatnonzero(next_one)[1:] - 1, len(rows) - 1]] if len(rows) else rows
        self.marks["place"], self.marks["window"] = log["place"][rows], log["window"][rows]
        self.marks["offset"] = log["offset"][rows] + 1

    def producing(self) -> list[Block]:
        """The rows of those that send."""
        m = self.m
        written = np.flatnonzero(m["written"] & (m["process"] < PRODUCERS))
        pair = (m["process"][written] * PLACES + m["place"][written]).astype(np.int16)
        order = np.argsort(pair, kind="stable")
        counts = np.bincount(pair, minlength=PRODUCERS * PLACES)
        rank = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
        m["sequence"] = np.where(m["written"], 0, NONE)
        m["sequence"][written[order]] = rank + np.repeat(self.carried.sequence, counts)
        self.carried.sequence += counts
        sends = {name: m[name] for name in SENT} | {"offset": m["acked"], "op": int(Op.SEND)}
        return [sends | placed(m["place"]), *self._boundaries(), *self._inits()]

    def _inits(self) -> list[Block]:
        if self.number:
            return []
        who = np.arange(TRANSACTIONAL)
        inv = np.full(TRANSACTIONAL, self.base)
        named = {"tid": who, "pid": 1_000 + who, "pepoch": 0, "op": int(Op.INIT_PRODUCER)}
        return [named | {"process": who, "inv": inv, "ret": inv + 1_000}]

    def _boundaries(self) -> list[Block]:
        """The beginning and the end of each transaction of the regular producers."""
        m = self.m
        rows = np.flatnonzero((m["txn"] != NONE) & (m["process"] < TRANSACTIONAL))
        rows = rows[np.argsort(m["process"][rows].astype(np.int16), kind="stable")]
        first = rows[firsts(m["process"][rows], m["txn"][rows])]
        shared = {name: m[name][first] for name in ("process", "txn", "tid", "pid", "pepoch")}
        shared |= {"txn_state": m["txn_state"][first], "end_inv": m["end_inv"][first]}
        ends = np.where(m["txn_state"][first] == Txn.ABORTED, Op.TXN_ABORT, Op.TXN_COMMIT)
        begin, end = m["inv"][first] - 3_000, m["end_inv"][first]
        return [
            shared | {"op": int(Op.TXN_BEGIN), "inv": begin, "ret": begin + 1_000},
            shared | {"op": ends, "inv": end, "ret": end + 900},
        ]

    def consuming(self) -> list[Block]:
        """The rows of the members of both groups."""
        log, place = self.log, self.log["place"]
        second = place >= PLACES // 2  # of the group that commits first
        order = np.arange(len(place))
        polls = np.flatnonzero(log["polled"])
        done = np.flatnonzero(log["processed"])
        read = {"isolation": int(Isolation.READ_COMMITTED)}
        poll = self._given(polls, 0) | read | {"op": int(Op.POLL), "order": 4 * order[polls] + 2}
        process = self._given(done, np.where(second[done], 8, 4))
        process |= {"op": int(Op.PROCESS), "order": 4 * order[done] + 2}
        return [poll, process, *self._rounds(read), *self._hand_over(read)]

    def _given(self, rows: Ints, step: Any) -> dict[str, Any]:
        log, place = self.log, self.log["place"][rows]
        inv = self.at(log["window"][rows], 0) + step * TICK
        return self.membered(place) | {
            "offset": log["offset"][rows],
            "id": log["polled_id"][rows],
            "epoch": log["epoch"][rows],
            "inv": inv,
            "ret": inv + 8_000,
        }

    def membered(self, place: Ints) -> dict[str, Any]:
        """What every row of a member says about itself."""
        owner = self.owner[place]
        return placed(place) | {
            "process": owner,
            "group": place // (PLACES // 2),
            "member": owner - PRODUCERS,
            "generation": self.number,
        }

    def _rounds(self, read: dict[str, Any]) -> list[Block]:
        commits, marks = self.commits, self.marks
        place = commits["place"]
        commit = self.membered(place) | {"op": int(Op.COMMIT), "offset": commits["offset"]}
        commit["inv"] = self.at(commits["window"], 0) + np.where(place >= PLACES // 2, 4, 8) * TICK
        commit["inv"] += np.where(commits["window"] == self.plan.windows, TICK, 0)
        commit |= {"ret": commit["inv"] + 8_000, "order": place}
        mark = self.membered(marks["place"]) | read
        mark |= {"op": int(Op.MARK), "offset": marks["offset"], "order": 1 << 40}
        mark["epoch"] = epochs(self.number)[marks["place"]]
        mark["inv"] = self.at(marks["window"], 0)
        mark["ret"] = mark["inv"] + 8_000
        return [commit, mark]

    def _hand_over(self, read: dict[str, Any]) -> list[Block]:
        place, last = np.arange(PLACES), self.plan.windows

        def call(op: Op, window: int, step: int, **fields: Any) -> dict[str, Any]:
            inv = np.full(PLACES, self.at(window, step))
            row = self.membered(place) | {"op": int(op), "inv": inv, "ret": inv + 8_000}
            return row | {"order": place} | fields

        return [
            call(Op.ASSIGNED, 0, 0),
            call(Op.COMMITTED, 0, 4, offset=self.carried.committed),
            call(Op.MARK, last, 0, offset=self.end_marks, epoch=epochs(self.number), **read),
            call(Op.REVOKED, last, 12),
        ]

    @property
    def end_marks(self) -> Ints:
        """The high watermark at the end of the chunk, as the last, empty poll tells it."""
        if "end" not in self.marks:
            self.marks["end"] = self.carried.offset.copy()
        return self.marks["end"]

    def scanning(self) -> list[Block]:
        """The piece of the final reading that holds this chunk."""
        log = self.log
        rows = np.flatnonzero(log["scanned"])
        place = log["place"][rows]
        found = self._scan(place) | {
            "op": int(Op.SCAN),
            "offset": log["offset"][rows],
            "id": log["scanned_id"][rows],
            "epoch": log["scanned_epoch"][rows],
            "order": rows,
            "flags": Flag.FINAL,
        }
        return [found, *self._around_the_scan()]

    def _scan(self, place: Ints, step: int = 0) -> dict[str, Any]:
        process = PRODUCERS + 8 + place % 8
        inv = self.plan.end + TICK * ((self.number + 1) * (PLACES + 16) + place + step)
        isolation = {"isolation": int(Isolation.READ_UNCOMMITTED)}
        return placed(place) | isolation | {"process": process, "inv": inv, "ret": inv + 8_000}

    def _around_the_scan(self) -> list[Block]:
        place, out = np.arange(PLACES), list[Block]()
        if self.number == 0:
            start = {"isolation": NONE, "order": place}
            for op, step, offset in (
                (Op.EARLIEST, -PLACES - 16, 0),
                (Op.ASSIGN, -PLACES - 8, self.scan_from),
            ):
                call = self._scan(place, step) | start | {"op": int(op), "offset": offset}
                call["inv"] = self.plan.end + TICK * (PLACES + 16 + step) + place * 0
                call["ret"] = call["inv"] + 8_000
                out.append(call)
        if self.number == self.plan.chunks - 1:
            end = {"offset": self.carried.offset, "order": 1 << 40}
            out.append(self._scan(place) | end | {"op": int(Op.SCAN_END), "flags": Flag.FINAL})
            latest = self._scan(place) | end | {"op": int(Op.LATEST), "isolation": NONE}
            latest["inv"] = self.plan.end + TICK * (self.number + 3) * (PLACES + 16) + place * 0
            out.append(latest | {"ret": latest["inv"] + 8_000})
        return out

    def leave(self) -> None:
        """Hand on what the next chunk has to know."""
        log = self.log
        given = np.flatnonzero(log["polled"])
        last = given[np.r_[np.flatnonzero(firsts(log["place"][given]))[1:] - 1, len(given) - 1]]
        for row in last.tolist():
            names = ("offset", "epoch")
            record = {name: int(log[name][row]) for name in names}
            self.carried.last[int(log["place"][row])] = record | {"id": int(log["polled_id"][row])}
        final = self.commits["window"] == self.plan.windows
        self.carried.committed = self.carried.committed.copy()  # the rows still hold the old one
        self.carried.committed[self.commits["place"][final]] = self.commits["offset"][final]


SENT = (
    *("process", "inv", "ret", "outcome", "id", "txn", "txn_state", "end_inv", "flags"),
    *("timestamp", "pid", "pepoch", "tid", "sequence"),
)


def placed(place: Any) -> dict[str, Any]:
    """Topic and partition of a place."""
    return {"topic": place // PARTITIONS, "partition": place % PARTITIONS}
