"""ShareState: the stored state of a share partition, and the leaders that write it.

Leaders and the network are the environment: the binding plays them.
"""

from collections.abc import Mapping
from typing import ClassVar

from attrs import evolve, frozen

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.errors import Refusal
from refimpl.machines import share_state as machine
from refimpl.machines.share_partition import ACKNOWLEDGED, PersisterStateBatch, ShareWrite
from refimpl.machines.share_state import ShareState


@frozen
class Sent:
    """A request on its way, in the words of the spec."""

    type: str
    se: int
    le: int
    start: int
    off: int

    def shown(self) -> Rec:
        return Rec.of(type=self.type, se=self.se, le=self.le, start=self.start, off=self.off)


@frozen
class StateLeader:
    """A leader's memory: what it knows to be accepted, and what it has to write."""

    se: int = 0
    start: int = 0
    acked: frozenset[int] = frozenset()
    pending: tuple[Sent, ...] = ()

    def done(self, write: Sent) -> "StateLeader":
        start, acked = _from(self.start, self.acked | {write.off})
        rest = tuple(one for one in self.pending if one != write)
        return StateLeader(self.se, start, acked, rest)


def _from(start: int, acked: frozenset[int]) -> tuple[int, frozenset[int]]:
    while start in acked:
        start += 1
    return start, frozenset(one for one in acked if one > start)


class StateOfShares(Binding):
    """One share partition, with leaders of the epochs 1..E."""

    module = "ShareState"
    knobs: ClassVar = dict.fromkeys(
        ("Fence", "FenceState", "InitialiseOnce", "StartOnlyGrows", "OwnAnswers"), True
    )

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.epochs: int = constants["Epochs"]
        self.max_copies: int = constants["Copies"]
        self.state: ShareState | None = None
        self.leaders = [StateLeader()] * self.epochs
        self.sent = frozenset[Sent]()
        self.copies = 0
        self.answered = frozenset[tuple[int, int]]()
        self.next_epoch = 1

    # The coordinator

    def _take(self, request: Sent) -> bool:
        """True if the coordinator takes a request."""
        try:
            if request.type == "init":
                self.state = machine.initialised(self.state, request.se, 1)
            else:
                batch = PersisterStateBatch(request.off, request.off, ACKNOWLEDGED, 1)
                write = ShareWrite(request.start, (batch,))
                self.state = machine.written(self.state, request.se, request.le, write)
        except Refusal:
            return False
        return True

    def initialise(self, se: int) -> None:
        if self.state is not None and se <= self.state.state_epoch:
            raise Environment
        request = Sent("init", se, 0, 1, 0)
        self._take(request)
        self.sent |= {request}

    def lead(self) -> None:
        if self.next_epoch > self.epochs:
            raise Bound
        self.state = machine.read(self.state, self.next_epoch)
        acked = frozenset(
            o for one in self.state.batches for o in range(one.first_offset, one.last_offset + 1)
        )
        begun = StateLeader(self.state.state_epoch, *_from(self.state.start, acked))
        self.leaders[self.next_epoch - 1] = begun
        self.next_epoch += 1

    # Leaders

    def accept(self, e: int, o: int) -> None:
        leader = self.leaders[e - 1]
        if leader == StateLeader() or o < leader.start or o in leader.acked:
            raise OtherAction
        if any(one.off == o for one in leader.pending):
            raise OtherAction
        if len(leader.pending) >= 2:
            raise Bound
        write = Sent("write", leader.se, e, leader.start, o)
        self.leaders[e - 1] = evolve(leader, pending=(*leader.pending, write))

    def _send(self, e: int, write: Sent) -> None:
        self.sent |= {write}
        if self._take(write):
            self.answered |= {(write.se, write.off)}
            self.leaders[e - 1] = self.leaders[e - 1].done(write)
        else:
            self.leaders[e - 1] = StateLeader()

    def write(self, e: int, i: int) -> None:
        pending = self.leaders[e - 1].pending
        if i > len(pending):
            raise OtherAction
        self._send(e, pending[i - 1])

    def write_two(self, e: int, f: int) -> None:
        first, second = self.leaders[e - 1].pending, self.leaders[f - 1].pending
        if e >= f or not first or not second:
            raise OtherAction
        self._send(e, first[0])
        self._send(f, second[0])

    # Copies

    def _copy(self, request: Sent) -> None:
        if request not in self.sent:
            raise OtherAction
        if self.copies >= self.max_copies:
            raise Bound
        self.copies += 1
        self._take(request)

    def copy_initialise(self, se: int) -> None:
        self._copy(Sent("init", se, 0, 1, 0))

    def copy_write(self, se: int, e: int, start: int, o: int) -> None:
        self._copy(Sent("write", se, e, start, o))

    # Looking

    def load(self, state: Mapping[str, Value]) -> None:
        coord = state["coord"]
        batches = tuple(PersisterStateBatch(o, o, ACKNOWLEDGED, 1) for o in sorted(coord["acked"]))
        self.state = None
        if coord["se"]:
            joined = machine.merged((), batches, coord["start"])
            self.state = ShareState(coord["se"], coord["le"], coord["start"], 0, joined)
        self.leaders = [
            StateLeader(
                *(one["se"], one["start"], frozenset(one["acked"])),
                tuple(Sent(**dict(write.items())) for write in one["pending"]),
            )
            for one in state["leaders"]
        ]
        self.sent = frozenset(Sent(**dict(one.items())) for one in state["sent"])
        self.copies, self.next_epoch = state["copies"], state["nextEpoch"]
        self.answered = frozenset(tuple(one) for one in state["answered"])


def _stored(state: ShareState | None) -> Rec:
    if state is None:
        return Rec.of(se=0, le=0, start=0, acked=frozenset[int]())
    acked = frozenset(
        o for one in state.batches for o in range(one.first_offset, one.last_offset + 1)
    )
    return Rec.of(
        se=state.state_epoch, le=max(state.leader_epoch, 0), start=state.start, acked=acked
    )


def _leader(one: StateLeader) -> Rec:
    pending = tuple(write.shown() for write in one.pending)
    return Rec.of(se=one.se, start=one.start, acked=one.acked, pending=pending)


StateOfShares.projection = {
    "coord": lambda c: _stored(c.state),
    "leaders": lambda c: tuple(map(_leader, c.leaders)),
    "sent": lambda c: frozenset(one.shown() for one in c.sent),
    "copies": lambda c: c.copies,
    "answered": lambda c: c.answered,
    "nextEpoch": lambda c: c.next_epoch,
}

MODULE = Module(binding=StateOfShares, machines=("share_state",))
