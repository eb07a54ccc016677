"""Consumer: a client's position in one partition, its leader, and its group's offset."""

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import define, field

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.clients.consumer.position import (
    INITIALIZING,
    NONE,
    RESETTING,
    VALIDATING,
    OffsetAndEpoch,
    Position,
)
from refimpl.errors import Refusal

COUNTED = ("elections", "denied", "revokes", "losses", "seeks")
Record = tuple[int, int]
"""Its number, and the epoch of the leader that wrote it."""
Asked = tuple[str, int, int, int]
"""A question: kind, offset, epoch, leader epoch."""
NOWHERE = OffsetAndEpoch(NONE, NONE)
NO_QUESTION: Asked = ("none", NONE, NONE, NONE)


@define(eq=False)
class Fetched:
    """Records in a list, each of which is a batch."""

    start: OffsetAndEpoch
    records: list[Record]

    @property
    def position(self) -> OffsetAndEpoch:
        """The position of the first one."""
        return self.start

    @property
    def is_empty(self) -> bool:
        """True once all are returned."""
        return not self.records

    def take(self, most: int) -> list[Record]:
        """The next records."""
        taken, self.records = self.records[:most], self.records[most:]
        if taken:
            self.start = OffsetAndEpoch(self.start.offset + len(taken), taken[-1][1])
        return taken


@define
class Answer:
    """An answer on the way back."""

    to: Asked = NO_QUESTION
    error: str = "none"
    at: OffsetAndEpoch = NOWHERE
    records: list[Record] = field(factory=list[Record])


class Consumer(Binding):
    """One partition: a position, a leader with a log, and the offset of a group."""

    module = "Consumer"
    knobs: ClassVar = {"Dropped": "none"}

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.constants = constants
        self.most = constants["MaxRecords"]
        self.log: list[Record] = []
        self.leader, self.written, self.known = 1, 0, 1
        self.position = Position(leader_epoch=1)
        self.wire, self.answer_ = NO_QUESTION, Answer()
        self.commits: list[OffsetAndEpoch] = []
        self.committed = NOWHERE
        self.handed: frozenset[int] = frozenset()
        self.processed: frozenset[int] = frozenset()
        self.repeated = False
        self.count: dict[str, int] = dict.fromkeys(COUNTED, 0)

    def _counts(self, name: str) -> None:
        if self.count[name] >= self.constants["Max" + name.capitalize()]:
            raise Bound

    # The leader

    def write(self) -> None:
        if self.written >= self.most:
            raise Bound
        self.written += 1
        self.log.append((self.written, self.leader))

    def elect(self, n: int) -> None:
        self._counts("elections")
        if n > len(self.log):
            raise Environment
        del self.log[n:]
        self.leader += 1
        self.count["elections"] += 1

    def answer(self) -> None:
        if self.wire == NO_QUESTION:
            raise OtherAction
        kind, offset, epoch, leader = asked = self.wire
        self.wire = NO_QUESTION
        if leader != self.leader:
            self.answer_ = Answer(asked, "fenced")
        elif kind == RESETTING:
            earliest = self.constants["Reset"] == "earliest"
            self.answer_ = Answer(asked, at=self._here(0 if earliest else len(self.log)))
        elif kind == VALIDATING:
            self.answer_ = Answer(asked, at=self._end_of(epoch))
        elif offset > len(self.log):
            self.answer_ = Answer(asked, "range")
        else:
            self.answer_ = Answer(asked, records=self.log[offset:])

    def _here(self, offset: int) -> OffsetAndEpoch:
        return OffsetAndEpoch(offset, self.log[offset - 1][1] if offset else NONE)

    def _end_of(self, epoch: int) -> OffsetAndEpoch:
        old = [one for one in self.log if one[1] <= epoch]
        return OffsetAndEpoch(len(old), old[-1][1]) if old else NOWHERE

    def deny(self) -> None:
        self._counts("denied")
        if self.wire == NO_QUESTION:
            raise OtherAction
        self.answer_, self.wire = Answer(self.wire, "denied"), NO_QUESTION
        self.count["denied"] += 1

    # The position

    def begin(self) -> None:
        if self.committed == NOWHERE:
            if self.position.state != INITIALIZING:
                raise OtherAction
            self.position.reset(self.constants["Reset"])
        else:
            self.position.begin(self.committed)

    def learn(self) -> None:
        if self.known == self.leader:
            raise OtherAction
        self.known = self.leader
        self.position.learn(self.leader)

    def ask(self) -> None:
        if self.wire != NO_QUESTION or self.answer_.to != NO_QUESTION:
            raise OtherAction
        state, _, offset, epoch, leader = self.position.ask()
        self.wire = state, offset, epoch, leader

    def take_answer(self) -> None:
        one, self.answer_ = self.answer_, Answer()
        if one.to == NO_QUESTION:
            raise OtherAction
        try:
            self._taken(one)
        except Refusal:
            return  # the position has moved since

    def _taken(self, one: Answer) -> None:
        kind, offset, epoch, leader = one.to
        position, reset = self.position, self.constants["Reset"]
        if one.error == "range":
            if position.out_of_range(offset, leader):
                position.reset(reset)
        elif one.error != "none":
            return
        elif kind == RESETTING:
            position.complete_reset(reset, one.at)
        elif kind == VALIDATING:
            asked = OffsetAndEpoch(offset, epoch)
            found = position.complete_validation(asked, leader, one.at, resets=True)
            if found == "unknown":
                position.reset(reset)
        elif one.records:
            position.fetched(offset, leader, Fetched(OffsetAndEpoch(offset, epoch), one.records))

    def seek(self) -> None:
        self._counts("seeks")
        self.position.seek(OffsetAndEpoch(0))
        self.count["seeks"] += 1

    # The application

    def poll(self) -> None:
        returned = frozenset(number for number, _ in self.position.hand_out(self.most))
        self.repeated |= bool(returned & (self.processed | self.handed))
        self.processed |= self.handed
        self.handed = returned

    def auto_commit(self) -> None:
        at = self.position.auto_commit()
        if self.commits or at == self.committed:
            raise OtherAction
        self.commits.append(at)
        self._process()

    def _process(self) -> None:
        self.processed |= self.handed
        self.handed = frozenset()

    def arrive(self) -> None:
        if not self.commits:
            raise OtherAction
        self.committed = self.commits.pop(0)

    def revoke(self) -> None:
        self._counts("revokes")
        if self.position.state == INITIALIZING:
            raise OtherAction
        last = self.position.revoke()
        if last is not None:
            self.commits.append(last)
        self._process()
        self.count["revokes"] += 1

    def give_up(self) -> None:
        if not self.position.revoking or self.commits:
            raise OtherAction
        self._process()
        self._another()

    def lose(self) -> None:
        self._counts("losses")
        if self.position.state == INITIALIZING:
            raise OtherAction
        self._another()
        self.handed = frozenset()
        self.commits = []
        self.count["losses"] += 1

    def _another(self) -> None:
        self.position = Position(leader_epoch=self.known)
        self.wire, self.answer_ = NO_QUESTION, Answer()

    def load(self, state: Mapping[str, Value]) -> None:
        self.log = [(one["id"], one["epoch"]) for one in state["log"]]
        self.leader, self.written, self.known = state["leader"], state["written"], state["known"]
        at = OffsetAndEpoch(state["position"]["offset"], state["position"]["epoch"])
        self.position = Position(
            state["state"], at.offset, at.epoch, self.known, revoking=state["revoking"]
        )
        if state["state"] == RESETTING:
            self.position.strategy = self.constants["Reset"]
        if state["buffer"]:
            records = [(one["id"], one["epoch"]) for one in state["buffer"]]
            self.position.buffer = Fetched(at, records)
        self.wire = _asked(state["wire"])
        told = state["answer"]
        records = [(one["id"], one["epoch"]) for one in told["records"]]
        at = OffsetAndEpoch(told["offset"], told["epoch"])
        self.answer_ = Answer(_asked(told["to"]), told["error"], at, records)
        self.commits = [OffsetAndEpoch(one["offset"], one["epoch"]) for one in state["commits"]]
        self.committed = OffsetAndEpoch(state["committed"]["offset"], state["committed"]["epoch"])
        self.handed, self.processed = state["handed"], state["processed"]
        self.repeated = state["repeated"]
        self.count = {name: state["count"][name] for name in COUNTED}


def _asked(question: Mapping[str, Value]) -> Asked:
    return question["kind"], question["offset"], question["epoch"], question["leader"]


def _at(one: OffsetAndEpoch) -> Rec:
    return Rec.of(offset=one.offset, epoch=one.epoch)


def _question(one: Asked) -> Rec:
    kind, offset, epoch, leader = one
    return Rec.of(kind=kind, offset=offset, epoch=epoch, leader=leader)


def _records(records: list[Record]) -> tuple[Rec, ...]:
    return tuple([Rec.of(id=number, epoch=epoch) for number, epoch in records])


def _buffer(position: Position) -> tuple[Rec, ...]:
    buffer: Any = position.buffer
    return () if buffer is None else _records(buffer.records)


def _answer(one: Answer) -> Rec:
    return Rec.of(
        to=_question(one.to),
        error=one.error,
        offset=one.at.offset,
        epoch=one.at.epoch,
        records=_records(one.records),
    )


Consumer.projection = {
    "log": lambda c: _records(c.log),
    "leader": lambda c: c.leader,
    "written": lambda c: c.written,
    "state": lambda c: c.position.state,
    "position": lambda c: _at(OffsetAndEpoch(c.position.offset, c.position.epoch)),
    "known": lambda c: c.position.leader_epoch,
    "buffer": lambda c: _buffer(c.position),
    "wire": lambda c: _question(c.wire),
    "answer": lambda c: _answer(c.answer_),
    "revoking": lambda c: c.position.revoking,
    "commits": lambda c: tuple([_at(one) for one in c.commits]),
    "committed": lambda c: _at(c.committed),
    "handed": lambda c: c.handed,
    "processed": lambda c: c.processed,
    "repeated": lambda c: c.repeated,
    "count": lambda c: Rec.of(**c.count),
}

MODULE = Module(
    binding=Consumer,
    machines=("position",),
)
