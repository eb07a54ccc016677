"""The promises of a group, judged by its coordinator's log and its members' observations.

The group's state is a replay of its partition of `__consumer_offsets`. Each record is judged when a
leader writes it. The answers to members are compared with the log. After a permitted loss of that
log (`offsets.era`), only reads are judged.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from attrs import define, field

from chaos.clients.group_member import CommitTag, SimulatedMember
from chaos.oracles.commit_delay import CommitDelay
from chaos.oracles.group import Commit, GroupPartition
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim import group_messages as g
from chaos.sim.addresses import GROUP, OFFSETS
from chaos.sim.simulation import Simulation
from chaos.sim.transactional_records import keyed_entries
from refimpl.broker.logs import BrokerLog
from refimpl.messages import observations as o
from refimpl.records.coordinators import (
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)


@define(eq=False)
class CoordinatedGroup:
    """Judges the group, of either protocol.

    `acked` is, for each partition, the log position of the newest commit that was acknowledged.
    """

    simulation: Simulation
    log_of: Callable[[int], BrokerLog]
    offsets: PartitionOracle
    partitions: list[GroupPartition]
    members: Sequence[SimulatedMember]
    counts: Counter[str]
    #: The first position of each commit, by its partition and tag
    places: dict[tuple[int, str, int, int], int] = field(
        factory=dict[tuple[int, str, int, int], int]
    )
    #: The newest commit of each claim: its number, and its content
    newest: dict[Hashable, tuple[int, int]] = field(factory=dict[Hashable, tuple[int, int]])
    #: By partition and member id: after which of its commits it last began to read, and where
    began: dict[tuple[int, str], tuple[int, int]] = field(
        factory=dict[tuple[int, str], tuple[int, int]]
    )
    acked: dict[int, int] = field(factory=dict[int, int])
    floors: dict[tuple[int, int], Mapping[int, int]] = field(
        factory=dict[tuple[int, int], Mapping[int, int]]
    )
    #: The newest leader epoch
    epoch: int = 0
    delay: CommitDelay = field(init=False)
    #: Generations after the last fault that a slow log does not explain, None before that
    rebalances: int | None = None

    def __attrs_post_init__(self) -> None:
        """A log is slow or not for the members' sessions."""
        self.delay = CommitDelay(self.simulation.settings.member_session_ms)

    def attach(self) -> None:
        """Judge the coordinators' writes and the members' answers."""
        watch = self.simulation.watch
        watch(o.BecameLeader, self._became_leader)
        watch(o.Written, self._written)
        watch(o.HighWatermarkAdvanced, self._advanced)
        watch(g.Assigned, self._took_over)
        watch(g.CommitAnswered, self._answered)
        watch(g.FetchSent, self._fetch_sent)
        watch(g.OffsetFetched, self._fetched)
        watch(g.Joined, self._joined)
        watch(g.Processed, self._processed)
        watch(g.Polled, self._polled)

    def _processed(self, who: int, seen: g.Processed) -> None:
        partition = self.partitions[seen.partition]
        partition.repeats |= bool(self.offsets.era)
        partition.did(seen.done - 1)

    def _polled(self, who: int, seen: g.Polled) -> None:
        self.partitions[seen.partition].polled(seen.position)

    @property
    def _now(self) -> int:
        return self.simulation.timeline.now

    # The differences of the protocols

    def _start_again(self) -> None:
        """Nothing of the group is written."""
        raise NotImplementedError

    def _replay(self, at: int, records: Sequence[CoordinatorRecord]) -> None:
        """The group's records are in the log from an offset on."""
        raise NotImplementedError

    def _group(self, at: int, records: Sequence[CoordinatorRecord]) -> None:
        """Records of the group were written: judge them."""
        raise NotImplementedError

    def _is_fenced(self, commit: Commit) -> str:
        """The reason for which its sender must not commit any more; empty if it may."""
        raise NotImplementedError

    def _claim(self, commit: Commit) -> Hashable:
        """By which right a commit is made: while that lasts, commits go forward."""
        raise NotImplementedError

    def _took_over(self, who: int, seen: g.Assigned) -> None:
        """A member owns partitions from now on: judge it."""
        raise NotImplementedError

    # The log

    def _became_leader(self, who: int, seen: o.BecameLeader) -> None:
        """The log is the new leader's; what an older one still writes does not count."""
        replica = self.offsets.replicas[who]
        if seen.partition != OFFSETS or replica.epoch < self.epoch:
            return
        self.epoch = replica.epoch
        self.delay.begins(self._now, replica.log.end, replica.high_watermark)
        self.places.clear()
        self.newest.clear()
        self._start_again()
        for partition in self.partitions:
            partition.forget()
        for offset, record in self._records(who, 0, replica.log.end):
            commit = _commit(record)
            if commit is None:
                self._replay(offset, (record,))
            else:
                self._take(offset, commit)

    def _written(self, who: int, seen: o.Written) -> None:
        if seen.partition != OFFSETS or self.offsets.replicas[who].epoch < self.epoch:
            return
        self.delay.appended(self._now, seen.end)
        others: list[CoordinatorRecord] = []
        for offset, record in self._records(who, seen.offset, seen.end):
            commit = _commit(record)
            if commit is None:
                others.append(record)
            else:
                self._committed(offset, commit)
        if others:
            self._group(seen.offset, others)

    def _records(self, who: int, start: int, end: int) -> list[tuple[int, CoordinatorRecord]]:
        """The group's records that a leader has written.

        Its members send no offsets within transactions. Another group may share the log.
        """
        return [
            (offset, record)
            for offset, record in keyed_entries(self.log_of(who), end, start)
            if isinstance(record, CoordinatorRecord) and _is_ours(record)
        ]

    def _grows(self, before: int, now: int) -> None:
        """Generations grow, and soon after the last fault no more of them follow."""
        if now < before and not self.offsets.era:
            raise self._broken("GenerationsGrow", f"{now} after {before}")
        if now <= before:
            return
        self.counts["Rebalance"] += 1
        if self.rebalances is None or self.delay.is_slow(self._now):
            return
        self.rebalances += now - before
        most = 4 + 4 * len(self.members)
        if self.rebalances > most:
            count = self.rebalances
            raise self._broken("Settles", f"{count} generations after the last fault, not {most}")

    def _advanced(self, who: int, seen: o.HighWatermarkAdvanced) -> None:
        if seen.partition == OFFSETS and self.offsets.replicas[who].epoch >= self.epoch:
            self.delay.advanced(self._now, seen.new)

    def _committed(self, at: int, commit: Commit) -> None:
        """A commit was taken: of a member that has the partition, and forward."""
        why = self._is_fenced(commit)
        if why and not self.offsets.era:
            raise self._broken("CommitFenced", f"{commit}: {why}")
        number, offset = self.newest.get(self._claim(commit), (-1, -1))
        since, start = self.began.get((commit.partition, commit.member_id), (-1, -1))
        if since > number:
            offset = start
        if commit.number <= max(number, since):  # it comes late: its sender went on, or began anew
            self.counts["commits overtaken"] += 1
            self.partitions[commit.partition].repeats = True
        elif commit.offset < offset and not self._went_back(commit):
            raise self._broken("CommittedMonotone", f"{commit} after {offset}")
        self._take(at, commit)
        self.partitions[commit.partition].judge(commit)
        self.counts["ReceiveCommit"] += 1

    def _went_back(self, commit: Commit) -> bool:
        """True if the log has lost records, and a commit from before that is sent once more.

        A consumer of ours that waits for a commit sends it again as it was.
        """
        ours = self.simulation.settings.reference_clients
        return ours and self.partitions[commit.partition].partition.era > 0

    def _take(self, at: int, commit: Commit) -> None:
        claim = self._claim(commit)
        number, _ = self.newest.get(claim, (-1, -1))
        if commit.number > number:
            self.newest[claim] = commit.number, commit.offset
        self.places.setdefault(commit[1:], at)  # a copy of it may be lost: it was not answered
        self.partitions[commit.partition].took(at, commit)

    # Members' answers

    def _answered(self, who: int, seen: g.CommitAnswered) -> None:
        """An acknowledged commit is in the log."""
        at = self.places.get((seen.partition, *seen.tag), -1)
        if at < 0 and not self.offsets.era:
            raise self._broken("CommittedSurvives", f"{seen} is not in the log")
        self.acked[seen.partition] = max(self.acked.get(seen.partition, -1), at)
        partition = self.partitions[seen.partition]
        partition.answered = max([partition.answered, *partition.since(at)[:1]])

    def _fetch_sent(self, who: int, seen: g.FetchSent) -> None:
        self.floors[seen.member, seen.number] = dict(self.acked)

    def _fetched(self, who: int, seen: g.OffsetFetched) -> None:
        """A fetched offset is no older than the offset that was answered before the fetch."""
        floor = self.floors[seen.member, seen.number].get(seen.partition, -1)
        known = self.partitions[seen.partition].since(floor)
        nothing = seen.offset < 0 and floor < 0
        if seen.offset not in known and not nothing and not self.offsets.era:
            raise self._broken("CommittedSurvives", f"{seen}, committed since is {known}")

    def _joined(self, who: int, seen: g.Joined) -> None:
        """A member begins to read somewhere, and commits from there on."""
        member = self.members[seen.member - 1]
        self.began[seen.partition, member.member_id] = member.commits, seen.offset

    def _nobody_else_owns(self, seen: g.Assigned, others: Sequence[SimulatedMember]) -> None:
        for other in others:
            both = set(other.owned) & set(seen.partitions)
            if other.member != seen.member and both:
                raise self._broken("OneOwner", f"{seen} while member {other.member} has {both}")

    # Progress

    def healed(self) -> None:
        """From now on nothing is wrong; soon no generation follows any more."""
        self.rebalances = 0

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, f"group {GROUP}: {what}")


def _is_ours(record: CoordinatorRecord) -> bool:
    key = record.key
    return (key.group if hasattr(key, "group") else key.group_id) == GROUP


def _commit(record: CoordinatorRecord) -> Commit | None:
    """The commit that a record holds, None if it holds none."""
    value: Any = record.value
    if not isinstance(value, OffsetCommitValue):
        return None
    key: OffsetCommitKey = record.key
    return Commit(value.offset, key.partition, *CommitTag.parse(value.metadata))
