"""One replica of one partition: leader, follower, or waiting to be told.

Spec: Truncation, with Rule = "kip320". Methods are the spec's actions. A fetch is one step there
and three here, for messages travel: `fetch_request` at the follower, `answer_fetch` at the leader,
`take_answer` at the follower again.
"""

from attrs import define, field, frozen

from refimpl.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
)
from refimpl.machines.log import Log
from refimpl.machines.replica_log import (
    UNDEFINED,
    UNDEFINED_EPOCH,
    Batch,
    EpochEnd,
    Records,
    ReplicaLog,
)


@frozen
class FetchRequest:
    """What a follower asks: from its log end, naming the epochs by which the leader can tell
    whether they agree."""

    replica: int
    incarnation: int
    epoch: int
    end: int
    last_epoch: int


@frozen
class FetchAnswer:
    """What the leader of `epoch` has from `start` on; or, if the logs differ, where to cut.

    `diverging` is the leader's largest epoch not above the follower's last, and where it ends
    (KIP-595's answer to KIP-279's question).
    """

    epoch: int
    start: int
    records: Records
    high_watermark: int
    diverging: EpochEnd | None = None


@define
class Replica:
    """One replica.

    Only its own actions change it, and a refused action changes nothing.
    """

    id: int
    log: ReplicaLog = field(factory=Log)
    high_watermark: int = 0
    epoch: int = 0
    leader: int | None = None
    isr: frozenset[int] = frozenset()
    ends: dict[int, int] = field(factory=dict[int, int])
    seen: dict[int, int] = field(factory=dict[int, int])
    incarnation: int = 0
    up: bool = False
    min_isr: int = 1

    @property
    def leads(self) -> bool:
        """Whether this replica believes to be the leader.

        It may be wrong: it is told late.
        """
        return self.up and self.leader == self.id

    @property
    def epoch_start(self) -> int:
        """Where the leader's own epoch starts: behind all older records."""
        return self.log.start_of(self.epoch)

    # The leader

    def write(self, batch: Batch, *, acks_all: bool = True) -> int:
        """Append what a producer sent in our epoch, and return the offset of its first record.

        With too few in sync a producer that wants acks=all is refused before anything is
        appended.
        """
        self._must_lead()
        if acks_all and len(self.isr) < self.min_isr:
            raise NotEnoughReplicas
        return self.log.append(self.epoch, batch)

    def advance_high_watermark(self) -> int:
        """Move the high watermark to the least log end in the ISR, and return it.

        The leader knows the ends only from fetches. Below min.insync.replicas the high watermark
        stays: what it passed would be called committed on too few copies (KIP-966).
        """
        self._must_lead()
        if len(self.isr) < self.min_isr:
            raise NotEnoughReplicas
        new = self.log.end
        for member in self.isr:
            if member != self.id and self.ends.get(member, 0) < new:
                new = self.ends.get(member, 0)
        if new <= self.high_watermark:
            raise InvalidRequest
        self.high_watermark = new
        return new

    def shrink_isr(self, follower: int) -> frozenset[int]:
        """The ISR without a lagging follower, to be put to the controller.

        Lagging is a matter of time (replica.lag.time.max.ms), which is not known here.
        """
        self._must_lead()
        if follower == self.id or follower not in self.isr:
            raise InvalidRequest
        return self.isr - {follower}

    def expand_isr(self, follower: int) -> frozenset[int]:
        """The ISR with a follower that caught up, to be put to the controller.

        The high watermark alone would not do: after an election it may trail what the last
        leader committed, but that lies below the start of our epoch (KAFKA-7128).
        """
        self._must_lead()
        end = self.ends.get(follower, 0)
        if follower in self.isr or end < self.high_watermark or end < self.epoch_start:
            raise InvalidRequest
        return self.isr | {follower}

    def adopt_isr(self, isr: frozenset[int]) -> None:
        """The controller has accepted the ISR that we put to it."""
        self._must_lead()
        self.isr = isr

    def answer_fetch(self, request: FetchRequest, limit: int) -> FetchAnswer:
        """Answer a follower, and learn how far it is.

        Nobody of another leader epoch is served (KIP-320), and no earlier incarnation of a
        follower that restarted: what it claims to have it may have lost (KIP-903).
        """
        self._must_lead()
        if request.epoch < self.epoch:
            raise FencedLeaderEpoch
        if request.epoch > self.epoch:
            raise UnknownLeaderEpoch
        if request.incarnation < self.seen.get(request.replica, 0):
            raise StaleBrokerEpoch
        leaves = self.diverging(request.end, request.last_epoch)
        if leaves is not None:
            return FetchAnswer(self.epoch, request.end, (), self.high_watermark, leaves)
        self.ends[request.replica] = request.end
        self.seen[request.replica] = request.incarnation
        records = self.log.slice(request.end, limit)
        return FetchAnswer(self.epoch, request.end, records, self.high_watermark)

    def diverging(self, end: int, last_epoch: int) -> EpochEnd | None:
        """Where a log that ends here with this epoch leaves ours (KIP-595), None for a prefix.

        A log without epochs has nothing to compare: what it had is deleted, and was committed.
        Where we cannot know, the epoch is above ours or the end outside of our log, that is
        OffsetOutOfRange.
        """
        if last_epoch != UNDEFINED_EPOCH:
            ours = self.log.end_of(last_epoch)
            if ours == UNDEFINED or end < self.log.start:
                raise OffsetOutOfRange
            if ours.epoch < last_epoch or ours.end < end:
                return ours
        if not self.log.start <= end <= self.log.end:
            raise OffsetOutOfRange
        return None

    # A follower

    def fetch_request(self) -> FetchRequest:
        """Ask the leader for what comes next."""
        if not self.up or self.leader is None or self.leader == self.id:
            raise NotLeaderOrFollower
        return FetchRequest(
            self.id, self.incarnation, self.epoch, self.log.end, self.log.latest_epoch
        )

    def take_answer(self, answer: FetchAnswer) -> None:
        """Append what came, or cut what the leader does not have.

        An answer that we no longer wait for is void.
        """
        if not self.up or self.leader == self.id or answer.epoch != self.epoch:
            raise FencedLeaderEpoch
        if answer.start != self.log.end:
            raise InvalidRequest
        if answer.diverging is not None:
            epoch, end = answer.diverging
            ours = self.log.end_of(epoch)
            self._cut(end if ours == UNDEFINED else min(end, ours.end))
            return
        self.log.extend(answer.records)
        self.high_watermark = min(answer.high_watermark, self.log.end)

    # Being told

    def become_leader(self, epoch: int, isr: frozenset[int]) -> None:
        """Lead, if told to by a newer epoch than our own.

        Newer even after a restart: our high watermark fell back to a checkpoint, and the start
        of an epoch says nothing about records committed inside it. The high watermark stays
        where it is; it may trail the one that the last leader reached, because a follower
        learns of progress one fetch late. The log knows of the epoch from here on, before its
        first record: whoever asks where an older epoch ended is told so.
        """
        if epoch <= self.epoch:
            raise FencedLeaderEpoch
        self._adopt(epoch, self.id, isr)
        self.log.assign_epoch(epoch)

    def become_follower(self, epoch: int, leader: int) -> None:
        """Follow, if told to by a newer epoch; after a restart also by our own.

        What to cut, the first fetch tells. A reign of ours in which nothing was written leaves no
        epoch behind: no record bears it, so it says nothing about our log.
        """
        if epoch < self.epoch or (self.up and epoch == self.epoch):
            raise FencedLeaderEpoch
        if leader == self.id:
            raise InvalidRequest
        self._adopt(epoch, leader, frozenset())
        self.log.truncate_to(self.log.end)

    def restart(self, checkpoint: int, kept: int) -> None:
        """Come back with what the disk kept and the last checkpoint's high watermark.

        A role only the controller gives, by a decision made after this.
        """
        if not (0 <= checkpoint <= min(self.high_watermark, kept) and kept <= self.log.end):
            raise InvalidRequest
        self.log.truncate_to(kept)
        self.high_watermark = checkpoint
        self.up = False
        self.leader = None
        self.isr = frozenset()
        self.ends, self.seen = {}, {}
        self.incarnation += 1

    def _adopt(self, epoch: int, leader: int, isr: frozenset[int]) -> None:
        self.epoch, self.leader, self.isr, self.up = epoch, leader, isr, True
        self.ends, self.seen = {}, {}

    def _cut(self, end: int) -> None:
        self.log.truncate_to(end)
        self.high_watermark = min(self.high_watermark, self.log.end)

    def _must_lead(self) -> None:
        if not (self.up and self.leader == self.id):
            raise NotLeaderOrFollower
