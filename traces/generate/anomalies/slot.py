"""One partition in one generation: what an anomaly changes, and how."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import define, field

from traces.generate.chunk import Chunk
from traces.generate.members import membered
from traces.generate.plan import (
    LEADER,
    PRODUCERS,
    TOPIC_PARTITIONS,
    epochs,
    payload,
    topic_partition,
)
from traces.model.columns import Bools
from traces.model.context import Ints
from traces.model.schema import NONE, Isolation, Op, Outcome, Txn

_OF_A_RECORD = ("id", "hash", "offset", "flags")


@define
class Slot:
    """One partition in one generation, for an anomaly to change."""

    chunk: Chunk
    tp: int
    rows: Ints  # its messages
    number: int  # of the anomaly, for names
    witness: dict[str, int] = field(factory=dict[str, int])

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
        """The records stored here, and for each the next one that the same producer stores here."""
        written: Ints = self.rows[self.m["written"][self.rows]]
        process: Ints = self.m["process"][written]
        order = np.argsort(process, kind="stable")
        after = np.full(len(written), NONE)
        same = process[order][1:] == process[order][:-1]
        after[order[:-1][same]] = written[order[1:][same]]
        return written, after

    def rely(self, message: int | None) -> int | None:
        """Let no other anomaly end the session of this message before its next one here."""
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
        """Any of them; the witness of the anomaly."""
        if not len(rows):
            return None
        chosen = int(self.chunk.random.choice(rows))
        return chosen

    def pair(self, where: Callable[[int, int], bool] = lambda a, b: True) -> tuple[int, int] | None:
        """Any two neighbours that are so; the first is of no session that an anomaly relies on."""
        pairs = [p for p in self.neighbours() if where(*p) and self._ends_nothing(p[0])]
        return pairs[int(self.chunk.random.integers(len(pairs)))] if pairs else None

    def note(self, message: int) -> bool:
        """Remember whom the anomaly is about; its offset is known when it is stored."""
        self.witness["id"] = int(self.m["id"][message])

        def settle() -> None:
            self.witness["offset"] = int(self.m["offset"][message])

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
        tp: Ints = self.log["tp"]
        return np.flatnonzero(tp == self.tp)

    def polled(self) -> Ints:
        """The entries of this partition that the group polled."""
        polled: Bools = self.log["polled"]
        return self.entries()[polled[self.entries()]]

    def note_entry(self, entry: int) -> bool:
        """As `note`, for an entry of the log."""
        self.witness |= {"id": int(self.log["id"][entry]), "offset": int(self.log["offset"][entry])}
        return True

    def row(self, process: int, op: Op, inv: int, **fields: int) -> None:
        """A further row."""
        times = {"inv": int(inv), "ret": int(inv) + 500}
        if op is Op.POLL:
            fields = fields | {"hash": int(payload(fields["id"])), "node": LEADER}
        self.chunk.lines.append({"process": process, "op": int(op)} | times | fields)

    def member_row(self, op: Op, inv: int, **fields: int) -> None:
        """A further row of the member that owns the partition."""
        tp = np.array([self.tp])
        mine = {name: int(np.ravel(v)[0]) for name, v in membered(self.chunk, tp).items()}
        self.row(op=op, inv=inv, **(mine | fields))

    def report(self, poll: Mapping[str, int], mark: int) -> None:
        """Add the rows of a poll about its partition: high watermark and log start.

        They belong to the same call as the poll's records.
        """
        fields = {name: value for name, value in poll.items() if name not in _OF_A_RECORD}
        fields |= {"node": LEADER, "epoch": int(epochs(self.chunk.number)[self.tp])}
        fields |= {"isolation": int(Isolation.READ_COMMITTED)} if "isolation" not in poll else {}
        for op, offset in ((Op.MARK, mark), (Op.LOG_START, 0)):
            self.chunk.lines.append(fields | {"op": int(op), "offset": offset, "order": 1 << 40})

    def polls(self, process: int, inv: int, mark: int = 0, **record: int) -> None:
        """Add a poll of its own that is given this record, with high watermark and log start."""
        self.row(process, Op.POLL, inv, **record)
        self.report(self.chunk.lines[-1], max(mark, record["offset"] + 1))

    def taken_over(self, message: int, name: str, tid: str, end: int, epoch: int = 0) -> int:
        """Let a process of its own send it, in a transaction of its own that is committed."""
        m, clients = self.m, self.chunk.clients
        process = clients.producer(name)
        number = clients.names.transactional_ids.number(tid)
        m["process"][message], m["tid"][message], m["txn"][message] = process, number, 0
        m["pid"][message], m["pepoch"][message] = 5_000 + number, epoch
        m["txn_state"][message], m["end_inv"][message] = Txn.COMMITTED, end
        m["ret"][message] = m["inv"][message] + 1_000
        mine = self.transaction(process, number, end, epoch)
        self.row(process, Op.TXN_BEGIN, m["inv"][message] - 3_000, **mine)
        self.row(process, Op.TXN_COMMIT, end, **mine)
        return process

    def transaction(self, process: int, tid: int, end: int, epoch: int = 0) -> dict[str, int]:
        """The fields that rows of a committed transaction share."""
        named = {"tid": tid, "pid": 5_000 + tid, "pepoch": epoch}
        return named | {"txn": 0, "txn_state": int(Txn.COMMITTED), "end_inv": end}

    def init(self, process: int, tid: str, inv: int, epoch: int = 0) -> None:
        """The process initialises its transactional id."""
        number = self.chunk.clients.names.transactional_ids.number(tid)
        named = {"tid": number, "pid": 5_000 + number, "pepoch": epoch}
        self.row(process, Op.INIT_PRODUCER, inv, **named)

    @property
    def here(self) -> dict[str, int]:
        """Topic and partition."""
        return topic_partition(self.tp)


def slots(chunk: Chunk) -> list[Ints]:
    """The messages of each topic-partition."""
    tp = chunk.m["tp"].astype(np.int16)
    order = np.argsort(tp, kind="stable")
    return np.split(order, np.cumsum(np.bincount(tp, minlength=TOPIC_PARTITIONS))[:-1])
