"""The promises of a partition, judged at the transitions that could break them.

An oracle has its property's name in the specs. A promise that the configuration does not make is
counted, not judged. A loss is counted only if its cause is the one that the configuration names (an
unclean election, or the last in-sync replica's lost page cache).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol
from unittest.mock import ANY

from attrs import define, field

from chaos.oracles.violation import Violation
from chaos.sim.settings import Settings
from refimpl.machines.abstract_log import AbstractLog
from refimpl.machines.log import Record
from refimpl.machines.messages import FetchRequest, LeaderAndIsr
from refimpl.machines.replica import Replica
from refimpl.messages.observations import Decided
from refimpl.storage.replica.memory import RecordBatch


class PartitionInForce(Protocol):
    """A partition's current state, at the controller or in the store."""

    @property
    def decision(self) -> LeaderAndIsr:
        """The leader and the ISR."""
        ...

    @property
    def leader(self) -> int | None:
        """The leader."""
        ...

    @property
    def leader_epoch(self) -> int:
        """Since which election."""
        ...

    @property
    def isr(self) -> frozenset[int]:
        """The ISR."""
        ...

    @property
    def elr(self) -> frozenset[int]:
        """The eligible leader replicas (KIP-966)."""
        ...


@define(eq=False)
class PartitionOracle:
    """Judges one partition, with the abstract log beside it.

    `decision` and `elr` are those of the last judged decision.

    A permitted loss begins a new era. `era` is the first leader epoch that is judged again. Until a
    leader of it exists (`unsettled`) the log is undetermined.
    """

    name: str
    settings: Settings
    state: PartitionInForce
    replicas: dict[int, Replica]
    counts: Counter[str]
    log: AbstractLog = field(init=False)
    decision: LeaderAndIsr = field(init=False)
    elr: frozenset[int] = frozenset()
    era: int = 0
    unsettled: bool = False
    #: The last in-sync replica that came back from a crash alone, and since which epoch the log is
    #: what it had kept
    alone: tuple[int, int] = (0, 0)
    #: The records that were committed before each permitted loss
    lost: list[list[object]] = field(factory=list[list[object]])
    leaders: dict[int, int] = field(factory=dict[int, int])
    #: By epoch and offset: the record, and the epoch of the one before, None if that was deleted
    written: dict[tuple[int, int], tuple[Record, int | None]] = field(
        factory=dict[tuple[int, int], tuple[Record, int | None]]
    )

    def __attrs_post_init__(self) -> None:
        """Permit loss only if the configuration does."""
        self.decision = self.state.decision
        self.log = AbstractLog(loss_allowed=self.settings.unclean or self._last_may_lose)

    @property
    def _last_may_lose(self) -> bool:
        return self.settings.lossy and not self.settings.elr

    # Replication

    def wrote(self, replica: Replica, first: int, end: int) -> None:
        """A leader has appended: in its own epoch, behind no newer one."""
        records, start = replica.log.records, replica.log.start
        before = _epoch_before(replica, first)
        for offset in range(first, end):
            record = records[offset - start]
            self._wrote_one(replica, record, offset, before)
            before = record.epoch

    def _wrote_one(self, replica: Replica, record: Record, offset: int, before: int | None) -> None:
        if before is not None and record.epoch < before:
            raise self._broken("EpochsAscend", f"{record.epoch} behind {before} at {offset}")
        if self.leaders.get(record.epoch, 0) != replica.id:
            raise self._broken("OneLeaderPerEpoch", f"{replica.id} writes in {record.epoch}")
        if (record.epoch, offset) in self.written:
            raise self._broken("LogMatching", f"epoch {record.epoch} has two records at {offset}")
        self.written[record.epoch, offset] = record, before

    def copied(self, replica: Replica, start: int) -> None:
        """A follower's append equals its leader's records at that place, after an equal prefix."""
        records, log_start = replica.log.records, replica.log.start
        start = max(start, log_start)
        before = _epoch_before(replica, start)
        for offset, record in enumerate(records[start - log_start :], start):
            written, behind = self.written.get((record.epoch, offset), (None, None))
            if (written is not record and written != record) or (
                behind != before and None not in (behind, before)
            ):
                raise self._broken(
                    "LogMatching",
                    f"replica {replica.id} has epoch {record.epoch} at {offset} behind {before}",
                )
            before = record.epoch

    def moved(self, replica: Replica, old: int) -> None:
        """A high watermark is at most the log end offset, with only committed records below it."""
        new = replica.high_watermark
        if new > replica.log.end:
            raise self._broken(
                "HighWatermarkInLog", f"{new} at replica {replica.id}, log end {replica.log.end}"
            )
        if new < old and replica.leads:
            raise self._broken("HighWatermarkMonotone", f"leader {replica.id} from {old} to {new}")
        if replica.leads and self._commits_what_is_lost(replica):
            self.counts["records committed after they were lost"] += 1
            self.era = max(self.era, self.alone[1])
        if new <= old or not self._judges(replica.epoch):
            return
        known, old = len(self.log.committed), max(old, replica.log.start)
        if not self.log.agrees(old, _records(replica, old, min(new, known))):
            raise self._broken(
                "AppendOnly", f"replica {replica.id} commits others at {old}..{min(new, known)}"
            )
        if new > known:
            self._commit(replica, known, new)

    def _commits_what_is_lost(self, leader: Replica) -> bool:
        """True if a replaced leader commits records that the last in-sync replica has lost in a
        crash.

        It had fetched them before that crash. The loss counts as a loss of committed records.
        """
        last, since = self.alone
        if leader.epoch >= since:
            return False
        replica, new = self.replicas[last], leader.high_watermark
        return (
            last in leader.isr
            and leader.seen.get(last, 0) < replica.incarnation
            and _records(replica, new - 1, new) != _records(leader, new - 1, new)
        )

    def _commit(self, replica: Replica, known: int, new: int) -> None:
        if not replica.leads:
            raise self._broken(
                "ViewsArePrefixes", f"follower {replica.id} sees {new}, committed is {known}"
            )
        self._add(replica, known, new)
        self._isr_holds_committed()

    def _add(self, leader: Replica, known: int, new: int) -> None:
        """Add the newly committed records; a record deleted at the leader is unconstrained."""
        start = max(known, min(leader.log.start, new))
        for _ in range(known, start):
            self.log.commit(ANY)
        for record in _records(leader, start, new):
            self.log.commit(record)

    def heard(self, leader: Replica, request: FetchRequest, known: int) -> None:
        """A leader counted a follower's end: it is of this epoch, and in the follower's log.

        `known` is the incarnation in the leader's earlier state.
        """
        follower = request.replica
        replica, seen = self.replicas[follower], leader.seen.get(follower, 0)
        same = replica.incarnation == seen
        ahead = same and replica.epoch < leader.epoch
        if seen < known or request.epoch != leader.epoch or ahead:
            raise self._broken(
                "EndsAreTrue",
                f"leader {leader.id} of epoch {leader.epoch} counts replica {follower} of epoch "
                f"{request.epoch}, incarnation {seen} after {known}",
            )
        if same and replica.epoch == leader.epoch and leader.ends[follower] > replica.log.end:
            raise self._broken(
                "EndsAreTrue",
                f"leader {leader.id} counts {leader.ends[follower]} at replica {follower}, "
                f"which ends at {replica.log.end}",
            )

    def cut(self, replica: Replica, before: int) -> None:
        """A follower has cut its log: nothing that is committed, if it may lead next."""
        end = replica.log.end
        if replica.high_watermark > end:
            raise self._broken(
                "HighWatermarkInLog", f"{replica.high_watermark} at replica {replica.id}, cut"
            )
        if end < before:
            self.counts["truncations"] += 1
            if (
                end < len(self.log.committed)
                and replica.id in self.decision.isr
                and self._judges(replica.epoch)
            ):
                raise self._broken(
                    "CommittedInIsr",
                    f"replica {replica.id}, in sync, cut to {end} of {len(self.log.committed)}",
                )

    def became_leader(self, replica: Replica) -> None:
        """A replica leads; no other replica does in this epoch."""
        if self.leaders.setdefault(replica.epoch, replica.id) != replica.id:
            raise self._broken(
                "OneLeaderPerEpoch",
                f"{replica.id} and {self.leaders[replica.epoch]} in {replica.epoch}",
            )
        if self.unsettled and replica.epoch >= self.era:
            self._settle(replica)

    def decided(self, seen: Decided) -> None:
        """The controller has decided: every replica that may lead next runs, and has everything."""
        decision, elr = self.decision, self.elr = seen.decision, seen.elr
        leader, isr = decision.leader, decision.isr
        if leader is not None and not {leader} <= isr <= seen.alive:
            raise self._broken(
                "LeaderInIsr",
                f"{leader} leads, {sorted(isr)} are in sync, {sorted(seen.alive)} run",
            )
        if isr & elr:
            raise self._broken("ElrOutsideIsr", f"{sorted(isr & elr)} in the ISR and the ELR")
        if seen.action == "ElectUnclean":
            self._elected_unclean()
        self._isr_holds_committed()

    def eager(self, leader: Replica) -> None:
        """Something that a leader waits for has happened: what all in sync have is committed."""
        end, high_watermark = leader.log.end, leader.high_watermark
        if high_watermark >= end or not leader.leads or len(leader.isr) < leader.min_isr:
            return
        for member in leader.maximal_isr:
            if member != leader.id and leader.ends.get(member, 0) <= high_watermark:
                return  # the others wait for this one
        ends = [leader.ends.get(member, 0) for member in leader.maximal_isr if member != leader.id]
        least = min(ends, default=end)
        if high_watermark < least <= end:
            raise self._broken(
                "Progress",
                f"leader {leader.id} stays at high watermark {high_watermark}, "
                f"and all of {sorted(leader.maximal_isr)} have {least}",
            )

    def _elected_unclean(self) -> None:
        """A leader of unknown log is elected; records that it lacks are lost."""
        if not self.settings.unclean:
            raise self._broken("UncleanElection", "it is not enabled")
        self._suspend("unclean elections", self.decision.leader_epoch)

    def registered(self, replica: Replica) -> None:
        """A broker is back with what its disk kept."""
        self.elr &= self.state.elr  # a crashed replica has left it, without a decision
        isr = self.decision.isr
        alone = self._last_may_lose and isr == frozenset((replica.id,))
        if alone:
            self.alone = replica.id, self.decision.leader_epoch + 1
        if replica.id not in isr or self.unsettled or self._holds_committed(replica):
            return
        if not alone:
            raise self._broken("CommittedInIsr", f"replica {replica.id} is in sync, and lost some")
        self._suspend("last in-sync replicas that lost records", self.decision.leader_epoch + 1)

    def acked(self, replica: Replica, first: int, batch: RecordBatch) -> None:
        """A producer received "safe" for its records."""
        if not self._judges(replica.epoch):
            return
        committed = self.log.committed
        for offset, value in enumerate(batch.values, first):
            if offset >= len(committed) or _value(committed[offset]) != value:
                raise self._broken("AckedSurvives", f"{value} is not committed at {offset}")

    def read(self, replica: Replica, offset: int, records: Sequence[Record]) -> None:
        """A consumer is given records: committed ones, in their places."""
        if not self._judges(replica.epoch) or self.log.agrees(offset, records):
            return
        if not self._shows_what_is_lost(replica, offset, records):
            raise self._broken("ViewsArePrefixes", f"replica {replica.id} serves {offset} wrongly")
        self.counts["records read at followers after they were lost"] += 1

    def _shows_what_is_lost(self, replica: Replica, offset: int, records: Sequence[Record]) -> bool:
        """True if a follower shows records that were committed before a permitted loss.

        It learns of the loss with its next fetch.
        """
        end = offset + len(records)
        return not replica.leads and any(one[offset:end] == list(records) for one in self.lost)

    def unavailable(self) -> bool:
        """True if no replica may be elected: with ELR, after all of its members have crashed.

        Crashes that do not overlap never lead there while two replicas are required.
        """
        state, changes = self.state, self.settings.reconfigures
        return (
            self.settings.elr
            and (not self.settings.unclean or changes)
            and (self.settings.overlap or self.settings.min_isr < 2 or changes)
            and state.leader is None
            and not state.isr | state.elr
        )

    def _isr_holds_committed(self) -> None:
        if self.unsettled:
            return
        self.elr &= self.state.elr  # another min.insync.replicas clears it, without a decision
        for member in self.decision.isr | self.elr:
            if not self._holds_committed(self.replicas[member]):
                raise self._broken(
                    "CommittedInIsr",
                    f"replica {member} ends at {self.replicas[member].log.end} or differs; "
                    f"{len(self.log.committed)} are committed",
                )

    def _holds_committed(self, replica: Replica) -> bool:
        """By LogMatching the last record represents all before it."""
        committed, log = self.log.committed, replica.log
        known = len(committed)
        if known <= log.start:
            return True  # all that is committed was deleted
        return log.end >= known and log.records[known - 1 - log.start] == committed[-1]

    def _judges(self, epoch: int) -> bool:
        return epoch >= self.era and not self.unsettled

    def _suspend(self, cause: str, era: int) -> None:
        self.counts[cause] += 1
        self.era, self.unsettled = era, True

    def _settle(self, leader: Replica) -> None:
        """A leader of the new era exists; its log counts from now on."""
        committed, log = self.log.committed, leader.log
        start, records = log.start, log.records
        common = min(start, len(committed))
        while common < min(len(committed), log.end) and (
            committed[common] == records[common - start]
        ):
            common += 1
        if common < len(committed):
            self.counts["allowed losses"] += len(committed) - common
            self.lost.append([*committed])
            self.log.lose(common)
        self._add(leader, common, leader.high_watermark)
        self.unsettled = False

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, f"{self.name}: {what}")


def _records(replica: Replica, first: int, end: int) -> Sequence[Record]:
    start = replica.log.start
    return replica.log.records[first - start : max(end - start, 0)]


def _epoch_before(replica: Replica, offset: int) -> int | None:
    """The epoch of the record before this one, 0 at the beginning, None if it was deleted."""
    start = replica.log.start
    if offset > start:
        return replica.log.records[offset - 1 - start].epoch
    return None if offset else 0


def _value(record: object) -> object:
    value = record.value if isinstance(record, Record) else None
    return getattr(value, "payload", None)
