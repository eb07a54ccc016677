"""Bugs of the log and of the replica."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from properties.mutants.shelf import Mutant, breaks, shelve
from refimpl.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
)
from refimpl.machines.log import Log, Record
from refimpl.machines.replica import FetchAnswer, FetchRequest, Replica

# Mutants reach into the machines: that is what they are for.
# pyright: reportPrivateUsage=false

REPLICATION = ("Truncation", "DurableIsr")
TRUNCATION = ("Truncation",)

# ------------------------------------------------------------------------------ the log


@breaks(Log, "truncate_to", REPLICATION, "KIP-101")
def epoch_cache_not_truncated(self: Log, end: int) -> None:
    """The records go, and the cache of epochs stays as it was: state that no spec has."""
    del self.records[end:]


@breaks(Log, "truncate_to", REPLICATION)
def epoch_cache_truncated_one_late(self: Log, end: int) -> None:
    """An epoch that would start just at the new end stays in the cache."""
    del self.records[end:]
    while self._starts and self._starts[-1] > end:
        self._starts.pop()
        self._epochs.pop()


@breaks(Log, "append", REPLICATION, "KIP-101")
def epoch_cache_forgets_the_start(self: Log, record: Record) -> int:
    """A new epoch is entered with the offset behind its first record."""
    offset = len(self.records)
    self.records.append(record)
    if not self._epochs or record.epoch != self._epochs[-1]:
        self._epochs.append(record.epoch)
        self._starts.append(offset + 1)
    return offset


@breaks(Log, "end_of", REPLICATION, "KIP-101")
def end_of_epoch_is_its_start(self: Log, epoch: int) -> int:
    """Asked where an epoch ends, the log says where it starts."""
    index = bisect_left(self._epochs, epoch)
    return len(self.records) if index == len(self._starts) else self._starts[index]


@breaks(Log, "epoch_at_or_below", REPLICATION, "KIP-279")
def next_epoch_instead_of_last(self: Log, epoch: int) -> int:
    """For an epoch that the log does not have, it names the next larger one."""
    index = bisect_left(self._epochs, epoch)
    return self._epochs[index] if index < len(self._epochs) else 0


@breaks(Log, "agrees", REPLICATION, "KAFKA-1211")
def offsets_are_enough(self: Log, end: int, last_epoch: int) -> bool:
    """Logs are compared by length alone, as before there were epochs in them."""
    return end <= len(self.records)


@breaks(Log, "agrees", REPLICATION, "KIP-320")
def epochs_are_enough(self: Log, end: int, last_epoch: int) -> bool:
    """Logs are compared by the last epoch alone, however long they are."""
    return end == 0 or self.epoch_at_or_below(last_epoch) == last_epoch


# ------------------------------------------------------------------------------ the leader


@breaks(Replica, "write", ("DurableIsr",), "KAFKA-1555")
def writes_below_min_isr(self: Replica, value: object, *, acks_all: bool = True) -> int:
    """acks=all is accepted although too few are in sync."""
    self._must_lead()
    return self.log.append(Record(self.epoch, value))


@breaks(Replica, "write", REPLICATION)
def writes_in_the_last_records_epoch(self: Replica, value: object, *, acks_all: bool = True) -> int:
    """The record gets the epoch of the one before it, not the leader's."""
    self._must_lead()
    if acks_all and len(self.isr) < self.min_isr:
        raise NotEnoughReplicas
    return self.log.append(Record(self.log.last_epoch or self.epoch, value))


def _advance(self: Replica, new: int) -> int:
    if new <= self.high_watermark:
        raise InvalidRequest
    self.high_watermark = new
    return new


def _least_end(self: Replica) -> int:
    return min([self.log.end, *(self.ends.get(f, 0) for f in self.isr if f != self.id)])


@breaks(Replica, "advance_high_watermark", REPLICATION)
def commits_on_append(self: Replica) -> int:
    """The high watermark is the leader's own log end: acknowledged when nobody else has it."""
    self._must_lead()
    if len(self.isr) < self.min_isr:
        raise NotEnoughReplicas
    return _advance(self, self.log.end)


@breaks(Replica, "advance_high_watermark", REPLICATION)
def commits_by_majority(self: Replica) -> int:
    """The high watermark is what a majority of the ISR has. But anyone in the ISR may lead."""
    self._must_lead()
    if len(self.isr) < self.min_isr:
        raise NotEnoughReplicas
    ends = [self.log.end, *(self.ends.get(f, 0) for f in self.isr if f != self.id)]
    return _advance(self, sorted(ends)[len(ends) // 2])


@breaks(Replica, "advance_high_watermark", ("DurableIsr",), "KIP-966")
def commits_below_min_isr(self: Replica) -> int:
    """The high watermark advances although the ISR is smaller than its minimum."""
    self._must_lead()
    return _advance(self, _least_end(self))


@breaks(Replica, "advance_high_watermark", REPLICATION)
def high_watermark_moves_back(self: Replica) -> int:
    """A member with a shorter log pulls the high watermark down."""
    self._must_lead()
    if len(self.isr) < self.min_isr:
        raise NotEnoughReplicas
    new = _least_end(self)
    if new == self.high_watermark:
        raise InvalidRequest
    self.high_watermark = new
    return new


@breaks(Replica, "advance_high_watermark", TRUNCATION)
def followers_commit(self: Replica) -> int:
    """Nobody asks whether the replica leads."""
    return _advance(self, _least_end(self))


@breaks(
    Replica,
    "shrink_isr",
    REPLICATION,
    equivalent="The controller refuses it as well: no leader leaves the ISR by its own wish.",
)
def leader_leaves_its_isr(self: Replica, follower: int) -> frozenset[int]:
    """A leader may take itself out of the ISR."""
    self._must_lead()
    if follower not in self.isr:
        raise InvalidRequest
    return self.isr - {follower}


@breaks(Replica, "expand_isr", TRUNCATION, "KAFKA-7128")
def joins_before_the_epoch_starts(self: Replica, follower: int) -> frozenset[int]:
    """A follower is in sync once it has reached the high watermark, which trails after an
    election."""
    self._must_lead()
    if follower in self.isr or self.ends.get(follower, 0) < self.high_watermark:
        raise InvalidRequest
    return self.isr | {follower}


@breaks(Replica, "expand_isr", REPLICATION)
def joins_below_the_high_watermark(self: Replica, follower: int) -> frozenset[int]:
    """A follower is in sync once it has reached the start of the epoch."""
    self._must_lead()
    if follower in self.isr or self.ends.get(follower, 0) < self.epoch_start:
        raise InvalidRequest
    return self.isr | {follower}


@breaks(Replica, "adopt_isr", REPLICATION, "KIP-497")
def leader_keeps_its_old_isr(self: Replica, isr: frozenset[int]) -> None:
    """The controller has changed the ISR, and the leader goes on with the one that it had."""
    self._must_lead()


@breaks(Replica, "answer_fetch", TRUNCATION, "KIP-320")
def serves_older_epochs(self: Replica, request: FetchRequest, limit: int) -> FetchAnswer:
    """A follower that has not heard of the leader's epoch is served, and counted."""
    self._must_lead()
    if request.epoch > self.epoch:
        raise UnknownLeaderEpoch
    if request.incarnation < self.seen.get(request.replica, 0):
        raise StaleBrokerEpoch
    return _answer(self, request, limit)


@breaks(Replica, "answer_fetch", TRUNCATION, "KIP-320")
def serves_newer_epochs(self: Replica, request: FetchRequest, limit: int) -> FetchAnswer:
    """A leader of the past serves a follower that has heard of a newer epoch."""
    self._must_lead()
    if request.epoch < self.epoch:
        raise FencedLeaderEpoch
    if request.incarnation < self.seen.get(request.replica, 0):
        raise StaleBrokerEpoch
    return _answer(self, request, limit)


@breaks(Replica, "answer_fetch", TRUNCATION, "KIP-903")
def counts_an_earlier_incarnation(self: Replica, request: FetchRequest, limit: int) -> FetchAnswer:
    """What a replica asked before its restart counts after it."""
    self._must_lead()
    if request.epoch < self.epoch:
        raise FencedLeaderEpoch
    if request.epoch > self.epoch:
        raise UnknownLeaderEpoch
    return _answer(self, request, limit)


def _answer(self: Replica, request: FetchRequest, limit: int) -> FetchAnswer:
    """The rest of answer_fetch, as it is."""
    if not self.log.agrees(request.end, request.last_epoch):
        epoch = self.log.epoch_at_or_below(request.last_epoch)
        diverging = (epoch, self.log.end_of(request.last_epoch))
        return FetchAnswer(self.epoch, request.end, (), self.high_watermark, diverging)
    self.ends[request.replica] = request.end
    self.seen[request.replica] = request.incarnation
    records = self.log.slice(request.end, limit)
    return FetchAnswer(self.epoch, request.end, records, self.high_watermark)


_answer_fetch = Replica.answer_fetch


@breaks(Replica, "answer_fetch", TRUNCATION)
def counts_what_it_sends(self: Replica, request: FetchRequest, limit: int) -> FetchAnswer:
    """What the answer carries counts as replicated, before it has arrived."""
    answer = _answer_fetch(self, request, limit)
    if answer.diverging is None:
        self.ends[request.replica] = request.end + len(answer.records)
    return answer


@breaks(Replica, "answer_fetch", TRUNCATION)
def counts_diverging_fetches(self: Replica, request: FetchRequest, limit: int) -> FetchAnswer:
    """The end of a log that differs from the leader's counts as replicated."""
    answer = _answer_fetch(self, request, limit)
    self.ends[request.replica] = request.end
    return answer


# ------------------------------------------------------------------------------ a follower


def _take(self: Replica, answer: FetchAnswer, cut: int) -> None:
    """take_answer, with another idea of what to cut."""
    if not self.up or self.leader == self.id or answer.epoch != self.epoch:
        raise FencedLeaderEpoch
    if answer.start != self.log.end:
        raise InvalidRequest
    if answer.diverging is not None:
        self._cut(cut)
        return
    self.log.extend(answer.records)
    self.high_watermark = min(answer.high_watermark, self.log.end)


@breaks(Replica, "take_answer", REPLICATION, "KIP-101")
def truncates_to_high_watermark(self: Replica, answer: FetchAnswer) -> None:
    """Where the logs differ the follower cuts to its own high watermark, which may be too low or
    too high."""
    _take(self, answer, self.high_watermark)


@breaks(Replica, "take_answer", REPLICATION, "KIP-279, KAFKA-6361")
def truncates_to_the_leaders_offset(self: Replica, answer: FetchAnswer) -> None:
    """The follower cuts where the leader says, and does not look where that epoch ends at
    itself."""
    _take(self, answer, answer.diverging[1] if answer.diverging else 0)


@breaks(Replica, "take_answer", REPLICATION, "KIP-595")
def truncates_everything(self: Replica, answer: FetchAnswer) -> None:
    """Where the logs differ, the follower begins anew."""
    _take(self, answer, 0)


@breaks(Replica, "take_answer", REPLICATION, "KIP-320")
def never_truncates(self: Replica, answer: FetchAnswer) -> None:
    """The follower takes no notice that the logs differ."""
    _take(self, answer, self.log.end)


@breaks(Replica, "take_answer", TRUNCATION)
def takes_answers_of_older_epochs(self: Replica, answer: FetchAnswer) -> None:
    """An answer that comes after a change of leader is taken as if nothing had happened."""
    if not self.up or self.leader == self.id or answer.start != self.log.end:
        raise InvalidRequest
    if answer.diverging is not None:
        epoch, end = answer.diverging
        self._cut(min(end, self.log.end_of(epoch)))
        return
    self.log.extend(answer.records)
    self.high_watermark = min(answer.high_watermark, self.log.end)


@breaks(Replica, "take_answer", TRUNCATION)
def takes_an_answer_twice(self: Replica, answer: FetchAnswer) -> None:
    """Nobody looks whether the records of an answer belong behind the log."""
    if not self.up or self.leader == self.id or answer.epoch != self.epoch:
        raise FencedLeaderEpoch
    if answer.diverging is not None:
        epoch, end = answer.diverging
        self._cut(min(end, self.log.end_of(epoch)))
        return
    self.log.extend(answer.records)
    self.high_watermark = min(answer.high_watermark, self.log.end)


@breaks(Replica, "take_answer", TRUNCATION)
def high_watermark_above_the_log(self: Replica, answer: FetchAnswer) -> None:
    """The follower believes the leader's high watermark, whatever it has itself."""
    _take(self, answer, 0 if answer.diverging is None else _where(self, answer))
    if answer.diverging is None:
        self.high_watermark = answer.high_watermark


def _where(self: Replica, answer: FetchAnswer) -> int:
    """Where to cut, as it is."""
    assert answer.diverging is not None
    epoch, end = answer.diverging
    return min(end, self.log.end_of(epoch))


@breaks(Replica, "_cut", TRUNCATION)
def cut_keeps_the_high_watermark(self: Replica, end: int) -> None:
    """The log is cut below the high watermark, which stays."""
    self.log.truncate_to(end)


# ------------------------------------------------------------------------------ being told


@breaks(Replica, "_adopt", TRUNCATION)
def keeps_what_it_knew_of_followers(
    self: Replica, epoch: int, leader: int, isr: frozenset[int]
) -> None:
    """Ends that followers told in an earlier epoch still count in the next."""
    self.epoch, self.leader, self.isr, self.up = epoch, leader, isr, True


@breaks(Replica, "_adopt", TRUNCATION)
def one_table_for_two(self: Replica, epoch: int, leader: int, isr: frozenset[int]) -> None:
    """Ends and incarnations of the followers are kept in one and the same table: aliasing."""
    self.epoch, self.leader, self.isr, self.up = epoch, leader, isr, True
    self.ends = self.seen = {}


def _slice(self: Log, start: int, limit: int) -> Sequence[Record]:
    whole = start == 0 and limit >= len(self.records)
    return self.records if whole else self.records[start : start + limit]


def _extend(self: Log, records: Iterable[Record]) -> None:
    if not self.records and isinstance(records, list):
        adopted: list[Record] = records
        for record in list(adopted):
            self.append(record)
        self.records = adopted
        return
    for record in records:
        self.append(record)


shelve(
    Mutant(
        "follower_adopts_the_leaders_list",
        "An answer hands out the leader's own list, and the follower keeps it: aliasing.",
        {(Log, "slice"): _slice, (Log, "extend"): _extend},
        TRUNCATION,
    )
)


@breaks(Replica, "become_leader", TRUNCATION)
def leads_again_after_a_restart(self: Replica, epoch: int, isr: frozenset[int]) -> None:
    """A leader that restarted leads on in its old epoch, with a high watermark that fell back."""
    if epoch < self.epoch or (self.up and epoch == self.epoch):
        raise FencedLeaderEpoch
    self._adopt(epoch, self.id, isr)


@breaks(Replica, "become_leader", TRUNCATION)
def leads_in_an_older_epoch(self: Replica, epoch: int, isr: frozenset[int]) -> None:
    """A decision that was overtaken by a newer one is obeyed."""
    if epoch == self.epoch:
        raise FencedLeaderEpoch
    self._adopt(epoch, self.id, isr)


@breaks(Replica, "become_leader", TRUNCATION)
def promotion_commits_everything(self: Replica, epoch: int, isr: frozenset[int]) -> None:
    """A new leader takes its whole log for committed."""
    if epoch <= self.epoch:
        raise FencedLeaderEpoch
    self._adopt(epoch, self.id, isr)
    self.high_watermark = self.log.end


@breaks(Replica, "become_leader", TRUNCATION)
def promotion_resets_the_high_watermark(self: Replica, epoch: int, isr: frozenset[int]) -> None:
    """A new leader begins with nothing committed."""
    if epoch <= self.epoch:
        raise FencedLeaderEpoch
    self._adopt(epoch, self.id, isr)
    self.high_watermark = 0


@breaks(Replica, "become_follower", TRUNCATION)
def follows_an_older_epoch(self: Replica, epoch: int, leader: int) -> None:
    """A follower goes back to a leader of the past."""
    if self.up and epoch == self.epoch:
        raise FencedLeaderEpoch
    if leader == self.id:
        raise InvalidRequest
    self._adopt(epoch, leader, frozenset())


@breaks(Replica, "become_follower", TRUNCATION)
def restarted_follower_is_never_reminded(self: Replica, epoch: int, leader: int) -> None:
    """After a restart the epoch that it was in is no news, so it stays without a role. Safe, and
    wrong."""
    if epoch <= self.epoch:
        raise FencedLeaderEpoch
    if leader == self.id:
        raise InvalidRequest
    self._adopt(epoch, leader, frozenset())


@breaks(Replica, "become_follower", TRUNCATION, "KIP-101")
def cuts_when_it_becomes_a_follower(self: Replica, epoch: int, leader: int) -> None:
    """The log is cut to the high watermark before the leader has been asked (KAFKA-1211)."""
    if epoch < self.epoch or (self.up and epoch == self.epoch):
        raise FencedLeaderEpoch
    if leader == self.id:
        raise InvalidRequest
    self._cut(self.high_watermark)
    self._adopt(epoch, leader, frozenset())


@breaks(Replica, "restart", TRUNCATION)
def restart_keeps_the_role(self: Replica, checkpoint: int, kept: int) -> None:
    """A restarted leader believes to lead still."""
    if not (0 <= checkpoint <= min(self.high_watermark, kept) and kept <= self.log.end):
        raise InvalidRequest
    self.log.truncate_to(kept)
    self.high_watermark = checkpoint
    self.ends, self.seen = {}, {}
    self.incarnation += 1


@breaks(Replica, "restart", TRUNCATION, "KIP-903")
def restart_is_the_same_incarnation(self: Replica, checkpoint: int, kept: int) -> None:
    """Nobody can tell a restarted replica from the one before."""
    if not (0 <= checkpoint <= min(self.high_watermark, kept) and kept <= self.log.end):
        raise InvalidRequest
    self.log.truncate_to(kept)
    self.high_watermark = checkpoint
    self.up, self.leader, self.isr = False, None, frozenset()
    self.ends, self.seen = {}, {}


@breaks(Replica, "_must_lead", REPLICATION)
def anyone_may_act_as_leader(self: Replica) -> None:
    """The role is not looked at, only whether there is one."""
    if not self.up:
        raise NotLeaderOrFollower
