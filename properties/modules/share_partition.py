"""SharePartition: a share partition's leader, on a log and a stored state.

The log, its retention and its compaction are the environment: the binding plays them. The stored
state is a `ShareState`, whose own module has copies and late requests.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.machines import share_state as stored
from refimpl.machines.share_partition import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    InFlightState,
    PersisterStateBatch,
    Reading,
    SharePartition,
    ShareWrite,
)
from refimpl.machines.share_state import ShareState

STATES = {AVAILABLE: "avail", ACQUIRED: "acq", ACKNOWLEDGED: "ack", ARCHIVED: "arch"}
NUMBERS = {name: state for state, name in STATES.items()}
TYPES = {"ack": ACCEPT, "avail": RELEASE, "arch": REJECT}
NEVER = 10


class ShareLeader(Binding):
    """One share partition with members 1..M; offsets are the spec's, from 1 on."""

    module = "SharePartition"
    knobs: ClassVar = dict.fromkeys(
        (
            *("OneHolder", "LimitHolds", "AnswerWritten", "StartOnlyGrows", "MoveAfterArchive"),
            *("PassesHoles", "FetchFromStart", "ForgetsBelow", "NothingBelow", "KeepTransition"),
            *("ReloadsOnNewEpoch", "ArchivesWritten"),
        ),
        True,
    )

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.last: int = constants["Last"]
        self.segment: int = constants["Segment"]
        self.most: int = constants["Most"]
        self.faults: frozenset[str] = constants["Faults"]
        self.max_crashes: int = constants["Crashes"]
        self.limits: tuple[int, int] = constants["InFlight"], constants["Limit"]
        self.kind = ["data"] * self.last
        self.high = self.last - 1
        self.log_start = 1
        self.crashes = 0
        self.final = frozenset[int]()
        self.stored = ShareState(1, 0, 1)
        self.share = self._new()
        self.writes = dict[int, ShareWrite]()

    def _new(self, epoch: int = 0) -> SharePartition:
        return SharePartition(epoch, *self.limits)

    def _fault(self, name: str) -> None:
        if name not in self.faults:
            raise Environment

    def _leads(self) -> SharePartition:
        if not self.share.loaded:
            raise OtherAction
        return self.share

    def _crashes(self) -> None:
        if self.crashes >= self.max_crashes:
            raise Bound
        self.crashes += 1
        self.share, self.writes = self._new(), dict[int, ShareWrite]()

    # The leader

    def begin(self) -> None:
        if self.share.loaded:
            raise OtherAction
        self.stored = stored.read(self.stored, self.share.leader_epoch)
        self.share.load(self.stored.start, self.stored.batches)

    def crash(self) -> None:
        self._fault("crash")
        self._leads()
        self._crashes()

    def fetch(self, i: int) -> None:
        share = self._leads()
        share.log_starts(self.log_start)
        offset = share.next_fetch_offset()
        if share.has_room():
            share.acquire(str(i), self._read(offset), self.most, NEVER)

    def _read(self, offset: int) -> Reading:
        """The records of the segment that has the first record from an offset on."""
        there = [o for o in range(offset, self.high + 1) if self.kind[o - 1] != "gone"]
        if not there:
            return Reading((), offset)
        segment = (there[0] - 1) // self.segment
        read = [o for o in there if (o - 1) // self.segment == segment]
        return Reading([o for o in read if self.kind[o - 1] == "data"], read[-1] + 1)

    def acknowledge(self, o: int, i: int, to: str) -> None:
        write = self._leads().acknowledge(str(i), (Acknowledgement(o, o, (TYPES[to],)),))
        if write is None:
            raise OtherAction
        self.writes[o] = write

    def renew(self, o: int, i: int) -> None:
        share = self._leads()
        if o < share.start:
            raise OtherAction
        share.acknowledge(str(i), (Acknowledgement(o, o, (RENEW,)),), NEVER)

    def close(self, i: int) -> None:
        write = self._leads().close(str(i))
        if write is None:
            raise OtherAction
        for batch in write.batches:
            for o in range(batch.first_offset, batch.last_offset + 1):
                self.writes[o] = _alone(write, o)

    def _pending(self, o: int) -> ShareWrite:
        self._leads()
        if o not in self.writes:
            raise OtherAction
        return self.writes[o]

    def _store(self, write: ShareWrite) -> None:
        self.stored = stored.written(self.stored, 1, self.share.leader_epoch, write)

    def ack_done(self, o: int) -> None:
        write = self._pending(o)
        self._store(write)
        self.share.written(write)
        del self.writes[o]
        if write.batches[0].state is ACKNOWLEDGED:
            self.final |= {o}

    def ack_below(self, o: int) -> None:
        share = self._leads()
        self._data(o)
        if o < max(self.stored.start, self.log_start) or o >= share.start:
            raise OtherAction
        assert share.acknowledge("1", (Acknowledgement(o, o, (ACCEPT,)),)) is None
        self.final |= {o}

    def ack_fail(self, o: int) -> None:
        """A lock that was over meanwhile is renewed: it ends again by its own action."""
        self._fault("fail")
        self.share.failed(self._pending(o))
        del self.writes[o]
        held = self.share.deliveries.get(o)
        if held is not None and held.state is ACQUIRED and o >= self.share.start:
            self.share.acknowledge(held.member or "", (Acknowledgement(o, o, (RENEW,)),), NEVER)

    def ack_unheard(self, o: int) -> None:
        self._fault("crash")
        write = self._pending(o)
        if self.crashes >= self.max_crashes:
            raise Bound
        self._store(write)
        self._crashes()

    def time_out(self, o: int) -> None:
        """Only this record's lock is over; others, as far as they are held, were renewed."""
        share = self._leads()
        held = share.deliveries.get(o)
        if held is None or o < share.start:
            raise OtherAction
        share.acknowledge(held.member or "", (Acknowledgement(o, o, (RENEW,)),), 1)
        write = share.expire(1)
        assert write is not None
        if write.batches[0].state is ARCHIVED:
            self.writes[o] = write
        else:
            self._store(write)

    # The log

    def append(self) -> None:
        if self.high >= self.last:
            raise Bound
        self.high += 1

    def _data(self, o: int) -> None:
        if self.kind[o - 1] != "data":
            raise Environment

    def abort(self, o: int) -> None:
        self._fault("abort")
        self._data(o)
        if self.share.loaded or self.stored.start != 1 or self.crashes:
            raise Environment
        self.kind[o - 1] = "aborted"

    def compact(self, o: int) -> None:
        self._fault("compact")
        self._data(o)
        if o >= self.high:
            raise Environment
        self.kind[o - 1] = "gone"

    def delete(self, o: int) -> None:
        self._fault("delete")
        if not self.log_start < o <= self.high:
            raise Environment
        self.log_start = o

    def bump(self) -> None:
        self._fault("bump")
        share = self._leads()
        share.new_epoch(share.leader_epoch + 1)
        self.writes.clear()

    # Looking

    def load(self, state: Mapping[str, Value]) -> None:
        self.kind, self.high = list(state["kind"]), state["high"]
        self.log_start, self.crashes = state["logStart"], state["crashes"]
        self.final = state["final"]
        stored_, memory = state["pers"], state["mem"]
        self.stored = ShareState(1, 0, stored_["start"], 0, tuple(_batches(stored_)))
        self.share, self.writes = self._new(), dict[int, ShareWrite]()
        if memory["start"] == 0:
            return
        self.share.load(memory["start"], ())
        for o, name in enumerate(memory["st"], 1):
            if name == "none":
                continue
            to, count, by = (memory[one][o - 1] for one in ("to", "cnt", "by"))
            target = NUMBERS[to] if name == "pend" else None
            number = ACQUIRED if name == "pend" else NUMBERS[name]
            until = NEVER if by else 0
            member = str(by) if by else None
            self.share.deliveries[o] = InFlightState(number, count, member, until, target)
            if target is not None:
                self.writes[o] = ShareWrite(
                    memory["sent"][o - 1], (PersisterStateBatch(o, o, target, count),)
                )


def _memory(c: ShareLeader) -> Rec:
    """The leader's memory, as the spec has it."""
    offsets = range(1, c.last + 1)
    known = [c.share.deliveries.get(o) for o in offsets]
    sent = tuple(c.writes[o].start if o in c.writes else 0 for o in offsets)
    return Rec.of(
        start=c.share.start if c.share.loaded else 0,
        st=tuple(map(_state, known)),
        to=tuple(STATES[one.target] if one and one.target is not None else "none" for one in known),
        cnt=tuple(one.count if one else 0 for one in known),
        by=tuple(int(one.member) if one and one.member else 0 for one in known),
        sent=sent,
    )


def _persisted(c: ShareLeader) -> Rec:
    """The share coordinator's state, as the spec has it."""
    states, counts = ["none"] * c.last, [0] * c.last
    for first, last, state, count in c.stored.batches:
        for o in range(first, last + 1):
            states[o - 1], counts[o - 1] = STATES[state], count
    return Rec.of(start=c.stored.start, st=tuple(states), cnt=tuple(counts))


def _state(known: InFlightState | None) -> str:
    if known is None:
        return "none"
    return STATES[known.state] if known.target is None else "pend"


def _batches(stored_: Mapping[str, Value]) -> Iterator[PersisterStateBatch]:
    for o, name in enumerate(stored_["st"], 1):
        if name != "none":
            yield PersisterStateBatch(o, o, NUMBERS[name], stored_["cnt"][o - 1])


def _alone(write: ShareWrite, o: int) -> ShareWrite:
    """The part of a write that is about one offset."""
    batch = next(one for one in write.batches if one.first_offset <= o <= one.last_offset)
    return write._replace(batches=(batch._replace(first_offset=o, last_offset=o),))


ShareLeader.projection = {
    "kind": lambda c: tuple(c.kind),
    "high": lambda c: c.high,
    "logStart": lambda c: c.log_start,
    "mem": _memory,
    "pers": _persisted,
    "stale": lambda c: False,
    "crashes": lambda c: c.crashes,
    "final": lambda c: c.final,
}

MODULE = Module(binding=ShareLeader, machines=("share_partition", "share_state"))
