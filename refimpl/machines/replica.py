"""One replica of one partition: leader, follower, or without a role yet.

Specs: Truncation, with Rule = "kip320", and AlterPartition. Methods are the specs' actions. A fetch
is one step in Truncation and three here, because messages travel: `fetch_request` at the follower,
`answer_fetch` at the leader, `take_answer` at the follower again.
"""

from attrs import define, field

from refimpl.errors import FencedLeaderEpoch, OutsideLog, StaleBrokerEpoch
from refimpl.machines import replica_errors as errors
from refimpl.machines.log import Log
from refimpl.machines.messages import (
    UNKNOWN_EPOCH,
    AlterPartitionRequest,
    AlterPartitionResponse,
    FetchRequest,
    FetchResponse,
    LeaderAndIsr,
)
from refimpl.machines.replica_log import (
    UNDEFINED,
    UNDEFINED_EPOCH,
    Appended,
    Batch,
    EpochEnd,
    Guard,
    Origin,
    ReplicaLog,
)
from refimpl.named import named

INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"


@define
class Replica:
    """One replica.

    Only its own actions change it, and a refused action changes nothing.

    A leader keeps three numbers for each follower. `ends` and `seen` are the log end offset and the
    incarnation of the newest fetch that agreed with its log; `newest` is the number of the newest
    fetch of all. `pending` is the ISR change that the controller has not answered yet. A follower
    counts its fetches (`asked`) and knows which one waits for its answer (`awaited`, 0 for none).
    """

    id: int
    log: ReplicaLog = field(factory=Log)
    high_watermark: int = 0
    epoch: int = 0
    partition_epoch: int = 0
    leader: int | None = None
    isr: frozenset[int] = frozenset()
    pending: AlterPartitionRequest | None = None
    ends: dict[int, int] = field(factory=dict[int, int])
    seen: dict[int, int] = field(factory=dict[int, int])
    newest: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    incarnation: int = 0
    asked: int = 0
    awaited: int = 0
    up: bool = False
    min_isr: int = 1

    @property
    def leads(self) -> bool:
        """True if this replica believes to be the leader.

        It may be wrong, because metadata arrives late.
        """
        return self.up and self.leader == self.id

    @property
    def epoch_start(self) -> int:
        """The start offset of the leader's own epoch, behind all older records."""
        return self.log.start_of(self.epoch)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """All replicas that may be in the ISR, as far as the leader knows: its ISR, and those that
        it asked to add (KIP-497).
        """
        return self.isr if self.pending is None else self.isr | self.pending.isr

    # The leader and its followers

    def write(
        self,
        batch: Batch,
        *,
        acks_all: bool = True,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> Appended:
        """Append a batch of a client or of a coordinator in our epoch.

        If too few replicas are in sync, acks=all is refused before anything is appended.
        """
        self._must_lead()
        if acks_all and len(self.isr) < self.min_isr:
            raise errors.NotEnoughReplicas(self.isr, self.min_isr)
        return self.log.append(self.epoch, batch, origin, transaction_version, guard)

    def advance_high_watermark(self) -> int:
        """Move the high watermark to the least log end offset in the maximal ISR, and return it.

        The leader knows the ends only from fetches. A replica that it asked to add may be elected
        before the leader receives the controller's answer, so the high watermark waits for that
        replica too (KIP-497). Below min.insync.replicas it does not move: records would count as
        committed on too few copies (KIP-966).
        """
        self._must_lead()
        if len(self.isr) < self.min_isr:
            raise errors.NotEnoughReplicas(self.isr, self.min_isr)
        new = self.log.end
        for member in self.maximal_isr:
            if member != self.id and self.ends.get(member, 0) < new:
                new = self.ends.get(member, 0)
        if new <= self.high_watermark:
            raise errors.NothingToCommit(self.maximal_isr, new, self.high_watermark)
        self.high_watermark = new
        return new

    def check_fetch(self, request: FetchRequest) -> None:
        """Refuse a fetch that must not be answered.

        A fetch of another leader epoch is refused (KIP-320), and one of an earlier incarnation: a
        follower that restarted may have lost records (KIP-903). A fetch counts once, and not after
        a later one.
        """
        self._must_lead()
        if request.epoch < self.epoch:
            raise FencedLeaderEpoch(request.replica, request.epoch, self.epoch)
        if request.epoch > self.epoch:
            raise errors.UnknownLeaderEpoch(request.replica, request.epoch, self.epoch)
        seen = self.seen.get(request.replica, 0)
        if request.incarnation < seen:
            raise StaleBrokerEpoch(request.replica, request.incarnation, seen)
        incarnation, number = self.newest.get(request.replica, (0, 0))
        if request.incarnation == incarnation and request.number <= number:
            raise errors.OvertakenFetch(request.replica, request.number, number)

    def answer_fetch(self, request: FetchRequest, limit: int) -> FetchResponse:
        """Answer a follower with at most `limit` records, and note its log end offset."""
        leaves = self.hear_fetch(request)
        records = self.log.slice(request.end, limit) if leaves is None else ()
        answered = request.incarnation, request.number, self.epoch, request.end
        return FetchResponse(*answered, records, self.high_watermark, leaves)

    def hear_fetch(self, request: FetchRequest) -> EpochEnd | None:
        """Note a follower's log end offset; return where its log diverges from ours, None if it
        does not.
        """
        self.check_fetch(request)
        follower, number = request.replica, (request.incarnation, request.number)
        if request.last_epoch == UNDEFINED_EPOCH and request.end > self.log.start:
            self._must_agree_unseen(request)
        leaves = self.diverging(request.end, request.last_epoch)
        self.newest[follower] = max(self.newest.get(follower, (0, 0)), number)
        if leaves is None:
            self.ends[follower] = request.end
            self.seen[follower] = request.incarnation
        return leaves

    def _must_agree_unseen(self, request: FetchRequest) -> None:
        """Refuse a log without epochs that does not begin at our start.

        All its records are deleted, and were committed. But after an unclean election we may have
        others there, which it would lack. A member of the ISR does not, and must not go back: it
        may be elected. Nor does whoever left it since its last fetch, for it may come back.
        """
        if request.replica not in self.isr and request.replica not in self.ends:
            raise errors.NothingToCompare(request.replica, request.end, self.log.start)

    def diverging(self, end: int, last_epoch: int) -> EpochEnd | None:
        """The epoch and offset where a log with this end and last epoch diverges from ours
        (KIP-595).

        None for a prefix of ours. A log without epochs has nothing to compare. If the epoch is
        above ours, or the end outside of our log, we cannot know: the answer is
        OFFSET_OUT_OF_RANGE.
        """
        if last_epoch != UNDEFINED_EPOCH:
            ours = self.log.end_of(last_epoch)
            if ours == UNDEFINED:
                raise errors.UndefinedEpoch(last_epoch, self.log.latest_epoch)
            if end < self.log.start:
                raise OutsideLog(end, self.log.start, self.log.end)
            if ours.epoch < last_epoch or ours.end < end:
                return ours
        if not self.log.start <= end <= self.log.end:
            raise OutsideLog(end, self.log.start, self.log.end)
        return None

    # The leader and the controller

    def isr_without(self, *followers: int) -> AlterPartitionRequest:
        """The request to take lagging followers out of the ISR.

        Lag is a matter of time (replica.lag.time.max.ms), which is not known here.
        """
        self._must_lead()
        self._must_be_settled()
        for follower in followers:
            if follower == self.id:
                raise errors.LeaderStaysInIsr(self.id)
            if follower not in self.isr:
                raise errors.NotInIsr(follower, self.isr)
        return self._request(self.isr.difference(followers))

    def isr_with(self, follower: int) -> AlterPartitionRequest:
        """The request to let a follower that caught up into the ISR.

        Caught up means a fetch in this epoch that agreed with our log. The high watermark alone is
        not enough: after an election it may be below the last leader's. But records that the last
        leader committed are below the start of our epoch (KAFKA-7128).
        """
        self._must_lead()
        self._must_be_settled()
        if follower in self.isr:
            raise errors.AlreadyInIsr(follower, self.isr)
        end = self.ends.get(follower, -1)
        if end < self.high_watermark or end < self.epoch_start:
            raise errors.NotCaughtUp(follower, end, self.high_watermark, self.epoch_start)
        return self._request(self.isr | {follower})

    def shrink_isr(self, follower: int) -> AlterPartitionRequest:
        """Ask the controller to take a follower out; no other request is sent until it answers."""
        self.pending = self.isr_without(follower)
        return self.pending

    def shrink_isr_by_several(self, followers: frozenset[int]) -> AlterPartitionRequest:
        """Ask the controller to take all these followers out, in one request."""
        self.pending = self.isr_without(*sorted(followers))
        return self.pending

    def expand_isr(self, follower: int) -> AlterPartitionRequest:
        """Ask the controller to let a follower in; the high watermark waits for it from now on."""
        self.pending = self.isr_with(follower)
        return self.pending

    def take_isr_answer(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse
    ) -> None:
        """Take the controller's answer to a request of ours.

        An accepted ISR is ours from now on. A replica that the controller finds ineligible leaves
        the maximal ISR again. That is safe for two reasons. A refusal raises the partition epoch,
        so no copy of the request can be accepted later. And only the answer to the pending request
        counts. Other errors settle nothing: the request may have been accepted before, and only
        newer metadata shows that.
        """
        if not self.leads or request != self.pending:
            pending = self.pending and self.pending.partition_epoch
            raise errors.NoChangePending(request.partition_epoch, pending)
        if response.error not in (None, INELIGIBLE_REPLICA):
            raise errors.StaysPending(response.error, request.isr)
        if response.leader_epoch != self.epoch or response.partition_epoch < self.partition_epoch:
            raise self._old(response.leader_epoch, response.partition_epoch)
        if response.error is None:
            self.isr = response.isr
        self.partition_epoch = response.partition_epoch
        self.pending = None

    # A follower

    def next_fetch(self) -> FetchRequest:
        """The next fetch of this follower, without sending it."""
        if not self.up or self.leader is None or self.leader == self.id:
            raise errors.NotFollower(self.id, self.epoch, self.leader)
        log = self.log
        number, end, last_epoch = self.asked + 1, log.end, log.latest_epoch
        said = self.id, self.incarnation, number, self.epoch, end, last_epoch
        return named(FetchRequest, said)

    def fetch_request(self) -> FetchRequest:
        """Ask the leader for the next records; an earlier request is given up."""
        request = self.next_fetch()
        self.asked = self.awaited = request.number
        return request

    def take_answer(self, answer: FetchResponse) -> None:
        """Append the records of an answer, or truncate where the logs diverge.

        Only the answer to our newest request counts, and once. A second copy may ask to truncate
        records that have long been fetched again, and are committed.
        """
        self._must_await(answer.incarnation, answer.number)
        self.awaited = 0
        if answer.diverging is not None:
            epoch, end = answer.diverging
            ours = self.log.end_of(epoch)
            self._cut(end if ours == UNDEFINED else min(end, ours.end))
            return
        self.log.extend(answer.records)
        self.high_watermark = min(answer.high_watermark, self.log.end)

    def restart_log(self, refused: FetchRequest, start: int, end: int) -> None:
        """Begin the log anew at the leader's log start offset, if ours ends outside of the leader's
        log, or cannot be compared with it.

        The leader refused this fetch of ours as out of range. Since then it has reported its log
        end offset `end`, and then its log start offset `start`. If ours ends before `start`, the
        records that we lack were deleted, and so were committed (KIP-107). If ours ends behind
        `end`, the leader was elected uncleanly, and all our records were deleted: for a log with
        epochs the leader answers where the logs diverge. One without epochs may lack what an
        unclean leader has before its end.

        These are answers to our newest fetch like any other: a late one, or a second copy, may be
        of a log that has long grown behind our end.
        """
        self._must_await(refused.incarnation, refused.number)
        is_compared = self.log.latest_epoch != UNDEFINED_EPOCH or self.log.end == start
        if is_compared and start <= self.log.end <= end:
            raise errors.InsideLeadersLog(self.log.end, start, end)
        self.log.restart_at(start)
        self.high_watermark, self.awaited = start, 0

    # Metadata from the controller

    def told(self, decision: LeaderAndIsr) -> None:
        """Apply a decision of the controller, if it is newer."""
        if decision.leader != self.id:
            self.become_follower(decision)
        elif self.leads and decision.leader_epoch == self.epoch:
            self.adopt_isr(decision)
        else:
            self.become_leader(decision)

    def become_leader(self, decision: LeaderAndIsr) -> None:
        """Become leader in a newer epoch than our own.

        The epoch must be newer even after a restart: our high watermark fell back to a checkpoint,
        and the start of an epoch shows nothing about records committed inside it. The high
        watermark does not move. It may be below the last leader's, because a follower learns of
        progress one fetch late. The log knows the epoch from here on, before its first record, and
        so can answer where older ones end.

        All knowledge of followers ends with every epoch, even if we led the one before: others may
        have led in between, without our knowledge.
        """
        if decision.leader != self.id:
            raise errors.NotItsRole(self.id, "lead", decision.leader_epoch, decision.leader)
        if decision.leader_epoch <= self.epoch:
            raise self._old(decision.leader_epoch, decision.partition_epoch)
        self._adopt(decision, decision.isr)
        self.log.assign_epoch(decision.leader_epoch)

    def become_follower(self, decision: LeaderAndIsr) -> None:
        """Follow the leader of a newer epoch; after a restart also that of our own.

        The first fetch decides where to truncate. Our own epoch entry is dropped if we wrote no
        record in it. It stays if the log is empty because everything was deleted: the leader then
        has only this entry to compare, and a leader that was elected uncleanly may have written
        other records before our end.
        """
        if decision.leader is None or decision.leader == self.id:
            raise errors.NotItsRole(self.id, "follow", decision.leader_epoch, decision.leader)
        if decision.leader_epoch < self.epoch or (self.up and decision.leader_epoch == self.epoch):
            raise self._old(decision.leader_epoch, decision.partition_epoch)
        self._adopt(decision, frozenset())
        if not 0 < self.log.start == self.log.end:
            self.log.truncate_to(self.log.end)

    def adopt_isr(self, decision: LeaderAndIsr) -> None:
        """Take a changed ISR of our own epoch.

        Only a higher partition epoch settles a pending request: at the same one it may still be
        accepted.
        """
        self._must_lead()
        if decision.leader_epoch != self.epoch or decision.partition_epoch <= self.partition_epoch:
            raise self._old(decision.leader_epoch, decision.partition_epoch)
        self.isr, self.partition_epoch = decision.isr, decision.partition_epoch
        self.pending = None

    def fail(self) -> None:
        """Give up any role until the next start, because the log has failed (KIP-112)."""
        self.up, self.leader = False, None
        self._forget(frozenset())

    def restart(self, checkpoint: int, kept: int) -> None:
        """Come back with the records on disk and the high watermark of the last checkpoint.

        Only a later decision of the controller gives it a role.
        """
        if not (0 <= checkpoint <= min(self.high_watermark, kept) and kept <= self.log.end):
            raise errors.ImpossibleRestart(checkpoint, kept, self.log.end, self.high_watermark)
        self.log.truncate_to(kept)
        self.high_watermark = checkpoint
        self.up = False
        self.leader = None
        self.partition_epoch = self.asked = 0
        self._forget(frozenset())
        self.incarnation += 1

    def _adopt(self, decision: LeaderAndIsr, isr: frozenset[int]) -> None:
        self.epoch, self.leader = decision.leader_epoch, decision.leader
        self.partition_epoch, self.up = decision.partition_epoch, True
        self._forget(isr)

    def _forget(self, isr: frozenset[int]) -> None:
        """Begin anew with this ISR: nothing is known of followers, and no fetch is awaited."""
        self.isr, self.pending, self.awaited = isr, None, 0
        self.ends, self.seen, self.newest = {}, {}, {}

    def _cut(self, end: int) -> None:
        self.log.truncate_to(end)
        self.high_watermark = min(self.high_watermark, self.log.end)

    def _request(self, isr: frozenset[int]) -> AlterPartitionRequest:
        epochs = {**self.seen, self.id: self.incarnation}
        members = tuple([(r, epochs.get(r, UNKNOWN_EPOCH)) for r in sorted(isr)])
        return AlterPartitionRequest(
            self.id, self.incarnation, self.epoch, self.partition_epoch, members
        )

    def _old(self, leader_epoch: int, partition_epoch: int) -> errors.OldDecision:
        return errors.OldDecision(
            self.id, leader_epoch, partition_epoch, self.epoch, self.partition_epoch
        )

    def _must_be_settled(self) -> None:
        if self.pending is not None:
            raise errors.ChangePending(self.pending.isr)

    def _must_await(self, incarnation: int, number: int) -> None:
        if not self.awaited or (incarnation, number) != (self.incarnation, self.awaited):
            raise errors.AnswerNotAwaited(
                self.id, self.incarnation, self.awaited, incarnation, number
            )

    def _must_lead(self) -> None:
        if not (self.up and self.leader == self.id):
            raise errors.NotLeader(self.id, self.epoch, self.leader)
