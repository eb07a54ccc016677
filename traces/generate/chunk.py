"""One generation: what is sent, how it is stored, who reads it when."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field

from traces.generate import rounds
from traces.generate.plan import (
    BATCH,
    HOT,
    PARTITIONS,
    PRODUCERS,
    START,
    TICK,
    TOPIC_PARTITIONS,
    TOPICS,
    TRANSACTIONAL,
    Clients,
    Plan,
    epochs,
    owners,
)
from traces.model.columns import firsts
from traces.model.context import Ints
from traces.model.schema import NONE, Outcome, Txn

Hook = Callable[[], None]


@define
class Carried:
    """The state that one chunk passes to the next."""

    offset: Ints = field(factory=lambda: np.zeros(TOPIC_PARTITIONS, np.int64))
    committed: Ints = field(factory=lambda: np.full(TOPIC_PARTITIONS, NONE))
    sequence: Ints = field(factory=lambda: np.zeros(PRODUCERS * TOPIC_PARTITIONS, np.int64))
    txn: Ints = field(factory=lambda: np.zeros(PRODUCERS, np.int64))
    pepoch: Ints = field(factory=lambda: np.zeros(PRODUCERS, np.int64))
    last: dict[int, dict[str, int]] = field(factory=dict[int, dict[str, int]])


@define(slots=False)
class Chunk:
    """One generation while it is made; the anomalies change it between the steps."""

    plan: Plan
    clients: Clients
    carried: Carried
    number: int
    random: np.random.Generator
    m: dict[str, Any] = field(factory=dict[str, Any])  # messages, in the order in which they begin
    log: dict[str, Any] = field(factory=dict[str, Any])  # what is stored, by tp and offset
    extra: list[dict[str, float]] = field(factory=list[dict[str, float]])  # records nobody sent
    marks: dict[str, Any] = field(factory=dict[str, Any])
    commits: dict[str, Any] = field(factory=dict[str, Any])
    lines: list[dict[str, int]] = field(factory=list[dict[str, int]])  # further single rows
    altered: list[int] = field(factory=list[int])  # entries of which a reader is given other bytes
    scan_from: Ints = field(factory=lambda: np.zeros(TOPIC_PARTITIONS, np.int64))
    # Producers whose sessions anomalies rely on, from one message to another.
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
        """The process that owns each topic-partition."""
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
        m["tp"] = random.integers(0, TOPIC_PARTITIONS, size)
        in_txn = m["process"] < TRANSACTIONAL
        m["tp"][~in_txn & (random.random(size) < HOT)] = 0
        drawn = random.random(size)
        fail, info = ~in_txn & (drawn < 0.0005), ~in_txn & (drawn >= 0.0005) & (drawn < 0.001)
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
        aborted[len(last) // 2 :][:1] = True  # one at least
        m["txn_state"][rows] = np.where(aborted, Txn.ABORTED, Txn.COMMITTED)[which]
        m["end_inv"][rows] = m["inv"][last[which]] + 6_000
        base = random.integers(0, PARTITIONS, len(last))[which]
        m["tp"][rows] = base + PARTITIONS * random.integers(0, TOPICS, len(rows))
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
        parts = {"tp": m["tp"][written], "key": m["key"][written], "message": written}
        markers = self._markers()
        extra = {
            name: np.array([line[name] for line in self.extra], np.float64)
            for name in ("tp", "key", "id", "message")
        }
        tp = np.concatenate([parts["tp"], markers["tp"], extra["tp"].astype(np.int64)])
        key = np.concatenate([parts["key"], markers["key"], extra["key"]])
        none = np.full(len(markers["tp"]), NONE)
        message = np.concatenate([written, none, extra["message"].astype(np.int64)])
        id = np.concatenate([m["id"][written], none, extra["id"].astype(np.int64)])
        order = np.lexsort((key, tp))
        log = self.log
        log["tp"], log["message"], log["id"] = tp[order], message[order], id[order]
        counts = np.bincount(tp, minlength=TOPIC_PARTITIONS)
        starts = np.cumsum(counts) - counts
        log["offset"] = np.arange(len(order)) - starts[log["tp"]] + self.carried.offset[log["tp"]]
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
        log["epoch"] = epochs(self.number)[log["tp"]]
        log["scanned_epoch"] = log["epoch"].copy()
        m["offset"] = np.full(len(m["id"]), NONE)
        sent = (log["message"] != NONE) & (log["id"] == m["id"][log["message"]])
        first = np.flatnonzero(sent)[::-1]  # of a record stored twice the first tp counts
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
        wide = np.stack([m["process"][rows], m["txn"][rows], m["tp"][rows]])
        packed = (wide[0] << 48) | (wide[1] << 8) | wide[2]
        _, one = np.unique(packed, return_index=True)
        rows = rows[one]
        key = (m["end_inv"][rows] - m["inv"][0]) / TICK
        return {"tp": m["tp"][rows], "key": key}

    def schedule(self) -> None:
        """When a consumer gets each record: at the first poll when all below it is stable."""
        log, span = self.log, self.plan.span
        held = np.maximum.accumulate(log["held"] - self.base + log["tp"] * span)
        log["window"] = (held - log["tp"] * span) // self.plan.window + 1
        for hook in self.due:
            hook()
        self.commits |= rounds.commits(log, self.owner, self.carried.committed, self.plan.windows)
        self.marks |= rounds.marks(log, self.plan.windows)
        for hook in self.ready:
            hook()

    def leave(self) -> None:
        """Hand on what the next chunk has to know."""
        log = self.log
        given = np.flatnonzero(log["polled"])
        last = given[np.r_[np.flatnonzero(firsts(log["tp"][given]))[1:] - 1, len(given) - 1]]
        for row in last.tolist():
            names = ("offset", "epoch")
            record = {name: int(log[name][row]) for name in names}
            self.carried.last[int(log["tp"][row])] = record | {"id": int(log["polled_id"][row])}
        final = self.commits["window"] == self.plan.windows
        self.carried.committed = self.carried.committed.copy()  # the rows still hold the old one
        self.carried.committed[self.commits["tp"][final]] = self.commits["offset"][final]
