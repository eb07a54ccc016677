"""What must hold of a group that brokers coordinate, judged by its log and by what members see.

The group's state is a replay of its partition of `__consumer_offsets`: each record that a leader
writes there is judged when it is written, and what members are told is held against the log. After
a loss of that log that the configuration permits (`offsets.era`), only what is read is judged.
"""

from ast import literal_eval
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.clients.group_member import GroupMember
from chaos.oracles.group import Processing
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim import group_messages as g
from chaos.sim.addresses import GROUP, OFFSETS
from chaos.sim.simulation import Simulation
from refimpl.assignors import read_assignment
from refimpl.broker import observations as o
from refimpl.broker.logs import BrokerLog
from refimpl.storage.coordinator_records import (
    CoordinatorRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

EVERYTHING = 1 << 24


class Generation(NamedTuple):
    """What a record says of the group: who is assigned what."""

    number: int
    assigned: Mapping[str, frozenset[int]]


class Commit(NamedTuple):
    """A committed offset, and which commit it was."""

    offset: int
    partition: int
    member_id: str
    generation: int
    number: int

    @property
    def claim(self) -> tuple[int, str, int]:
        """By which right it is made."""
        return self.partition, self.member_id, self.generation


@define
class Committed:
    """The group's next offset of a partition, as it is written."""

    committed: int = 0


@define(eq=False)
class CoordinatedPartition(Processing):
    """Judges what a group with a coordinator on brokers does with one partition.

    `commits` are where commits stand in the coordinator's log, and what they say.
    """

    group: Committed = field(factory=Committed)
    delivered: int = 0
    commits: list[tuple[int, Commit]] = field(factory=list[tuple[int, Commit]])

    def polled(self, position: int) -> None:
        """A member was handed the record before this position."""
        self.delivered = max(self.delivered, position)

    def took(self, at: int, commit: Commit) -> None:
        """A commit stands in the coordinator's log."""
        self.commits.append((at, commit))
        self.group.committed = commit.offset

    def committed(self, commit: Commit) -> None:
        """A commit was taken: of what was delivered, and of what is done, if that is promised."""
        if commit.offset > self.delivered and not self.partition.era:
            raise self._broken("CommittedDelivered", f"{commit}, delivered is {self.delivered}")
        self.must_be_done(commit.offset)

    def forget(self) -> None:
        """The coordinator's log is another one."""
        self.commits.clear()
        self.group.committed = 0

    def since(self, at: int) -> list[int]:
        """The offsets that were committed from there on."""
        first = bisect_left(self.commits, at, key=lambda one: one[0])
        return [one.offset for _, one in self.commits[first:]]


@define(eq=False)
class CoordinatedGroup:
    """Judges the group.

    `acked` is, for each partition, where the newest commit stands that a member was told is taken.
    """

    simulation: Simulation
    log_of: Callable[[int], BrokerLog]
    offsets: PartitionOracle
    partitions: Sequence[CoordinatedPartition]
    members: Sequence[GroupMember]
    counts: Counter[str]
    generations: list[tuple[int, Generation]] = field(factory=list[tuple[int, Generation]])
    #: Where each commit stands, by its partition and tag
    places: dict[tuple[int, str, int, int], int] = field(
        factory=dict[tuple[int, str, int, int], int]
    )
    #: The newest commit of each member in each generation: its number, and what it says
    newest: dict[tuple[int, str, int], tuple[int, int]] = field(
        factory=dict[tuple[int, str, int], tuple[int, int]]
    )
    acked: dict[int, int] = field(factory=dict[int, int])
    floors: dict[tuple[int, int], Mapping[int, int]] = field(
        factory=dict[tuple[int, int], Mapping[int, int]]
    )
    #: The newest leader epoch
    epoch: int = 0
    healed_in: int = -1

    def attach(self) -> None:
        """Judge what coordinators write and what members are told."""
        watch = self.simulation.watch
        watch(o.BecameLeader, self._became_leader)
        watch(o.Written, self._written)
        watch(g.Assigned, self._took_over)
        watch(g.CommitAnswered, self._answered)
        watch(g.FetchSent, self._fetch_sent)
        watch(g.OffsetFetched, self._fetched)
        watch(g.Processed, self._processed)
        watch(g.Polled, self._polled)

    def _processed(self, who: int, seen: g.Processed) -> None:
        partition = self.partitions[seen.partition]
        partition.repeats |= bool(self.offsets.era)
        partition.did(seen.done - 1)

    def _polled(self, who: int, seen: g.Polled) -> None:
        self.partitions[seen.partition].polled(seen.position)

    # The log

    def _became_leader(self, who: int, seen: o.BecameLeader) -> None:
        """The log is the new leader's; what an older one still writes does not count."""
        replica = self.offsets.replicas[who]
        if seen.partition != OFFSETS or replica.epoch < self.epoch:
            return
        self.epoch = replica.epoch
        self.generations.clear()
        self.places.clear()
        self.newest.clear()
        for partition in self.partitions:
            partition.forget()
        for offset, record in self._records(who, 0, replica.log.end):
            entry = _entry(record)
            if isinstance(entry, Generation):
                self.generations.append((offset, entry))
            elif entry is not None:
                self._take(offset, entry)

    def _written(self, who: int, seen: o.Written) -> None:
        if seen.partition != OFFSETS or self.offsets.replicas[who].epoch < self.epoch:
            return
        for offset, record in self._records(who, seen.offset, seen.end):
            entry = _entry(record)
            if isinstance(entry, Generation):
                self._generation(offset, entry)
            elif entry is not None:
                self._commit(offset, entry)

    def _records(self, who: int, start: int, end: int) -> list[tuple[int, CoordinatorRecord]]:
        """What a leader has written there; a file is read segment by segment."""
        log, found = self.log_of(who), list[tuple[int, CoordinatorRecord]]()
        while start < end:
            records, start = log.keyed_records(start, log.slice(start, EVERYTHING))
            found += [(offset, record) for offset, record in records if offset < end]
        return found

    @property
    def current(self) -> Generation:
        """The group as it was last written."""
        return self.generations[-1][1] if self.generations else Generation(0, {})

    def _generation(self, offset: int, now: Generation) -> None:
        """Generations grow, and in one a partition has one owner."""
        before = self.current
        everything = [number for numbers in now.assigned.values() for number in numbers]
        if len(set(everything)) < len(everything):
            raise self._broken("OneOwner", f"{now}")
        if now.number < before.number and not self.offsets.era:
            raise self._broken("GenerationsGrow", f"{now.number} after {before.number}")
        if now.number > before.number:
            self.counts["Rebalance"] += 1
        self.generations.append((offset, now))
        if self.healed_in >= 0:
            self._settles(now.number)

    def _settles(self, generation: int) -> None:
        most = 4 + 4 * len(self.members)
        if generation > self.healed_in + most:
            count = generation - self.healed_in
            raise self._broken("Settles", f"{count} generations after the last fault, not {most}")

    def _commit(self, at: int, commit: Commit) -> None:
        """A commit was taken: of a member of the generation, and forward.

        A generation above the one that is written is about to begin: its members do not own
        anything yet, and the coordinator may take their commits.
        """
        current = self.current
        stranger = commit.member_id not in current.assigned
        fenced = commit.generation < current.number
        fenced |= commit.generation == current.number and stranger
        if fenced and not self.offsets.era:
            raise self._broken("CommitFenced", f"{commit} in generation {current}")
        number, offset = self.newest.get(commit.claim, (-1, -1))
        if commit.number <= number:  # a copy that comes late
            self.counts["commits overtaken"] += 1
            self.partitions[commit.partition].repeats = True
        elif commit.offset < offset:
            raise self._broken("CommittedMonotone", f"{commit} after {offset}")
        self._take(at, commit)
        self.partitions[commit.partition].committed(commit)
        self.counts["ReceiveCommit"] += 1

    def _take(self, at: int, commit: Commit) -> None:
        number, _ = self.newest.get(commit.claim, (-1, -1))
        if commit.number > number:
            self.newest[commit.claim] = commit.number, commit.offset
        self.places[commit[1:]] = at
        self.partitions[commit.partition].took(at, commit)

    # What members are told

    def _took_over(self, who: int, seen: g.Assigned) -> None:
        """A member's part is what was written for it, and nobody else's in that generation."""
        if self.offsets.era:
            return
        written = [
            one.assigned.get(seen.member_id)
            for _, one in self.generations
            if one.number == seen.generation
        ]
        if frozenset(seen.partitions) not in written:
            raise self._broken("AssignmentWritten", f"{seen}, written is {written}")
        for other in self.members:
            same = other.up and other.group_generation == seen.generation
            both = set(other.owned) & set(seen.partitions)
            if other.member != seen.member and same and both:
                raise self._broken("OneOwner", f"{seen} while member {other.member} has {both}")

    def _answered(self, who: int, seen: g.CommitAnswered) -> None:
        """A member was told that its commit is taken: it stands in the log."""
        at = self.places.get((seen.partition, *seen.tag), -1)
        if at < 0 and not self.offsets.era:
            raise self._broken("CommittedSurvives", f"{seen} is not in the log")
        self.acked[seen.partition] = max(self.acked.get(seen.partition, -1), at)

    def _fetch_sent(self, who: int, seen: g.FetchSent) -> None:
        self.floors[seen.member, seen.number] = dict(self.acked)

    def _fetched(self, who: int, seen: g.OffsetFetched) -> None:
        """What a member is told is committed is no older than what was answered before it asked."""
        floor = self.floors[seen.member, seen.number].get(seen.partition, -1)
        known = self.partitions[seen.partition].since(floor)
        nothing = seen.offset < 0 and floor < 0
        if seen.offset not in known and not nothing and not self.offsets.era:
            raise self._broken("CommittedSurvives", f"{seen}, committed since is {known}")

    # Progress

    def healed(self) -> None:
        """From now on nothing is wrong; soon no generation follows any more."""
        self.healed_in = self.current.number

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, f"group {GROUP}: {what}")


def _entry(record: CoordinatorRecord) -> Generation | Commit | None:
    """What a record says; a tombstone says nothing here."""
    value: Any = record.value
    if isinstance(value, GroupMetadataValue):
        assigned = {
            one.member_id: frozenset(number for _, number in read_assignment(one.assignment))
            for one in value.members
        }
        return Generation(value.generation, assigned)
    if isinstance(value, OffsetCommitValue):
        key: OffsetCommitKey = record.key
        tag: tuple[str, int, int] = literal_eval(value.metadata)
        return Commit(value.offset, key.partition, *tag)
    return None
