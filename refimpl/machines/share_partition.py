"""A partition of a share group at its leader (KIP-932): records in flight, and who holds them.

Spec: SharePartition. An offset is unknown until a fetch has looked at it; an offset that holds no
record is then archived. So the start is always the first offset that is not done with, and nothing
else has to be remembered about gaps. An acknowledgement takes effect once it is written.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

from attrs import define, evolve, field, frozen

from refimpl.machines.share_errors import (
    InvalidAcknowledgement,
    InvalidRecordState,
    SharePartitionNotLoaded,
)


class DeliveryState(IntEnum):
    """The states of a record, by Kafka's numbers."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
TERMINAL = frozenset((ACKNOWLEDGED, ARCHIVED))

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgements, by Kafka's numbers."""


@frozen
class InFlightState:
    """The state of one record; `target` is the state that a write under way gives it."""

    state: DeliveryState
    count: int = 0
    member: str | None = None
    #: The end of the acquisition lock
    until_ms: int = 0
    target: DeliveryState | None = None

    @property
    def is_free(self) -> bool:
        """True if a fetch may acquire the record."""
        return self.state is AVAILABLE and self.target is None


class PersisterStateBatch(NamedTuple):
    """Offsets in one state, with one delivery count."""

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int


class ShareWrite(NamedTuple):
    """A write to the share coordinator: the start as it was, and the records that change."""

    start: int
    batches: Sequence[PersisterStateBatch]
    #: Records done with at or above the start (KIP-1226)
    complete: int = 0

    @property
    def offsets(self) -> Iterator[tuple[int, DeliveryState, int]]:
        """The offsets that change, each with its new state and its delivery count."""
        for first, last, state, count in self.batches:
            for offset in range(first, last + 1):
                yield offset, state, count


class Acquired(NamedTuple):
    """Records that a member was given: consecutive offsets with one delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """Types for the offsets from first to last: one for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Reading(NamedTuple):
    """The result of reading the log: offsets that hold records, up to `end`.

    Compacted offsets, control records and records of aborted transactions are left out.
    """

    records: Sequence[int]
    end: int


@define
class SharePartition:
    """One share partition in one leader epoch."""

    leader_epoch: int
    max_locks: int = 2000
    delivery_limit: int = 5
    loaded: bool = False
    #: The first offset that is not done with
    start: int = 0
    #: Records that are known, from the start on; below it only those that are being written
    deliveries: dict[int, InFlightState] = field(factory=dict[int, InFlightState])
    #: No offset from the start up to here is free
    _free_from: int = 0
    _deadlines: list[int] = field(factory=list[int])

    # Beginning

    def load(self, start: int, batches: Iterable[PersisterStateBatch]) -> None:
        """Begin with the stored state. Locks of an earlier leader are not known."""
        self.loaded, self.start, self._free_from = True, start, start
        self._deadlines.clear()
        self.deliveries = {
            offset: known
            for batch in batches
            for known in (InFlightState(batch.state, batch.delivery_count),)
            for offset in range(max(batch.first_offset, start), batch.last_offset + 1)
        }
        self._move_start()

    def new_epoch(self, leader_epoch: int) -> None:
        """Forget everything for a new leader epoch, even if the leader stays.

        Another broker may have led, and written, in between.
        """
        if leader_epoch != self.leader_epoch:
            self.leader_epoch, self.loaded, self.start, self._free_from = leader_epoch, False, 0, 0
            self.deliveries.clear()
            self._deadlines.clear()

    def _check_loaded(self) -> None:
        if not self.loaded:
            raise SharePartitionNotLoaded()

    # Fetching

    def next_fetch_offset(self) -> int:
        """The first offset that is unknown or available."""
        offset = max(self.start, self._free_from)
        while (known := self.deliveries.get(offset)) is not None and not known.is_free:
            offset += 1
        self._free_from = offset
        return offset

    def has_room(self) -> bool:
        """True if the next offset is within the limit of locks."""
        return self.loaded and self.next_fetch_offset() < self.start + self.max_locks

    def log_starts(self, offset: int) -> None:
        """Take the log start offset: no record below it is given any more."""
        self._check_loaded()
        if offset > self.start:
            for below in [one for one in self.deliveries if one < offset]:
                if self.deliveries[below].target is None:
                    del self.deliveries[below]
            self.start = offset
            self._move_start()

    def acquire(
        self, member: str, reading: Reading, most: int, until_ms: int
    ) -> Sequence[Acquired]:
        """Give records to a member, in their order, as many as there is room for.

        What holds no record is archived, and the start may move over it.
        """
        self._check_loaded()
        records, given, taken = reading.records, list[Acquired](), 0
        offset = self.next_fetch_offset()
        at, many, acquired = bisect_left(records, offset), len(records), InFlightState(ACQUIRED)
        highest = max(self.deliveries, default=-1)
        while offset < reading.end and taken < most and offset < self.start + self.max_locks:
            if offset < self.start:
                offset = self.start
                continue
            stop = self._in_a_row(offset, records, at, most - taken) if offset > highest else 0
            if stop > offset:
                fresh = InFlightState(ACQUIRED, 1, member, until_ms)
                self.deliveries.update(dict.fromkeys(range(offset, stop), fresh))
                _extend(given, offset, stop - 1, 1)
                taken, at, offset = taken + stop - offset, at + stop - offset, stop
                continue
            while at < many and records[at] < offset:
                at += 1
            is_record = at < many and records[at] == offset
            nothing_known = offset == self.start and highest < offset
            if nothing_known and not is_record:
                offset = records[at] if at < many else reading.end
                self.start = offset
                continue
            known = self.deliveries.get(offset)
            if known is None or known.is_free:
                count = 0 if known is None else known.count
                if is_record:
                    taken += 1
                    if acquired.count != count + 1:
                        acquired = InFlightState(ACQUIRED, count + 1, member, until_ms)
                    self.deliveries[offset] = acquired
                    _extend(given, offset, offset, count + 1)
                else:
                    self._pass_over(offset, count)
            offset += 1
        if taken:
            heappush(self._deadlines, until_ms)
        return given

    def _in_a_row(self, offset: int, records: Sequence[int], at: int, most: int) -> int:
        """The end of as many records as may be given, if all offsets until then are records."""
        many = min(len(records) - at, most, self.start + self.max_locks - offset)
        in_a_row = many > 0 and records[at] == offset and records[at + many - 1] - offset < many
        return offset + many if in_a_row else 0

    def _pass_over(self, offset: int, count: int) -> None:
        """Archive an offset that holds no record."""
        self.deliveries[offset] = InFlightState(ARCHIVED, count)
        self._move_start()

    # Acknowledging

    def acknowledge(
        self, member: str, batches: Sequence[Acknowledgement], renew_until_ms: int = 0
    ) -> ShareWrite | None:
        """Take a member's acknowledgements, all or none; return the write that makes them count.

        An offset below the start is answered with success, and nothing happens to it.
        """
        self._check_loaded()
        changes = dict[int, InFlightState]()
        for first, last, types in batches:
            _check_types(first, last, types)
            if last >= self.start + self.max_locks:
                raise InvalidRecordState(last, "unknown", None, member)
            before: tuple[InFlightState, int] | None = None
            offsets = range(max(first, self.start), last + 1)
            if len(types) == 1 and types[0] != RENEW and changes.keys().isdisjoint(offsets):
                together = self._together(member, offsets)
                if together is not None:
                    held = evolve(together, target=self._target(together, types[0]))
                    changes.update(dict.fromkeys(offsets, held))
                    continue
            for offset in offsets:
                kind = types[0 if len(types) == 1 else offset - first]
                held = changes.get(offset) or self._held(offset, member)
                if held.target is not None:  # an earlier batch of the same request
                    raise InvalidRecordState(offset, "being written", member, member)
                if before is not None and before[0] is held and before[1] == kind:
                    changes[offset] = changes[offset - 1]
                elif kind == RENEW:
                    changes[offset] = evolve(held, until_ms=renew_until_ms)
                else:
                    changes[offset] = evolve(held, target=self._target(held, kind))
                before = held, kind
        self.deliveries.update(changes)
        if any(one.target is None for one in changes.values()):
            heappush(self._deadlines, renew_until_ms)
        return self._write({o: one for o, one in changes.items() if one.target is not None})

    def _together(self, member: str, offsets: range) -> InFlightState | None:
        """The one value of records that a member holds; None if there are several, or none."""
        found = list(map(self.deliveries.get, offsets))
        return self._held(offsets[0], member) if found and _are_one(found) else None

    def _held(self, offset: int, member: str) -> InFlightState:
        known = self.deliveries.get(offset)
        if known is None:
            raise InvalidRecordState(offset, "unknown", None, member)
        if known.target is not None:
            raise InvalidRecordState(offset, "being written", known.member, member)
        if known.state is not ACQUIRED or known.member != member:
            raise InvalidRecordState(offset, known.state.name.lower(), known.member, member)
        return known

    def _target(self, held: InFlightState, kind: int) -> DeliveryState:
        if kind == RELEASE:
            return self._released(held)
        return ACKNOWLEDGED if kind == ACCEPT else ARCHIVED

    def _released(self, held: InFlightState) -> DeliveryState:
        """The state of a record that is given back."""
        return ARCHIVED if held.count >= self.delivery_limit else AVAILABLE

    def close(self, member: str) -> ShareWrite | None:
        """Release all records of a member whose session ends."""
        self._check_loaded()
        released = {
            offset: evolve(held, target=self._released(held))
            for offset, held in self.deliveries.items()
            if held.member == member and held.state is ACQUIRED and held.target is None
        }
        self.deliveries.update(released)
        return self._write(released)

    def expire(self, now: int) -> ShareWrite | None:
        """End the acquisition locks that are over.

        Records that come to somebody again do so at once. A record that was given as often as may
        be waits for the write: below the start every acknowledgement is answered with success.
        """
        if not self.loaded or not self._deadlines or self._deadlines[0] > now:
            return None
        while self._deadlines and self._deadlines[0] <= now:
            heappop(self._deadlines)
        over = {
            offset: self._over(held)
            for offset, held in self.deliveries.items()
            if held.state is ACQUIRED and held.target is None and held.until_ms <= now
        }
        self.deliveries.update(over)
        self._freed(over)
        return self._write(over)

    def _over(self, held: InFlightState) -> InFlightState:
        if self._released(held) is ARCHIVED:
            return evolve(held, target=ARCHIVED)
        return InFlightState(AVAILABLE, held.count)

    def next_deadline(self) -> int | None:
        """The time at which a lock may be over."""
        return self._deadlines[0] if self._deadlines else None

    def _write(self, changes: dict[int, InFlightState]) -> ShareWrite | None:
        batches = list[PersisterStateBatch]()
        for first, last, one in _runs(changes):
            state = one.state if one.target is None else one.target
            before = batches[-1] if batches else None
            if before is not None and before[1:] == (first - 1, state, one.count):
                batches[-1] = before._replace(last_offset=last)
            else:
                batches.append(PersisterStateBatch(first, last, state, one.count))
        return ShareWrite(self.start, batches, self.complete) if batches else None

    @property
    def complete(self) -> int:
        """The number of records at or above the start that are done with, or about to be."""
        values = {id(one): one for one in self.deliveries.values()}
        found = 0
        for number, many in Counter(map(id, self.deliveries.values())).items():
            one = values[number]
            state = one.state if one.target is None else one.target
            found += many if state in TERMINAL else 0
        return found

    # Written

    def written(self, write: ShareWrite) -> None:
        """Take the share coordinator's success: the records are in their new states.

        The write of a lock that was over is not waited for. A record that it made available may be
        given out and acknowledged since, and this later write is another one.
        """
        self._settle(write, succeeded=True)

    def failed(self, write: ShareWrite) -> None:
        """Take the write's failure: the records are held as before, as long as their locks last."""
        self._settle(write, succeeded=False)

    def _settle(self, write: ShareWrite, *, succeeded: bool) -> None:
        self._check_loaded()
        settled = dict[int, InFlightState]()
        for first, last, state, count in write.batches:
            stored, offsets = InFlightState(state, count), range(first, last + 1)
            found = list(map(self.deliveries.get, offsets))
            one = found[0] if succeeded and first >= self.start and _are_one(found) else None
            if one is not None and _awaits(one, state, count):
                settled.update(dict.fromkeys(offsets, stored))
                continue
            for offset, known in zip(offsets, found, strict=True):
                if known is not None and _awaits(known, state, count):
                    self._settle_one(offset, known, stored if succeeded else None, settled)
        self.deliveries.update(settled)
        self._freed(settled)
        self._move_start()

    def _settle_one(
        self,
        offset: int,
        known: InFlightState,
        stored: InFlightState | None,
        settled: dict[int, InFlightState],
    ) -> None:
        if offset < self.start:
            del self.deliveries[offset]
        elif stored is not None:
            settled[offset] = stored
        else:
            settled[offset] = evolve(known, target=None)
            heappush(self._deadlines, known.until_ms)

    def _freed(self, changed: Iterable[int]) -> None:
        for offset in changed:
            if self.deliveries[offset].is_free and offset < self._free_from:
                self._free_from = offset

    def _move_start(self) -> None:
        """Move the start over everything that is done with."""
        deliveries, start = self.deliveries, self.start
        known = deliveries.get(start)
        while known is not None and known.target is None and known.state in TERMINAL:
            del deliveries[start]
            start += 1
            known = deliveries.get(start)
        self.start = start


def _extend(given: list[Acquired], first: int, last: int, count: int) -> None:
    """Add offsets that were given, behind all others."""
    before = given[-1] if given else None
    if before is not None and before[1:] == (first - 1, count):
        given[-1] = before._replace(last_offset=last)
    else:
        given.append(Acquired(first, last, count))


def _awaits(known: InFlightState, state: DeliveryState, count: int) -> bool:
    """True if a record waits for a write of this state and delivery count."""
    return (known.target, known.count) == (state, count)


def _are_one(values: Sequence[InFlightState | None]) -> bool:
    """True if all are one and the same value."""
    return len(set(map(id, values))) == 1


def _runs(changes: Mapping[int, InFlightState]) -> Iterator[tuple[int, int, InFlightState]]:
    """Consecutive offsets with one and the same value: the first, the last, and the value."""
    first, last, value = 0, -1, None
    for offset in sorted(changes):
        one = changes[offset]
        if one is not value or offset != last + 1:
            if value is not None:
                yield first, last, value
            first, value = offset, one
        last = offset
    if value is not None:
        yield first, last, value


def _check_types(first: int, last: int, types: Sequence[int]) -> None:
    """Refuse a batch whose offsets are out of order, or whose types do not fit them."""
    why = None
    if first > last or first < 0:
        why = "the first offset has to be the lower one"
    elif len(types) not in (1, last - first + 1):
        why = "there is one type for all offsets, or one for each"
    elif any(kind not in range(RENEW + 1) for kind in types):
        why = "a type is 0 to 4"
    if why is not None:
        raise InvalidAcknowledgement(first, last, len(types), why)
